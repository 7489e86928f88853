/* How ranks come to add up (worker/ranks/meeting.h), with kernels that only take notes: which way is tried, in which order, what is
 * said, and that nobody stays in a group that not all have come to. */
#include "kernels/kernels.h"
#include "tests/support/suite.h"
#include "worker/ranks/meeting.h"

#include <stdatomic.h>
#include <string.h>

const char *const suite_name = "worker meeting";
const double suite_timeout_s = 60;

enum { RANKS = 3 };

/* A rank's context. Of each way the status with which it is met. */
struct kernels_ctx {
    enum status by_memory, by_id;
    const char *why; /* it is not met by the id */
    bool is_met;
};

static struct kernels_ctx ctxs[RANKS];
static enum status id_status;
static atomic_uint n_by_memory, n_by_id;

static enum status make_id(struct kernels_ctx *ctx, struct kernels_group_id *id,
                           struct error *error) {
    ck_assert_ptr_eq(ctx, &ctxs[0]);
    memset(id->bytes, 'i', sizeof id->bytes);
    return id_status == STATUS_OK ? STATUS_OK : error_set(error, id_status, "no NCCL");
}

static enum status meet(struct kernels_ctx *ctx, uint32_t rank, uint32_t n_ranks,
                        struct kernels_ctx *const *all, const struct kernels_group_id *id,
                        struct error *error) {
    enum status status = STATUS_OK;
    if (n_ranks > 0 && id) {
        n_by_id++;
        status = ctx->by_id;
        if (status != STATUS_OK || id->bytes[127] != 'i')
            error_set(error, status, "%s", ctx->why);
    } else if (n_ranks > 0) {
        n_by_memory++;
        status = all[rank] == ctx ? ctx->by_memory : STATUS_INVALID;
        if (status != STATUS_OK)
            error_set(error, status, "out of reach");
    }
    ctx->is_met = n_ranks > 0 && status == STATUS_OK;
    return status;
}

static const struct kernels kernels = {.name = "notes", .group_id = make_id, .meet = meet};

static void reset(void) {
    for (int i = 0; i < RANKS; i++)
        ctxs[i] = (struct kernels_ctx){.why = "it waited"};
    id_status = STATUS_OK;
    n_by_memory = n_by_id = 0;
}

/* Whether all have met, or nobody, is as the status says. */
static enum status hold(enum sums sums, enum sums *how, struct error *why) {
    struct meeting meeting = {.kernels = &kernels, .n_ranks = RANKS, .sums = sums};
    for (int i = 0; i < RANKS; i++)
        meeting.all[i] = &ctxs[i];
    enum status status = meeting_hold(&meeting, how, why);
    for (int i = 0; i < RANKS; i++)
        ck_assert_msg(ctxs[i].is_met == (status == STATUS_OK), "rank %d", i);
    return status;
}

START_TEST(what_was_asked_for_is_tried_alone) {
    enum sums how = SUMS_HOST;
    struct error why;
    ck_assert_int_eq(hold(SUMS_DEVICE, &how, &why), STATUS_OK);
    ck_assert(how == SUMS_DEVICE && n_by_memory == RANKS && n_by_id == 0 && !*why.text);
    reset();
    ck_assert_int_eq(hold(SUMS_NCCL, &how, &why), STATUS_OK);
    ck_assert(how == SUMS_NCCL && n_by_memory == 0 && n_by_id == RANKS && !*why.text);
    reset();
    ctxs[1].by_memory = STATUS_UNSUPPORTED;
    ck_assert_int_eq(hold(SUMS_DEVICE, &how, &why), STATUS_UNSUPPORTED);
    ck_assert(n_by_id == 0);
    ck_assert_str_eq(why.text, "out of reach");
}
END_TEST

START_TEST(auto_is_the_memory_where_it_can_be_reached) {
    enum sums how = SUMS_HOST;
    struct error why;
    ck_assert_int_eq(hold(SUMS_AUTO, &how, &why), STATUS_OK);
    ck_assert(how == SUMS_DEVICE && n_by_id == 0 && !*why.text);
}
END_TEST

START_TEST(auto_is_nccl_where_memory_cannot_be_reached) {
    enum sums how = SUMS_HOST;
    struct error why;
    ctxs[2].by_memory = STATUS_UNSUPPORTED; /* the others have met by then */
    ck_assert_int_eq(hold(SUMS_AUTO, &how, &why), STATUS_OK);
    ck_assert(how == SUMS_NCCL && n_by_id == RANKS);
    ck_assert_str_eq(why.text, "out of reach");
}
END_TEST

START_TEST(where_neither_can_both_reasons_are_said) {
    enum sums how = SUMS_HOST;
    struct error why;
    ctxs[1].by_memory = STATUS_UNSUPPORTED;
    id_status = STATUS_UNSUPPORTED;
    ck_assert_int_eq(hold(SUMS_AUTO, &how, &why), STATUS_UNSUPPORTED);
    ck_assert_str_eq(why.text, "out of reach; no NCCL");
    ck_assert(n_by_id == 0);
}
END_TEST

/* Rank `_i` is refused, and the others wait for it in vain; or they have met. */
START_TEST(the_reason_is_that_of_the_rank_that_was_refused) {
    for (int come = 0; come < 2; come++) {
        enum sums how = SUMS_HOST;
        struct error why;
        reset();
        for (int i = 0; i < RANKS; i++)
            ctxs[i].by_id = come ? STATUS_OK : STATUS_CLOSED;
        ctxs[_i].by_id = STATUS_UNSUPPORTED;
        ctxs[_i].why = "an old driver";
        ck_assert_int_eq(hold(SUMS_NCCL, &how, &why), STATUS_UNSUPPORTED);
        ck_assert_str_eq(why.text, "an old driver");
    }
}
END_TEST

START_TEST(where_all_wait_in_vain_that_is_the_reason) {
    enum sums how = SUMS_HOST;
    struct error why;
    for (int i = 0; i < RANKS; i++)
        ctxs[i].by_id = STATUS_CLOSED;
    ck_assert_int_eq(hold(SUMS_NCCL, &how, &why), STATUS_CLOSED);
    ck_assert_str_eq(why.text, "it waited");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, reset, NULL);
    tcase_add_test(tests, what_was_asked_for_is_tried_alone);
    tcase_add_test(tests, auto_is_the_memory_where_it_can_be_reached);
    tcase_add_test(tests, auto_is_nccl_where_memory_cannot_be_reached);
    tcase_add_test(tests, where_neither_can_both_reasons_are_said);
    tcase_add_loop_test(tests, the_reason_is_that_of_the_rank_that_was_refused, 0, RANKS);
    tcase_add_test(tests, where_all_wait_in_vain_that_is_the_reason);
}
