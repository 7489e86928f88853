/* Every format of calls, and one that only stands here: what is written in it is read as it was meant, however it comes and wherever
 * it is cut, with all that a request may say of its calls. */
#include "router/api/tool_reader.h"
#include "tests/unit/router/api/tool_rig.h"

#include "base/random.h"

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

/* --- random calls -------------------------------------------------------------------------- */

#define N_TOOLS     4
#define N_CALLS_MAX 3

static const char *const names[N_TOOLS] = {"get", "set.x", "get_it", "deep"};
static const char *const schemas[N_TOOLS] = {
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":"
    "\"integer\",\"minimum\":1,\"maximum\":9}},\"required\":[\"city\",\"days\"],"
    "\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"on\":{\"type\":"
    "\"boolean\"},\"mode\":{\"enum\":[\"a\",\"bee\",\"b \\\"c\\\"\"]},\"tags\":{\"type\":\"array\","
    "\"items\":{\"type\":\"string\"}}},\"required\":[\"name\"]}",
    "{\"type\":\"object\",\"properties\":{}}",
    "{\"type\":\"object\",\"properties\":{\"o\":{\"$ref\":\"#/$defs/o\"},\"n\":{\"type\":"
    "\"number\"},\"c\":{\"$ref\":\"#/$defs/c\"}},\"$defs\":{\"o\":{\"type\":\"object\","
    "\"properties\":{\"k\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"k\"]},"
    "\"c\":{\"type\":\"string\",\"enum\":[\"red\",\"green\"]}},\"required\":[\"o\"]}",
};

static const char *const pieces[] = {
    "a",           "\"",
    "\\",          "\n",
    "\r\n",        "</parameter>",
    "\n</param",   "\xc3\xa9",
    "{",           "}",
    "]",           "\xf0\x9f\x98\x80",
    "<tool_call>", "))",
    "[ARGS]",      ", \"id\": \"",
    "\t",          " ",
    "null",        "</tool_call>",
    "\x01",        "<function=a>",
    "'",           "\n</parameter",
};

static uint64_t below(struct random *random, uint64_t n) {
    return random_next(random) % n;
}

static json_t *some_text(struct random *random) {
    char text[256] = "";
    for (uint64_t n = below(random, 5); n > 0; n--)
        strcat(text, pieces[below(random, sizeof pieces / sizeof *pieces)]);
    return json_string(strstr(text, "\n</parameter>") ? "x" : text); /* no text in tags has it */
}

static json_t *some_arguments(struct random *random, int tool) {
    static const char *const modes[] = {"a", "bee", "b \"c\""};
    json_t *made = json_object();
    if (tool == 0) {
        json_object_set_new(made, "city", some_text(random));
        json_object_set_new(made, "days", json_integer(1 + (json_int_t)below(random, 9)));
    } else if (tool == 1) {
        json_object_set_new(made, "name", some_text(random));
        if (below(random, 2))
            json_object_set_new(made, "on", json_boolean(below(random, 2)));
        if (below(random, 2))
            json_object_set_new(made, "mode", json_string(modes[below(random, 3)]));
        if (below(random, 2))
            json_object_set_new(made, "tags",
                                json_pack("[o, o]", some_text(random), some_text(random)));
    } else if (tool == 3) {
        json_object_set_new(
            made, "o",
            json_pack("{s: o}", "k", below(random, 2) ? some_text(random) : json_null()));
        if (below(random, 2))
            json_object_set_new(made, "n", json_real((double)below(random, 100) / 4));
        if (below(random, 2))
            json_object_set_new(made, "c", json_string(below(random, 2) ? "red" : "green"));
    }
    return made;
}

/* --- what a model writes ------------------------------------------------------------------- */

struct answer {
    char text[8192];
    char content[256];
    int n;
    int tools[N_CALLS_MAX];
    json_t *arguments[N_CALLS_MAX]; /* owned */
};

static void put(char *text, struct span more) {
    strncat(text, more.bytes ? more.bytes : "", more.n);
}

static void put_json(char *text, const json_t *value) {
    char *shown = json_dumps(value, JSON_ENCODE_ANY);
    strcat(text, shown);
    free(shown);
}

static void put_arguments(const struct tool_format *format, const json_t *arguments, char *text) {
    const char *name;
    json_t *value;
    if (format->arguments == TOOL_ARGUMENTS_JSON) {
        put_json(text, arguments);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)arguments, name, value) {
        put(text, format->tags.before_name);
        strcat(text, name);
        put(text, format->tags.before_value);
        if (json_is_string(value))
            strcat(text, json_string_value(value));
        else
            put_json(text, value);
        put(text, format->tags.behind_value);
    }
    put(text, format->tags.end);
}

static void put_call(const struct tool_format *format, struct random *random, int tool,
                     const json_t *arguments, char *text) {
    put(text, format->before_name);
    strcat(text, names[tool]);
    if (format->marks[TOOL_MARK_ID].n > 0 && below(random, 2)) {
        put(text, format->marks[TOOL_MARK_ID]);
        strcat(text, "Abcdefg09");
    }
    put(text, format->marks[TOOL_MARK_ARGUMENTS]);
    put(text, format->before_arguments);
    put_arguments(format, arguments, text);
    if (format->beside && below(random, 2))
        strcat(text, ", \"id\": \"0123456aZ\"");
    put(text, format->behind);
    put(text, format->marks[TOOL_MARK_END]);
}

static void put_calls(const struct tool_format *format, struct random *random,
                      struct answer *answer) {
    for (int i = 0; i < answer->n; i++) {
        bool marked = format->calls == TOOL_CALLS_ROW || i == 0;
        if (i > 0)
            put(answer->text, format->between);
        if (marked && (format->calls != TOOL_CALLS_ONE || below(random, 2)))
            put(answer->text, format->marks[TOOL_MARK_CALL]);
        if (i == 0 && format->calls == TOOL_CALLS_LIST) {
            strcat(answer->text, below(random, 2) ? " " : "");
            put(answer->text, format->opening);
        }
        put_call(format, random, answer->tools[i], answer->arguments[i], answer->text);
    }
    if (answer->n > 0)
        put(answer->text, format->closing);
}

/* n calls, of one tool where it is not -1, behind a text where there may be one. */
static void some_answer(const struct tool_format *format, struct random *random, int n, int tool,
                        bool text, struct answer *answer) {
    *answer = (struct answer){.n = n};
    if (text && (n == 0 || format->calls != TOOL_CALLS_ONE))
        strcpy(answer->content, below(random, 2) ? "Let me see.\n<tool [TOOL" : "x \"{\" y");
    strcpy(answer->text, answer->content);
    for (int i = 0; i < n; i++) {
        answer->tools[i] = tool >= 0 ? tool : (int)below(random, N_TOOLS);
        answer->arguments[i] = some_arguments(random, answer->tools[i]);
    }
    put_calls(format, random, answer);
}

static void drop(struct answer *answer) {
    for (int i = 0; i < answer->n; i++)
        json_decref(answer->arguments[i]);
}

/* --- and how it is read -------------------------------------------------------------------- */

/* The answer's grammar, of all tools and these fields. */
static void open_ask(const struct tool_format *format, const char *fields, struct ask *ask) {
    char tools[2048];
    int n = 0;
    for (int i = 0; i < N_TOOLS; i++)
        n += snprintf(tools + n, sizeof tools - (size_t)n,
                      "%s{\"type\":\"function\",\"function\":{\"name\":\"%s\",\"parameters\":%s}}",
                      i > 0 ? "," : "", names[i], schemas[i]);
    rig_open(format, tools, fields, ask);
}

struct told {
    char content[8192];
    char names[N_CALLS_MAX][64];
    char arguments[N_CALLS_MAX][2048];
    uint32_t n;
    bool is_open;
};

static void note(struct tool_reader *reader, struct told *told) {
    uint32_t n;
    const struct tool_piece *piece = tool_reader_pieces(reader, &n);
    for (; n > 0; n--, piece++) {
        struct span text = tool_reader_text(reader, piece);
        ck_assert_uint_lt(piece->call, N_CALLS_MAX);
        put(piece->kind == TOOL_PIECE_CONTENT ? told->content
            : piece->kind == TOOL_PIECE_NAME  ? told->names[piece->call]
                                              : told->arguments[piece->call],
            text);
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

static void check(const struct tool_format *format, const struct ask *ask,
                  const struct answer *answer) {
    static const size_t steps[] = {1, 2, 7, 8192};
    struct told told;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        read_text(ask, answer->text, strlen(answer->text), steps[i], &told);
        ck_assert_msg(told.n == (uint32_t)answer->n && !told.is_open &&
                          strcmp(told.content, answer->content) == 0,
                      "%s: %s: %u calls, content %s", format->name, answer->text, told.n,
                      told.content);
        for (int call = 0; call < answer->n; call++) {
            json_t *read = json_loads(told.arguments[call], 0, NULL);
            ck_assert_msg(strcmp(told.names[call], names[answer->tools[call]]) == 0 &&
                              json_equal(read, answer->arguments[call]),
                          "%s: %s: %s(%s)", format->name, answer->text, told.names[call],
                          told.arguments[call]);
            json_decref(read);
        }
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
};

START_TEST(what_is_written_is_read) {
    const struct tool_format *format = format_nth(_i);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct choice *choice = &choices[i];
        struct random random = {.state = 7 + i};
        struct ask ask;
        open_ask(format, choice->fields, &ask);
        for (int round = 0; round < 30; round++) {
            int n_max = format->calls == TOOL_CALLS_ONE ? 1 : choice->n_max;
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

/* One more call than there may be, another tool than the chosen, none where there must be one, no end. */
START_TEST(nothing_else_is_taken) {
    const struct tool_format *format = format_nth(_i);
    struct random random = {.state = 3};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct choice *choice = &choices[i];
        struct answer answer;
        struct ask ask;
        open_ask(format, choice->fields, &ask);
        for (int n = 0; n <= 2; n++) {
            some_answer(format, &random, n, choice->tool, false, &answer);
            bool fits = n >= choice->n_min && n <= choice->n_max &&
                        (n < 2 || format->calls != TOOL_CALLS_ONE);
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
    tcase_add_loop_test(tests, nothing_else_is_taken, 0, n_formats());
    tcase_add_test(tests, formats_have_names_of_their_own);
}
