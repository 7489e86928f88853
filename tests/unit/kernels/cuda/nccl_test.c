/* Groups of emulated devices whose bytes a library brings (kernels/cuda/nccl.h): what is said where it cannot do its work, and what
 * becomes of ranks whose group comes to an end. Which library is taken is nccl_library_test.c's, sums and columns themselves
 * tests/conform/kernels_ranks_test.c's. The library is that of the tests (tests/support/fake_nccl.c), in a process of its own for each
 * test. */
#include "base/clock.h"
#include "kernels/cuda/context.h"
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

enum { RANKS = 3, N = 1000, ONE_SHOT = 147456, TRIES = 4, WAIT_MS = 1000 };

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
    uint32_t turn;
    float *at; /* where repeat_steps() has them */
    void (*works)(struct member *member);
};

static void add_up(struct member *member);

static void members_open(struct member members[RANKS], uint32_t wait_ms) {
    struct error error;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct kernels_options options = {.n_threads = 1,
                                                .device = rank,
                                                .n_ranks = RANKS,
                                                .together = ONE_SHOT + 1,
                                                .wait_ms = wait_ms,
                                                .limits = {1, 1, 16, 32, 64, 1, 1, 16}};
        members[rank] = (struct member){.rank = rank, .n = N, .works = add_up};
        ck_assert_int_eq(emulated()->open(&options, &members[rank].ctx, &error), STATUS_OK);
    }
}

/* The library's groups, of all of which somebody has taken leave. */
static void nothing_is_left(void) {
    int (*left)(void);
    void *library = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(library);
    void *found = dlsym(library, "fake_nccl_left");
    memcpy(&left, &found, sizeof found);
    ck_assert_int_eq(left(), 0);
}

static void members_close(struct member members[RANKS]) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        emulated()->close(members[rank].ctx);
    nothing_is_left();
}

static void keep_failure(struct member *member) {
    const char *failure = emulated()->failure(member->ctx);
    snprintf(member->failure, sizeof member->failure, "%s", failure ? failure : "");
}

/* Each rank's numbers are its own times i, and other ones each turn. */
static void put_numbers(const struct member *member, float *at) {
    float *x = malloc(member->n * sizeof *x);
    for (size_t i = 0; i < member->n; i++)
        x[i] = (float)((member->rank + 1) * (i % 1000) + member->turn);
    emulated()->put(member->ctx, at, x, member->n * sizeof *x);
    free(x);
}

static bool is_sum(const struct member *member, const float *at) {
    float *x = malloc(member->n * sizeof *x);
    bool all = true;
    emulated()->get(member->ctx, x, at, member->n * sizeof *x);
    for (size_t i = 0; i < member->n; i++)
        all &= x[i] == (float)(RANKS * (RANKS + 1) / 2 * (i % 1000) + RANKS * member->turn);
    free(x);
    return all;
}

static void add_up(struct member *member) {
    const struct kernels *k = emulated();
    size_t n_bytes = member->n * sizeof(float);
    float *at = k->alloc(member->ctx, n_bytes);
    put_numbers(member, at);
    k->sum(member->ctx, at, member->n);
    member->summed = k->step_end(member->ctx);
    keep_failure(member);
    member->is_right = is_sum(member, at);
    k->dealloc(member->ctx, at, n_bytes);
}

/* Columns, which a kernel of the first rank looks at. */
static void gather(struct member *member) {
    const struct kernels *k = emulated();
    float *at = k->alloc(member->ctx, 16 * RANKS * sizeof *at),
          *all = member->rank == 0 ? at : NULL;
    k->gather(member->ctx, all, 16 * RANKS, at, 1, 16 * member->rank, 16);
    member->summed = k->step_end(member->ctx);
    keep_failure(member);
    k->dealloc(member->ctx, at, 16 * RANKS * sizeof *at);
}

static void rest(struct member *member) {
    (void)member;
}

static void begin_step(struct member *member) {
    static const uint32_t zero[1] = {0}, seq_begin[2] = {0, 1};
    struct kernels_step step = {.batch = {.n_tokens = 1,
                                          .n_seqs = 1,
                                          .ids = zero,
                                          .positions = zero,
                                          .seq_begin = seq_begin,
                                          .block_tables = zero,
                                          .block_table_stride = 1},
                                .rows = zero,
                                .n_rows = 1};
    emulated()->step_begin(member->ctx, &step);
}

/* A sum that somebody waits for by what is chosen of it. */
static void choose(struct member *member) {
    const struct kernels *k = emulated();
    const struct sample_params greedy = {.top_p = 1.0f, .repetition = 1.0f};
    struct sample_result result;
    float *at = k->alloc(member->ctx, 64 * sizeof *at);
    begin_step(member);
    k->sum(member->ctx, at, 64);
    ck_assert_int_eq(k->sample_begin(member->ctx, at, 1, 64, &greedy), STATUS_OK);
    member->summed = k->sample_end(member->ctx, &result);
    keep_failure(member);
    ck_assert_int_eq(k->step_end(member->ctx), member->summed);
    k->dealloc(member->ctx, at, 64 * sizeof *at);
}

/* One whose numbers somebody gets at once. */
static void fetch(struct member *member) {
    const struct kernels *k = emulated();
    float *at = k->alloc(member->ctx, member->n * sizeof *at);
    put_numbers(member, at);
    k->sum(member->ctx, at, member->n);
    member->is_right = is_sum(member, at);
    member->summed = k->step_end(member->ctx);
    keep_failure(member);
    k->dealloc(member->ctx, at, member->n * sizeof *at);
}

/* One that somebody looks for until it is done. */
static void look(struct member *member) {
    const struct kernels *k = emulated();
    float *at = k->alloc(member->ctx, member->n * sizeof *at);
    put_numbers(member, at);
    k->sum(member->ctx, at, member->n);
    k->mark(member->ctx, 1);
    uint32_t marked = 0;
    while (marked == 0)
        marked = k->marked(member->ctx);
    member->summed = marked == 1 ? STATUS_OK : STATUS_IO;
    keep_failure(member);
    ck_assert_int_eq(k->step_end(member->ctx), member->summed);
    member->is_right = is_sum(member, at);
    k->dealloc(member->ctx, at, member->n * sizeof *at);
}

/* Sums of steps that are launched as a graph from the second on; in the same memory each time it is called. */
static void repeat_steps(struct member *member) {
    const struct kernels *k = emulated();
    if (!member->at)
        member->at = k->alloc(member->ctx, member->n * sizeof *member->at);
    member->is_right = true;
    for (int i = 0; i < 3; i++, member->turn++) {
        put_numbers(member, member->at);
        begin_step(member);
        k->sum(member->ctx, member->at, member->n);
        ck_assert_int_eq(k->step_end(member->ctx), STATUS_OK);
        member->is_right &= is_sum(member, member->at);
    }
}

static void *live(void *arg) {
    struct member *member = arg;
    member->met =
        emulated()->meet(member->ctx, member->rank, RANKS, NULL, &member->id, &member->error);
    if (member->met == STATUS_OK)
        member->works(member);
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

static void *add_up_by_memory(void *arg) {
    add_up(arg);
    return NULL;
}

/* That they have left their group, and compute on by each other's memory. */
static void go_on_by_memory(struct member members[RANKS]) {
    struct kernels_ctx *all[RANKS];
    struct error error = {0};
    nothing_is_left();
    for (uint32_t i = 0; i < RANKS; i++) {
        all[i] = members[i].ctx;
        ck_assert_int_eq(emulated()->step_end(all[i]), STATUS_OK);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        ck_assert_int_eq(emulated()->meet(all[i], i, RANKS, all, NULL, &error), STATUS_OK);
    for (uint32_t i = 0; i < RANKS; i++)
        ck_assert_int_eq(pthread_create(&members[i].thread, NULL, add_up_by_memory, &members[i]),
                         0);
    for (uint32_t i = 0; i < RANKS; i++)
        pthread_join(members[i].thread, NULL);
    for (uint32_t i = 0; i < RANKS; i++) {
        ck_assert_str_eq(members[i].failure, "");
        ck_assert(members[i].is_right);
    }
}

/* What a rank says that met nobody; and that it computes on. */
static void meets_nobody(const char *fault, uint32_t wait_ms, uint32_t rank, enum status status,
                         const char *text) {
    struct member members[RANKS];
    with_fault(fault);
    members_open(members, wait_ms);
    members_live(members);
    ck_assert_int_eq(members[rank].met, status);
    ck_assert_msg(strstr(members[rank].error.text, text) != NULL, "%s", members[rank].error.text);
    for (uint32_t i = 0; i < RANKS; i++)
        ck_assert(members[i].met != STATUS_OK);
    go_on_by_memory(members);
    members_close(members);
}

START_TEST(a_rank_that_nccl_refuses_is_said) {
    meets_nobody("refuse=1", WAIT_MS, 1, STATUS_UNSUPPORTED,
                 "NCCL does not open rank 1 of 3: CUDA driver version is insufficient");
}
END_TEST

START_TEST(a_gpu_that_is_taken_twice_is_said) {
    meets_nobody("twice", WAIT_MS, 2, STATUS_UNSUPPORTED,
                 "rank 2 of 3: NCCL: Duplicate GPU detected : rank 1 and rank 0");
}
END_TEST

/* What NCCL_* in the environment breaks, and a network that NCCL looks for in vain. The next id is as good as any. */
START_TEST(an_id_that_does_not_come_is_said) {
    static const struct {
        const char *fault;
        enum status status;
        const char *text;
    } ids[] = {{"nosocket", STATUS_UNSUPPORTED,
                "NCCL makes no id for a group: Bootstrap : no socket interface found"},
               {"noid=2000", STATUS_CLOSED, "NCCL made no id for a group within 300 ms"}};
    struct member members[RANKS];
    struct kernels_group_id id;
    struct error error = {0};
    with_fault(ids[_i].fault);
    members_open(members, 300);
    ck_assert_int_eq(emulated()->group_id(members[0].ctx, &id, &error), ids[_i].status);
    ck_assert_msg(strstr(error.text, ids[_i].text) != NULL, "%s", error.text);
    with_fault("");
    members_live(members);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ck_assert(members[rank].met == STATUS_OK && members[rank].is_right);
    members_close(members);
}
END_TEST

START_TEST(who_waits_for_a_rank_that_does_not_come_ends) {
    meets_nobody("absent=1", WAIT_MS, 0, STATUS_CLOSED,
                 "rank 0 of 3: NCCL: not all ranks came to their");
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
    meets_nobody(fault, WAIT_MS, 0, STATUS_UNSUPPORTED, ways[_i]);
}
END_TEST

START_TEST(a_way_that_is_broken_is_said) {
    meets_nobody("broken=2", 0, 2, STATUS_UNSUPPORTED,
                 "slices between ranks: NCCL: a link is down");
}
END_TEST

/* The others go on alone, and so do not take part in a sum. */
START_TEST(a_way_that_brings_nothing_is_seen) {
    static const char *const ways[TRIES] = {
        "numbers for all ranks: rank 0 got 0 of rank 0", "slices between ranks: rank 0 got 1 of",
        "slices for all ranks: rank 0 got 1 of rank 1", "numbers for the first rank: rank 0 got 1"};
    struct member members[RANKS];
    char fault[16];
    snprintf(fault, sizeof fault, "mute=%d", _i + 1);
    with_fault(fault);
    members_open(members, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        members[rank].works = rest;
    members_live(members);
    ck_assert_int_eq(members[0].met, STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(members[0].error.text, ways[_i]) != NULL, "%s", members[0].error.text);
    members_close(members);
}
END_TEST

START_TEST(a_send_that_is_not_taken_is_said) {
    meets_nobody("untaken=2", WAIT_MS, 1, STATUS_UNSUPPORTED,
                 "slices between ranks: NCCL: no room for what is sent");
}
END_TEST

START_TEST(numbers_of_another_rank_are_seen) {
    meets_nobody("mixed", 0, 0, STATUS_UNSUPPORTED,
                 "numbers for all ranks: rank 0 got 3 of rank 0");
}
END_TEST

#define LATE "NCCL: a rank did not come to what its group computes together"

/* Ways of waiting for a sum. */
static void (*const waits[])(struct member *member) = {add_up, fetch, look, choose, gather};
enum { N_WAITS = sizeof waits / sizeof *waits };

/* Rank 1 is late, or a link breaks, at the first thing that they do together: all ranks' devices fail, and say why, rank 1
 * perhaps something else. */
static void ends_at_work(const char *fault, int wait, uint32_t wait_ms, const char *text,
                         const char *of_rank_1) {
    struct member members[RANKS];
    with_fault(fault);
    members_open(members, wait_ms);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        members[rank].works = waits[wait];
    members_live(members);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        ck_assert_int_eq(members[rank].met, STATUS_OK);
        ck_assert_int_eq(members[rank].summed, STATUS_IO);
        ck_assert_msg(strstr(members[rank].failure, rank == 1 ? of_rank_1 : text) != NULL, "%s",
                      members[rank].failure);
    }
    members_close(members);
}

START_TEST(who_waits_for_a_rank_that_is_late_fails) {
    ends_at_work("late=5", _i, WAIT_MS, LATE, LATE);
}
END_TEST

START_TEST(who_works_with_a_link_that_breaks_fails) {
    ends_at_work("broken=5", _i, 0, "NCCL: a link is down", "NCCL: a link is down");
}
END_TEST

/* Streams that stand still meanwhile, as a GPU's do, and a rank that is waited for much longer. */
START_TEST(a_link_that_breaks_is_seen_while_somebody_waits) {
    ends_at_work("hung=5", _i, 0, "NCCL: a link is down", "NCCL: a link is down");
}
END_TEST

START_TEST(what_never_begins_is_said) {
    ends_at_work("stalled=5", 0, WAIT_MS, LATE, "NCCL: it did not begin in time what the ranks");
}
END_TEST

static void all_is_right(const char *fault, void (*works)(struct member *member)) {
    struct member members[RANKS];
    with_fault(fault);
    members_open(members, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        members[rank].works = works;
    members_live(members);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ck_assert_msg(members[rank].is_right, "%s", members[rank].error.text);
    members_close(members);
}

START_TEST(what_begins_late_is_awaited) {
    all_is_right("slow=1", add_up);
    all_is_right("slow=2", add_up);
    all_is_right("slow=5", add_up);
}
END_TEST

START_TEST(who_looks_for_what_is_done_finds_it) {
    all_is_right("", look);
}
END_TEST

/* A group of the same ranks that meets again is another one, though their steps stay the same. */
START_TEST(steps_that_repeat_go_to_the_group_that_is_there) {
    struct member members[RANKS];
    with_fault("");
    members_open(members, 0);
    for (int i = 0; i < 2; i++) {
        for (uint32_t rank = 0; rank < RANKS; rank++)
            members[rank].works = repeat_steps;
        members_live(members);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            ck_assert_msg(members[rank].is_right, "rank %u, meeting %d", rank, i);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        emulated()->dealloc(members[rank].ctx, members[rank].at, N * sizeof(float));
    members_close(members);
}
END_TEST

/* Two that wait for one device, one after the other without a gap: neither is the other's. */
START_TEST(each_wait_is_measured_by_itself) {
    struct member members[RANKS];
    struct nccl_wait first, second;
    with_fault("");
    members_open(members, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        members[rank].works = rest;
    members_live(members);
    struct nccl_group *group = members[0].ctx->ranks.nccl;
    nccl_wait_begins(group, &first);
    uint64_t between = clock_now_ns();
    nccl_wait_begins(group, &second);
    ck_assert(first.since <= between && second.since >= between);
    nccl_wait_ends(group, &first);
    ck_assert(second.since >= between);
    nccl_wait_ends(group, &second);
    ck_assert_ptr_null(nccl_failure(group));
    members_close(members);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_oldest_library_that_serves_does);
    tcase_add_test(tests, sums_are_right_on_both_sides_of_the_border);
    tcase_add_test(tests, a_rank_that_nccl_refuses_is_said);
    tcase_add_test(tests, a_gpu_that_is_taken_twice_is_said);
    tcase_add_loop_test(tests, an_id_that_does_not_come_is_said, 0, 2);
    tcase_add_test(tests, who_waits_for_a_rank_that_does_not_come_ends);
    tcase_add_loop_test(tests, a_way_that_is_late_is_said, 0, TRIES);
    tcase_add_test(tests, a_way_that_is_broken_is_said);
    tcase_add_test(tests, numbers_of_another_rank_are_seen);
    tcase_add_loop_test(tests, a_way_that_brings_nothing_is_seen, 0, TRIES);
    tcase_add_test(tests, a_send_that_is_not_taken_is_said);
    tcase_add_loop_test(tests, who_waits_for_a_rank_that_is_late_fails, 0, N_WAITS);
    tcase_add_loop_test(tests, who_works_with_a_link_that_breaks_fails, 0, N_WAITS);
    tcase_add_loop_test(tests, a_link_that_breaks_is_seen_while_somebody_waits, 0, N_WAITS);
    tcase_add_test(tests, what_never_begins_is_said);
    tcase_add_test(tests, what_begins_late_is_awaited);
    tcase_add_test(tests, who_looks_for_what_is_done_finds_it);
    tcase_add_test(tests, steps_that_repeat_go_to_the_group_that_is_there);
    tcase_add_test(tests, each_wait_is_measured_by_itself);
}

#else

void suite_add(TCase *tests) {
    (void)tests;
    suite_skip("all", "there was no nccl.h");
}

#endif
