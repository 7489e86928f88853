/* Every routing policy, alone and inside the router's core. */
#include "router/core/policy/policy.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "policies";
const double suite_timeout_s = 60;

#define WORKERS  8
#define REQUESTS 4000
#define BLOCKS   12

static int n_policies(void) {
    int n = 0;
    while (policy_table[n])
        n++;
    return n;
}

struct crowd {
    const struct policy *policy;
    void *state;
    struct random random;
    uint32_t load[WORKERS];
    uint32_t total[WORKERS];
    uint32_t worst_gap;
};

static void crowd_open(struct crowd *crowd, int i) {
    memset(crowd, 0, sizeof *crowd);
    crowd->policy = policy_table[i];
    ck_assert_ptr_eq(policy_find(crowd->policy->name), crowd->policy);
    crowd->random.state = 5;
    if (crowd->policy->open)
        ck_assert_int_eq(crowd->policy->open(WORKERS, 9, &crowd->state), STATUS_OK);
}

static void crowd_close(struct crowd *crowd) {
    if (crowd->policy->close)
        crowd->policy->close(crowd->state);
}

/* Places one request among the workers of `mask`; answers the slot. */
static uint32_t crowd_place(struct crowd *crowd, uint32_t mask, const struct map_key *hashes,
                            uint32_t n_hashes) {
    struct policy_candidate candidates[WORKERS];
    struct policy_query query = {.stage = POLICY_DECODE,
                                 .candidates = candidates,
                                 .hashes = hashes,
                                 .n_hashes = n_hashes,
                                 .random = &crowd->random};
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        if (mask >> slot & 1)
            candidates[query.n++] =
                (struct policy_candidate){.slot = slot, .load = crowd->load[slot]};
    }
    uint32_t chosen = crowd->policy->pick(crowd->state, &query);
    ck_assert_uint_lt(chosen, query.n);
    uint32_t slot = candidates[chosen].slot;
    if (crowd->policy->placed)
        crowd->policy->placed(crowd->state, slot, hashes, n_hashes);
    crowd->load[slot]++;
    crowd->total[slot]++;
    return slot;
}

/* Sequences end in the order they came, 48 alive at once; the gap between workers is watched. */
static void crowd_run(struct crowd *crowd, uint32_t n_groups, uint64_t hot_percent) {
    uint32_t at[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint64_t group = random_below(&crowd->random, 100) < hot_percent
                             ? 0
                             : 1 + random_below(&crowd->random, n_groups);
        struct map_key hashes[BLOCKS];
        for (uint32_t j = 0; j < BLOCKS; j++)
            hashes[j] = (struct map_key){.hi = mix64(group * BLOCKS + j), .lo = j};
        at[i] = crowd_place(crowd, (1u << WORKERS) - 1, hashes, BLOCKS);
        if (i >= 48)
            crowd->load[at[i - 48]]--;
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t slot = 0; slot < WORKERS; slot++) {
            least = crowd->load[slot] < least ? crowd->load[slot] : least;
            most = crowd->load[slot] > most ? crowd->load[slot] : most;
        }
        if (most - least > crowd->worst_gap)
            crowd->worst_gap = most - least;
    }
}

START_TEST(skewed_prefixes_stay_spread) {
    struct crowd crowd;
    crowd_open(&crowd, _i);
    crowd_run(&crowd, 50, 80); /* four requests of five share one prefix */
    ck_assert_uint_le(crowd.worst_gap, 14);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        ck_assert_uint_ge(crowd.total[slot], REQUESTS / WORKERS / 4);
        ck_assert_uint_le(crowd.total[slot], REQUESTS / WORKERS * 3);
    }
    crowd_close(&crowd);
}
END_TEST

START_TEST(a_fresh_worker_is_not_flooded) {
    struct crowd crowd;
    crowd_open(&crowd, _i);
    crowd_run(&crowd, 50, 0);
    if (crowd.policy->forget)
        crowd.policy->forget(crowd.state, 3); /* it comes back with nothing cached */
    memset(crowd.total, 0, sizeof crowd.total);
    memset(crowd.load, 0, sizeof crowd.load);
    crowd_run(&crowd, 50, 0);
    ck_assert_uint_le(crowd.total[3], REQUESTS / WORKERS * 3);
    crowd_close(&crowd);
}
END_TEST

START_TEST(prompts_of_equal_length_spread) {
    struct crowd crowd;
    crowd_open(&crowd, _i);
    for (uint64_t i = 0; i < 800; i++) {
        struct map_key hashes[BLOCKS]; /* same length, other ids */
        for (uint64_t j = 0; j < BLOCKS; j++)
            hashes[j] = (struct map_key){.hi = mix64(i * 1000 + j), .lo = mix64(j + i)};
        crowd_place(&crowd, (1u << WORKERS) - 1, hashes, BLOCKS);
    }
    for (uint32_t slot = 0; slot < WORKERS; slot++)
        ck_assert_uint_ge(crowd.total[slot], 60);
    crowd_close(&crowd);
}
END_TEST

START_TEST(one_worker_takes_all_and_gaps_in_slots_do_not_matter) {
    struct crowd crowd;
    crowd_open(&crowd, _i);
    for (uint32_t i = 0; i < 20; i++)
        ck_assert_uint_eq(crowd_place(&crowd, 1u << 5, NULL, 0), 5);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t slot = crowd_place(&crowd, 0x92, NULL, 0);
        ck_assert(0x92u >> slot & 1);
        crowd.load[5] = 0;
    }
    for (uint32_t slot = 0; slot < WORKERS; slot++)
        ck_assert(!(0x92u >> slot & 1) || crowd.total[slot] >= 30);
    crowd_close(&crowd);
}
END_TEST

START_TEST(same_prefix_returns_where_it_was_cached) {
    struct crowd crowd;
    crowd_open(&crowd, _i);
    if (!crowd.policy->cached) {
        crowd_close(&crowd);
        return; /* this policy makes no such promise */
    }
    struct map_key hashes[BLOCKS];
    for (uint64_t j = 0; j < BLOCKS; j++)
        hashes[j] = (struct map_key){.hi = mix64(j), .lo = j};
    uint32_t slot = crowd_place(&crowd, (1u << WORKERS) - 1, hashes, BLOCKS);
    crowd.load[slot] = 3; /* busier, but within bounds */
    ck_assert_uint_eq(crowd.policy->cached(crowd.state, slot, hashes, BLOCKS), BLOCKS);
    ck_assert_uint_eq(crowd_place(&crowd, (1u << WORKERS) - 1, hashes, BLOCKS), slot);
    crowd.policy->forget(crowd.state, slot);
    ck_assert_uint_eq(crowd.policy->cached(crowd.state, slot, hashes, BLOCKS), 0);
    crowd_close(&crowd);
}
END_TEST

/* In the core: none, one and unfit workers. */
START_TEST(suspect_draining_and_mismatching_workers_get_nothing) {
    static struct fake fake;
    struct router_config config = fake_config();
    config.policy = policy_table[_i]->name;
    fake_open(&fake, &config);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    uint32_t good = fake_worker(&fake, "good", ROLE_MIXED);
    uint32_t draining = fake_worker(&fake, "draining", ROLE_MIXED);
    uint32_t suspect = fake_worker(&fake, "suspect", ROLE_MIXED);
    struct welcome other = fake_welcome("other", ROLE_MIXED);
    other.model_fp[0] = 1;
    struct announce announce = {.name = "other", .incarnation = other.incarnation};
    router_announce(fake.router, fake.now_ns, &announce);
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = other;
    fake_says(&fake, 3, message);
    message = (struct message){.type = MESSAGE_BEAT};
    message.u.beat.state = WORKER_DRAINING;
    fake_says(&fake, draining, message);
    fake_pass(&fake, 1500 * NS_PER_MS, 1u << good);
    fake_forget_sent(&fake);
    for (uint32_t user = 0; user < 12; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, good), 12);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, draining), 0);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, suspect), 0);
    fake_close(&fake);
}
END_TEST

START_TEST(unknown_names_are_not_found) {
    ck_assert_ptr_null(policy_find("random walk"));
    ck_assert_ptr_null(policy_find(""));
}
END_TEST

void suite_add(TCase *tests) {
    int n = n_policies();
    tcase_add_loop_test(tests, skewed_prefixes_stay_spread, 0, n);
    tcase_add_loop_test(tests, a_fresh_worker_is_not_flooded, 0, n);
    tcase_add_loop_test(tests, prompts_of_equal_length_spread, 0, n);
    tcase_add_loop_test(tests, one_worker_takes_all_and_gaps_in_slots_do_not_matter, 0, n);
    tcase_add_loop_test(tests, same_prefix_returns_where_it_was_cached, 0, n);
    tcase_add_loop_test(tests, suspect_draining_and_mismatching_workers_get_nothing, 0, n);
    tcase_add_test(tests, unknown_names_are_not_found);
}
