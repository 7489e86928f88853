/* router/api/retry.h: when a refused client had better come again: an estimate, spread.
 *
 * A full queue is tried again when it will have drained, by the pace of the last seconds; a cluster
 * without a worker after as long as it has been without one. Each answer lies between once and
 * twice the estimate, so that clients refused together do not return together. Pure; one owner
 * thread. */
#pragma once

#include "base/random.h"

#include <stdbool.h>
#include <stdint.h>

#define RETRY_WINDOW_S 8u /* the pace counts so many seconds */
#define RETRY_MS_MIN   500u
#define RETRY_MS_MAX   30000u /* of the estimate */

struct retry {
    struct random random;
    uint64_t started_ns;
    uint64_t second[RETRY_WINDOW_S]; /* which second the count beside it is of */
    uint32_t n_ended[RETRY_WINDOW_S];
    uint64_t refusing_ns; /* since when no worker could serve, by the refusals; 0: not now */
};

void retry_init(struct retry *retry, uint64_t seed, uint64_t now_ns);

/* A sequence has ended: its place is free. */
void retry_ended(struct retry *retry, uint64_t now_ns);

/* Milliseconds after which a request may find a place: with n_queued in front of it, or without a
 * worker to serve it. */
uint32_t retry_busy_ms(struct retry *retry, uint64_t now_ns, uint32_t n_queued);
uint32_t retry_closed_ms(struct retry *retry, uint64_t now_ns);

/* Somebody can serve again. */
void retry_open(struct retry *retry);
