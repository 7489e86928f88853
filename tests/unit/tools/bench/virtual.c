#include "tests/unit/tools/bench/virtual.h"

#include "base/clock.h"
#include "tests/support/suite.h"

#include <stdlib.h>

#define BEGIN_NS (3600 * NS_PER_S)

/* As ck_assert(), in loops: Check writes a line to its file for each assertion that holds, and takes
 * time quadratic in their number to read them. */
#define REQUIRE(holds)                                                                             \
    do {                                                                                           \
        if (!(holds))                                                                              \
            ck_abort_msg("%s", #holds);                                                            \
    } while (0)

struct queue {
    struct event *at; /* owned: a binary heap by time, then by order of coming */
    uint64_t *order;
    uint32_t n;
    uint32_t size;
    uint64_t n_pushed;
};

static bool is_before(const struct queue *queue, uint32_t a, uint32_t b) {
    return queue->at[a].at_ns != queue->at[b].at_ns ? queue->at[a].at_ns < queue->at[b].at_ns
                                                    : queue->order[a] < queue->order[b];
}

static void swap(struct queue *queue, uint32_t a, uint32_t b) {
    struct event event = queue->at[a];
    uint64_t order = queue->order[a];
    queue->at[a] = queue->at[b];
    queue->order[a] = queue->order[b];
    queue->at[b] = event;
    queue->order[b] = order;
}

static void push(struct queue *queue, struct event event) {
    if (queue->n == queue->size) {
        queue->size = queue->size ? 2 * queue->size : 1024;
        queue->at = realloc(queue->at, queue->size * sizeof *queue->at);
        queue->order = realloc(queue->order, queue->size * sizeof *queue->order);
        ck_assert(queue->at && queue->order);
    }
    uint32_t i = queue->n++;
    queue->at[i] = event;
    queue->order[i] = queue->n_pushed++;
    for (; i > 0 && is_before(queue, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(queue, i, (i - 1) / 2);
}

static struct event pop(struct queue *queue) {
    struct event event = queue->at[0];
    swap(queue, 0, --queue->n);
    for (uint32_t i = 0;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < queue->n && is_before(queue, child + 1, child))
            child++;
        if (child >= queue->n || !is_before(queue, child, i))
            return event;
        swap(queue, i, child);
        i = child;
    }
}

static bool hits(uint32_t every, uint32_t request) {
    return every > 0 && request % every == 0;
}

/* A moment that falls into the stall comes at its end. */
static uint64_t heard_at(const struct script *script, uint64_t at_ns) {
    uint64_t from_ns = BEGIN_NS + script->stall_from_ns, to_ns = BEGIN_NS + script->stall_to_ns;
    return at_ns >= from_ns && at_ns < to_ns ? to_ns : at_ns;
}

/* When a request that was sent then is begun, in the slot that is free first; *slot is filled. */
static uint64_t begun_at(const struct script *script, uint64_t free_at[64], uint64_t sent_ns,
                         uint32_t *slot) {
    *slot = 0;
    for (uint32_t i = 1; i < script->n_slots; i++)
        if (free_at[i] < free_at[*slot])
            *slot = i;
    return script->n_slots && free_at[*slot] > sent_ns ? free_at[*slot] : sent_ns;
}

static void answer(struct queue *queue, const struct script *script, const struct record *record,
                   uint32_t request, uint64_t sent_ns, uint64_t free_at[64]) {
    uint32_t slot;
    uint32_t per_chunk = script->chunk_tokens ? script->chunk_tokens : 1;
    uint32_t n = script->n_tokens ? script->n_tokens : record->ask.n_output;
    struct event event = {.request = request, .at_ns = sent_ns};
    if (hits(script->silent_every, request))
        return;
    if (hits(script->fault_every, request)) {
        event.kind = EVENT_END;
        event.fault = script->fault;
        event.http_status = script->fault == FAULT_STATUS ? 500 : 0;
        push(queue, event);
        return;
    }
    if (script->role_first) {
        event.kind = EVENT_CHUNK;
        event.chunk = CHUNK_BARE;
        event.at_ns = heard_at(script, sent_ns + script->role_ns);
        push(queue, event);
    }
    uint64_t at_ns = begun_at(script, free_at, sent_ns, &slot) +
                     (hits(script->slow_every, request) ? script->slow_ns : script->ttft_ns) +
                     script->prefill_ns * request;
    for (uint32_t i = 0; i < n || (script->endless && i < 100000); i += per_chunk) {
        event = (struct event){.kind = EVENT_CHUNK,
                               .chunk = CHUNK_TEXT,
                               .request = request,
                               .at_ns = heard_at(script, at_ns)};
        push(queue, event);
        at_ns += script->itl_ns;
    }
    at_ns = at_ns - script->itl_ns + script->tail_ns;
    free_at[slot] = at_ns;
    event = (struct event){.kind = EVENT_CHUNK,
                           .chunk = CHUNK_BARE,
                           .finish = script->finish ? script->finish : FINISH_LENGTH,
                           .request = request,
                           .at_ns = heard_at(script, at_ns)};
    push(queue, event);
    if (!script->no_usage) {
        event.kind = EVENT_USAGE;
        event.n_prompt = record->ask.n_prompt + script->prompt_off;
        event.n_output = (uint32_t)((int)n + script->usage_off);
        event.n_cached = script->n_cached;
        push(queue, event);
    }
    event = (struct event){.kind = EVENT_END,
                           .request = request,
                           .at_ns = heard_at(script, at_ns),
                           .http_status = 200};
    push(queue, event);
}

void virtual_run(struct level *level, const struct level_spec *spec, const struct script *script) {
    struct queue queue = {0};
    uint64_t free_at[64] = {0};
    uint64_t now_ns = BEGIN_NS;
    ck_assert_int_eq(level_begin(level, spec, now_ns), STATUS_OK);
    for (;;) {
        struct action action = {0};
        REQUIRE(level_next(level, now_ns, &action) == STATUS_OK);
        if (action.kind == ACTION_OVER)
            break;
        if (action.kind == ACTION_SEND) {
            uint64_t sent_ns = now_ns + script->send_late_ns;
            struct event sent = {.kind = EVENT_SENT, .request = action.request, .at_ns = sent_ns};
            REQUIRE(level_event(level, &sent) == STATUS_OK);
            answer(&queue, script, &level->records[action.request], action.request, sent_ns,
                   free_at);
        } else if (action.kind == ACTION_WAIT) {
            if (queue.n > 0 && queue.at[0].at_ns <= action.at_ns) {
                struct event event = pop(&queue);
                now_ns = event.at_ns > now_ns ? event.at_ns : now_ns;
                REQUIRE(level_event(level, &event) == STATUS_OK);
            } else {
                REQUIRE(action.at_ns > now_ns); /* or it would spin */
                now_ns = action.at_ns;
            }
        }
    }
    free(queue.at);
    free(queue.order);
}
