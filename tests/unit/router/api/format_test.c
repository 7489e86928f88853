/* The form of an answer: which fields say it, what they become, and which are refused. */
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "router/api/dialect.h"
#include "router/api/format.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_format";
const double suite_timeout_s = 60;

static const struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4000};

static enum status parse(const char *fields, struct ask *ask, struct api_error *error) {
    size_t n = strlen(fields) + 64;
    char *body = malloc(n);
    n = (size_t)snprintf(body, n, "{\"prompt\":\"x\",%s}", fields);
    const struct span span = {body, n};
    ask_init(ask);
    *error = (struct api_error){0};
    enum status status = dialect_completions.parse(&span, &limits, ask, error);
    ask_drop_body(ask);
    free(body);
    return status;
}

static const struct good {
    const char *fields;
    enum grammar_kind kind;
    const char *text; /* or the last of its choices */
    const char *field;
} good[] = {
    {"\"response_format\":{\"type\":\"json_object\"}", GRAMMAR_JSON_OBJECT, "",
     "response_format.type"},
    {"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"type\":\"null\"}}",
     GRAMMAR_JSON_SCHEMA, "{\"type\":\"null\"}", "response_format.schema"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"strict\":"
     "false,"
     "\"schema\":{\"type\": \"object\", \"properties\":{\"b\":{},\"a\":{}}}}}",
     GRAMMAR_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}",
     "response_format.json_schema.schema"},
    {"\"structured_outputs\":{\"json\":{}}", GRAMMAR_JSON_SCHEMA, "{}", "structured_outputs.json"},
    {"\"structured_outputs\":{\"json\":\"{ }\"}", GRAMMAR_JSON_SCHEMA, "{ }",
     "structured_outputs.json"},
    {"\"structured_outputs\":{\"regex\":\"a+\"}", GRAMMAR_REGEX, "a+", "structured_outputs.regex"},
    {"\"structured_outputs\":{\"choice\":[\"yes\",\"no\"]}", GRAMMAR_CHOICE, "no",
     "structured_outputs.choice"},
    {"\"structured_outputs\":{\"json_object\":true}", GRAMMAR_JSON_OBJECT, "",
     "structured_outputs.json_object"},
    {"\"guided_json\":true", GRAMMAR_JSON_SCHEMA, "true", "guided_json"},
    {"\"json_schema\":{\"type\":\"string\"}", GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\"}",
     "json_schema"},
    {"\"guided_regex\":\"[0-9]\"", GRAMMAR_REGEX, "[0-9]", "guided_regex"},
    {"\"regex\":\"[0-9]\",\"guided_regex\":null", GRAMMAR_REGEX, "[0-9]", "regex"},
    {"\"guided_choice\":[\"x\"]", GRAMMAR_CHOICE, "x", "guided_choice"},
    {"\"grammar\":\"root ::= \\\"a\\\"\"", GRAMMAR_GBNF, "root ::= \"a\"", "grammar"},
    {"\"ebnf\":\"root ::= \\\"a\\\"\",\"grammar\":\"\"", GRAMMAR_GBNF, "root ::= \"a\"", "ebnf"},
    {"\"guided_grammar\":\"start: \\\"a\\\"\"", GRAMMAR_LARK, "start: \"a\"", "guided_grammar"},
    {"\"structured_outputs\":{\"grammar\":\"start: \\\"a\\\"\"}", GRAMMAR_LARK, "start: \"a\"",
     "structured_outputs.grammar"},
};

START_TEST(each_field_becomes_a_grammar_that_travels) {
    const struct good *want = &good[_i];
    struct ask ask;
    struct api_error error;
    ck_assert_msg(parse(want->fields, &ask, &error) == STATUS_OK, "%s", error.error.text);
    ck_assert_ptr_nonnull(ask.format);
    ck_assert_str_eq(ask.format_field, want->field);
    struct arena arena;
    arena_init(&arena, 1u << 20);
    const struct grammar_part *part;
    const struct span packed = {(const char *)ask.sampling.grammar, ask.sampling.n_grammar};
    ck_assert_int_eq(grammar_unpack(packed, &arena, &part, &error.error), STATUS_OK);
    ck_assert_int_eq(part->kind, want->kind);
    struct span text = part->kind == GRAMMAR_CHOICE ? part->choices[part->n - 1] : part->text;
    ck_assert_uint_eq(text.n, strlen(want->text));
    ck_assert_int_eq(memcmp(text.bytes ? text.bytes : "", want->text, text.n), 0);
    ck_assert(!part->lenient);
    arena_fini(&arena);
    struct format_loss loss;
    ck_assert_int_eq(format_check(&ask, &loss, &error.error), STATUS_OK);
    ask_fini(&ask);
}
END_TEST

START_TEST(nothing_is_no_form) {
    static const char *const none[] = {
        "\"response_format\":null",
        "\"response_format\":{\"type\":\"text\"},\"structured_outputs\":{}",
        "\"structured_outputs\":{\"json_object\":false,\"disable_fallback\":true}",
        "\"guided_json\":null,\"guided_regex\":null,\"guided_choice\":null",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct ask ask;
        struct api_error error;
        ck_assert_msg(parse(none[i], &ask, &error) == STATUS_OK, "%s", error.error.text);
        ck_assert_ptr_null(ask.format);
        ck_assert_uint_eq(ask.sampling.n_grammar, 0);
        ask_fini(&ask);
    }
}
END_TEST

static const char *const bad[][3] = {
    {"\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema", "an object"},
    {"\"response_format\":{\"json_schema\":{\"schema\":{}}}", "response_format.json_schema",
     "`type`"},
    {"\"response_format\":{\"type\":\"json_object\",\"json_schema\":{\"schema\":{}}}",
     "response_format.json_schema", "`type`"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}",
     "response_format.json_schema.schema", "a JSON schema"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":5}}",
     "response_format.json_schema.schema", "a JSON schema"},
    {"\"guided_json\":[]", "guided_json", "a JSON schema"},
    {"\"guided_regex\":5", "guided_regex", "a regular expression"},
    {"\"guided_regex\":\"\"", "guided_regex", "a regular expression"},
    {"\"guided_choice\":[]", "guided_choice", "have an entry"},
    {"\"guided_choice\":[\"a\",5]", "guided_choice", "entry 1"},
    {"\"guided_choice\":[\"\"]", "guided_choice", "entry 0"},
    {"\"guided_json\":{},\"response_format\":{\"type\":\"json_object\"}", "guided_json",
     "`response_format.type`"},
    {"\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"b\"]}", "structured_outputs.choice",
     "`structured_outputs.regex`"},
    {"\"grammar\":5", "grammar", "a grammar"},
    {"\"structured_outputs\":5", "structured_outputs", "an object"},
};

START_TEST(a_form_that_is_none_is_refused) {
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse(bad[_i][0], &ask, &error), STATUS_INVALID);
    ck_assert_str_eq(error.error.field, bad[_i][1]);
    ck_assert_msg(strstr(error.error.text, bad[_i][2]) != NULL, "%s", error.error.text);
    ask_fini(&ask);
}
END_TEST

static const char *const unkept[][3] = {
    {"\"guided_regex\":\"(a\"", "guided_regex", "`guided_regex`: "},
    {"\"guided_json\":\"{\"", "guided_json", "`guided_json`: "},
    {"\"grammar\":\"root ::= missing\"", "grammar", "line 1"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":"
     "\"object\","
     "\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true}}}}}",
     "response_format.json_schema.schema", "/properties/a"},
};

START_TEST(what_cannot_be_kept_names_the_field_and_the_path) {
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse(unkept[_i][0], &ask, &error), STATUS_OK);
    struct format_loss loss;
    enum status status = format_check(&ask, &loss, &error.error);
    ck_assert(status == STATUS_INVALID || status == STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.error.field, unkept[_i][1]);
    ck_assert_msg(strstr(error.error.text, unkept[_i][2]) != NULL, "%s", error.error.text);
    ask_fini(&ask);
}
END_TEST

/* A regular expression of n bytes. */
static enum status parse_long(size_t n, struct api_error *error) {
    struct ask ask;
    char *fields = malloc(n + 64);
    size_t at = (size_t)sprintf(fields, "\"regex\":\"");
    memset(fields + at, 'a', n);
    strcpy(fields + at + n, "\"");
    enum status status = parse(fields, &ask, error);
    free(fields);
    ask_fini(&ask);
    return status;
}

START_TEST(a_form_has_a_length_at_most) {
    struct api_error error;
    size_t most = GRAMMAR_PACKED_MAX - 1 - 22; /* beside the version and a part's numbers */
    ck_assert_int_eq(parse_long(most, &error), STATUS_OK);
    ck_assert_int_eq(parse_long(most + 1, &error), STATUS_INVALID);
    ck_assert_str_eq(error.error.field, "regex");
    ck_assert_int_eq(parse_long(3 * most, &error), STATUS_INVALID);
    ck_assert_str_eq(error.error.field, "regex");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, each_field_becomes_a_grammar_that_travels, 0,
                        sizeof good / sizeof *good);
    tcase_add_test(tests, nothing_is_no_form);
    tcase_add_loop_test(tests, a_form_that_is_none_is_refused, 0, sizeof bad / sizeof *bad);
    tcase_add_loop_test(tests, what_cannot_be_kept_names_the_field_and_the_path, 0,
                        sizeof unkept / sizeof *unkept);
    tcase_add_test(tests, a_form_has_a_length_at_most);
}
