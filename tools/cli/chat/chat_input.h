/* tools/cli/chat/chat_input.h: where the turns of a conversation come from: a terminal, with line
 * editing and history (libedit), or standard input as it is. One thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

struct chat_input;

enum chat_turn {
    CHAT_LINE,    /* a line was typed */
    CHAT_NOTHING, /* Ctrl-C: what was typed is dropped */
    CHAT_END      /* Ctrl-D */
};

/* For a terminal: its settings are restored between the lines. STATUS_NOMEM. */
NODISCARD enum status chat_input_new(struct chat_input **input);
void chat_input_free(struct chat_input *input); /* NULL is fine */

/* Asks for a line. *line has no newline and lives until the next call. */
enum chat_turn chat_input_line(struct chat_input *input, const char **line);

/* All of standard input, without the newlines at its end. STATUS_LIMIT past 16 MiB, STATUS_INVALID
 * for bytes of 0, STATUS_IO. */
NODISCARD enum status chat_input_all(struct buf *text, struct error *error);
