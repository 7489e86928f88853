#include "router/api/retry.h"

#include "base/clock.h"

void retry_init(struct retry *retry, uint64_t seed, uint64_t now_ns) {
    *retry = (struct retry){.random = {seed}, .started_ns = now_ns};
}

void retry_ended(struct retry *retry, uint64_t now_ns) {
    uint64_t second = now_ns / NS_PER_S;
    uint32_t at = (uint32_t)(second % RETRY_WINDOW_S);
    if (retry->second[at] != second)
        retry->n_ended[at] = 0;
    retry->second[at] = second;
    retry->n_ended[at]++;
}

static uint32_t retry_spread(struct retry *retry, uint64_t estimate_ms) {
    uint64_t ms = estimate_ms < RETRY_MS_MIN   ? RETRY_MS_MIN
                  : estimate_ms > RETRY_MS_MAX ? RETRY_MS_MAX
                                               : estimate_ms;
    return (uint32_t)(ms + random_below(&retry->random, ms + 1));
}

uint32_t retry_busy_ms(struct retry *retry, uint64_t now_ns, uint32_t n_queued) {
    uint64_t second = now_ns / NS_PER_S;
    uint64_t n_ended = 0;
    uint64_t window_ms = (now_ns - retry->started_ns) / NS_PER_MS + 1;
    for (uint32_t i = 0; i < RETRY_WINDOW_S; i++)
        if (retry->second[i] + RETRY_WINDOW_S > second)
            n_ended += retry->n_ended[i];
    if (window_ms > RETRY_WINDOW_S * 1000)
        window_ms = RETRY_WINDOW_S * 1000;
    if (n_ended == 0)
        return retry_spread(retry, window_ms); /* not in this time, so perhaps in as long again */
    return retry_spread(retry, n_queued * window_ms / n_ended);
}

uint32_t retry_closed_ms(struct retry *retry, uint64_t now_ns) {
    if (retry->refusing_ns == 0)
        retry->refusing_ns = now_ns;
    return retry_spread(retry, (now_ns - retry->refusing_ns) / NS_PER_MS);
}

void retry_open(struct retry *retry) {
    retry->refusing_ns = 0;
}
