/* Tools that an answer may call: which requests say so, what an answer may then be, and how its text is read, however it comes. */
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "model/text/template/tool_format.h"
#include "router/api/dialect.h"
#include "router/api/format.h"
#include "router/api/tool_reader.h"
#include "router/api/tools.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_tools";
const double suite_timeout_s = 60;

#define GET                                                                                        \
    "{\"type\":\"function\",\"function\":{\"name\":\"get\",\"description\":\"d\",\"parameters\":"  \
    "{\"type\":\"object\",\"title\":\"t\",\"properties\":{\"title\":{\"type\":\"integer\","        \
    "\"default\":1}},\"required\":[\"title\"],\"additionalProperties\":false}}}"
#define GET_X "{\"type\":\"function\",\"function\":{\"name\":\"get_x\"}}"
#define TOOLS "\"tools\":[" GET "," GET_X "]"
#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
#define ONLY(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

/* The body still stands afterwards: what points into it may be read. */
static enum status parse_kept(const char *fields, bool special, struct ask *ask,
                              struct api_error *error) {
    struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4000};
    size_t n = strlen(fields) + 96;
    char *body = malloc(n);
    n = (size_t)snprintf(body, n, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s}",
                         fields);
    const struct span span = {body, n};
    limits.tool_format = tool_format_nth(0);
    limits.tool_marks_special = special;
    ask_init(ask);
    *error = (struct api_error){0};
    enum status status = dialect_chat.parse(&span, &limits, ask, error);
    free(body);
    return status;
}

static enum status parse(const char *fields, bool special, struct ask *ask,
                         struct api_error *error) {
    enum status status = parse_kept(fields, special, ask, error);
    if (status == STATUS_OK && ask->calls)
        status = tools_compile(ask, &error->error);
    ask_drop_body(ask);
    return status;
}

static void put(const struct tool_reader *reader, char *told, size_t size) {
    static const char *const kinds[] = {"text", "name", "args", "thought"};
    uint32_t n;
    const struct tool_piece *pieces = tool_reader_pieces(reader, &n);
    static enum tool_piece_kind last;
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(reader, &pieces[i]);
        size_t at = strlen(told);
        if (at == 0 || pieces[i].kind != last || pieces[i].kind == TOOL_PIECE_NAME)
            at += (size_t)snprintf(told + at, size - at, "|%s%u:", kinds[pieces[i].kind],
                                   pieces[i].call);
        last = pieces[i].kind;
        snprintf(told + at, size - at, "%.*s", (int)text.n, text.bytes);
    }
}

/* What the reader says of a text that comes in two pieces, or a byte at a time. */
static void reads(const char *fields, const char *text, const char *wanted, uint32_t n_calls) {
    struct ask ask;
    struct api_error error;
    size_t n = strlen(text);
    ck_assert_msg(parse(fields, false, &ask, &error) == STATUS_OK, "%s: %s", fields,
                  error.error.text);
    ck_assert(ask.calls && ask.calls_grammar);
    for (size_t cut = 0; cut <= n + 1; cut++) {
        struct tool_reader *reader;
        char told[1024] = "";
        ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
        for (size_t at = 0, next; at < n; at = next) {
            next = cut > n ? at + 1 : at < cut ? cut : n;
            ck_assert_int_eq(tool_reader_push(reader, (struct span){text + at, next - at}, false),
                             STATUS_OK);
            put(reader, told, sizeof told);
            tool_reader_clear(reader);
        }
        ck_assert_int_eq(tool_reader_push(reader, SPAN(""), true), STATUS_OK);
        put(reader, told, sizeof told);
        ck_assert_msg(strcmp(told, wanted) == 0, "%s in pieces of %zu: %s, not %s", text, cut, told,
                      wanted);
        ck_assert_uint_eq(tool_reader_n_calls(reader), n_calls);
        tool_reader_free(reader);
    }
    ask_fini(&ask);
}

START_TEST(text_and_calls_are_told_apart) {
    reads(TOOLS, "Good day.", "|text0:Good day.", 0);
    reads(TOOLS, " Good day. \n", "|text0: Good day. \n", 0);
    reads(TOOLS, CALL("get", "{\"title\": 7}"), "|name0:get|args0:{\"title\": 7}", 1);
    reads(TOOLS, "Let me see.\n\n" CALL("get_x", "{\"a\": [1, \"}\\n</tool_call>\"]}"),
          "|text0:Let me see.|name0:get_x|args0:{\"a\": [1, \"}\\n</tool_call>\"]}", 1);
    reads(TOOLS, CALL("get_x", "{}") "\n" CALL("get", "{\"title\": 7}"),
          "|name0:get_x|args0:{}|name1:get|args1:{\"title\": 7}", 2);
    reads(TOOLS, "a < b, <tool and 1 <too", "|text0:a < b, <tool and 1 <too", 0);
    /* Cut by a bound of tokens. */
    reads(TOOLS, "<tool_call>\n{\"name\": \"get", "", 0);
    reads(TOOLS, "<tool_call>\n{\"name\": \"get_x\", \"arguments\": {\"a\": ",
          "|name0:get_x|args0:{\"a\": ", 1);
}
END_TEST

START_TEST(what_fits_no_form_is_text) {
    reads(TOOLS, "x" CALL("other", "{}"), "|text0:x" CALL("other", "{}"), 0);
    reads(TOOLS ",\"parallel_tool_calls\":false", CALL("get_x", "{}") "\n" CALL("get_x", "{}"),
          "|name0:get_x|args0:{}|text0:\n" CALL("get_x", "{}"), 1);
}
END_TEST

/* Whether an answer may be this. */
static bool takes(const char *fields, const char *text) {
    struct ask ask;
    struct api_error error;
    struct grammar_state *state;
    size_t n;
    ck_assert_msg(parse(fields, false, &ask, &error) == STATUS_OK, "%s: %s", fields,
                  error.error.text);
    ck_assert_int_eq(grammar_state_new(ask.calls_grammar, 0, &state), STATUS_OK);
    bool takes = grammar_follow(state, span_of(text), &n) == STATUS_OK && grammar_may_end(state);
    grammar_state_free(state);
    ask_fini(&ask);
    return takes;
}

START_TEST(an_answer_is_what_the_choice_says) {
    const char *one = CALL("get", "{\"title\": 1}"), *other = CALL("get_x", "{\"a\": null}");
    const char *both = CALL("get", "{\"title\": 1}") "\n" CALL("get_x", "{}");
    ck_assert(takes(TOOLS, "text") && takes(TOOLS, "") && takes(TOOLS, one) && takes(TOOLS, both));
    ck_assert(!takes(TOOLS, CALL("get", "{}")) && !takes(TOOLS, CALL("get", "{\"title\": \"1\"}")));
    ck_assert(!takes(TOOLS, CALL("get_x", "[]")));
    ck_assert(!takes(TOOLS ",\"tool_choice\":\"required\"", "text"));
    ck_assert(!takes(TOOLS ",\"tool_choice\":\"required\"", ""));
    ck_assert(takes(TOOLS ",\"tool_choice\":\"required\"", both));
    ck_assert(takes(TOOLS ",\"tool_choice\":\"auto\",\"parallel_tool_calls\":true", both));
    ck_assert(!takes(TOOLS ",\"parallel_tool_calls\":false", both));
    ck_assert(takes(TOOLS ",\"parallel_tool_calls\":false", other));
    ck_assert(takes(TOOLS ",\"tool_choice\":" ONLY("get"), one));
    ck_assert(!takes(TOOLS ",\"tool_choice\":" ONLY("get"), other));
    ck_assert(!takes(TOOLS ",\"tool_choice\":" ONLY("get"), "text"));
    ck_assert(!takes(TOOLS ",\"tool_choice\":" ONLY("get_x"),
                     CALL("get_x", "{}") "\n" CALL("get_x", "{}")));
#define ALLOWED(mode, name)                                                                        \
    TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode       \
          "\",\"tools\":[" ONLY(name) "]}}"
    ck_assert(takes(ALLOWED("auto", "get_x"), "text") && takes(ALLOWED("auto", "get_x"), other));
    ck_assert(!takes(ALLOWED("auto", "get_x"), one));
    ck_assert(!takes(ALLOWED("required", "get_x"), "text"));
    ck_assert(takes(ALLOWED("required", "get"), one));
    /* The form of a text that calls nothing. */
    const char *form = TOOLS ",\"response_format\":{\"type\":\"json_object\"}";
    ck_assert(takes(form, "{\"a\": 1}") && takes(form, one) && !takes(form, "text"));
}
END_TEST

START_TEST(none_and_no_tools_are_an_answer_without_form) {
    static const char *const fields[] = {TOOLS ",\"tool_choice\":\"none\"", "\"tools\":[]",
                                         "\"tools\":null,\"tool_choice\":\"auto\"",
                                         "\"tools\":[{\"any\":1}],\"tool_choice\":\"none\""};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        struct ask ask;
        struct api_error error;
        ck_assert_msg(parse(fields[i], false, &ask, &error) == STATUS_OK, "%s", error.error.text);
        ck_assert(!ask.calls && !ask.format && ask.sampling.n_grammar == 0 && ask.skip_special);
        ask_fini(&ask);
    }
}
END_TEST

START_TEST(hosted_tools_are_left_out_and_noted) {
    const char *fields = "\"tools\":[{\"type\":\"web_search\"}," GET ",{\"type\":\"mcp\",\"name\":"
                         "\"get\"},{\"type\":\"web_search\",\"name\":\"web\"}," GET_X "]";
    struct ask ask;
    struct api_error error;
    ck_assert(takes(fields, CALL("get", "{\"title\": 1}")) && takes(fields, CALL("get_x", "{}")));
    ck_assert(!takes(fields, CALL("web", "{}")) && !takes(fields, CALL("web_search", "{}")));
    ck_assert_int_eq(parse_kept(fields, false, &ask, &error), STATUS_OK);
    ck_assert_uint_eq(json_array_size(ask.chat.input.tools), 2);
    ck_assert_uint_eq(ask.n_left_out, 2);
    ask_drop_body(&ask);
    ck_assert_str_eq(ask.left_out[0], "web_search");
    ck_assert_str_eq(ask.left_out[1], "mcp");
    ask_fini(&ask);
}
END_TEST

/* Alone they are no tools, for the template too, and whether or not something may be called. */
START_TEST(hosted_tools_alone_are_none) {
    static const char *const more[] = {"", ",\"tool_choice\":\"auto\"",
                                       ",\"tool_choice\":\"none\",\"parallel_tool_calls\":false"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        struct ask ask;
        struct api_error error;
        char fields[300];
        snprintf(fields, sizeof fields,
                 "\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"},"
                 "{\"type\":\"local_shell\"}]%s",
                 more[i]);
        ck_assert_int_eq(parse_kept(fields, false, &ask, &error), STATUS_OK);
        ck_assert(!ask.calls && !ask.format && !ask.chat.input.tools);
        ck_assert_uint_eq(ask.n_left_out, 2);
        ask_fini(&ask);
    }
}
END_TEST

START_TEST(kinds_of_hosted_tools_are_noted_up_to_a_bound) {
    for (int n = ASK_LEFT_OUT_MAX; n <= ASK_LEFT_OUT_MAX + 1; n++) {
        struct ask ask;
        struct api_error error;
        char fields[8192];
        int at = snprintf(fields, sizeof fields, "\"tools\":[{\"type\":\"%0100d\"}", 7);
        for (int i = 1; i < n; i++)
            at += snprintf(fields + at, sizeof fields - (size_t)at,
                           ",{\"type\":\"kind%d\"},{\"type\":\"kind%d\"}", i, i);
        snprintf(fields + at, sizeof fields - (size_t)at, "," GET "]");
        ck_assert_int_eq(parse_kept(fields, false, &ask, &error), STATUS_OK);
        ck_assert_uint_eq(json_array_size(ask.chat.input.tools), 1);
        ck_assert_uint_eq(ask.n_left_out, ASK_LEFT_OUT_MAX);
        ck_assert_uint_eq(strlen(ask.left_out[0]), sizeof ask.unknown - 1);
        ck_assert_str_eq(ask.left_out[ASK_LEFT_OUT_MAX - 1], "kind15");
        ask_fini(&ask);
    }
}
END_TEST

/* Workers follow tokens: there marks may be special ones. */
START_TEST(special_marks_are_tokens_for_workers_alone) {
    for (int special = 0; special < 2; special++) {
        struct ask ask;
        struct api_error error;
        struct arena arena;
        const struct grammar_part *part;
        ck_assert_int_eq(parse(TOOLS ",\"tool_choice\":\"required\"", special, &ask, &error),
                         STATUS_OK);
        arena_init(&arena, 1 << 20);
        const struct span packed = {(const char *)ask.sampling.grammar, ask.sampling.n_grammar};
        ck_assert_int_eq(grammar_unpack(packed, &arena, &part, &error.error), STATUS_OK);
        ck_assert_int_eq(part->parts[0].parts[0].parts[0].kind,
                         special ? GRAMMAR_TOKEN : GRAMMAR_TEXT);
        ck_assert_int_eq(ask.format->parts[0].parts[0].parts[0].kind, GRAMMAR_TEXT);
        ck_assert(!ask.skip_special);
        arena_fini(&arena);
        ask_fini(&ask);
    }
}
END_TEST

/* Titles and the like are for readers; a property of such a name stays. */
START_TEST(schemas_go_without_what_is_for_readers) {
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse(TOOLS, false, &ask, &error), STATUS_OK);
    const char *packed = (const char *)ask.sampling.grammar;
    static const char wanted[] =
        "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"integer\"}},\"required\":["
        "\"title\"],\"additionalProperties\":false}";
    ck_assert(memmem(packed, ask.sampling.n_grammar, wanted, strlen(wanted)));
    ask_fini(&ask);
}
END_TEST

/* What schemas of arguments say of members that they do not list, and whether `arguments` may then come. */
static const struct listed {
    const char *parameters, *arguments;
    bool comes;
} listed[] = {
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"a\": 1}", true},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"a\": 1, \"b\": 2}",
     false},
    {"{\"properties\":{\"a\":{}},\"required\":[\"a\"],\"$defs\":{\"o\":{}}}",
     "{\"a\": 1, \"b\": 2}", false},
    {"{\"properties\":{\"o\":{\"$ref\":\"#/$defs/o\"}},\"$defs\":{\"o\":{\"properties\":{}}}}",
     "{\"o\": {\"x\": 1}}", true},
    {"{\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{\"k\":{}}}}}",
     "{\"o\": {\"x\": 1}}", true},
    {"{\"type\":\"object\",\"properties\":{}}", "{}", true},
    {"{\"type\":\"object\",\"properties\":{}}", "{\"b\": 2}", false},
    {"{\"type\":\"object\"}", "{\"b\": 2}", true},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":true}", "{\"b\": 2}", true},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}", "{\"b\": null}",
     true},
    {"{\"properties\":{\"a\":{}},\"patternProperties\":{\"^b\":{}}}", "{\"b\": 2}", true},
    {"{\"properties\":{\"a\":{}},\"required\":[\"b\"]}", "{\"b\": 2}", true},
    {"{\"properties\":{\"a\":{}},\"allOf\":[{\"properties\":{\"b\":{}}}]}", "{\"b\": 2}", true},
    {"{\"properties\":{\"a\":{}},\"anyOf\":[{\"required\":[\"b\"]}]}", "{\"b\": 2}", true},
};

START_TEST(arguments_are_those_that_a_schema_lists) {
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        for (int strict = 0; strict < 2; strict++) {
            char fields[1024], answer[256];
            snprintf(fields, sizeof fields,
                     "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":%s,"
                     "\"parameters\":%s}}]",
                     strict ? "true" : "false", listed[i].parameters);
            snprintf(answer, sizeof answer, CALL("f", "%s"), listed[i].arguments);
            ck_assert_msg(takes(fields, answer) == listed[i].comes, "%s of %s", listed[i].arguments,
                          listed[i].parameters);
        }
    }
}
END_TEST

/* A tool with a schema of n bytes and more, strict or not. */
static enum status parse_long(size_t n, bool strict, struct ask *ask, struct api_error *error) {
    char *fields = malloc(n + 512);
    int at = sprintf(fields,
                     "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":%s,"
                     "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[\"",
                     strict ? "true" : "false");
    memset(fields + at, 'x', n);
    strcpy(fields + at + n, "\"]}}}}}]");
    enum status status = parse(fields, false, ask, error);
    free(fields);
    return status;
}

START_TEST(schemas_that_are_too_long_are_dropped_or_refused) {
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse_long(GRAMMAR_PACKED_MAX / 4, true, &ask, &error), STATUS_OK);
    ask_fini(&ask);
    ck_assert_int_eq(parse_long(GRAMMAR_PACKED_MAX, true, &ask, &error), STATUS_INVALID);
    ck_assert_str_eq(error.error.field, "tools");
    ask_fini(&ask);
    ck_assert_int_eq(parse_long(GRAMMAR_PACKED_MAX, false, &ask, &error), STATUS_OK);
    ck_assert_uint_lt(ask.sampling.n_grammar, 2000);
    ask_fini(&ask);
}
END_TEST

/* A function as /v1/responses has it. */
#define FLAT(name, before)                                                                         \
    "\"tools\":[" before "{\"type\":\"function\",\"name\":\"" name "\",\"strict\":true,"           \
    "\"parameters\":{\"type\":\"object\"}}]"

static const struct bad {
    const char *fields, *field;
    enum status status;
} bad[] = {
    {"\"tools\":[{\"type\":5}]", "tools[0].type", STATUS_UNSUPPORTED},
    {"\"tools\":[{\"type\":\"mcp\"},{\"function\":{\"name\":\"a\"}}]", "tools[1].type",
     STATUS_UNSUPPORTED},
    {"\"tools\":[{\"type\":\"mcp\"},{\"type\":\"\"}]", "tools[1].type", STATUS_UNSUPPORTED},
    {"\"tools\":[{\"type\":\"mcp\"}," GET "," GET "]", "tools[2].function.name", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"web_search\"}],\"tool_choice\":\"required\"", "tool_choice",
     STATUS_INVALID},
    {"\"tools\":[{\"type\":\"web_search\"}],\"tool_choice\":{\"type\":\"web_search\"}",
     "tool_choice", STATUS_INVALID},
    {"\"tools\":[" GET ",{\"type\":\"mcp\"}],\"tool_choice\":{\"type\":\"mcp\",\"name\":"
     "\"get\"}",
     "tool_choice", STATUS_INVALID},
    {"\"tools\":[" GET ",{\"type\":\"mcp\"}],\"tool_choice\":{\"type\":\"allowed_tools\","
     "\"tools\":[" ONLY("get") ",{\"type\":\"mcp\",\"server_label\":\"x\"}]}",
     "tool_choice", STATUS_INVALID},
    {"\"tools\":[" GET ",{\"type\":\"function\"}]", "tools[1].function", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"function\",\"function\":{}}]", "tools[0].function.name",
     STATUS_INVALID},
    {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\\\"\"}}]",
     "tools[0].function.name", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\\u0000b\"}}]",
     "tools[0].function.name", STATUS_INVALID},
    {"\"tools\":[" GET "," GET "]", "tools[1].function.name", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":[]}}]",
     "tools[0].function.parameters", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"strict\":1}}]",
     "tools[0].function.strict", STATUS_INVALID},
    {FLAT("get", ""), "tools[0].function", STATUS_INVALID},
    {FLAT("get", "") ",\"tool_choice\":\"none\"", "tools[0].function", STATUS_INVALID},
    {FLAT("get", "{\"type\":\"mcp\"}," GET ",") ",\"tool_choice\":\"none\"", "tools[2].function",
     STATUS_INVALID},
    {FLAT("", GET ","), "tools[1].function", STATUS_INVALID},
    {TOOLS ",\"tool_choice\":\"often\"", "tool_choice", STATUS_INVALID},
    {TOOLS ",\"tool_choice\":5", "tool_choice", STATUS_INVALID},
    {TOOLS ",\"tool_choice\":" ONLY("other"), "tool_choice", STATUS_INVALID},
    {TOOLS ",\"tool_choice\":{\"type\":\"custom\",\"custom\":{\"name\":\"get\"}}", "tool_choice",
     STATUS_INVALID},
    {TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\"}}",
     "tool_choice.allowed_tools.tools", STATUS_INVALID},
    {ALLOWED("never", "get"), "tool_choice.allowed_tools.mode", STATUS_INVALID},
    {"\"tool_choice\":\"required\"", "tool_choice", STATUS_INVALID},
    {TOOLS ",\"parallel_tool_calls\":1", "parallel_tool_calls", STATUS_INVALID},
    {TOOLS ",\"tool_choice\":\"none\",\"parallel_tool_calls\":1", "parallel_tool_calls",
     STATUS_INVALID},
};

START_TEST(what_is_wrong_is_named) {
    struct ask ask;
    struct api_error error;
    enum status status = parse(bad[_i].fields, false, &ask, &error);
    ck_assert_msg(status == bad[_i].status && strcmp(error.error.field, bad[_i].field) == 0,
                  "%s: %s, `%s`: %s", bad[_i].fields, status_name(status), error.error.field,
                  error.error.text);
    ask_fini(&ask);
}
END_TEST

START_TEST(a_function_beside_its_type_is_told_where_it_belongs) {
    static const char *const fields[] = {FLAT("get", ""), FLAT("get", GET ","),
                                         FLAT("get", "") ",\"tool_choice\":\"none\""};
    struct ask ask;
    struct api_error error;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        ck_assert_int_eq(parse(fields[i], false, &ask, &error), STATUS_INVALID);
        ck_assert_msg(strstr(error.error.text, "{\"type\": \"function\", \"function\": {\"name\""),
                      "%s", error.error.text);
        ask_fini(&ask);
    }
    /* What has neither is missing it, and says no more. */
    ck_assert_int_eq(parse("\"tools\":[{\"type\":\"function\"}]", false, &ask, &error),
                     STATUS_INVALID);
    ck_assert_ptr_null(strstr(error.error.text, "beside"));
    ask_fini(&ask);
    /* Beside a function that is there, a name is nothing. */
    ck_assert_int_eq(parse("\"tools\":[{\"type\":\"function\",\"name\":\"x\",\"function\":{"
                           "\"name\":\"get\"}}]",
                           false, &ask, &error),
                     STATUS_OK);
    ask_fini(&ask);
}
END_TEST

START_TEST(keywords_that_are_not_enforced_are_told) {
    static const char lenient[] =
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
        "\"type\":\"array\",\"uniqueItems\":true}}}]";
    struct ask ask;
    struct api_error error;
    struct format_loss loss;
    ck_assert_int_eq(parse_kept(lenient, false, &ask, &error), STATUS_OK);
    ck_assert_int_eq(format_check(&ask, &loss, &error.error), STATUS_OK);
    ck_assert_uint_ge(loss.n, 1);
    ck_assert_str_eq(loss.keyword, "uniqueItems");
    ask_fini(&ask);
    ck_assert_int_eq(parse_kept(TOOLS, false, &ask, &error), STATUS_OK);
    ck_assert_int_eq(format_check(&ask, &loss, &error.error), STATUS_OK);
    ck_assert_uint_eq(loss.n, 0);
    ask_fini(&ask);
}
END_TEST

/* By what a template writes in earlier calls. */
START_TEST(a_template_tells_its_form) {
    ck_assert_ptr_null(tool_format_of(SPAN("")));
    ck_assert_ptr_null(tool_format_of(SPAN("{{ tools }} <tool_call>")));
    ck_assert_ptr_null(tool_format_of(SPAN("<tool_call> \"arguments\"")));
    ck_assert_str_eq(
        tool_format_of(SPAN("<tool_call>\n{\"name\": , \"arguments\": }\n</tool_call>"))->name,
        "hermes");
    ck_assert_ptr_null(tool_format_nth(1000));
}
END_TEST

START_TEST(bounds_of_a_schema_may_be_beyond_64_bits) {
    static const char *const bounds[] = {"\"maximum\":18446744073709551615",
                                         "\"minimum\":-9223372036854775809",
                                         "\"exclusiveMaximum\":1000000000000000019884624838656"};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        struct ask ask;
        struct api_error error;
        char fields[400];
        snprintf(fields, sizeof fields,
                 "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
                 "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",%s}}}}}],"
                 "\"tool_choice\":\"required\"",
                 bounds[i]);
        ck_assert_msg(parse(fields, true, &ask, &error) == STATUS_OK, "%s: %s", bounds[i],
                      error.error.text);
        ask_fini(&ask);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, text_and_calls_are_told_apart);
    tcase_add_test(tests, what_fits_no_form_is_text);
    tcase_add_test(tests, an_answer_is_what_the_choice_says);
    tcase_add_test(tests, none_and_no_tools_are_an_answer_without_form);
    tcase_add_test(tests, hosted_tools_are_left_out_and_noted);
    tcase_add_test(tests, hosted_tools_alone_are_none);
    tcase_add_test(tests, kinds_of_hosted_tools_are_noted_up_to_a_bound);
    tcase_add_test(tests, special_marks_are_tokens_for_workers_alone);
    tcase_add_test(tests, schemas_go_without_what_is_for_readers);
    tcase_add_test(tests, arguments_are_those_that_a_schema_lists);
    tcase_add_test(tests, schemas_that_are_too_long_are_dropped_or_refused);
    tcase_add_loop_test(tests, what_is_wrong_is_named, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tests, a_function_beside_its_type_is_told_where_it_belongs);
    tcase_add_test(tests, keywords_that_are_not_enforced_are_told);
    tcase_add_test(tests, a_template_tells_its_form);
    tcase_add_test(tests, bounds_of_a_schema_may_be_beyond_64_bits);
}
