/* When a step's time is learnt, and what the engine is told of it: with steps ahead a step's end is the
 * next one's begin. The engine here only takes notes. */
#include "worker/step/emit.h"

#include "base/clock.h"
#include "tests/support/suite.h"
#include "worker/core/engine.h"
#include "worker/step/budget.h"
#include "worker/step/receive.h"

#include <check.h>

const char *const suite_name = "worker emit";
const double suite_timeout_s = 60;

static struct {
    uint64_t begin_ns, end_ns;
    uint32_t us_expected;
    uint32_t n_begun, n_ended, n_budgets, chunk_tokens;
} notes;

void engine_step_begin(struct engine *engine, uint64_t now_ns, uint32_t us_expected) {
    (void)engine;
    notes.begin_ns = now_ns;
    notes.us_expected = us_expected;
    notes.n_begun++;
}

void engine_step_end(struct engine *engine, uint64_t now_ns, const struct sampled *sampled) {
    (void)engine, (void)sampled;
    notes.end_ns = now_ns;
    notes.n_ended++;
}

void engine_layers_done(struct engine *engine, uint64_t now_ns, uint32_t begin, uint32_t end) {
    (void)engine, (void)now_ns, (void)begin, (void)end;
}

void engine_budget(struct engine *engine, uint32_t chunk_tokens) {
    (void)engine;
    notes.n_budgets++;
    notes.chunk_tokens = chunk_tokens;
}

void receive_messages(struct receive *receive) {
    (void)receive;
}

static const struct plan one_row = {.n_rows = 1, .n_tokens = 1};

static void end(struct emit *emit, struct budget *budget, bool as_it_came) {
    emit_end(emit, NULL, budget, &one_row, NULL, as_it_came);
}

START_TEST(a_step_is_measured_from_its_begin) {
    struct emit emit = {0};
    struct budget budget;
    budget_init(&budget, 64, BUDGET_STEP_US_GOAL);
    emit_begin(&emit, NULL, &budget, &one_row);
    ck_assert_uint_eq(emit.begin_ns, notes.begin_ns);
    ck_assert_uint_eq(notes.us_expected, budget_us(&budget, 1));
    end(&emit, &budget, true);
    ck_assert_uint_eq(budget.n_learnt, 1);
    ck_assert_uint_eq(notes.n_ended, 1);
}
END_TEST

START_TEST(a_step_ahead_is_measured_from_the_end_of_the_one_before) {
    struct emit emit = {0};
    struct budget budget;
    budget_init(&budget, 64, BUDGET_STEP_US_GOAL);
    emit_begin(&emit, NULL, &budget, &one_row);
    uint64_t begin_ns = emit.begin_ns;
    emit_begin_ahead(NULL, &budget, &one_row);
    ck_assert_uint_eq(notes.n_begun, 2);
    ck_assert_uint_eq(notes.us_expected, budget_us(&budget, 1));
    ck_assert_uint_eq(emit.begin_ns, begin_ns); /* the running one's is what it was */
    end(&emit, &budget, true);
    ck_assert_uint_eq(emit.begin_ns, notes.end_ns);
    end(&emit, &budget, true);
    ck_assert_uint_eq(budget.n_learnt, 2);
}
END_TEST

/* The one behind it had begun by then, nobody knows when. */
START_TEST(what_follows_an_end_that_was_seen_late_is_not_measured) {
    struct emit emit = {0};
    struct budget budget;
    budget_init(&budget, 64, BUDGET_STEP_US_GOAL);
    emit_begin(&emit, NULL, &budget, &one_row);
    end(&emit, &budget, false);
    ck_assert_uint_eq(budget.n_learnt, 1);
    end(&emit, &budget, true);
    ck_assert_uint_eq(budget.n_learnt, 1);
    end(&emit, &budget, false);
    ck_assert_uint_eq(budget.n_learnt, 2);
    emit_begin(&emit, NULL, &budget, &one_row); /* a step that does not go ahead */
    end(&emit, &budget, true);
    ck_assert_uint_eq(budget.n_learnt, 3);
}
END_TEST

START_TEST(an_engine_that_has_a_budget_is_told_of_it) {
    for (uint32_t most = 0; most <= 1; most++) {
        struct budget budget;
        budget_init(&budget, most, BUDGET_STEP_US_GOAL);
        emit_budget(NULL, &budget);
        ck_assert_uint_eq(notes.n_budgets, most);
    }
    ck_assert_uint_eq(notes.chunk_tokens, 1);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_step_is_measured_from_its_begin);
    tcase_add_test(tests, a_step_ahead_is_measured_from_the_end_of_the_one_before);
    tcase_add_test(tests, what_follows_an_end_that_was_seen_late_is_not_measured);
    tcase_add_test(tests, an_engine_that_has_a_budget_is_told_of_it);
}
