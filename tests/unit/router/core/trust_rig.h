/* tests/unit/router/core/trust_rig.h: two workers, of which one is asked, fails or answers as a test
 * of trust.h wants it. Included by its suites alone, each a program of its own. */
#pragma once

#include "router/core/trust.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

static struct fake fake;
static uint32_t a, b;

static inline void open_two(void) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    b = fake_worker(&fake, "b", ROLE_MIXED);
}

static inline enum standing standing_of(uint32_t slot) {
    struct worker_view view;
    ck_assert_int_eq(router_worker(fake.router, slot, &view), STATUS_OK);
    return view.standing;
}

/* Asks for one token; answers where it was submitted. */
static inline uint32_t ask(uint32_t user) {
    fake_forget_sent(&fake);
    ck_assert_int_eq(fake_ask(&fake, user, 5, 1), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), 1);
    return fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
}

static inline void answer(uint32_t slot) {
    struct submit submit = fake_submitted(&fake, slot);
    fake_step(&fake, slot, &submit, submit.n_tokens - submit.n_prompt, 1, FINISH_LENGTH);
}

static inline void fails(uint32_t slot, enum reason reason) {
    struct submit submit = fake_submitted(&fake, slot);
    fake_fails(&fake, slot, &submit, reason);
}

static inline void beat_with(uint32_t slot, struct load load) {
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.load = load;
    message.u.beat.load.progress = ++fake.progress[slot];
    fake_says(&fake, slot, message);
}

/* The next request goes there, if trust lets it. */
static inline uint32_t ask_at(uint32_t user, uint32_t slot) {
    beat_with(slot, (struct load){0});
    beat_with(slot == a ? b : a, (struct load){.n_running = 8});
    return ask(user);
}

/* A request that `slot` fails for this reason and the other one then answers. */
static inline void fail_one(uint32_t user, uint32_t slot, enum reason reason) {
    ck_assert_uint_eq(ask_at(user, slot), slot);
    fails(slot, reason);
    answer(slot == a ? b : a);
    ck_assert_int_eq(fake.users[user].end.kind, END_DONE);
}

static inline void answer_one(uint32_t user, uint32_t slot) {
    ck_assert_uint_eq(ask_at(user, slot), slot);
    answer(slot);
    ck_assert_int_eq(fake.users[user].end.kind, END_DONE);
}

static inline void pass_ms(uint64_t ms) {
    for (; ms > 0; ms -= ms < 1000 ? ms : 1000) {
        fake_forget_sent(&fake); /* pings */
        fake_pass(&fake, (ms < 1000 ? ms : 1000) * NS_PER_MS, 1u << a | 1u << b);
    }
}
