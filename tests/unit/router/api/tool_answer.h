/* tests/unit/router/api/tool_answer.h: random answers that call functions and custom tools, as a model of any format writes them. */
#pragma once

#include "base/random.h"
#include "model/text/template/thought_format.h"
#include "model/text/template/tool_format.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define N_FUNCTIONS 4
#define N_TOOLS     7 /* custom ones behind the functions */
#define N_CALLS_MAX 3

/* Custom tools, whose texts are of these expressions; NULL: any. */
enum { SAY = N_FUNCTIONS, GET_ID, TAG };

static const char *const names[N_TOOLS] = {"get", "set.x",  "get_it", "deep",
                                           "say", "get_id", "tag"};
static const char *const expressions[N_TOOLS] = {
    [GET_ID] = "[A-Z]{2}\\\"[0-9]\\\\n*", [TAG] = "(a|\\\\n</parameter>)*"};
static const char *const schemas[N_FUNCTIONS] = {
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

static inline uint64_t below(struct random *random, uint64_t n) {
    return random_next(random) % n;
}

static inline json_t *some_text(struct random *random) {
    char text[256] = "";
    for (uint64_t n = below(random, 5); n > 0; n--)
        strcat(text, pieces[below(random, sizeof pieces / sizeof *pieces)]);
    return json_string(strstr(text, "\n</parameter>") ? "x" : text); /* no text in tags has it */
}

/* What a custom tool is given. */
static inline json_t *some_input(struct random *random, int tool) {
    char text[64] = "AB\"7";
    if (tool == SAY)
        return some_text(random);
    text[tool == GET_ID ? strlen(text) : 0] = '\0';
    for (uint64_t n = below(random, 4); n > 0; n--)
        strcat(text, tool == GET_ID ? "\n" : below(random, 2) ? "a" : "\n</parameter>");
    return json_string(text);
}

static inline json_t *some_arguments(struct random *random, int tool) {
    static const char *const modes[] = {"a", "bee", "b \"c\""};
    json_t *made = json_object();
    if (tool >= N_FUNCTIONS) {
        json_object_set_new(made, "input", some_input(random, tool));
    } else if (tool == 0) {
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
    char thought[128];
    char content[256];
    int n;
    int tools[N_CALLS_MAX];
    json_t *arguments[N_CALLS_MAX]; /* owned */
};

static inline void put(char *text, struct span more) {
    char *end = text + strlen(text);
    if (more.n > 0)
        memmove(end, more.bytes, more.n);
    end[more.n] = '\0';
}

static inline void put_json(char *text, const json_t *value) {
    char *shown = json_dumps(value, JSON_ENCODE_ANY);
    strcat(text, shown);
    free(shown);
}

/* As Python has it: strings in either quotes, and words. */
static inline void put_literal(struct random *random, const json_t *value, char *text) {
    const char *from = json_string_value(value);
    const char quote[] = {below(random, 2) ? '\'' : '"', '\0'};
    if (json_is_boolean(value) || json_is_null(value)) {
        strcat(text, json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
        return;
    }
    if (!from || strchr(from, '\x01')) { /* a byte that single quotes do not hold */
        put_json(text, value);
        return;
    }
    strcat(text, quote);
    for (; *from; from++) {
        const char *named = strchr("\n\r\t", *from), plain[] = {*from, '\0'};
        if (*from == quote[0] || *from == '\\' || named)
            strcat(text, "\\");
        strcat(text, !named ? plain : *named == '\n' ? "n" : *named == '\r' ? "r" : "t");
    }
    strcat(text, quote);
}

static inline void put_keywords(struct random *random, int tool, const json_t *arguments,
                                char *text) {
    const char *name;
    json_t *value;
    bool is_first = true;
    json_object_foreach((json_t *)(uintptr_t)arguments, name, value) {
        strcat(text, is_first ? "" : ", ");
        is_first = false;
        strcat(text, name);
        strcat(text, "=");
        if (tool >= N_FUNCTIONS)
            put_json(text, value);
        else
            put_literal(random, value, text);
    }
    strcat(text, ")");
}

static inline void put_arguments(const struct tool_format *format, struct random *random, int tool,
                                 const json_t *arguments, char *text) {
    const char *name;
    json_t *value;
    if (format->arguments == TOOL_ARGUMENTS_JSON) {
        put_json(text, arguments);
        return;
    }
    if (format->arguments == TOOL_ARGUMENTS_PYTHON) {
        put_keywords(random, tool, arguments, text);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)arguments, name, value) {
        put(text, format->tags.before_name);
        strcat(text, name);
        put(text, format->tags.before_value);
        if (json_is_string(value) && !expressions[tool])
            strcat(text, json_string_value(value));
        else
            put_json(text, value);
        put(text, format->tags.behind_value);
    }
    put(text, format->tags.end);
}

/* Where a call is a turn, each of its parts may begin with one. */
static inline void put_blank(const struct tool_format *format, struct random *random, char *text) {
    strcat(text, format->calls == TOOL_CALLS_TURN && below(random, 2) ? " " : "");
}

static inline void put_call(const struct tool_format *format, struct random *random, int tool,
                            const json_t *arguments, char *text) {
    put_blank(format, random, text);
    put(text, format->before_name);
    strcat(text, names[tool]);
    if (format->marks[TOOL_MARK_ID].n > 0 && below(random, 2)) {
        put(text, format->marks[TOOL_MARK_ID]);
        strcat(text, "Abcdefg09");
    }
    put(text, format->marks[TOOL_MARK_ARGUMENTS]);
    put(text, format->behind_name);
    put_blank(format, random, text);
    put(text, format->before_arguments);
    put_arguments(format, random, tool, arguments, text);
    if (format->beside && below(random, 2))
        strcat(text, ", \"id\": \"0123456aZ\"");
    put(text, format->behind);
    put(text, format->marks[TOOL_MARK_END]);
}

static inline void put_calls(const struct tool_format *format, struct random *random,
                             struct answer *answer) {
    for (int i = 0; i < answer->n; i++) {
        bool marked = format->calls == TOOL_CALLS_ROW || i == 0;
        if (i > 0)
            put(answer->text, format->between);
        if (marked && format->calls == TOOL_CALLS_TURN)
            marked = answer->text[0] != '\0';
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
static inline void some_answer(const struct tool_format *format, struct random *random, int n,
                               int tool, bool text, struct answer *answer) {
    *answer = (struct answer){.n = n};
    if (text && (n == 0 || format->calls != TOOL_CALLS_ONE))
        strcpy(answer->content, below(random, 2) ? "Let me see.\n<tool [TOOL" : "x \"{\" y");
    if (n == 0 || answer->content[0]) {
        put_blank(format, random, answer->text);
        put(answer->text, format->before_text);
    }
    put(answer->text, span_of(answer->content));
    for (int i = 0; i < n; i++) {
        answer->tools[i] = tool >= 0 ? tool : (int)below(random, N_TOOLS);
        answer->arguments[i] = some_arguments(random, answer->tools[i]);
    }
    put_calls(format, random, answer);
}

/* What was thought stands before it, and has the beginning of a call in it. The prompt may have opened it. */
static inline void think(const struct tool_format *format, const struct thought_format *thoughts,
                         bool is_open, struct answer *answer) {
    char proper[sizeof answer->text];
    strcpy(proper, answer->text);
    strcpy(answer->thought, "Hm.\n\n{\"name\": ");
    put(answer->thought, format->marks[TOOL_MARK_CALL]);
    strcpy(answer->text, is_open ? "" : "\n");
    put(answer->text, is_open ? SPAN("") : thoughts->mark);
    strcat(answer->text, "\n");
    put(answer->text, span_of(answer->thought));
    strcat(answer->text, "\n");
    put(answer->text, thoughts->end_mark);
    put(answer->text, thoughts->behind);
    strcat(answer->text, proper);
}

static inline void drop(struct answer *answer) {
    for (int i = 0; i < answer->n; i++)
        json_decref(answer->arguments[i]);
}
