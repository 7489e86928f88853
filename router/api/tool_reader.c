#include "router/api/tool_reader.h"

#include "base/buf.h"
#include "base/utf8.h"
#include "model/text/grammar/grammar.h"
#include "router/api/ask.h"
#include "router/api/thought_reader.h"
#include "router/api/tool_arguments.h"
#include "router/api/tools.h"

#include <stdlib.h>
#include <string.h>

struct tool_reader {
    struct thought_reader thoughts; /* owned; without a format: none */
    struct buf thought;             /* owned: what was thought in this push, */
    struct buf proper;              /* owned: and what was said */
    bool hides_thoughts;
    bool calls;                  /* else all that is said is content */
    struct grammar_state *state; /* owned; NULL once the text fits no form */
    struct buf pending;          /* owned: bytes from offset `told` on, of no region yet */
    uint64_t told;               /* bytes of the answer before `pending` */
    struct buf blanks;           /* owned: content that is none if a call follows */
    struct buf name;             /* owned: of the call that begins */
    struct buf head;             /* owned: what stands before the first call's arguments */
    struct buf said;             /* owned: the pieces' bytes */
    struct buf pieces;           /* owned: struct tool_piece */
    struct buf input;            /* owned: what part of a custom tool's text stands for */
    char escape[6]; /* (n_escape) of that text, which is a JSON string: not whole yet */
    unsigned n_escape;
    uint32_t n_calls;
    struct tool_arguments arguments; /* of the last call, where JSON is made of them */
    struct buf json;                 /* owned: that, of one run */
    bool is_open;                    /* the last call has no end yet */
    bool in_arguments;               /* its arguments have begun */
    bool is_custom;                  /* the tool of the last call, or of the one that begins */
};

bool tool_reader_is_for(const struct ask *ask) {
    return ask->calls || ask->thoughts;
}

static enum status tool_reader_open_parts(struct tool_reader *reader, const struct ask *ask) {
    reader->calls = ask->calls;
    reader->hides_thoughts = ask->hides_thoughts;
    if (ask->thoughts)
        thought_reader_init(&reader->thoughts, ask->thoughts, ask->thinks, ask->proper != NULL);
    if (!ask->calls)
        return STATUS_OK;
    TRY(grammar_state_new(ask->calls_grammar, 0, &reader->state));
    return grammar_watch(reader->state);
}

enum status tool_reader_new(const struct ask *ask, struct tool_reader **reader) {
    struct tool_reader *made = calloc(1, sizeof *made);
    if (!made)
        return STATUS_NOMEM;
    buf_init(&made->thought, 0);
    buf_init(&made->proper, 0);
    buf_init(&made->pending, 0);
    buf_init(&made->blanks, 0);
    buf_init(&made->name, 0);
    buf_init(&made->head, 0);
    buf_init(&made->json, 0);
    buf_init(&made->said, 0);
    buf_init(&made->pieces, 0);
    buf_init(&made->input, 0);
    enum status status = tool_reader_open_parts(made, ask);
    if (status != STATUS_OK) {
        tool_reader_free(made);
        return status;
    }
    *reader = made;
    return STATUS_OK;
}

void tool_reader_free(struct tool_reader *reader) {
    if (!reader)
        return;
    grammar_state_free(reader->state);
    thought_reader_fini(&reader->thoughts);
    buf_fini(&reader->thought);
    buf_fini(&reader->proper);
    buf_fini(&reader->pending);
    buf_fini(&reader->blanks);
    buf_fini(&reader->name);
    buf_fini(&reader->head);
    buf_fini(&reader->json);
    buf_fini(&reader->said);
    buf_fini(&reader->pieces);
    buf_fini(&reader->input);
    free(reader);
}

static void tool_reader_add_piece(struct tool_reader *reader, enum tool_piece_kind kind,
                                  const char *bytes, size_t n) {
    uint32_t call = reader->n_calls > 0 ? reader->n_calls - 1 : 0;
    const struct tool_piece piece = {.kind = kind,
                                     .call = call,
                                     .is_custom = reader->is_custom,
                                     .begin = reader->said.n,
                                     .n = n};
    if (n == 0)
        return;
    buf_append(&reader->said, bytes, n);
    buf_append(&reader->pieces, &piece, sizeof piece);
}

static bool tool_reader_is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* All but the blanks at its end, which may stand before a call. */
static void tool_reader_add_content(struct tool_reader *reader, const char *bytes, size_t n) {
    size_t end = n;
    while (end > 0 && tool_reader_is_blank(bytes[end - 1]))
        end--;
    if (end > 0 && reader->blanks.n > 0) {
        tool_reader_add_piece(reader, TOOL_PIECE_CONTENT, reader->blanks.data, reader->blanks.n);
        buf_clear(&reader->blanks);
    }
    tool_reader_add_piece(reader, TOOL_PIECE_CONTENT, bytes, end);
    buf_append(&reader->blanks, bytes + end, n - end);
}

/* What an escape stands for. The grammar lets only whole ones come, none of them half of a pair. */
static void tool_reader_take_escape(struct tool_reader *reader) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char kind = reader->escape[1], digits[5] = "", bytes[4];
    const char *letter = strchr(letters, kind);
    if (kind == 'u') {
        memcpy(digits, reader->escape + 2, 4);
        buf_append(&reader->input, bytes, utf8_encode((uint32_t)strtoul(digits, NULL, 16), bytes));
    } else if (letter && kind != '\0') {
        buf_putc(&reader->input, meanings[letter - letters]);
    }
    reader->n_escape = 0;
}

/* A part of a JSON string, its quotes too. */
static void tool_reader_add_input(struct tool_reader *reader, const char *bytes, size_t n) {
    buf_clear(&reader->input);
    for (size_t i = 0; i < n; i++) {
        if (reader->n_escape > 0 || bytes[i] == '\\')
            reader->escape[reader->n_escape++] = bytes[i];
        else if (bytes[i] != '"')
            buf_putc(&reader->input, bytes[i]);
        if (reader->n_escape == (reader->n_escape > 1 && reader->escape[1] == 'u' ? 6 : 2))
            tool_reader_take_escape(reader);
    }
    tool_reader_add_piece(reader, TOOL_PIECE_ARGUMENTS, reader->input.data, reader->input.n);
}

/* A run of the answer. */
static void tool_reader_take(struct tool_reader *reader, const struct grammar_span *span) {
    const char *bytes = reader->pending.data;
    size_t n = (size_t)(span->end - span->begin);
    const char *region = span->region ? span->region : "";
    if (reader->n_calls == 0 && strcmp(region, TOOLS_CONTENT) != 0)
        buf_append(&reader->head, bytes, n);
    if (strcmp(region, TOOLS_CONTENT) == 0) {
        buf_clear(&reader->head); /* of what stands before a text, nothing is shown */
        tool_reader_add_content(reader, bytes, n);
    } else if (strcmp(region, TOOLS_NAME) == 0 || strcmp(region, TOOLS_CUSTOM) == 0) {
        reader->is_custom = strcmp(region, TOOLS_CUSTOM) == 0;
        buf_append(&reader->name, bytes, n);
    } else if (reader->name.n > 0) { /* what stands behind a name ends it */
        buf_clear(&reader->blanks);
        reader->n_calls++;
        reader->is_open = true;
        reader->in_arguments = false;
        reader->arguments = (struct tool_arguments){0};
        tool_reader_add_piece(reader, TOOL_PIECE_NAME, reader->name.data, reader->name.n);
        buf_clear(&reader->name);
        reader->n_escape = 0;
    }
    bool is_input = strcmp(region, TOOLS_INPUT) == 0;
    if (is_input || strcmp(region, TOOLS_RAW) == 0 || strcmp(region, TOOLS_ARGUMENTS) == 0) {
        if (is_input)
            tool_reader_add_input(reader, bytes, n);
        else
            tool_reader_add_piece(reader, TOOL_PIECE_ARGUMENTS, bytes, n);
        reader->is_open = !span->ends;
        reader->in_arguments = true;
    } else if (tool_arguments_take(&reader->arguments, region, bytes, n, &reader->json)) {
        tool_reader_add_piece(reader, TOOL_PIECE_ARGUMENTS, reader->json.data, reader->json.n);
        buf_clear(&reader->json);
        reader->is_open = !tool_arguments_whole(&reader->arguments);
    } else if (reader->in_arguments) { /* their end was told without the byte behind it */
        reader->is_open = false;
    }
    buf_consume(&reader->pending, n);
    reader->told = span->end;
}

/* A run at the end of an answer that was cut, which only the grammar's first reading puts there. What may have been the tag behind a
 * value is none of the value. */
static void tool_reader_take_doubtful(struct tool_reader *reader, const struct grammar_span *span) {
    const char *region = span->region ? span->region : "";
    if (strcmp(region, TOOLS_TEXT) == 0 || strcmp(region, TOOLS_RAW) == 0) {
        buf_consume(&reader->pending, (size_t)(span->end - span->begin));
        reader->told = span->end;
    } else {
        tool_reader_take(reader, span);
    }
}

/* From here on all is content, and so is a call that has not begun. */
static void tool_reader_give_up(struct tool_reader *reader) {
    if (reader->n_calls == 0 && reader->head.n > 0)
        tool_reader_add_content(reader, reader->head.data, reader->head.n);
    buf_clear(&reader->name);
    grammar_state_free(reader->state);
    reader->state = NULL;
}

/* More of what is said where calls may be. */
static void tool_reader_push_called(struct tool_reader *reader, struct span text, bool is_last) {
    struct grammar_span span;
    size_t n_followed = 0;
    buf_append(&reader->pending, text.bytes, text.n);
    if (reader->state && grammar_follow(reader->state, text, &n_followed) != STATUS_OK) {
        while (grammar_next_span(reader->state, true, &span))
            tool_reader_take(reader, &span);
        tool_reader_give_up(reader);
    }
    while (reader->state && grammar_next_span(reader->state, false, &span))
        tool_reader_take(reader, &span);
    while (reader->state && is_last && grammar_next_span(reader->state, true, &span))
        tool_reader_take_doubtful(reader, &span);
    if ((is_last || !reader->state) && reader->pending.n > 0) {
        tool_reader_add_content(reader, reader->pending.data, reader->pending.n);
        buf_clear(&reader->pending);
    }
    if (is_last && reader->state && grammar_may_end(reader->state))
        reader->is_open = false; /* nothing stands behind the arguments in some formats */
    if (is_last && reader->n_calls == 0)
        tool_reader_add_piece(reader, TOOL_PIECE_CONTENT, reader->blanks.data, reader->blanks.n);
    if (is_last)
        buf_clear(&reader->blanks);
}

enum status tool_reader_push(struct tool_reader *reader, struct span text, bool is_last) {
    struct span said = text;
    if (reader->thoughts.format) {
        buf_clear(&reader->thought);
        buf_clear(&reader->proper);
        TRY(thought_read(&reader->thoughts, text, is_last, &reader->thought, &reader->proper));
        if (!reader->hides_thoughts)
            tool_reader_add_piece(reader, TOOL_PIECE_REASONING, reader->thought.data,
                                  reader->thought.n);
        said = (struct span){reader->proper.n > 0 ? reader->proper.data : "", reader->proper.n};
    }
    if (reader->calls)
        tool_reader_push_called(reader, said, is_last);
    else
        tool_reader_add_piece(reader, TOOL_PIECE_CONTENT, said.bytes, said.n);
    bool whole =
        buf_status(&reader->pending) == STATUS_OK && buf_status(&reader->blanks) == STATUS_OK &&
        buf_status(&reader->name) == STATUS_OK && buf_status(&reader->head) == STATUS_OK &&
        buf_status(&reader->json) == STATUS_OK && buf_status(&reader->said) == STATUS_OK &&
        buf_status(&reader->pieces) == STATUS_OK && buf_status(&reader->input) == STATUS_OK;
    return whole ? STATUS_OK : STATUS_NOMEM;
}

const struct tool_piece *tool_reader_pieces(const struct tool_reader *reader, uint32_t *n) {
    *n = (uint32_t)(reader->pieces.n / sizeof(struct tool_piece));
    return (const struct tool_piece *)(const void *)reader->pieces.data;
}

struct span tool_reader_text(const struct tool_reader *reader, const struct tool_piece *piece) {
    return (struct span){reader->said.data + piece->begin, piece->n};
}

uint32_t tool_reader_n_calls(const struct tool_reader *reader) {
    return reader->n_calls;
}

bool tool_reader_is_open(const struct tool_reader *reader) {
    return reader->is_open;
}

enum tool_reader_thought tool_reader_thought(const struct tool_reader *reader, uint64_t *n_bytes) {
    const struct thought_reader *thoughts = &reader->thoughts;
    *n_bytes = thoughts->n_thought;
    if (thoughts->n_thought > 0)
        return TOOL_READER_BEHIND_IT;
    return thoughts->format && thoughts->place == THOUGHT_WITHIN ? TOOL_READER_IN_THOUGHT
                                                                 : TOOL_READER_NO_THOUGHT;
}

void tool_reader_clear(struct tool_reader *reader) {
    buf_clear(&reader->said);
    buf_clear(&reader->pieces);
}
