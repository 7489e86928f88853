#include "worker/core/preempt.h"

#include "base/assert.h"
#include "worker/core/note.h"
#include "worker/core/run_queue.h"

void preempt_sequence(struct engine *engine, struct sequence *sequence,
                      const struct sequence *other, const char *reason, uint32_t n_missing) {
    ASSERT(sequence->n_steps == 0);
    note_preempted(engine, sequence, other, reason, n_missing);
    run_queue_remove(engine, sequence);
    sequence_give_blocks(sequence, &engine->cache);
    engine->figures.n_preemptions++;
    run_queue_wait(engine, sequence);
}

static struct sequence *preempt_newest_of(struct list *head, struct sequence *newest) {
    list_each_entry(sequence, head, struct sequence, at) {
        if (!newest || run_queue_before(newest, sequence))
            newest = sequence;
    }
    return newest;
}

/* A scan, but only when blocks are short. */
static struct sequence *preempt_newest(struct engine *engine) {
    return preempt_newest_of(&engine->schedule.decode,
                             preempt_newest_of(&engine->schedule.prefill, NULL));
}

/* Does `b` go rather than `a`, both of one priority and of tenants of which two or more run? */
static bool preempt_prefers(const struct shares *shares, const struct sequence *a,
                            const struct sequence *b) {
    uint32_t n_a = shares->all[a->share].n_blocks, n_b = shares->all[b->share].n_blocks;
    return n_a != n_b ? n_b > n_a : run_queue_before(a, b);
}

static struct sequence *preempt_greediest_of(const struct shares *shares, struct list *head,
                                             uint32_t priority, struct sequence *found) {
    list_each_entry(sequence, head, struct sequence, at) {
        if (sequence->priority == priority && shares->all[sequence->share].n_running > 1 &&
            (!found || preempt_prefers(shares, found, sequence)))
            found = sequence;
    }
    return found;
}

/* The newest sequence of this priority of the tenant with the most blocks; NULL: of none do two run. */
static struct sequence *preempt_greediest(struct engine *engine, uint32_t priority) {
    struct schedule *schedule = &engine->schedule;
    struct shares *shares = &schedule->shares;
    shares_count_blocks(shares, &schedule->prefill, &schedule->decode, &engine->pool);
    return preempt_greediest_of(shares, &schedule->decode, priority,
                                preempt_greediest_of(shares, &schedule->prefill, priority, NULL));
}

struct sequence *preempt_choose(struct engine *engine) {
    struct sequence *newest = preempt_newest(engine), *other = NULL;
    ASSERT(newest);
    if (engine->schedule.shares.n_used > 1)
        other = preempt_greediest(engine, newest->priority);
    return other ? other : newest;
}

struct sequence *preempt_find_worse(struct engine *engine, const struct sequence *waiting) {
    struct sequence *victim = waiting->blocked ? preempt_newest(engine) : NULL;
    return victim && victim->priority > waiting->priority ? victim : NULL;
}

struct sequence *preempt_find_for_late(struct engine *engine, const struct sequence *waiting) {
    const struct shares *shares = &engine->schedule.shares;
    if (shares->n_used == 1 || !shares_is_late(shares, waiting))
        return NULL;
    struct sequence *newest = preempt_newest(engine);
    if (!newest || newest->priority != waiting->priority)
        return NULL; /* worse ones make way as they do for everybody, better ones for nobody */
    struct sequence *victim = preempt_greediest(engine, waiting->priority);
    if (!victim)
        return NULL;
    uint32_t n_left =
        shares->all[victim->share].n_blocks - shares_own_blocks(victim, &engine->pool);
    return n_left >= engine_blocks_for(engine, waiting->n_tokens) ? victim : NULL;
}
