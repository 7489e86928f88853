/* Every format of calls, and one that only stands here: what is written in it is read as it was meant, however it comes and wherever
 * it is cut, with all that a request may say of its calls, of functions and of custom tools, and behind what is thought. */
#include "router/api/tool_reader.h"
#include "tests/unit/router/api/tool_answer.h"
#include "tests/unit/router/api/tool_rig.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_tool_formats";
const double suite_timeout_s = 60;

/* What it takes to have one more format. */
static const struct tool_format own_format = {
    .name = "own",
    .signs = {"(("},
    .marks = {[TOOL_MARK_CALL] = SPAN("(("), [TOOL_MARK_END] = SPAN("))")},
    .calls = TOOL_CALLS_ROW,
    .before_name = SPAN(" call "),
    .before_arguments = SPAN(" with "),
    .behind = SPAN(" "),
    .between = SPAN(" and "),
};

static const struct tool_format *format_nth(int n) {
    const struct tool_format *format = n < 0 ? NULL : tool_format_nth((size_t)n);
    return format ? format : &own_format;
}

static int n_formats(void) {
    int n = 0;
    while (tool_format_nth((size_t)n))
        n++;
    return n + 1;
}

/* The answer's grammar, of all tools and these fields; `start`: what may be thought before it. */
static void open_ask(const struct tool_format *format, const char *fields, enum thought_start start,
                     struct ask *ask) {
    char tools[4096];
    int n = 0;
    for (int i = 0; i < N_FUNCTIONS; i++)
        n += snprintf(tools + n, sizeof tools - (size_t)n,
                      "%s{\"type\":\"function\",\"function\":{\"name\":\"%s\",\"parameters\":%s}}",
                      i > 0 ? "," : "", names[i], schemas[i]);
    for (int i = N_FUNCTIONS; i < N_TOOLS; i++) {
        n += snprintf(tools + n, sizeof tools - (size_t)n,
                      ",{\"type\":\"custom\",\"custom\":{\"name\":\"%s\"", names[i]);
        if (expressions[i])
            n += snprintf(tools + n, sizeof tools - (size_t)n,
                          ",\"format\":{\"type\":\"grammar\",\"grammar\":{\"syntax\":\"regex\","
                          "\"definition\":\"%s\"}}",
                          expressions[i]);
        n += snprintf(tools + n, sizeof tools - (size_t)n, "}}");
    }
    rig_open_from(format, tools, fields, start, ask);
}

struct told {
    char content[8192];
    char names[N_CALLS_MAX][64];
    char arguments[N_CALLS_MAX][2048];
    bool is_custom[N_CALLS_MAX];
    char thought[256];
    uint32_t n;
    bool is_open;
};

static void note(struct tool_reader *reader, struct told *told) {
    uint32_t n;
    const struct tool_piece *piece = tool_reader_pieces(reader, &n);
    for (; n > 0; n--, piece++) {
        struct span text = tool_reader_text(reader, piece);
        ck_assert_uint_lt(piece->call, N_CALLS_MAX);
        put(piece->kind == TOOL_PIECE_CONTENT     ? told->content
            : piece->kind == TOOL_PIECE_REASONING ? told->thought
            : piece->kind == TOOL_PIECE_NAME      ? told->names[piece->call]
                                                  : told->arguments[piece->call],
            text);
        if (piece->kind == TOOL_PIECE_NAME)
            told->is_custom[piece->call] = piece->is_custom;
    }
    tool_reader_clear(reader);
}

/* The text's first n bytes, in pieces of `step`. */
static void read_text(const struct ask *ask, const char *text, size_t n, size_t step,
                      struct told *told) {
    struct tool_reader *reader;
    memset(told, 0, sizeof *told);
    ck_assert_int_eq(tool_reader_new(ask, &reader), STATUS_OK);
    for (size_t at = 0; at < n; at += step) {
        size_t n_piece = n - at < step ? n - at : step;
        ck_assert_int_eq(tool_reader_push(reader, (struct span){text + at, n_piece}, false),
                         STATUS_OK);
        note(reader, told);
    }
    ck_assert_int_eq(tool_reader_push(reader, SPAN(""), true), STATUS_OK);
    note(reader, told);
    told->n = tool_reader_n_calls(reader);
    told->is_open = tool_reader_is_open(reader);
    tool_reader_free(reader);
}

/* Arguments as the object that they are; a custom tool's as the text that was meant. */
static bool is_right(const struct told *told, int call, const struct answer *answer) {
    const int tool = answer->tools[call];
    const json_t *input = json_object_get(answer->arguments[call], "input");
    if (strcmp(told->names[call], names[tool]) != 0 ||
        told->is_custom[call] != (tool >= N_FUNCTIONS))
        return false;
    if (told->is_custom[call])
        return strcmp(told->arguments[call], json_string_value(input)) == 0;
    json_t *read = json_loads(told->arguments[call], 0, NULL);
    bool is_equal = json_equal(read, answer->arguments[call]);
    json_decref(read);
    return is_equal;
}

static void check(const struct tool_format *format, const struct ask *ask,
                  const struct answer *answer) {
    static const size_t steps[] = {1, 2, 7, 8192};
    struct told told;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        read_text(ask, answer->text, strlen(answer->text), steps[i], &told);
        ck_assert_msg(told.n == (uint32_t)answer->n && !told.is_open &&
                          strcmp(told.content, answer->content) == 0 &&
                          strcmp(told.thought, answer->thought) == 0,
                      "%s: %s: %u calls, content %s, thought %s", format->name, answer->text,
                      told.n, told.content, told.thought);
        for (int call = 0; call < answer->n; call++)
            ck_assert_msg(is_right(&told, call, answer), "%s: %s: %s(%s)", format->name,
                          answer->text, told.names[call], told.arguments[call]);
    }
}

/* What is read of the beginning is the beginning of what is read. */
static void check_cut(const struct tool_format *format, const struct ask *ask,
                      const struct answer *answer) {
    struct told whole, part;
    size_t n = strlen(answer->text);
    read_text(ask, answer->text, n, n > 0 ? n : 1, &whole);
    for (size_t cut = 0; cut < n; cut++) {
        if (((unsigned char)answer->text[cut] & 0xc0) == 0x80)
            continue; /* within a character */
        read_text(ask, answer->text, cut, cut % 5 + 1, &part);
        ck_assert_msg(part.n <= whole.n, "%s: %.*s", format->name, (int)cut, answer->text);
        for (uint32_t i = 0; i < part.n; i++)
            ck_assert_msg(
                strcmp(part.names[i], whole.names[i]) == 0 &&
                    strncmp(whole.arguments[i], part.arguments[i], strlen(part.arguments[i])) ==
                        0 &&
                    (i + 1 == part.n || strcmp(part.arguments[i], whole.arguments[i]) == 0),
                "%s: %.*s: %s(%s)", format->name, (int)cut, answer->text, part.names[i],
                part.arguments[i]);
        if (part.n > 0)
            ck_assert_msg(strcmp(part.content, whole.content) == 0, "%s: %.*s: %s", format->name,
                          (int)cut, answer->text, part.content);
    }
}

static const struct choice {
    const char *fields;
    int tool;
    int n_min, n_max;
    bool text;
} choices[] = {
    {"", -1, 0, N_CALLS_MAX, true},
    {",\"tool_choice\":\"required\"", -1, 1, N_CALLS_MAX, false},
    {",\"parallel_tool_calls\":false", -1, 0, 1, true},
    {",\"parallel_tool_calls\":false,\"tool_choice\":\"required\"", -1, 1, 1, false},
    {",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"set.x\"}}", 1, 1, 1, false},
    {",\"tool_choice\":{\"type\":\"custom\",\"custom\":{\"name\":\"say\"}}", SAY, 1, 1, false},
    {",\"tool_choice\":{\"type\":\"custom\",\"custom\":{\"name\":\"tag\"}}", TAG, 1, 1, false},
};

START_TEST(what_is_written_is_read) {
    const struct tool_format *format = format_nth(_i);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct choice *choice = &choices[i];
        struct random random = {.state = 7 + i};
        struct ask ask;
        open_ask(format, choice->fields, THOUGHT_NONE, &ask);
        for (int round = 0; round < 30; round++) {
            int n_max = tool_format_is_single(format) ? 1 : choice->n_max;
            int n = choice->n_min + (int)below(&random, (uint64_t)(n_max - choice->n_min + 1));
            struct answer answer;
            some_answer(format, &random, n, choice->tool, choice->text, &answer);
            check(format, &ask, &answer);
            if (round < 4)
                check_cut(format, &ask, &answer);
            drop(&answer);
        }
        ask_fini(&ask);
    }
}
END_TEST

/* What is thought is none of the answer, whatever it has in it; where the prompt did not begin it, it may be left out. */
START_TEST(calls_come_behind_thoughts) {
    static const enum thought_start starts[] = {THOUGHT_OPEN, THOUGHT_MAYBE};
    const struct tool_format *format = format_nth(_i);
    for (size_t i = 0; i < 2 * sizeof choices / sizeof *choices; i++) {
        const struct choice *choice = &choices[i / 2];
        const enum thought_start start = starts[i % 2];
        struct random random = {.state = 11 + i};
        struct ask ask;
        open_ask(format, choice->fields, start, &ask);
        for (int round = 0; round < 6; round++) {
            int n = round % 2 > choice->n_min ? 1 : choice->n_min;
            struct answer answer;
            some_answer(format, &random, n, choice->tool, choice->text, &answer);
            if (round < 4 || start == THOUGHT_OPEN)
                think(format, thought_format_nth(0), start == THOUGHT_OPEN, &answer);
            check(format, &ask, &answer);
            if (round == 1 || round == 5)
                ck_assert_msg(rig_lets(&ask, answer.text), "%s: %s", format->name, answer.text);
            drop(&answer);
        }
        ask_fini(&ask);
    }
}
END_TEST

/* One more call than there may be, another tool than the chosen, none where there must be one, no end. */
START_TEST(nothing_else_is_taken) {
    const struct tool_format *format = format_nth(_i);
    struct random random = {.state = 3};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct choice *choice = &choices[i];
        struct answer answer;
        struct ask ask;
        open_ask(format, choice->fields, THOUGHT_NONE, &ask);
        for (int n = 0; n <= 2; n++) {
            some_answer(format, &random, n, choice->tool, false, &answer);
            bool fits = n >= choice->n_min && n <= choice->n_max &&
                        (n < 2 || !tool_format_is_single(format));
            ck_assert_msg(rig_takes(&ask, answer.text) == fits, "%s%s: %s", format->name,
                          choice->fields, answer.text);
            if (n > 0) {
                answer.text[strlen(answer.text) - 1] = '\0';
                ck_assert_msg(!rig_takes(&ask, answer.text), "%s%s: %s", format->name,
                              choice->fields, answer.text);
            }
            drop(&answer);
        }
        if (choice->tool >= 0) {
            some_answer(format, &random, 1, 0, false, &answer);
            ck_assert_msg(!rig_takes(&ask, answer.text), "%s: %s", format->name, answer.text);
            drop(&answer);
        }
        ask_fini(&ask);
    }
}
END_TEST

START_TEST(formats_have_names_of_their_own) {
    for (size_t i = 0; tool_format_nth(i); i++) {
        const struct tool_format *format = tool_format_nth(i);
        ck_assert_ptr_eq(tool_format_find(format->name), format);
        ck_assert_msg(format->marks[TOOL_MARK_CALL].n > 0 && format->signs[0], "%s", format->name);
    }
    ck_assert_ptr_null(tool_format_find("none"));
    ck_assert_ptr_null(tool_format_find("auto"));
    ck_assert_ptr_null(tool_format_find(""));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, what_is_written_is_read, 0, n_formats());
    tcase_add_loop_test(tests, calls_come_behind_thoughts, 0, n_formats());
    tcase_add_loop_test(tests, nothing_else_is_taken, 0, n_formats());
    tcase_add_test(tests, formats_have_names_of_their_own);
}
