/* router/call/answer.h: tokens become text, text becomes the reply.
 *
 * Writes into buffers; who sends them is client.h. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ask;
struct buf;
struct dialect;
struct reply;
struct request_end;
struct router;
struct sequence;

/* What an answer is made of, all borrowed from its call. */
struct answer {
    const struct dialect *dialect;
    const struct ask *ask;
    struct reply *reply; /* counts tokens here */
    struct sequence *sequences;
    uint32_t n_sequences;
    struct router *core; /* told when a stop string ends a sequence */
};

/* Reads the new tokens of all sequences and, for a stream, adds its events to `out`. STATUS_CORRUPT:
 * a token could not be turned into text. Loop's thread. */
NODISCARD enum status answer_read(const struct answer *answer, struct buf *out);

/* Have all sequences ended, with all their tokens read? *failed is the first end that is no answer,
 * whether or not others still run; or NULL. */
bool answer_has_ended(const struct answer *answer, const struct request_end **failed);

/* The whole of a reply that is not a stream, once all sequences have ended. Any thread. */
NODISCARD enum status answer_whole(const struct answer *answer, struct buf *out);

/* How much there is to write, in tokens. */
uint64_t answer_cost(const struct answer *answer);
