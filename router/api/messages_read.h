/* router/api/messages_read.h: a request of Anthropic's Messages API in the words of a chat.
 *
 * A request becomes the JSON of a chat that asks for the same, and is then read as one. What the chat's reader says of its
 * fields it says by their names there. Pure, any thread. */
#pragma once

#include "base/buf.h"
#include "router/api/ask.h"
#include "router/api/errors.h"

/* Appends the chat. `counts`: nothing is generated, so that `max_tokens` may be missing. STATUS_INVALID or STATUS_UNSUPPORTED with the
 * field; STATUS_NOMEM. */
NODISCARD enum status messages_read(const json_t *root, bool counts, struct buf *chat,
                                    struct error *error);
