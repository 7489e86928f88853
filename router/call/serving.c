#include "router/call/serving.h"

#include "base/clock.h"
#include "router/api/errors.h"
#include "router/core/router.h"

#include <stdio.h>
#include <xxhash.h>

uint32_t serving_context(const struct serving *serving) {
    uint32_t most = 0;
    struct worker_view view;
    for (uint32_t slot = 0; router_next_worker(serving->core, &slot, &view); slot++)
        if (view.state == SLOT_READY && view.welcome.context > most)
            most = view.welcome.context;
    return most > 0 && most < serving->context ? most : serving->context;
}

bool serving_ready(const struct serving *serving) {
    return !serving->draining && router_ready(serving->core);
}

void serving_fingerprint(const struct serving *serving, char text[20]) {
    uint64_t seen[MESSAGE_PEERS_MAX], all = 0;
    uint32_t n = 0;
    struct worker_view view;
    for (uint32_t slot = 0; router_next_worker(serving->core, &slot, &view); slot++) {
        if (view.state != SLOT_READY)
            continue;
        uint64_t hash = XXH3_64bits(view.welcome.numerics_fp, sizeof view.welcome.numerics_fp);
        uint32_t at = 0;
        while (at < n && seen[at] != hash)
            at++;
        if (at < n)
            continue; /* workers alike count once, so that one more or less changes nothing */
        seen[n++] = hash;
        all ^= hash;
    }
    snprintf(text, 20, "fp_%012llx", (unsigned long long)all & 0xffffffffffffull);
}

bool serving_retry(struct serving *serving, const struct api_error *error,
                   struct serving_retry *retry) {
    if (!errors_want_retry(error))
        return false;
    uint64_t now_ns = clock_now_ns();
    struct router_stats stats;
    uint32_t ms;
    if (error->retry_ms > 0) {
        ms = error->retry_ms;
    } else if (errors_http(error) == 429) {
        router_stats(serving->core, &stats);
        ms = retry_busy_ms(&serving->retry, now_ns, stats.n_queued);
    } else {
        ms = retry_closed_ms(&serving->retry, now_ns);
    }
    snprintf(retry->s, sizeof retry->s, "%u", (ms + 999) / 1000);
    snprintf(retry->ms, sizeof retry->ms, "%u", ms);
    return true;
}

/* How many workers stand in a state, for a reason. */
static unsigned serving_count_in(const struct serving *serving, enum slot_state state,
                                 enum refusal refusal) {
    unsigned n = 0;
    struct worker_view view;
    for (uint32_t slot = 0; router_next_worker(serving->core, &slot, &view); slot++)
        n += view.state == state && (state != SLOT_REFUSED || view.refusal == refusal);
    return n;
}

uint32_t serving_n_workers(const struct serving *serving) {
    return serving_count_in(serving, SLOT_READY, REFUSAL_NONE);
}

static size_t serving_put_count(char *out, size_t size, size_t at, const char *what,
                                const char *why, unsigned n) {
    if (n == 0 || at >= size)
        return at;
    int more = snprintf(out + at, size - at, "%s%s%s%s: %u", at > 0 ? "; " : "", what,
                        why ? ", " : "", why ? why : "", n);
    return at + (more > 0 ? (size_t)more : 0);
}

const char *serving_no_worker(const struct serving *serving, char *out, size_t size) {
    char states[256] = "";
    size_t at = 0;
    for (int refusal = REFUSAL_NONE + 1; refusal < REFUSAL_COUNT; refusal++)
        at = serving_put_count(states, sizeof states, at, slot_state_name(SLOT_REFUSED),
                               refusal_text((enum refusal)refusal),
                               serving_count_in(serving, SLOT_REFUSED, (enum refusal)refusal));
    for (int state = SLOT_FREE + 1; state < SLOT_STATES; state++)
        if (state != SLOT_REFUSED)
            at = serving_put_count(states, sizeof states, at,
                                   slot_state_name((enum slot_state)state), NULL,
                                   serving_count_in(serving, (enum slot_state)state, REFUSAL_NONE));
    snprintf(out, size, "No worker can serve the request now (%s)",
             at > 0 ? states : "none is connected");
    return out;
}
