/* What a model thinks before it answers: told apart from the answer however the text comes, and let be before its form. */
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "model/text/template/tool_format.h"
#include "router/api/dialect.h"
#include "router/api/format.h"
#include "router/api/thoughts.h"
#include "router/api/tool_reader.h"
#include "router/api/tools.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_thoughts";
const double suite_timeout_s = 60;

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":"   \
    "\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],"               \
    "\"additionalProperties\":false}}}]"
#define CALL  "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 7}}\n</tool_call>"
#define REGEX "\"guided_regex\":\"\\n[a-c]{2}\""

static struct ask_limits limits;

/* As far as a call gets it before its prompt is submitted. */
static enum status prepare(const char *fields, enum thought_start start, struct ask *ask,
                           struct api_error *error) {
    size_t n = strlen(fields) + 96;
    char *body = malloc(n);
    n = (size_t)snprintf(body, n, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]%s%s}",
                         *fields ? "," : "", fields);
    const struct span span = {body, n};
    limits.model = "m";
    limits.n_tokens = 1000;
    limits.prompt_max = 4000;
    limits.tool_format = tool_format_nth(0);
    if (!limits.thought_format)
        limits.thought_format = thought_format_nth(0);
    ask_init(ask);
    *error = (struct api_error){0};
    enum status status = dialect_chat.parse(&span, &limits, ask, error);
    if (status == STATUS_OK)
        status = thoughts_set(ask, &limits, start, &error->error);
    if (status == STATUS_OK && ask->calls)
        status = tools_compile(ask, &error->error);
    free(body);
    return status;
}

static void must_prepare(const char *fields, enum thought_start start, struct ask *ask) {
    struct api_error error;
    ck_assert_msg(prepare(fields, start, ask, &error) == STATUS_OK, "%s: %s", fields,
                  error.error.text);
}

static void put(const struct tool_reader *reader, enum tool_piece_kind *last, char *told,
                size_t size) {
    static const char *const kinds[] = {"text", "name", "args", "thought"};
    uint32_t n;
    const struct tool_piece *pieces = tool_reader_pieces(reader, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct span text = tool_reader_text(reader, &pieces[i]);
        size_t at = strlen(told);
        if (at == 0 || pieces[i].kind != *last)
            at += (size_t)snprintf(told + at, size - at, "|%s:", kinds[pieces[i].kind]);
        *last = pieces[i].kind;
        snprintf(told + at, size - at, "%.*s", (int)text.n, text.bytes);
    }
}

/* A reader of a text that comes in two pieces, the first of `cut` bytes, or where it has fewer a byte at a time; and what it told.
 * The caller's. */
static struct tool_reader *read_pieces(const struct ask *ask, const char *text, size_t cut,
                                       char *told, size_t size) {
    struct tool_reader *reader;
    enum tool_piece_kind last = TOOL_PIECE_CONTENT;
    size_t n = strlen(text);
    told[0] = '\0';
    ck_assert_int_eq(tool_reader_new(ask, &reader), STATUS_OK);
    for (size_t at = 0, next; at < n; at = next) {
        next = cut > n ? at + 1 : at < cut ? cut : n;
        ck_assert_int_eq(tool_reader_push(reader, (struct span){text + at, next - at}, false),
                         STATUS_OK);
        put(reader, &last, told, size);
        tool_reader_clear(reader);
    }
    ck_assert_int_eq(tool_reader_push(reader, SPAN(""), true), STATUS_OK);
    put(reader, &last, told, size);
    return reader;
}

/* What is read, however the text comes. */
static void reads(const char *fields, enum thought_start start, const char *text,
                  const char *wanted) {
    struct ask ask;
    must_prepare(fields, start, &ask);
    ck_assert(tool_reader_is_for(&ask));
    for (size_t cut = 0; cut <= strlen(text) + 1; cut++) {
        char told[1024];
        struct tool_reader *reader = read_pieces(&ask, text, cut, told, sizeof told);
        ck_assert_msg(strcmp(told, wanted) == 0, "%s in pieces of %zu: %s, not %s", text, cut, told,
                      wanted);
        tool_reader_free(reader);
    }
    ask_fini(&ask);
}

START_TEST(a_thought_that_the_prompt_began_is_told_apart) {
    const enum thought_start open = THOUGHT_OPEN;
    reads("", open, "Hm.\n</think>\n\nYes.", "|thought:Hm.|text:Yes.");
    reads("", open, "Hm.</think>Yes.\n", "|thought:Hm.|text:Yes.\n");
    reads("", open, "\n a\n\n</b>\n </thinks\n\n</think>\n\n\n \n",
          "|thought: a\n\n</b>\n </thinks|text: \n");
    reads("", open, "<think>\nHm</think>x</think>\n", "|thought:<think>\nHm|text:x</think>\n");
    reads("", open, "</think>\n\nYes.", "|text:Yes.");
    reads("", open, "\n\n</think>\n\n", "");
    reads("", open, "", "");
    /* Cut by a bound of tokens. */
    reads("", open, "Hm, ", "|thought:Hm, ");
    reads("", open, "Hm, \n</thin", "|thought:Hm, \n</thin");
    reads("", open, "Hm\n\n", "|thought:Hm");
}
END_TEST

START_TEST(a_thought_that_may_come_is_told_apart) {
    const enum thought_start maybe = THOUGHT_MAYBE;
    reads("", maybe, "<think>\nHm.\n</think>\n\nYes.", "|thought:Hm.|text:Yes.");
    reads("", maybe, "\n<think>Hm.</think>\r\nYes.", "|thought:Hm.|text:Yes.");
    reads("", maybe, "Yes <think>no</think>", "|text:Yes <think>no</think>");
    reads("", maybe, "<thin", "|text:<thin");
    reads("", maybe, "<thinks>a", "|text:<thinks>a");
    reads("", maybe, " \n a", "|text: \n a");
    reads("", maybe, " \n", "|text: \n");
    reads("", maybe, "</think>a", "|text:</think>a");
    reads("", maybe, "<think>", "");
}
END_TEST

/* Where the text ends, and how many of its bytes the thought has with its marks. */
static void counts(enum thought_start start, const char *text, enum tool_reader_thought wanted,
                   uint64_t n_wanted) {
    struct ask ask;
    must_prepare("", start, &ask);
    for (size_t cut = 0; cut <= strlen(text) + 1; cut++) {
        char told[1024];
        uint64_t n_bytes = 1;
        struct tool_reader *reader = read_pieces(&ask, text, cut, told, sizeof told);
        ck_assert_int_eq(tool_reader_thought(reader, &n_bytes), wanted);
        ck_assert_msg(n_bytes == n_wanted, "%s in pieces of %zu: %llu bytes", text, cut,
                      (unsigned long long)n_bytes);
        tool_reader_free(reader);
    }
    ask_fini(&ask);
}

START_TEST(bytes_of_a_thought_are_counted_up_to_its_end) {
    counts(THOUGHT_OPEN, "Hm.\n</think>\n\nYes.", TOOL_READER_BEHIND_IT, 12);
    counts(THOUGHT_OPEN, "\n\n</think>", TOOL_READER_BEHIND_IT, 10);
    counts(THOUGHT_MAYBE, "\n<think>Hm\n</think></think>", TOOL_READER_BEHIND_IT, 19);
    counts(THOUGHT_OPEN, "Hm\n</think", TOOL_READER_IN_THOUGHT, 0);
    counts(THOUGHT_MAYBE, "<think>", TOOL_READER_IN_THOUGHT, 0);
    counts(THOUGHT_MAYBE, "Yes</think>", TOOL_READER_NO_THOUGHT, 0);
}
END_TEST

START_TEST(each_pair_of_marks_is_read) {
    const struct thought_format *format;
    for (size_t i = 0; (format = thought_format_nth(i)) != NULL; i++) {
        char text[256];
        limits.thought_format = format;
        snprintf(text, sizeof text, "%s\nHm\n%s%sYes", format->mark.bytes, format->end_mark.bytes,
                 format->behind.bytes);
        reads("", THOUGHT_MAYBE, text, "|thought:Hm|text:Yes");
        reads("", THOUGHT_OPEN, text + format->mark.n, "|thought:Hm|text:Yes");
    }
}
END_TEST

START_TEST(calls_follow_thoughts) {
    reads(TOOLS, THOUGHT_OPEN, "a {</think>\n\nLet me see.\n" CALL,
          "|thought:a {|text:Let me see.|name:get|args:{\"a\": 7}");
    reads(TOOLS ",\"tool_choice\":\"required\"", THOUGHT_MAYBE, "<think>\na\n</think>\n\n" CALL,
          "|thought:a|name:get|args:{\"a\": 7}");
    reads(TOOLS, THOUGHT_MAYBE, CALL, "|name:get|args:{\"a\": 7}");
    /* What is called in a thought is a thought. */
    reads(TOOLS, THOUGHT_OPEN, CALL "</think>\n\nNo.", "|thought:" CALL "|text:No.");
    reads(TOOLS, THOUGHT_OPEN, CALL, "|thought:" CALL);
}
END_TEST

START_TEST(line_ends_of_a_form_stay) {
    reads(REGEX, THOUGHT_OPEN, "a</think>\n\n\nab", "|thought:a|text:\nab");
    reads("\"guided_regex\":\"\\n\\n\"", THOUGHT_MAYBE, "<think>a</think>\n\n\n\n",
          "|thought:a|text:\n\n");
    reads("\"guided_regex\":\"\\n\\n\"", THOUGHT_MAYBE, "\n\n", "|text:\n\n");
}
END_TEST

START_TEST(thoughts_are_left_out_or_left_in_where_asked) {
    struct ask ask;
    reads("\"include_reasoning\":false", THOUGHT_OPEN, "a</think>\n\nb", "|text:b");
    reads("\"include_reasoning\":false,\"separate_reasoning\":false", THOUGHT_OPEN, "a</think>b",
          "|text:b");
    reads("\"include_reasoning\":true,\"separate_reasoning\":null", THOUGHT_OPEN, "a</think>b",
          "|thought:a|text:b");
    must_prepare(REGEX ",\"separate_reasoning\":false", THOUGHT_OPEN, &ask);
    ck_assert(!tool_reader_is_for(&ask) && ask.format->kind == GRAMMAR_REGEX && ask.skip_special);
    ask_fini(&ask);
    must_prepare(REGEX, THOUGHT_NONE, &ask);
    ck_assert(!tool_reader_is_for(&ask) && ask.format->kind == GRAMMAR_REGEX && ask.skip_special);
    ask_fini(&ask);
}
END_TEST

static bool takes_part(const struct grammar_part *part, const char *text) {
    struct grammar *grammar;
    struct grammar_state *state;
    struct error error;
    size_t n;
    enum status status = grammar_compile(part, NULL, &grammar_limits, &grammar, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    bool takes = grammar_follow(state, span_of(text), &n) == STATUS_OK && grammar_may_end(state);
    grammar_state_free(state);
    grammar_unref(grammar);
    return takes;
}

/* Whether an answer may be this: by what is checked, and by what workers are sent. */
static bool takes(const char *fields, enum thought_start start, const char *text) {
    struct ask ask;
    struct arena arena;
    struct error error;
    const struct grammar_part *sent;
    must_prepare(fields, start, &ask);
    arena_init(&arena, 1 << 20);
    const struct span packed = {(const char *)ask.sampling.grammar, ask.sampling.n_grammar};
    ck_assert_int_eq(grammar_unpack(packed, &arena, &sent, &error), STATUS_OK);
    bool takes = takes_part(ask.format, text);
    ck_assert_int_eq(takes_part(sent, text), takes);
    arena_fini(&arena);
    ask_fini(&ask);
    return takes;
}

START_TEST(a_form_comes_behind_the_thought) {
    const char *json = "\"response_format\":{\"type\":\"json_object\"}";
    const char *required = TOOLS ",\"tool_choice\":\"required\"";
    ck_assert(takes(json, THOUGHT_OPEN, "any {\n</think>\n\n{\"a\": 1}"));
    ck_assert(!takes(json, THOUGHT_OPEN, "{\"a\": 1}"));
    ck_assert(!takes(json, THOUGHT_OPEN, "any</think>\n\n"));
    ck_assert(!takes(json, THOUGHT_OPEN, "any</think>\n\n{}{}"));
    ck_assert(!takes(json, THOUGHT_OPEN, "<think>any</think>\n\n</think>\n\n{}"));
    ck_assert(takes(json, THOUGHT_MAYBE, "{\"a\": 1}"));
    ck_assert(takes(json, THOUGHT_MAYBE, "<think>\nany\n</think>\n\n{\"a\": 1}"));
    ck_assert(takes(json, THOUGHT_MAYBE, "\n<think>any</think>\n\n{}"));
    ck_assert(!takes(json, THOUGHT_MAYBE, "any</think>\n\n{}"));
    ck_assert(!takes(json, THOUGHT_MAYBE, "\n{}"));
    ck_assert(!takes(json, THOUGHT_NONE, "<think>any</think>\n\n{}"));
    ck_assert(takes(json, THOUGHT_NONE, "{}"));
    ck_assert(takes(required, THOUGHT_OPEN, "any</think>\n\n" CALL));
    ck_assert(!takes(required, THOUGHT_OPEN, "any</think>\n\nany"));
    ck_assert(!takes(required, THOUGHT_OPEN, CALL));
    ck_assert(takes(required, THOUGHT_MAYBE, CALL));
    ck_assert(takes(required, THOUGHT_MAYBE, "<think></think>\n\n" CALL));
    ck_assert(takes(TOOLS, THOUGHT_MAYBE, "any") && takes(TOOLS, THOUGHT_OPEN, "a</think>\n\nb"));
    ck_assert(takes(REGEX, THOUGHT_OPEN, "</think>\n\n\nab"));
    ck_assert(!takes(REGEX, THOUGHT_OPEN, "</think>\n\nab"));
    limits.thought_format = thought_format_nth(1); /* without line ends */
    ck_assert(takes(json, THOUGHT_OPEN, "any[/THINK]{}"));
    ck_assert(!takes(json, THOUGHT_OPEN, "any[/THINK]\n\n{}"));
}
END_TEST

/* Counts parts of that kind and text. */
static unsigned count(const struct grammar_part *part, enum grammar_kind kind, const char *text) {
    unsigned n = part->kind == kind && span_is(part->text, text);
    for (size_t i = 0; part->parts && i < part->n; i++)
        n += count(&part->parts[i], kind, text);
    return n;
}

START_TEST(marks_that_are_special_tokens_are_so_for_workers_alone) {
    for (unsigned special = 0; special < 4; special++) {
        struct ask ask;
        struct arena arena;
        struct error error;
        const struct grammar_part *sent;
        limits.thought_mark_special = special & 1;
        limits.thought_end_special = special >> 1;
        must_prepare("\"guided_regex\":\"ab\"", THOUGHT_MAYBE, &ask);
        arena_init(&arena, 1 << 20);
        const struct span packed = {(const char *)ask.sampling.grammar, ask.sampling.n_grammar};
        ck_assert_int_eq(grammar_unpack(packed, &arena, &sent, &error), STATUS_OK);
        ck_assert_uint_eq(count(sent, GRAMMAR_TOKEN, "<think>"), special & 1);
        ck_assert_uint_eq(count(sent, GRAMMAR_TOKEN, "</think>"), special >> 1);
        ck_assert_uint_eq(count(ask.format, GRAMMAR_TEXT, "<think>"), 1);
        ck_assert_uint_eq(count(ask.format, GRAMMAR_TEXT, "</think>"), 1);
        ck_assert_int_eq(ask.skip_special, special == 0);
        arena_fini(&arena);
        ask_fini(&ask);
    }
}
END_TEST

/* The longest form that has room beside the marks, and one byte more. */
START_TEST(a_form_that_has_no_room_left_is_named) {
    size_t low = 1, high = GRAMMAR_PACKED_MAX;
    char *fields = malloc(GRAMMAR_PACKED_MAX + 64);
    struct ask ask;
    struct api_error error;
    while (low < high) {
        size_t n = (low + high + 1) / 2;
        int at = sprintf(fields, "\"guided_choice\":[\"");
        memset(fields + at, 'x', n);
        strcpy(fields + at + n, "\"]");
        if (prepare(fields, THOUGHT_OPEN, &ask, &error) == STATUS_OK)
            low = n;
        else
            high = n - 1;
        ask_fini(&ask);
    }
    for (size_t n = low; n <= low + 1; n++) {
        int at = sprintf(fields, "\"guided_choice\":[\"");
        memset(fields + at, 'x', n);
        strcpy(fields + at + n, "\"]");
        enum status status = prepare(fields, THOUGHT_OPEN, &ask, &error);
        ck_assert_int_eq(status, n == low ? STATUS_OK : STATUS_INVALID);
        if (n == low)
            ck_assert_uint_eq(ask.sampling.n_grammar, GRAMMAR_PACKED_MAX);
        else
            ck_assert_str_eq(error.error.field, "guided_choice");
        ask_fini(&ask);
        must_prepare(fields, THOUGHT_NONE, &ask); /* the form alone has room */
        ask_fini(&ask);
    }
    free(fields);
}
END_TEST

static const char *const bad[] = {"include_reasoning", "separate_reasoning", "enable_thinking"};

START_TEST(switches_are_true_or_false) {
    static const char *const values[] = {"1", "\"false\"", "{}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct ask ask;
        struct api_error error;
        char fields[64];
        snprintf(fields, sizeof fields, "\"%s\":%s", bad[_i], values[i]);
        ck_assert_int_eq(prepare(fields, THOUGHT_NONE, &ask, &error), STATUS_INVALID);
        ck_assert_str_eq(error.error.field, bad[_i]);
        ask_fini(&ask);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_thought_that_the_prompt_began_is_told_apart);
    tcase_add_test(tests, a_thought_that_may_come_is_told_apart);
    tcase_add_test(tests, bytes_of_a_thought_are_counted_up_to_its_end);
    tcase_add_test(tests, each_pair_of_marks_is_read);
    tcase_add_test(tests, calls_follow_thoughts);
    tcase_add_test(tests, line_ends_of_a_form_stay);
    tcase_add_test(tests, thoughts_are_left_out_or_left_in_where_asked);
    tcase_add_test(tests, a_form_comes_behind_the_thought);
    tcase_add_test(tests, marks_that_are_special_tokens_are_so_for_workers_alone);
    tcase_add_test(tests, a_form_that_has_no_room_left_is_named);
    tcase_add_loop_test(tests, switches_are_true_or_false, 0, sizeof bad / sizeof *bad);
}
