/* router/api/chat_said.h: an assistant's message of a chat, put together from what another protocol has in parts of their own.
 *
 * Each buffer holds JSON without what is around it: `text` and `thoughts` the escaped bytes of a string, `calls` objects with
 * commas between. Pure, any thread. */
#pragma once

#include "base/buf.h"

struct chat_said {
    struct buf text, thoughts, calls; /* owned */
};

void chat_said_init(struct chat_said *said);
void chat_said_fini(struct chat_said *said); /* fine on a zeroed one */
void chat_said_clear(struct chat_said *said);

/* Appends the message as an object: `content` is null where there are only calls, and "" where there is nothing. */
void chat_said_put(const struct chat_said *said, struct buf *out);
