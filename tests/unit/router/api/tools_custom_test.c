/* Custom tools: what their text may be, how it is read out of an answer and written, and what is refused. */
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

const char *const suite_name = "router_api_tools_custom";
const double suite_timeout_s = 60;

#define CUSTOM(name, more) "{\"type\":\"custom\",\"custom\":{\"name\":\"" name "\"" more "}}"
#define FLAT(name, more)   "{\"type\":\"custom\",\"name\":\"" name "\"" more "}"
#define GRAMMAR(syntax, definition)                                                                \
    ",\"format\":{\"type\":\"grammar\",\"grammar\":{\"syntax\":\"" syntax                          \
    "\",\"definition\":\"" definition "\"}}"
#define FLAT_GRAMMAR(syntax, definition)                                                           \
    ",\"format\":{\"type\":\"grammar\",\"syntax\":\"" syntax "\",\"definition\":\"" definition "\"}"
#define GET "{\"type\":\"function\",\"function\":{\"name\":\"get\"}}"
#define PATCH                                                                                      \
    CUSTOM("get_patch", GRAMMAR("lark", "start: (\\\"+\\\" /[^\\\\n]*/ LF)+\\n%import common.LF"))
#define DIGITS FLAT("digits", FLAT_GRAMMAR("regex", "[0-9]+"))
#define TOOLS  "\"tools\":[" GET "," PATCH "," CUSTOM("free", "") "," DIGITS "]"
#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
#define INPUT(text) "{\"input\": \"" text "\"}"

/* The body stands until ask_drop_body(). */
static enum status parse(const char *fields, struct ask *ask, struct api_error *error) {
    struct ask_limits limits = {.model = "m", .n_tokens = 1000, .prompt_max = 4000};
    size_t n = strlen(fields) + 96;
    char *body = malloc(n);
    n = (size_t)snprintf(body, n, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s}",
                         fields);
    const struct span span = {body, n};
    limits.tool_format = tool_format_nth(0);
    ask_init(ask);
    *error = (struct api_error){0};
    enum status status = dialect_chat.parse(&span, &limits, ask, error);
    free(body);
    return status;
}

static void parse_good(const char *fields, struct ask *ask) {
    struct api_error error;
    ck_assert_msg(parse(fields, ask, &error) == STATUS_OK &&
                      tools_compile(ask, &error.error) == STATUS_OK,
                  "%s: %s", fields, error.error.text);
    ask_drop_body(ask);
}

static bool takes(const char *fields, const char *text) {
    struct ask ask;
    struct grammar_state *state;
    size_t n;
    parse_good(fields, &ask);
    ck_assert_int_eq(grammar_state_new(ask.calls_grammar, 0, &state), STATUS_OK);
    bool takes = grammar_follow(state, span_of(text), &n) == STATUS_OK && grammar_may_end(state);
    grammar_state_free(state);
    ask_fini(&ask);
    return takes;
}

START_TEST(a_text_is_of_its_grammar) {
    ck_assert(takes(TOOLS, CALL("free", INPUT("any \\\"text\\\"\\n\xc3\xa9"))));
    ck_assert(takes(TOOLS, CALL("free", INPUT(""))));
    ck_assert(takes(TOOLS, CALL("get_patch", INPUT("+a\\\"b\\n+\\n"))));
    ck_assert(takes(TOOLS, CALL("digits", INPUT("007"))));
    ck_assert(takes(
        TOOLS, CALL("get", "{}") "\n" CALL("digits", INPUT("1")) "\n" CALL("free", INPUT("x"))));
    static const char *const others[] = {CALL("get_patch", INPUT("+a")),
                                         CALL("get_patch", INPUT("-a\\n")),
                                         CALL("get_patch", INPUT("")),
                                         CALL("digits", INPUT("x")),
                                         CALL("digits", "{}"),
                                         CALL("digits", "{\"input\": 7}"),
                                         CALL("free", "{}"),
                                         CALL("free", "{\"input\": \"a\", \"b\": 1}"),
                                         CALL("free", "{\"other\": \"a\"}"),
                                         CALL("free", INPUT("\n"))};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!takes(TOOLS, others[i]), "%s", others[i]);
}
END_TEST

#define CHOICE(kind, of) ",\"tool_choice\":{\"type\":\"" kind "\"," of "}"

START_TEST(a_choice_names_a_custom_tool) {
    const char *free_call = CALL("free", INPUT("x")), *digits = CALL("digits", INPUT("1"));
    static const char *const named[] = {TOOLS CHOICE("custom", "\"custom\":{\"name\":\"free\"}"),
                                        TOOLS CHOICE("custom", "\"name\":\"free\"")};
    static const char *const allowed[] = {
        TOOLS CHOICE("allowed_tools", "\"allowed_tools\":{\"mode\":\"required\",\"tools\":[" FLAT(
                                          "free", "") "," CUSTOM("digits", "") "]}"),
        TOOLS CHOICE("allowed_tools",
                     "\"mode\":\"required\",\"tools\":[" CUSTOM("free", "") "," DIGITS "]")};
    for (size_t i = 0; i < 2; i++) {
        ck_assert(takes(named[i], free_call) && !takes(named[i], digits) && !takes(named[i], "x"));
        ck_assert(takes(allowed[i], free_call) && takes(allowed[i], digits));
        ck_assert(!takes(allowed[i], CALL("get", "{}")) && !takes(allowed[i], ""));
    }
    ck_assert(takes(TOOLS ",\"tool_choice\":\"required\"", digits));
}
END_TEST

static void put(const struct tool_reader *reader, char *told, size_t size) {
    uint32_t n;
    const struct tool_piece *pieces = tool_reader_pieces(reader, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(reader, &pieces[i]);
        size_t at = strlen(told);
        if (pieces[i].kind == TOOL_PIECE_NAME)
            at += (size_t)snprintf(told + at, size - at, "|%s ",
                                   pieces[i].is_custom ? "custom" : "function");
        snprintf(told + at, size - at, "%.*s%s", (int)text.n, text.bytes,
                 pieces[i].kind == TOOL_PIECE_NAME ? ":" : "");
    }
}

/* However the text is cut into two, and a byte at a time. */
static void reads(const char *text, bool is_open, const char *wanted) {
    struct ask ask;
    size_t n = strlen(text);
    parse_good(TOOLS, &ask);
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
        ck_assert(tool_reader_is_open(reader) == is_open);
        tool_reader_free(reader);
    }
    ask_fini(&ask);
}

START_TEST(a_text_is_read_without_its_escapes) {
    reads("So:" CALL("free", INPUT("a \\\"b\\\" \\\\n\\n\\t\\b\\f\\r\\u001f\xf0\x9f\x98\x80/")),
          false, "So:|custom free:a \"b\" \\n\n\t\b\f\r\x1f\xf0\x9f\x98\x80/");
    reads(CALL("free", INPUT("")), false, "|custom free:");
    /* A name may begin another's, of another kind. */
    reads(CALL("get_patch", INPUT("+{}\\n")) "\n" CALL("get", "{\"input\": \"\\n\"}") "\n" CALL(
              "digits", INPUT("12")),
          false, "|custom get_patch:+{}\n|function get:{\"input\": \"\\n\"}|custom digits:12");
    /* Cut by a bound of tokens, also in an escape. */
    reads("<tool_call>\n{\"name\": \"get_patch\", \"arguments\": {\"input\": \"+a\\", true,
          "|custom get_patch:+a");
    reads("<tool_call>\n{\"name\": \"free\", \"arguments\": {\"input\": \"+a\\u00", true,
          "|custom free:+a");
    reads("<tool_call>\n{\"name\": \"free\", \"arguments\": {\"input\": \"b", true,
          "|custom free:b");
    /* Behind the text, whose end may be told without the byte behind it. */
    reads("<tool_call>\n{\"name\": \"free\", \"arguments\": {\"input\": \"b\"}}\n</tool", false,
          "|custom free:b");
}
END_TEST

/* What a reply says of a text, whole or as one chunk. */
static void writes(const char *text, bool is_chunk, const char *wanted) {
    struct ask ask;
    struct tool_reader *reader;
    struct buf out;
    parse_good(TOOLS, &ask);
    ask.stream = is_chunk;
    ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
    ck_assert_int_eq(tool_reader_push(reader, span_of(text), true), STATUS_OK);
    const struct reply reply = {.ask = &ask, .model = "m", .id = "chatcmpl-1"};
    const struct reply_choice choice = {.is_first = true, .reader = reader, .has_ended = true};
    buf_init(&out, 0);
    if (is_chunk)
        dialect_chat.writer->chunk(&reply, &choice, &out);
    else
        dialect_chat.writer->whole(&reply, &choice, 1, &out);
    buf_putc(&out, '\0');
    ck_assert_msg(strstr(out.data, wanted), "%s, without %s", out.data, wanted);
    buf_fini(&out);
    tool_reader_free(reader);
    ask_fini(&ask);
}

START_TEST(a_call_is_written_as_a_custom_one) {
    const char *two = CALL("free", INPUT("a\\n\\\"")) "\n" CALL("get", "{}");
    writes(two, false,
           "\"type\":\"custom\",\"custom\":{\"name\":\"free\",\"input\":\"a\\n\\\"\"}}");
    writes(two, false,
           "\"type\":\"function\",\"function\":{\"name\":\"get\",\"arguments\":\"{}\"}}");
    writes(two, true, "\"type\":\"custom\",\"custom\":{\"name\":\"free\",\"input\":\"a\\n\\\"\"}}");
    writes(CALL("free", INPUT("")), true, "\"custom\":{\"name\":\"free\",\"input\":\"\"}}");
}
END_TEST

static const struct bad {
    const char *fields, *field;
    enum status status;
} bad[] = {
    {"\"tools\":[" CUSTOM("a b", "") "]", "tools[0].custom.name", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"custom\"}]", "tools[0].name", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"custom\",\"custom\":5}]", "tools[0].name", STATUS_INVALID},
    {"\"tools\":[" GET "," FLAT("get", "") "]", "tools[1].name", STATUS_INVALID},
    {"\"tools\":[" CUSTOM("get", "") "," GET "]", "tools[1].function.name", STATUS_INVALID},
    {"\"tools\":[" CUSTOM("a", ",\"format\":5") "]", "tools[0].custom.format", STATUS_INVALID},
    {"\"tools\":[" CUSTOM("a", ",\"format\":{\"type\":\"json\"}") "]",
     "tools[0].custom.format.type", STATUS_INVALID},
    {"\"tools\":[" CUSTOM("a", ",\"format\":{\"type\":\"grammar\"}") "]",
     "tools[0].custom.format.syntax", STATUS_INVALID},
    {"\"tools\":[" CUSTOM("a", GRAMMAR("gbnf", "x")) "]", "tools[0].custom.format.grammar.syntax",
     STATUS_INVALID},
    {"\"tools\":[" CUSTOM("a", GRAMMAR("lark", "")) "]",
     "tools[0].custom.format.grammar.definition", STATUS_INVALID},
    {"\"tools\":[" FLAT("a", FLAT_GRAMMAR("lark", "")) "]", "tools[0].format.definition",
     STATUS_INVALID},
    {TOOLS CHOICE("custom", "\"custom\":{\"name\":\"get\"}"), "tool_choice", STATUS_INVALID},
    {TOOLS CHOICE("function", "\"function\":{\"name\":\"free\"}"), "tool_choice", STATUS_INVALID},
    {TOOLS CHOICE("custom", "\"custom\":{\"name\":\"other\"}"), "tool_choice", STATUS_INVALID},
    {TOOLS CHOICE("custom", "\"custom\":5"), "tool_choice.custom", STATUS_INVALID},
    {TOOLS CHOICE("allowed_tools", "\"tools\":[" GET "," CUSTOM("get", "") "]"), "tool_choice",
     STATUS_INVALID},
};

START_TEST(what_is_wrong_is_named) {
    struct ask ask;
    struct api_error error;
    enum status status = parse(bad[_i].fields, &ask, &error);
    ck_assert_msg(status == bad[_i].status && strcmp(error.error.field, bad[_i].field) == 0,
                  "%s: %s, `%s`: %s", bad[_i].fields, status_name(status), error.error.field,
                  error.error.text);
    ask_fini(&ask);
}
END_TEST

/* Grammars that cannot be kept, behind good ones: the first of them is named. */
static const struct unkept {
    const char *fields, *field;
    enum status status;
} unkept[] = {
    {TOOLS, "", STATUS_OK},
    {"\"tools\":[" GET "," DIGITS "," CUSTOM("a", GRAMMAR("lark", "start: b")) "]",
     "tools[2].custom.format", STATUS_INVALID},
    {"\"tools\":[" CUSTOM("a", GRAMMAR("regex", "(a")) "," CUSTOM("b", GRAMMAR("regex", "(b")) "]",
     "tools[0].custom.format", STATUS_INVALID},
    {"\"tools\":[{\"type\":\"mcp\"}," FLAT("a", FLAT_GRAMMAR("regex", "a(?=b)")) "]",
     "tools[1].format", STATUS_UNSUPPORTED},
    {"\"tools\":[" CUSTOM("a", GRAMMAR("lark", "start: <tool_call>")) "]", "tools[0].custom.format",
     STATUS_UNSUPPORTED},
    {"\"tools\":[" CUSTOM(
         "a", GRAMMAR("lark", "start: start \\\"a\\\"")) "],\"tool_choice\":\"required\"",
     "tools[0].custom.format", STATUS_INVALID},
    {"\"tools\":[" CUSTOM("a", GRAMMAR("regex", "(((a{999}){999}){999})")) "]",
     "tools[0].custom.format", STATUS_INVALID},
    {"\"tools\":[" DIGITS ",{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,"
     "\"parameters\":{\"type\":\"object\",\"minProperties\":2}}}]",
     "tools", STATUS_UNSUPPORTED},
};

START_TEST(a_grammar_that_cannot_be_kept_is_named) {
    struct ask ask;
    struct api_error error;
    struct format_loss loss;
    ck_assert_int_eq(parse(unkept[_i].fields, &ask, &error), STATUS_OK);
    enum status status = format_check(&ask, &loss, &error.error);
    ck_assert_msg(status == unkept[_i].status && strcmp(error.error.field, unkept[_i].field) == 0,
                  "%s: %s, `%s`: %s", unkept[_i].fields, status_name(status), error.error.field,
                  error.error.text);
    ask_fini(&ask);
}
END_TEST

/* A grammar has room up to the bound of what travels, and is never dropped. */
START_TEST(a_grammar_that_is_too_long_is_refused) {
    for (size_t n = GRAMMAR_PACKED_MAX; n <= GRAMMAR_PACKED_MAX + 1; n++) {
        struct ask ask;
        struct api_error error;
        char *fields = malloc(n + 512);
        int at =
            sprintf(fields, "\"tools\":[" GET ",{\"type\":\"custom\",\"name\":\"a\",\"format\":{"
                            "\"type\":\"grammar\",\"syntax\":\"regex\",\"definition\":\"");
        memset(fields + at, 'x', n);
        strcpy(fields + at + n, "\"}}]");
        ck_assert_int_eq(parse(fields, &ask, &error), STATUS_INVALID);
        ck_assert_str_eq(error.error.field,
                         n > GRAMMAR_PACKED_MAX ? "tools[1].format.definition" : "tools");
        ask_fini(&ask);
        free(fields);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_text_is_of_its_grammar);
    tcase_add_test(tests, a_choice_names_a_custom_tool);
    tcase_add_test(tests, a_text_is_read_without_its_escapes);
    tcase_add_test(tests, a_call_is_written_as_a_custom_one);
    tcase_add_loop_test(tests, what_is_wrong_is_named, 0, sizeof bad / sizeof *bad);
    tcase_add_loop_test(tests, a_grammar_that_cannot_be_kept_is_named, 0,
                        sizeof unkept / sizeof *unkept);
    tcase_add_test(tests, a_grammar_that_is_too_long_is_refused);
}
