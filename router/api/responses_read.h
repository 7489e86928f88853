/* router/api/responses_read.h: a request of OpenAI's Responses API in the words of a chat.
 *
 * A request becomes the JSON of a chat that asks for the same, and is then read as one. What the chat's reader says of its
 * fields it says by their names there. Pure, any thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* What a reply repeats of its request at most; beyond it instructions, tools and the like are left out of replies. Each reply
 * of a stream has them three times. */
#define RESPONSES_REPEATED_MAX (64u << 10)

struct responses_request {
    struct buf chat;     /* owned: the chat */
    struct buf repeated; /* owned: members that a reply repeats, each with a comma behind it */
    bool seals_thoughts; /* a thought comes as `encrypted_content`, too */
};

/* Fills *request, which the caller ends. STATUS_INVALID or STATUS_UNSUPPORTED with the field; STATUS_NOMEM. */
NODISCARD enum status responses_read(const json_t *root, struct responses_request *request,
                                     struct error *error);
void responses_request_fini(struct responses_request *request); /* fine on a zeroed one */
