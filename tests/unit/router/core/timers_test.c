/* The heap of wake-ups against a plain list of times, with operations at random. */
#include "base/random.h"
#include "router/core/timers.h"
#include "tests/support/suite.h"

#include <stdbool.h>

const char *const suite_name = "router_timers";
const double suite_timeout_s = 60;

#define THINGS_MAX 64

struct model {
    struct timers timers;
    uint32_t n;
    uint64_t at_ns[THINGS_MAX]; /* TIMERS_NEVER: none */
};

static void model_init(struct model *model, uint32_t n) {
    model->n = n;
    for (uint32_t i = 0; i < n; i++)
        model->at_ns[i] = TIMERS_NEVER;
    ck_assert_int_eq(timers_init(&model->timers, n), STATUS_OK);
}

static bool is_sound(const struct model *model) {
    const struct timers *timers = &model->timers;
    uint64_t least = TIMERS_NEVER;
    uint32_t n_set = 0;
    for (uint32_t i = 0; i < model->n; i++) {
        bool set = model->at_ns[i] != TIMERS_NEVER;
        n_set += set;
        least = model->at_ns[i] < least ? model->at_ns[i] : least;
        if ((timers->place[i] != timers->capacity) != set)
            return false;
        if (set && (timers->at_ns[i] != model->at_ns[i] || timers->heap[timers->place[i]] != i))
            return false;
    }
    for (uint32_t at = 1; at < timers->n; at++)
        if (timers->at_ns[timers->heap[(at - 1) / 2]] > timers->at_ns[timers->heap[at]])
            return false;
    return timers->n == n_set && timers_next(timers) == least;
}

static void check(const struct model *model) {
    ck_assert(is_sound(model)); /* one assertion: each of Check's costs a write */
}

static void set(struct model *model, uint32_t i, uint64_t at_ns) {
    timers_set(&model->timers, i, at_ns);
    model->at_ns[i] = at_ns;
    check(model);
}

static void pull(struct model *model, uint32_t i, uint64_t at_ns) {
    timers_pull(&model->timers, i, at_ns);
    model->at_ns[i] = at_ns < model->at_ns[i] ? at_ns : model->at_ns[i];
    check(model);
}

/* Answers the time of what came out; TIMERS_NEVER: nothing was due. */
static uint64_t pop(struct model *model, uint64_t now_ns) {
    uint64_t next = timers_next(&model->timers);
    uint32_t i = timers_pop(&model->timers, now_ns);
    if (i == UINT32_MAX) {
        ck_assert_uint_gt(next, now_ns);
        return TIMERS_NEVER;
    }
    uint64_t at_ns = model->at_ns[i];
    ck_assert_uint_eq(at_ns, next);
    ck_assert_uint_le(at_ns, now_ns);
    model->at_ns[i] = TIMERS_NEVER;
    check(model);
    return at_ns;
}

START_TEST(the_earliest_time_comes_out_whatever_was_set_moved_and_taken_out) {
    for (uint32_t round = 0; round < 60; round++) {
        struct random random = {.state = round};
        struct model model;
        model_init(&model, 1 + round);
        for (uint32_t step = 0; step < 1000; step++) {
            uint32_t i = (uint32_t)random_below(&random, model.n);
            uint64_t at_ns = 1 + random_below(&random, round % 2 ? 1000 : 10); /* equal ones too */
            switch (random_below(&random, 8)) {
            case 0:
                set(&model, i, TIMERS_NEVER);
                break;
            case 1:
            case 2:
                pull(&model, i, at_ns);
                break;
            case 3:
                pop(&model, at_ns);
                break;
            default:
                set(&model, i, at_ns);
                break;
            }
        }
        uint64_t last = 0;
        for (uint32_t left = model.timers.n; left > 0; left--) {
            uint64_t at_ns = pop(&model, UINT64_MAX - 1);
            ck_assert_uint_ge(at_ns, last);
            last = at_ns;
        }
        ck_assert_uint_eq(pop(&model, UINT64_MAX - 1), TIMERS_NEVER);
        timers_fini(&model.timers);
    }
}
END_TEST

/* The heap 1; 100, 2; 101, 102, 3: the last one takes the place of 101, below 100. */
START_TEST(the_last_one_rises_where_it_takes_the_place_of_a_later_one) {
    static const uint64_t at_ns[] = {1, 100, 2, 101, 102, 3};
    struct model model;
    model_init(&model, 6);
    for (uint32_t i = 0; i < 6; i++)
        set(&model, i, at_ns[i]);
    set(&model, 3, TIMERS_NEVER);
    ck_assert_uint_eq(pop(&model, 200), 1);
    ck_assert_uint_eq(pop(&model, 200), 2);
    ck_assert_uint_eq(pop(&model, 200), 3);
    ck_assert_uint_eq(pop(&model, 99), TIMERS_NEVER);
    ck_assert_uint_eq(pop(&model, 100), 100);
    ck_assert_uint_eq(pop(&model, 200), 102);
    timers_fini(&model.timers);
}
END_TEST

START_TEST(a_pull_never_makes_a_time_later) {
    struct model model;
    model_init(&model, 2);
    pull(&model, 0, 50);
    pull(&model, 0, 60);
    ck_assert_uint_eq(timers_next(&model.timers), 50);
    pull(&model, 0, TIMERS_NEVER);
    ck_assert_uint_eq(timers_next(&model.timers), 50);
    pull(&model, 0, 40);
    ck_assert_uint_eq(timers_next(&model.timers), 40);
    ck_assert_uint_eq(pop(&model, 39), TIMERS_NEVER);
    ck_assert_uint_eq(pop(&model, 40), 40);
    timers_fini(&model.timers);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_earliest_time_comes_out_whatever_was_set_moved_and_taken_out);
    tcase_add_test(tests, the_last_one_rises_where_it_takes_the_place_of_a_later_one);
    tcase_add_test(tests, a_pull_never_makes_a_time_later);
}
