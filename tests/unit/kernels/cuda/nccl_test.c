/* Groups of emulated devices whose bytes a library brings (kernels/cuda/nccl.h): which library is taken, what is said where it cannot
 * do its work, and what becomes of ranks whose group comes to an end. Sums and columns themselves are tests/conform/kernels_ranks_test.c's.
 * The library is that of the tests (tests/support/fake_nccl.c), in a process of its own for each test; where there is the real one, it
 * is loaded too. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/nccl.h"
#include "tests/support/suite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_cuda_nccl";
const double suite_timeout_s = 120;

#ifdef FAKE_NCCL

enum { RANKS = 3, N = 1000, ONE_SHOT = 128 << 10, TRIES = 4 };

static const struct kernels *emulated(void) {
    const struct kernels *found = kernels_find("cuda-emu:exact");
    ck_assert_ptr_nonnull(found);
    return found;
}

struct member {
    struct kernels_ctx *ctx;
    uint32_t rank;
    struct kernels_group_id id;
    pthread_t thread;
    enum status met;
    struct error error;
    enum status summed;
    char failure[300]; /* of its device */
    bool is_right;
    size_t n; /* numbers of a sum */
};

static void members_open(struct member members[RANKS], uint32_t wait_ms) {
    struct error error;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct kernels_options options = {.n_threads = 1,
                                                .device = rank,
                                                .n_ranks = RANKS,
                                                .together = ONE_SHOT + 1,
                                                .wait_ms = wait_ms,
                                                .limits = {1, 1, 16, 32, 64, 1, 1, 16}};
        members[rank] = (struct member){.rank = rank, .n = N};
        ck_assert_int_eq(emulated()->open(&options, &members[rank].ctx, &error), STATUS_OK);
    }
}

static void members_close(struct member members[RANKS]) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        emulated()->close(members[rank].ctx);
}

/* Each rank's numbers are its own times i. */
static void add_up(struct member *member) {
    const struct kernels *k = emulated();
    size_t n_bytes = member->n * sizeof(float);
    float *x = malloc(n_bytes), *at = k->alloc(member->ctx, n_bytes);
    for (size_t i = 0; i < member->n; i++)
        x[i] = (float)((member->rank + 1) * (i % 1000));
    k->put(member->ctx, at, x, n_bytes);
    k->sum(member->ctx, at, member->n);
    member->summed = k->step_end(member->ctx);
    const char *failure = member->ctx->kind->failure(member->ctx->device);
    snprintf(member->failure, sizeof member->failure, "%s", failure ? failure : "");
    k->get(member->ctx, x, at, n_bytes);
    member->is_right = true;
    for (size_t i = 0; i < member->n; i++)
        member->is_right &= x[i] == (float)(RANKS * (RANKS + 1) / 2 * (i % 1000));
    k->dealloc(member->ctx, at, n_bytes);
    free(x);
}

static void *live(void *arg) {
    struct member *member = arg;
    member->met =
        emulated()->meet(member->ctx, member->rank, RANKS, NULL, &member->id, &member->error);
    if (member->met == STATUS_OK)
        add_up(member);
    return NULL;
}

/* All ranks, or all but one, meet and add up once. */
static void members_live(struct member members[RANKS]) {
    struct kernels_group_id id;
    struct error error = {0};
    enum status status = emulated()->group_id(members[0].ctx, &id, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        members[rank].id = id;
        ck_assert_int_eq(pthread_create(&members[rank].thread, NULL, live, &members[rank]), 0);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        pthread_join(members[rank].thread, NULL);
}

static void with_fault(const char *fault) {
    setenv("TANDEM_NCCL", FAKE_NCCL, 1);
    setenv("FAKE_NCCL", fault, 1);
}

/* No library, or none that serves: the line that says so. */
static void refuses(const char *library, const char *fault, const char *text) {
    struct member members[RANKS];
    struct kernels_group_id id;
    struct error error = {0};
    setenv("FAKE_NCCL", fault, 1);
    if (library)
        setenv("TANDEM_NCCL", library, 1);
    else
        unsetenv("TANDEM_NCCL");
    members_open(members, 0);
    for (int i = 0; i < 2; i++) { /* the second time without another look */
        ck_assert_int_eq(emulated()->group_id(members[i].ctx, &id, &error), STATUS_UNSUPPORTED);
        ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
    }
    members_close(members);
}

START_TEST(no_library_is_said) {
    refuses(NULL, "", "no NCCL works with these devices: TANDEM_NCCL names none");
}
END_TEST

START_TEST(a_library_that_is_not_there_is_said) {
    refuses("/nonexistent/libnccl.so", "", "NCCL cannot be loaded: /nonexistent/libnccl.so");
}
END_TEST

START_TEST(a_library_of_something_else_is_said) {
    refuses("libm.so.6", "", "libm.so.6: it has no function ncclGetVersion");
}
END_TEST

START_TEST(an_old_library_is_said) {
    refuses(FAKE_NCCL, "version=21899", "NCCL 2.18.99 is older than 2.19");
}
END_TEST

START_TEST(a_very_old_library_is_said) {
    refuses(FAKE_NCCL, "version=2804", "NCCL 2.8.4 is older than 2.19");
}
END_TEST

START_TEST(the_oldest_library_that_serves_does) {
    struct member members[RANKS];
    with_fault("version=21900");
    members_open(members, 0);
    members_live(members);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ck_assert(members[rank].met == STATUS_OK && members[rank].is_right);
    members_close(members);
}
END_TEST

/* The longest vector that all ranks add up whole, and one more number, of which each takes a slice. */
START_TEST(sums_are_right_on_both_sides_of_the_border) {
    for (size_t more = 0; more < 2; more++) {
        struct member members[RANKS];
        with_fault("");
        members_open(members, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            members[rank].n = ONE_SHOT + more;
        members_live(members);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            ck_assert_msg(members[rank].is_right, "rank %u, %zu more", rank, more);
        members_close(members);
    }
}
END_TEST

/* What a rank says that met nobody; and that it computes on, by the memory of the others. */
static void meets_nobody(const char *fault, uint32_t rank, enum status status, const char *text) {
    struct member members[RANKS];
    struct kernels_ctx *all[RANKS];
    struct error error = {0};
    with_fault(fault);
    members_open(members, 300);
    members_live(members);
    ck_assert_int_eq(members[rank].met, status);
    ck_assert_msg(strstr(members[rank].error.text, text) != NULL, "%s", members[rank].error.text);
    for (uint32_t i = 0; i < RANKS; i++)
        all[i] = members[i].ctx;
    for (uint32_t i = 0; i < RANKS; i++)
        ck_assert_int_eq(emulated()->meet(all[i], i, RANKS, all, NULL, &error), STATUS_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        ck_assert_ptr_null(all[i]->kind->failure(all[i]->device));
        ck_assert(members[i].met != STATUS_OK);
    }
    members_close(members);
}

START_TEST(a_rank_that_nccl_refuses_is_said) {
    meets_nobody("refuse=1", 1, STATUS_UNSUPPORTED,
                 "NCCL does not open rank 1 of 3: CUDA driver version is insufficient");
}
END_TEST

START_TEST(who_waits_for_a_rank_that_does_not_come_ends) {
    meets_nobody("absent=1", 0, STATUS_CLOSED, "rank 0 of 3: NCCL: not all ranks came to their");
}
END_TEST

/* Each way is tried before it is used, and by its place among the tries. */
START_TEST(a_way_that_is_late_is_said) {
    static const char *const ways[TRIES] = {"numbers for all ranks: NCCL: a rank did not come",
                                            "slices between ranks: NCCL: a rank did not come",
                                            "slices for all ranks: NCCL: a rank did not come",
                                            "numbers for the first rank: NCCL: a rank did not"};
    char fault[16];
    snprintf(fault, sizeof fault, "late=%d", _i + 1);
    meets_nobody(fault, 0, STATUS_UNSUPPORTED, ways[_i]);
}
END_TEST

START_TEST(a_way_that_is_broken_is_said) {
    meets_nobody("broken=2", 2, STATUS_UNSUPPORTED, "slices between ranks: NCCL: a link is down");
}
END_TEST

START_TEST(numbers_of_another_rank_are_seen) {
    meets_nobody("mixed", 0, STATUS_UNSUPPORTED, "numbers for all ranks: rank 0 got 3 of rank 0");
}
END_TEST

/* Rank 1 is late, or a link breaks, at the first sum: all ranks' devices fail, and say why. */
static void ends_at_work(const char *fault, const char *text) {
    struct member members[RANKS];
    with_fault(fault);
    members_open(members, 300);
    members_live(members);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        ck_assert_int_eq(members[rank].met, STATUS_OK);
        ck_assert_int_eq(members[rank].summed, STATUS_IO);
        ck_assert_msg(strstr(members[rank].failure, text) != NULL, "%s", members[rank].failure);
    }
    members_close(members);
}

START_TEST(who_waits_for_a_rank_that_is_late_fails) {
    ends_at_work("late=5", "NCCL: a rank did not come to what its group computes together");
}
END_TEST

START_TEST(who_works_with_a_link_that_breaks_fails) {
    ends_at_work("broken=5", "NCCL: a link is down");
}
END_TEST

/* Of a machine without a GPU, which is refused; of one with a GPU, a rank that nobody joins. */
START_TEST(the_real_library_is_loaded) {
    static const struct device_kind real = {.name = "real", .nccl = "libnccl.so.2"};
    struct kernels_group_id id = {{0}}, none = {{0}};
    struct error error = {0};
    struct nccl_group *group = NULL;
    unsetenv("TANDEM_NCCL");
    enum status status = nccl_group_id(&real, &id, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert(memcmp(&id, &none, sizeof id) != 0);
    status = nccl_open(&real, &id, 0, 2, 300, &group, &error);
    if (status == STATUS_OK)
        status = nccl_ready(group, &error);
    ck_assert(status == STATUS_UNSUPPORTED || status == STATUS_CLOSED);
    ck_assert_msg(strstr(error.text, "rank 0 of 2: ") != NULL, "%s", error.text);
    printf("%s\n", error.text);
    nccl_close(group);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, no_library_is_said);
    tcase_add_test(tests, a_library_that_is_not_there_is_said);
    tcase_add_test(tests, a_library_of_something_else_is_said);
    tcase_add_test(tests, an_old_library_is_said);
    tcase_add_test(tests, a_very_old_library_is_said);
    tcase_add_test(tests, the_oldest_library_that_serves_does);
    tcase_add_test(tests, sums_are_right_on_both_sides_of_the_border);
    tcase_add_test(tests, a_rank_that_nccl_refuses_is_said);
    tcase_add_test(tests, who_waits_for_a_rank_that_does_not_come_ends);
    tcase_add_loop_test(tests, a_way_that_is_late_is_said, 0, TRIES);
    tcase_add_test(tests, a_way_that_is_broken_is_said);
    tcase_add_test(tests, numbers_of_another_rank_are_seen);
    tcase_add_test(tests, who_waits_for_a_rank_that_is_late_fails);
    tcase_add_test(tests, who_works_with_a_link_that_breaks_fails);
    if (dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL))
        tcase_add_test(tests, the_real_library_is_loaded);
    else
        suite_skip("the real library", dlerror());
}

#else

void suite_add(TCase *tests) {
    (void)tests;
    suite_skip("all", "there was no nccl.h");
}

#endif
