#include "worker/core/run_queue.h"

#include "base/assert.h"

void run_queue_account(struct engine *engine, struct sequence *sequence) {
    bool queued = sequence->queue == QUEUE_HELD || sequence->queue == QUEUE_WAITING ||
                  sequence->queue == QUEUE_PREFILL;
    uint32_t n = queued ? sequence->n_tokens - sequence->n_computed : 0;
    engine->schedule.n_queued += n - sequence->n_queued;
    sequence->n_queued = n;
}

static void run_queue_enter(struct engine *engine, struct sequence *sequence, enum queue queue) {
    ASSERT(sequence->queue == QUEUE_NONE);
    if (sequence->ready_ns == 0)
        sequence->ready_ns = engine->now_ns;
    sequence->queue = queue;
    bool waits = queue == QUEUE_HELD || queue == QUEUE_WAITING;
    sequence->state = waits ? SEQUENCE_WAITING : SEQUENCE_RUNNING;
    engine->schedule.n_held += queue == QUEUE_HELD;
    engine->schedule.n_waiting += queue == QUEUE_WAITING;
    engine->schedule.n_prefill += queue == QUEUE_PREFILL;
    engine->schedule.n_decode += queue == QUEUE_DECODE;
    shares_enter(&engine->schedule.shares, sequence);
    run_queue_account(engine, sequence);
}

void run_queue_remove(struct engine *engine, struct sequence *sequence) {
    engine->schedule.n_held -= sequence->queue == QUEUE_HELD;
    engine->schedule.n_waiting -= sequence->queue == QUEUE_WAITING;
    engine->schedule.n_prefill -= sequence->queue == QUEUE_PREFILL;
    engine->schedule.n_decode -= sequence->queue == QUEUE_DECODE;
    shares_leave(&engine->schedule.shares, sequence);
    sequence->queue = QUEUE_NONE;
    list_remove(&sequence->at);
    run_queue_account(engine, sequence);
}

bool run_queue_before(const struct sequence *a, const struct sequence *b) {
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->turn != b->turn)
        return a->turn < b->turn;
    return a->arrival < b->arrival;
}

static bool are_alike(const struct sequence *a, const struct sequence *b) {
    return a->priority == b->priority && a->tenant == b->tenant;
}

static uint64_t turn_behind(const struct sequence *sequence, uint64_t turn) {
    uint64_t next = sequence->turn + sequence->n_tokens;
    return next > turn ? next : turn;
}

/* The first time that it is in any queue. The walk ends at its tenant's last one: for a single tenant at once. */
static void arrive(struct engine *engine, struct sequence *sequence) {
    struct schedule *schedule = &engine->schedule;
    uint64_t turn = schedule->turn;
    if (sequence->arrival != 0)
        return;
    list_each_entry(held, &schedule->held, const struct sequence, at) {
        if (are_alike(held, sequence))
            turn = turn_behind(held, turn);
    }
    for (const struct list *at = schedule->waiting.prev; at != &schedule->waiting; at = at->prev) {
        const struct sequence *other = list_entry(at, const struct sequence, at);
        if (are_alike(other, sequence)) {
            turn = turn_behind(other, turn);
            break;
        }
    }
    sequence->arrival = ++schedule->n_arrivals;
    sequence->turn = turn;
}

/* It runs: whoever comes without one that waits begins here. */
static void take_turn(struct engine *engine, const struct sequence *sequence) {
    if (sequence->turn > engine->schedule.turn)
        engine->schedule.turn = sequence->turn;
}

void run_queue_hold(struct engine *engine, struct sequence *sequence) {
    arrive(engine, sequence);
    list_push_back(&engine->schedule.held, &sequence->at);
    run_queue_enter(engine, sequence, QUEUE_HELD);
}

void run_queue_wait(struct engine *engine, struct sequence *sequence) {
    struct list *at = &engine->schedule.waiting;
    arrive(engine, sequence);
    sequence->blocked = false;
    while (at->prev != &engine->schedule.waiting &&
           run_queue_before(sequence, list_entry(at->prev, struct sequence, at)))
        at = at->prev;
    list_insert_before(at, &sequence->at);
    run_queue_enter(engine, sequence, QUEUE_WAITING);
}

void run_queue_prefill(struct engine *engine, struct sequence *sequence) {
    take_turn(engine, sequence);
    list_push_back(&engine->schedule.prefill, &sequence->at);
    run_queue_enter(engine, sequence, QUEUE_PREFILL);
}

void run_queue_decode(struct engine *engine, struct sequence *sequence) {
    arrive(engine, sequence);
    take_turn(engine, sequence);
    list_push_back(&engine->schedule.decode, &sequence->at);
    run_queue_enter(engine, sequence, QUEUE_DECODE);
}

bool run_queue_is_full(const struct engine *engine) {
    return engine->schedule.n_prefill + engine->schedule.n_decode >= engine->config.max_batch;
}

struct sequence *run_queue_next(const struct engine *engine) {
    const struct schedule *schedule = &engine->schedule;
    if (list_empty(&schedule->waiting))
        return NULL;
    struct sequence *first = list_entry(schedule->waiting.next, struct sequence, at);
    if (schedule->shares.n_late == 0)
        return first;
    list_each_entry(sequence, &schedule->waiting, struct sequence, at) {
        if (sequence->priority != first->priority)
            break;
        if (shares_is_late(&schedule->shares, sequence))
            return sequence;
    }
    return first;
}

bool run_queue_lets_in(const struct engine *engine, const struct sequence *sequence) {
    return !run_queue_is_full(engine) || shares_is_late(&engine->schedule.shares, sequence);
}

bool run_queue_takes_more(const struct engine *engine) {
    return engine->schedule.n_waiting == 0 || !run_queue_is_full(engine);
}

uint32_t run_queue_headroom(const struct engine *engine) {
    const struct sequence *next = run_queue_next(engine);
    uint32_t n = engine->schedule.n_decode;
    return next && next->blocked ? n + engine_blocks_for(engine, next->n_tokens) : n;
}
