#include "tests/support/suite.h"
#include "tests/unit/worker/core/rig.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "worker_core_stress";
const double suite_timeout_s = 600;

/* A router in a few lines: every call is driven to its end, whatever fails on the way. */
struct drive {
    struct rig *rig;
    uint32_t w[RIG_CALLS]; /* where it decodes */
    uint32_t p[RIG_CALLS]; /* where it prefills; the same: it stays */
    bool placed[RIG_CALLS];
    bool submitted[RIG_CALLS];
    uint64_t moved_ns[RIG_CALLS];
    uint32_t seen[RIG_CALLS];
};

static bool over(const struct call *call) {
    return call->finish != FINISH_NONE;
}

static void place(struct drive *drive, uint32_t i) {
    struct rig *rig = drive->rig;
    struct call *call = &rig->calls[i];
    call->attempt++;
    call->failed = call->refused = call->reserved = call->gap = false;
    call->n_reserved = 0;
    drive->w[i] = (uint32_t)random_below(&rig->random, rig->n_workers);
    drive->p[i] = (uint32_t)random_below(&rig->random, rig->n_workers);
    drive->placed[i] = true;
    drive->submitted[i] = drive->p[i] == drive->w[i];
    drive->moved_ns[i] = rig->now_ns;
    if (drive->submitted[i])
        rig_both(rig, drive->w[i], call);
    else
        rig_reserve(rig, drive->w[i], call);
}

static void unplace(struct drive *drive, uint32_t i) {
    struct rig *rig = drive->rig;
    struct call *call = &rig->calls[i];
    if (!drive->placed[i])
        return;
    drive->placed[i] = false;
    uint32_t first = (uint32_t)random_below(&rig->random, 2);
    rig_cancel(rig, first ? drive->p[i] : drive->w[i], call);
    rig_cancel(rig, first ? drive->w[i] : drive->p[i], call);
}

/* One call's turn: place it, submit it, ask again for what was lost, replace it when it stands. */
static void drive_call(struct drive *drive, uint32_t i) {
    struct rig *rig = drive->rig;
    struct call *call = &rig->calls[i];
    if (over(call)) {
        call->failed = call->gap = false; /* the sender may fail after token 0 ended the answer */
        if (!drive->placed[i])
            return;
        drive->placed[i] = false;
        rig_forget(rig, drive->p[i], call);
        rig_forget(rig, drive->w[i], call);
        return;
    }
    if (!drive->placed[i]) {
        place(drive, i);
        return;
    }
    if (call->n_got != drive->seen[i]) {
        drive->seen[i] = call->n_got;
        drive->moved_ns[i] = rig->now_ns;
    }
    if (call->failed || call->refused || rig->now_ns - drive->moved_ns[i] > 3000000000ull) {
        unplace(drive, i);
        return;
    }
    if (!drive->submitted[i] && call->reserved) {
        drive->submitted[i] = true;
        if (random_below(&rig->random, 2)) {
            rig_prefill(rig, drive->p[i], drive->w[i], call);
            rig_decode(rig, drive->w[i], drive->p[i], call);
        } else {
            rig_decode(rig, drive->w[i], drive->p[i], call);
            rig_prefill(rig, drive->p[i], drive->w[i], call);
        }
    } else if (call->gap) {
        call->gap = false;
        rig_resend(rig, drive->w[i], call, call->n_got);
    }
}

struct faults {
    bool busy, cut, lose, corrupt, cancel, hello, small;
};

/* A part of a worker's step, so that others come between. Draws of their own say when a step goes
 * ahead. */
static void advance(struct rig *rig, uint32_t w, struct random *ahead) {
    struct worker *worker = &rig->workers[w];
    if (!worker->engine->in_flight)
        rig_plan(rig, w);
    else if (worker->repeats && worker->ahead.n_rows == 0 && random_below(ahead, 4) == 0)
        (void)rig_repeat(rig, w);
    else if (!rig_layer(rig, w))
        rig_end(rig, w);
}

static void random_event(struct drive *drive, const struct faults *faults, struct random *ahead) {
    struct rig *rig = drive->rig;
    uint32_t w = (uint32_t)random_below(&rig->random, rig->n_workers);
    struct worker *worker = &rig->workers[w];
    uint64_t dice = random_below(&rig->random, 1000);
    if (dice < 300) {
        drive_call(drive, (uint32_t)random_below(&rig->random, rig->n_calls));
    } else if (dice < 600) {
        advance(rig, w, ahead);
    } else if (dice < 900 && rig->n_pipes > 0) {
        uint32_t n = rig->n_pipes < 12 ? rig->n_pipes : 12; /* the newest */
        struct pipe *pipe = &rig->pipes[rig->n_pipes - 1 - random_below(&rig->random, n)];
        rig_deliver(rig, pipe, random_below(&rig->random, 2));
    } else if (dice < 970) {
        rig_tick(rig, random_below(&rig->random, 20));
    } else if (dice < 973 && faults->cut && rig->n_pipes > 0 && rig->n_pipes < RIG_PIPES - 40) {
        rig_cut(rig, &rig->pipes[random_below(&rig->random, rig->n_pipes)]);
    } else if (dice < 976 && faults->lose) {
        worker->lose_steps = 1 + (uint32_t)random_below(&rig->random, 3);
    } else if (dice < 979 && faults->corrupt && rig->corrupt == 0) {
        rig->corrupt = 1 + (uint32_t)random_below(&rig->random, 30);
    } else if (dice < 982 && faults->cancel) {
        unplace(drive, (uint32_t)random_below(&rig->random, rig->n_calls));
    } else if (dice < 983 && faults->hello) {
        rig_hello(rig, 0); /* every worker drops what it had for this router */
        for (uint32_t i = 0; i < rig->n_calls; i++)
            drive->placed[i] = false;
    } else if (dice == 990) {
        rig->busy_percent = faults->busy ? (uint32_t)random_below(&rig->random, 60) : 0;
    }
    for (uint32_t k = 0; k < rig->n_workers; k++) { /* the routers live */
        struct message ping = {.type = MESSAGE_PING};
        if (random_below(&rig->random, 50) == 0)
            rig_send(rig, k, 0, &ping);
    }
}

static uint64_t n_repeats[REPEAT_REASONS]; /* of all seeds */

static void run_seed(uint64_t seed) {
    struct rig *rig = rig_new(seed);
    struct random *random = &rig->random;
    struct faults faults = {random_below(random, 2), random_below(random, 2),
                            random_below(random, 2), random_below(random, 2),
                            random_below(random, 2), random_below(random, 2),
                            random_below(random, 2)};
    rig->credits = 1u << random_below(random, 4);
    rig->queue_max = 4 + (uint32_t)random_below(random, 60);
    for (uint32_t w = 0; w < RIG_WORKERS; w++) {
        struct engine_config config = rig_config();
        config.n_blocks = faults.small ? 20 : 80;
        config.chunk_tokens = 1 + (uint32_t)random_below(random, 64);
        config.max_batch = 1 + (uint32_t)random_below(random, 16);
        config.max_seqs = faults.small ? 12 : 40;
        config.layer_groups = 1 + (uint32_t)random_below(random, 4);
        config.chunk_bytes = RIG_BLOCK * 8 * (1 + (uint32_t)random_below(random, 8));
        rig_add(rig, config);
    }
    rig_hello(rig, 0);
    struct drive drive = {.rig = rig};
    struct random ahead = {.state = mix64(seed ^ 0xa4ead)};
    for (uint32_t w = 0; w < RIG_WORKERS; w++)
        rig->workers[w].repeats = random_below(&ahead, 2);
    for (uint32_t i = 0; i < 24; i++) {
        struct call *call = rig_call(rig, 1 + (uint32_t)random_below(random, 120),
                                     1 + (uint32_t)random_below(random, 60));
        if (i > 0 && random_below(random, 3) == 0) { /* shares a prefix with the one before */
            uint32_t n = call->n_prompt < call[-1].n_prompt ? call->n_prompt : call[-1].n_prompt;
            memcpy(call->ids, call[-1].ids, n * sizeof call->ids[0]);
        }
        call->attempt = 0;
        call->salt = random_below(random, 2);
        call->priority = (uint32_t)random_below(random, 3);
        call->sampling.want_logprobs = random_below(random, 2);
        call->sampling.presence = random_below(&ahead, 8) == 0;
    }
    for (uint32_t i = 0; i < 6000; i++) {
        random_event(&drive, &faults, &ahead);
        rig_check(rig);
    }
    /* Faults stop: everything must end, exactly, and nothing may be left. */
    rig->busy_percent = 0;
    rig->corrupt = 0;
    for (uint32_t w = 0; w < rig->n_workers; w++) {
        rig->workers[w].lose_steps = 0;
        while (rig->workers[w].engine->in_flight)
            rig_end(rig, w);
    }
    uint32_t n_open = 24;
    for (uint32_t round = 0; round < 4000 && n_open > 0; round++) {
        struct message ping = {.type = MESSAGE_PING};
        rig_run(rig, 20);
        rig_tick(rig, 50);
        for (uint32_t w = 0; w < rig->n_workers; w++)
            rig_send(rig, w, 0, &ping);
        n_open = 0;
        for (uint32_t i = 0; i < rig->n_calls; i++) {
            drive_call(&drive, i);
            n_open += !over(&rig->calls[i]) || drive.placed[i];
        }
    }
    if (n_open > 0)
        ck_abort_msg("seed %lu: %u requests never ended", (unsigned long)seed, n_open);
    for (uint32_t i = 0; i < rig->n_calls; i++)
        rig_expect_done(&rig->calls[i], rig->calls[i].sampling.max_new, FINISH_LENGTH);
    rig_run(rig, 100);
    for (uint32_t w = 0; w < rig->n_workers; w++) {
        const struct engine_repeats *repeats = engine_repeats(rig->workers[w].engine);
        for (enum repeat repeat = 0; repeat < REPEAT_REASONS; repeat++)
            n_repeats[repeat] += repeats->n[repeat];
        const struct kv_pool *pool = &rig->workers[w].engine->pool;
        ck_assert(engine_idle(rig->workers[w].engine));
        ck_assert_uint_eq(pool->counts[KV_FREE] + pool->counts[KV_CACHED], pool->n_blocks);
    }
    rig_free(rig);
}

START_TEST(whatever_fails_every_answer_is_right_and_nothing_is_left) {
    const char *one = getenv("STRESS_SEED");
    const char *n_seeds = getenv("STRESS_SEEDS");
    if (one) {
        run_seed(strtoull(one, NULL, 10));
        return;
    }
    uint64_t n = n_seeds ? strtoull(n_seeds, NULL, 10) : 40;
    for (uint64_t seed = 1; seed <= n; seed++)
        run_seed(seed);
    for (enum repeat repeat = 0; repeat < REPEAT_REASONS; repeat++)
        ck_assert_msg(n < 40 || n_repeats[repeat] > 0, "never: %s", engine_repeat_name(repeat));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, whatever_fails_every_answer_is_right_and_nothing_is_left);
}
