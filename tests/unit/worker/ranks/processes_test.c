/* A group whose ranks are in several processes: it computes what ranks in threads compute, it comes to an orderly end, and
 * when one process is lost the others end at once. */
#include "base/buf.h"
#include "base/log/log.h"
#include "base/random.h"
#include "model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "worker/core/engine.h"
#include "worker/ranks/follow.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "worker rank processes";
const double suite_timeout_s = 120;

enum { N_RANKS = 4, N_TOKENS = 40, N_BLOCKS = 8, MAX_SEQS = 2, LEFT_BEHIND = 99, LATER = 2 };

static char folder[64], address[128], path[128];
static struct error error;

/* Shared with the processes that a test begins. */
static struct { atomic_uint follower_stops, leader_stops, is_ready; } * told;

static void setup(void) {
    struct buf file;
    log_init("test", LOG_ERROR);
    snprintf(folder, sizeof folder, "/tmp/tandem-ranks-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(address, sizeof address, "%s/leader", folder);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    buf_init(&file, 0);
    tiny_gguf_write(&file, &(struct tiny_gguf){.format = "f16", .seed = 5, .wide = true});
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, file.data, file.n), (ssize_t)file.n);
    close(fd);
    buf_fini(&file);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(told, MAP_FAILED);
    struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core);
}

static void teardown(void) {
    char command[128];
    munmap(told, sizeof *told);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct rank_options options_of(const struct model *model, uint32_t n_ranks,
                                      uint32_t n_here) {
    return (struct rank_options){.model = model,
                                 .backend = "cpu",
                                 .n_threads = n_ranks,
                                 .max_tokens = N_TOKENS,
                                 .max_seqs = MAX_SEQS,
                                 .context_max = 64,
                                 .n_blocks = N_BLOCKS,
                                 .n_ranks = n_ranks,
                                 .n_here = n_here,
                                 .rank_listen = n_here ? address : NULL,
                                 .kv_format = KV_F16};
}

static struct model *open_model(void) {
    struct model *model;
    enum status status = model_open(path, NULL, &model, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return model;
}

/* Pieces of shared memory of ranks that this process has mapped. */
static unsigned count_shared(void) {
    char line[512];
    unsigned n = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps))
        n += strstr(line, "memfd:tandem") != NULL;
    fclose(maps);
    return n;
}

/* A process that follows. Its code is follow_run()'s, or LEFT_BEHIND where that left something. */
static pid_t fork_follower(uint32_t n_ranks, int wake_fd) {
    fflush(stdout);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0)
        return child;
    struct follow_options options = {
        .address = address, .model = path, .n_ranks = n_ranks, .n_threads = n_ranks};
    unsigned n_files = suite_count_files();
    int code = follow_run(&options, &told->follower_stops, wake_fd);
    _exit(suite_count_files() == n_files && count_shared() == 0 ? code : LEFT_BEHIND);
}

static int code_of(pid_t child) {
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "status %x", (unsigned)status);
    return WEXITSTATUS(status);
}

/* What steps leave: logits of each, and in the end the KV pools of all ranks, one behind the other. */
struct results {
    float logits[3][MAX_SEQS][TINY_N_VOCAB];
    unsigned char *kv; /* owned (n_kv) */
    size_t n_kv;
};

static void run_step(struct forward *forward, struct batch *batch, struct plan_row *rows,
                     uint32_t n_rows, float logits[MAX_SEQS][TINY_N_VOCAB]) {
    struct plan plan = {.n_rows = n_rows, .rows = rows};
    for (uint32_t i = 0; i < n_rows; i++)
        plan.n_tokens += rows[i].n_tokens;
    batch_build(batch, &plan);
    forward_run(forward, batch, NULL, NULL);
    forward_end(forward);
    memcpy(logits, forward->rank.logits, (size_t)batch->n_rows * sizeof *logits);
}

/* A prompt in two chunks, beside the second one another sequence, and then both decode. */
static void run_steps(struct forward *forward, struct results *results) {
    uint32_t ids[2][N_TOKENS], blocks[2][3] = {{3, 0, 6}, {5, 1, 2}};
    struct random random = {8};
    struct batch batch;
    *results = (struct results){0};
    for (uint32_t i = 0; i < 2 * N_TOKENS; i++)
        ids[i / N_TOKENS][i % N_TOKENS] = (uint32_t)random_below(&random, 256);
    ck_assert_int_eq(batch_init(&batch, N_TOKENS, MAX_SEQS, 64), STATUS_OK);
    struct plan_row row = {.n_tokens = 20, .ids = ids[0], .blocks = blocks[0]};
    run_step(forward, &batch, &row, 1, results->logits[0]);
    for (uint32_t step = 1; step < 3; step++) {
        struct plan_row rows[2];
        for (uint32_t s = 0; s < 2; s++) {
            uint32_t begin = step == 1 ? 20 * (1 - s) : 30 - 15 * s;
            rows[s] = (struct plan_row){.begin = begin,
                                        .n_tokens = step == 1 ? 10 + 5 * s : 1,
                                        .ids = ids[s] + begin,
                                        .blocks = blocks[s],
                                        .sample = true};
        }
        run_step(forward, &batch, rows, 2, results->logits[step]);
    }
    batch_fini(&batch);
    uint32_t n_layers = forward->rank.model->facts.n_layers;
    for (uint32_t rank = 0; rank < N_RANKS; rank++)
        results->n_kv += n_layers * forward->kv_of_ranks[rank].layer_bytes;
    results->kv = malloc(results->n_kv);
    ck_assert_ptr_nonnull(results->kv);
    for (uint32_t rank = 0, at = 0; rank < N_RANKS; rank++) {
        const struct transport_rank *kv = &forward->kv_of_ranks[rank];
        ck_assert_uint_eq(kv->layer_bytes, (size_t)kv->block_bytes * N_BLOCKS);
        memcpy(results->kv + at, kv->base, n_layers * kv->layer_bytes);
        at += (uint32_t)(n_layers * kv->layer_bytes);
    }
}

START_TEST(ranks_of_several_processes_compute_what_ranks_in_threads_do) {
    static struct results threads, processes;
    struct forward forward;
    struct model *model = open_model();
    unsigned n_files = suite_count_files();
    struct rank_options options = options_of(model, N_RANKS, 0);
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
    run_steps(&forward, &threads);
    forward_close(&forward);
    int wake_fd = eventfd(0, EFD_CLOEXEC);
    /* One rank here; of three others two in one process, and what is left in the other. */
    pid_t two = fork_follower(2, wake_fd), one = fork_follower(1, wake_fd);
    options = options_of(model, N_RANKS, 1);
    enum status status = forward_open(&forward, &options, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_int_eq(access(address, F_OK), -1); /* complete: nobody else can join */
    ck_assert_uint_eq(forward.leader.n_followers, 2);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(forward.leader.followers[i].n_ranks,
                          forward.leader.followers[i].pid == two ? 2 : 1);
    ck_assert(forward.leader.followers[0].pid == one || forward.leader.followers[1].pid == one);
    run_steps(&forward, &processes);
    forward_close(&forward);
    ck_assert_int_eq(code_of(two), EXIT_SUCCESS);
    ck_assert_int_eq(code_of(one), EXIT_SUCCESS);
    close(wake_fd);
    ck_assert_uint_eq(suite_count_files(), n_files);
    ck_assert_uint_eq(count_shared(), 0);
    ck_assert_mem_eq(threads.logits, processes.logits, sizeof threads.logits);
    ck_assert_uint_eq(threads.n_kv, processes.n_kv);
    ck_assert_mem_eq(threads.kv, processes.kv, threads.n_kv);
    free(threads.kv);
    free(processes.kv);
    model_close(model);
}
END_TEST

static void sleep_a_little(void) {
    usleep(1000);
}

/* A leader whose followers have joined waits to be lost, or to lose one. */
static pid_t fork_leader(bool heeds_stops, bool leaves) {
    fflush(stdout);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0)
        return child;
    struct forward forward;
    struct rank_options options = options_of(open_model(), 2, 1);
    if (heeds_stops)
        leader_heed_stops(&told->leader_stops);
    if (forward_open(&forward, &options, &error) != STATUS_OK)
        _exit(LEFT_BEHIND);
    atomic_store(&told->is_ready, 1);
    if (!leaves)
        for (;;)
            pause();
    _exit(EXIT_SUCCESS); /* without a goodbye */
}

START_TEST(a_follower_ends_when_its_leader_is_lost) {
    int wake_fd = eventfd(0, EFD_CLOEXEC);
    pid_t follower = fork_follower(0, wake_fd), leader = fork_leader(false, true);
    ck_assert_int_eq(code_of(leader), EXIT_SUCCESS);
    ck_assert_int_eq(code_of(follower), EXIT_FAILURE);
    close(wake_fd);
}
END_TEST

/* Who ends it: nobody but a signal; a stop of the follower alone; one of both. */
static const struct {
    bool is_killed, heeds_stops;
    unsigned leader_stops;
    int code; /* of the leader */
} losses[] = {
    {true, true, 0, EXIT_FAILURE},      {true, true, 1, EXIT_FAILURE}, /* it said no goodbye */
    {false, false, 1, EXIT_FAILURE},    {false, true, 1, EXIT_SUCCESS},
    {false, true, LATER, EXIT_SUCCESS}, /* the two are not stopped at the same moment */
    {false, true, 0, EXIT_FAILURE},     /* a second later */
};

START_TEST(a_leader_ends_when_a_follower_is_lost) {
    int wake_fd = eventfd(0, EFD_CLOEXEC), status;
    pid_t follower = fork_follower(1, wake_fd), leader = fork_leader(losses[_i].heeds_stops, false);
    while (!atomic_load(&told->is_ready) && waitpid(leader, &status, WNOHANG) == 0)
        sleep_a_little();
    ck_assert_uint_eq(told->is_ready, 1);
    atomic_store(&told->leader_stops, losses[_i].leader_stops % LATER);
    if (losses[_i].is_killed) {
        ck_assert_int_eq(kill(follower, SIGKILL), 0);
        ck_assert_int_eq(waitpid(follower, &status, 0), follower);
    } else {
        atomic_store(&told->follower_stops, 1);
        ck_assert_int_eq(eventfd_write(wake_fd, 1), 0);
        ck_assert_int_eq(code_of(follower), EXIT_SUCCESS);
    }
    for (int i = 0; losses[_i].leader_stops == LATER && i < 20; i++)
        sleep_a_little();
    atomic_store(&told->leader_stops, losses[_i].leader_stops);
    ck_assert_int_eq(code_of(leader), losses[_i].code);
    close(wake_fd);
}
END_TEST

/* What a follower says of its pool has to be what its rank of this model has. */

static void right(struct rank_pool *pool) {
    (void)pool;
}
static void later_head(struct rank_pool *pool) {
    pool->head_begin++;
}
static void more_heads(struct rank_pool *pool) {
    pool->n_heads++;
}
static void larger_heads(struct rank_pool *pool) {
    pool->block_bytes *= 2;
    pool->layer_bytes *= 2;
    pool->n_bytes *= 2;
}
static void other_heads(struct rank_pool *pool) {
    pool->block_bytes *= 2;
}
static void more_blocks(struct rank_pool *pool) {
    pool->layer_bytes += pool->block_bytes;
    pool->n_bytes = 2 * pool->layer_bytes;
}
static void fewer_layers(struct rank_pool *pool) {
    pool->n_bytes = pool->layer_bytes;
}

static void (*const wrong_pools[])(struct rank_pool *pool) = {
    right, later_head, more_heads, larger_heads, other_heads, more_blocks, fewer_layers,
};

struct impostor {
    struct rank_message ready;
    const uint8_t *model_fp;
    bool goes_on; /* it says that it is ready once more */
    bool is_answered;
};

/* Joins as rank 1 of two and says that it is ready; then it stays until the leader's goodbye. */
static void *impostor_main(void *arg) {
    struct impostor *impostor = arg;
    struct rank_message message = {.type = RANK_JOIN};
    struct error none;
    int fd, fds[COMM_RANKS_MAX];
    uint32_t n_fds;
    strcpy(message.u.join.version, TANDEM_VERSION);
    memcpy(message.u.join.model_fp, impostor->model_fp, sizeof message.u.join.model_fp);
    while (rank_wire_connect(address, &fd, &none) != STATUS_OK)
        sleep_a_little();
    int pool = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (rank_wire_send(fd, &message, NULL, 0) == STATUS_OK &&
        rank_wire_receive(fd, &message, fds, &n_fds) == STATUS_OK &&
        ftruncate(pool, (off_t)impostor->ready.u.ready.pools[0].n_bytes) == 0 &&
        fcntl(pool, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        rank_wire_close(fds, n_fds);
        enum status status = rank_wire_send(fd, &impostor->ready, &pool, 1);
        for (bool again = impostor->goes_on; again && status == STATUS_OK; again = false)
            status = rank_wire_send(fd, &impostor->ready, &pool, 1);
        impostor->is_answered = status == STATUS_OK &&
                                rank_wire_receive(fd, &message, fds, &n_fds) == STATUS_OK &&
                                message.type == RANK_BYE;
    }
    close(pool);
    close(fd);
    return NULL;
}

/* What rank 1 of two is like, from a group in threads. */
static void make_impostor(struct impostor *impostor, const struct model *model) {
    struct rank_options options = options_of(model, 2, 0);
    struct rank_ready *ready = &impostor->ready.u.ready;
    struct forward forward;
    *impostor = (struct impostor){.model_fp = model->config.fingerprint};
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_OK);
    const struct transport_rank *kv = &forward.kv_of_ranks[1];
    uint32_t n_layers = forward.rank.model->facts.n_layers;
    impostor->ready.type = RANK_READY;
    ready->n_pools = 1;
    ready->pools[0] = (struct rank_pool){.n_bytes = n_layers * kv->layer_bytes,
                                         .layer_bytes = kv->layer_bytes,
                                         .block_bytes = kv->block_bytes,
                                         .head_begin = kv->head_begin,
                                         .n_heads = kv->n_heads};
    rank_numerics(&forward.rank, ready->numerics, sizeof ready->numerics);
    forward_close(&forward);
}

START_TEST(a_pool_of_another_shape_is_refused) {
    struct model *model = open_model();
    struct impostor impostor;
    struct rank_options options = options_of(model, 2, 1);
    struct forward forward;
    pthread_t thread;
    make_impostor(&impostor, model);
    wrong_pools[_i](&impostor.ready.u.ready.pools[0]);
    unsigned n_files = suite_count_files();
    ck_assert_int_eq(pthread_create(&thread, NULL, impostor_main, &impostor), 0);
    enum status status = forward_open(&forward, &options, &error);
    ck_assert_msg(status == (_i == 0 ? STATUS_OK : STATUS_CORRUPT), "%s: %s", status_name(status),
                  error.text);
    if (_i > 0)
        ck_assert_str_eq(error.text, "rank 1 of 2: its KV pool has another shape");
    forward_close(&forward);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(impostor.is_answered); /* with a goodbye */
    ck_assert_uint_eq(suite_count_files(), n_files);
    ck_assert_uint_eq(count_shared(), 0);
    model_close(model);
}
END_TEST

/* Only a goodbye says that a follower was stopped, and did not fail. */
START_TEST(a_follower_that_says_anything_else_is_lost) {
    struct model *model = open_model();
    struct impostor impostor;
    pthread_t thread;
    make_impostor(&impostor, model);
    impostor.goes_on = true;
    atomic_store(&told->leader_stops, 1);
    pid_t leader = fork_leader(true, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, impostor_main, &impostor), 0);
    ck_assert_int_eq(code_of(leader), EXIT_FAILURE);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!impostor.is_answered);
    model_close(model);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, ranks_of_several_processes_compute_what_ranks_in_threads_do);
    tcase_add_test(tests, a_follower_ends_when_its_leader_is_lost);
    tcase_add_loop_test(tests, a_leader_ends_when_a_follower_is_lost, 0,
                        sizeof losses / sizeof *losses);
    tcase_add_loop_test(tests, a_pool_of_another_shape_is_refused, 0,
                        sizeof wrong_pools / sizeof *wrong_pools);
    tcase_add_test(tests, a_follower_that_says_anything_else_is_lost);
}
