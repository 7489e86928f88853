/* router/api/tool_reader.h: an answer of several parts, read as it grows: what was thought before it (thought_reader.h), what is its text,
 * and what are calls of tools, by the grammar that masked them (tools.h). One user at a time. */
#pragma once

#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ask;
struct tool_reader;

/* A part of an answer that is decided. */
struct tool_piece {
    enum tool_piece_kind {
        TOOL_PIECE_CONTENT,   /* of the text */
        TOOL_PIECE_NAME,      /* begins a call: its whole name */
        TOOL_PIECE_ARGUMENTS, /* of the last call */
        TOOL_PIECE_REASONING, /* of what the model thought, without its marks */
    } kind;
    uint32_t call;  /* number, of a call's parts */
    bool is_custom; /* the call's arguments are the text that a custom tool takes */
    size_t begin;   /* in the bytes of tool_reader_text() */
    size_t n;
};

/* Whether answers have parts: else they are text, and need no reader. */
bool tool_reader_is_for(const struct ask *ask);

/* Holds the grammar; the rest of the ask is borrowed for this call alone. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status tool_reader_new(const struct ask *ask, struct tool_reader **reader);
void tool_reader_free(struct tool_reader *reader); /* NULL is fine */

/* More of the answer, and with is_last its end. Text that fits no form is content. Blanks before a call are no text. STATUS_NOMEM. */
NODISCARD enum status tool_reader_push(struct tool_reader *reader, struct span text, bool is_last);

/* The pieces since the last clear (n), good until the next push or clear. */
const struct tool_piece *tool_reader_pieces(const struct tool_reader *reader, uint32_t *n);
struct span tool_reader_text(const struct tool_reader *reader, const struct tool_piece *piece);
uint32_t tool_reader_n_calls(const struct tool_reader *reader);
bool tool_reader_is_open(
    const struct tool_reader *reader); /* the last call's arguments have not ended */

/* How far the answer thinks: not at all, in all of what was read, or in its first *n_bytes. */
enum tool_reader_thought { TOOL_READER_NO_THOUGHT, TOOL_READER_IN_THOUGHT, TOOL_READER_BEHIND_IT };
enum tool_reader_thought tool_reader_thought(const struct tool_reader *reader, uint64_t *n_bytes);
void tool_reader_clear(struct tool_reader *reader);
