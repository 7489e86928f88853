/* tests/gpu/sums.c: how long ranks on devices take to add up vectors of 1 KiB to 16 MiB, each way: by each other's memory, and by the
 * NCCL that TANDEM_NCCL names. gpu_sums BACKEND[:NUMERICS] RANKS DEVICES [quick]: ranks take the devices in turn. The first sum of
 * each length is looked at, and so are those of steps that become a graph. */
#include "base/clock.h"
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 8, N_LENGTHS = 8 };
#define LENGTH(i)  ((size_t)1024 << 2 * (i)) /* bytes of float32; the last is 16 MiB */
#define MOST_BYTES LENGTH(N_LENGTHS - 1)

enum way { BY_MEMORY, BY_NCCL, N_WAYS };
static const char *const way_names[N_WAYS] = {"device", "nccl"};

/* What is added up: x as it is, or parts that cross as bfloat16, in fast numerics alone. */
enum kind { SUM, PARTS, N_KINDS };
static const char *const kind_names[N_KINDS] = {"sum", "parts"};

struct rank {
    struct bench *bench;
    uint32_t number;
    struct kernels_ctx *ctx;
    pthread_t thread;
    float *x, *part;
    enum status met;
    struct error error;
    double us[N_KINDS][N_LENGTHS]; /* of one; 0: not tried */
};

struct bench {
    const struct kernels *kernels;
    enum way way;
    uint32_t n_ranks, n_devices, n_each; /* sums that are timed together */
    struct kernels_group_id id;
    struct kernels_ctx *all[RANKS_MOST];
    struct rank ranks[RANKS_MOST];
    pthread_barrier_t barrier;
};

/* Ends the program, for the others wait. */
static void fail(const struct rank *rank, const char *what, size_t n) {
    const char *failure = rank->bench->kernels->failure(rank->ctx);
    fprintf(stderr, "gpu_sums: %s, rank %u: %s of %zu numbers: %s\n", way_names[rank->bench->way],
            rank->number, what, n, failure ? failure : "wrong");
    exit(EXIT_FAILURE);
}

static void add_up(const struct rank *rank, enum kind kind, size_t n) {
    const struct kernels *k = rank->bench->kernels;
    if (kind == SUM)
        k->sum(rank->ctx, rank->x, n);
    else
        k->add_parts(rank->ctx, rank->x, rank->part, n);
}

/* All of x are 0, and what each rank brings is its number + 1. */
static bool first_is_right(const struct rank *rank, enum kind kind, float *host, size_t n) {
    const struct kernels *k = rank->bench->kernels;
    const float own = (float)rank->number + 1,
                all = (float)(rank->bench->n_ranks * (rank->bench->n_ranks + 1) / 2);
    for (size_t i = 0; i < n; i++)
        host[i] = own;
    k->put(rank->ctx, kind == SUM ? rank->x : rank->part, host, n * sizeof *host);
    memset(host, 0, n * sizeof *host);
    if (kind == PARTS)
        k->put(rank->ctx, rank->x, host, n * sizeof *host);
    add_up(rank, kind, n);
    k->get(rank->ctx, host, rank->x, n * sizeof *host);
    for (size_t i = 0; i < n; i++)
        if (host[i] != all)
            return false;
    memset(host, 0, n * sizeof *host); /* what is added up again and again stays what it is */
    k->put(rank->ctx, rank->x, host, n * sizeof *host);
    k->put(rank->ctx, rank->part, host, n * sizeof *host);
    return true;
}

static double time_sums(const struct rank *rank, enum kind kind, size_t n) {
    const struct kernels *k = rank->bench->kernels;
    float number;
    add_up(rank, kind, n);
    k->get(rank->ctx, &number, rank->x, sizeof number);
    pthread_barrier_wait(&rank->bench->barrier);
    uint64_t begin = clock_now_ns();
    for (uint32_t i = 0; i < rank->bench->n_each; i++)
        add_up(rank, kind, n);
    k->get(rank->ctx, &number, rank->x, sizeof number);
    return (double)(clock_now_ns() - begin) * 1e-3 / rank->bench->n_each;
}

/* Steps that repeat are launched as a graph from the second on: each has a sum of numbers that are other ones. */
static void check_steps(const struct rank *rank, float *host) {
    enum { N = 4096, STEPS = 4 };
    static const uint32_t zero[1] = {0}, seq_begin[2] = {0, 1};
    const struct kernels *k = rank->bench->kernels;
    const uint32_t n_ranks = rank->bench->n_ranks;
    for (uint32_t turn = 0; turn < STEPS; turn++) {
        struct kernels_step step = {.batch = {.n_tokens = 1,
                                              .n_seqs = 1,
                                              .ids = zero,
                                              .positions = zero,
                                              .seq_begin = seq_begin,
                                              .block_tables = zero,
                                              .block_table_stride = 1},
                                    .rows = zero,
                                    .n_rows = 1};
        for (size_t i = 0; i < N; i++)
            host[i] = (float)(rank->number + turn + i);
        k->put(rank->ctx, rank->x, host, N * sizeof *host);
        k->step_begin(rank->ctx, &step);
        k->sum(rank->ctx, rank->x, N);
        if (k->step_end(rank->ctx) != STATUS_OK)
            fail(rank, "a step's sum", N);
        k->get(rank->ctx, host, rank->x, N * sizeof *host);
        for (size_t i = 0; i < N; i++)
            if (host[i] != (float)(n_ranks * (n_ranks - 1) / 2 + n_ranks * (turn + i)))
                fail(rank, "a step's sum", N);
    }
}

static void *live(void *arg) {
    struct rank *rank = arg;
    struct bench *bench = rank->bench;
    const struct kernels *k = bench->kernels;
    if (bench->way == BY_NCCL)
        rank->met =
            k->meet(rank->ctx, rank->number, bench->n_ranks, NULL, &bench->id, &rank->error);
    if (rank->met != STATUS_OK)
        return NULL;
    float *host = malloc(MOST_BYTES);
    rank->x = k->alloc(rank->ctx, MOST_BYTES);
    rank->part = k->alloc(rank->ctx, MOST_BYTES);
    if (!host || !rank->x || !rank->part)
        fail(rank, "memory", MOST_BYTES / sizeof(float));
    for (enum kind kind = SUM; kind < (k->add_parts ? N_KINDS : PARTS); kind++)
        for (int i = 0; i < N_LENGTHS; i++) {
            size_t n = LENGTH(i) / sizeof(float);
            if (!first_is_right(rank, kind, host, n))
                fail(rank, kind_names[kind], n);
            rank->us[kind][i] = time_sums(rank, kind, n);
        }
    check_steps(rank, host);
    if (k->step_end(rank->ctx) != STATUS_OK)
        fail(rank, "steps", 0);
    k->dealloc(rank->ctx, rank->x, MOST_BYTES);
    k->dealloc(rank->ctx, rank->part, MOST_BYTES);
    free(host);
    return NULL;
}

static enum status open_ranks(struct bench *bench, struct error *error) {
    struct kernels_options options = {.n_threads = 1,
                                      .n_ranks = bench->n_ranks,
                                      .together = MOST_BYTES / sizeof(float),
                                      .limits = {1, 1, 16, 32, 64, 1, 1, 16}};
    for (uint32_t i = 0; i < bench->n_ranks; i++) {
        bench->ranks[i] = (struct rank){.bench = bench, .number = i};
        options.device = i % bench->n_devices;
        TRY(bench->kernels->open(&options, &bench->ranks[i].ctx, error));
        bench->all[i] = bench->ranks[i].ctx;
    }
    if (bench->way == BY_NCCL)
        return bench->kernels->group_id(bench->all[0], &bench->id, error);
    for (uint32_t i = 0; i < bench->n_ranks; i++)
        TRY(bench->kernels->meet(bench->all[i], i, bench->n_ranks, bench->all, NULL, error));
    return STATUS_OK;
}

/* A length takes as long as the slowest rank takes. */
static void print_times(const struct bench *bench) {
    for (enum kind kind = SUM; kind < N_KINDS; kind++) {
        if (bench->ranks[0].us[kind][0] == 0)
            continue;
        for (int i = 0; i < N_LENGTHS; i++) {
            double us = 0;
            for (uint32_t rank = 0; rank < bench->n_ranks; rank++)
                us = bench->ranks[rank].us[kind][i] > us ? bench->ranks[rank].us[kind][i] : us;
            char took[32] = "null"; /* an emulated device has no time */
            if (strcmp(bench->kernels->name, "cuda-emu") != 0)
                snprintf(took, sizeof took, "%.1f", us);
            printf("{\"measure\": \"sums\", \"ranks\": %u, \"devices\": %u, \"way\": \"%s\", "
                   "\"operation\": \"%s\", \"bytes\": %zu, \"us\": %s}\n",
                   bench->n_ranks, bench->n_devices, way_names[bench->way], kind_names[kind],
                   LENGTH(i), took);
        }
    }
}

/* Times, or why the ranks cannot meet in this way: which may be so where they share a device. */
static bool run(struct bench *bench) {
    struct error error = {0};
    enum status status = open_ranks(bench, &error);
    pthread_barrier_init(&bench->barrier, NULL, bench->n_ranks);
    for (uint32_t i = 0; i < bench->n_ranks && status == STATUS_OK; i++)
        if (pthread_create(&bench->ranks[i].thread, NULL, live, &bench->ranks[i]) != 0)
            exit(EXIT_FAILURE);
    for (uint32_t i = 0; i < bench->n_ranks && status == STATUS_OK; i++)
        pthread_join(bench->ranks[i].thread, NULL);
    for (uint32_t i = 0; i < bench->n_ranks && status == STATUS_OK; i++) {
        status = bench->ranks[i].met;
        error = bench->ranks[i].error;
    }
    if (status == STATUS_OK)
        print_times(bench);
    else
        printf("%s: %s\n", way_names[bench->way], error.text);
    for (uint32_t i = 0; i < bench->n_ranks; i++)
        if (bench->ranks[i].ctx)
            bench->kernels->close(bench->ranks[i].ctx);
    pthread_barrier_destroy(&bench->barrier);
    return status == STATUS_OK || bench->n_devices < bench->n_ranks;
}

int main(int argc, char **argv) {
    static struct bench bench;
    const struct kernels *kernels = argc > 3 ? kernels_find(argv[1]) : NULL;
    uint32_t n_ranks = argc > 3 ? (uint32_t)atoi(argv[2]) : 0,
             n_devices = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    bool good = true;
    if (!kernels || !kernels->meet || n_ranks < 2 || n_ranks > RANKS_MOST || n_devices < 1) {
        fprintf(stderr,
                "usage: gpu_sums BACKEND[:NUMERICS] RANKS DEVICES [quick]; up to %d ranks\n",
                RANKS_MOST);
        return EXIT_FAILURE;
    }
    for (enum way way = BY_MEMORY; way < N_WAYS; way++) {
        if (way == BY_NCCL && !getenv("TANDEM_NCCL"))
            continue;
        bench = (struct bench){.kernels = kernels,
                               .way = way,
                               .n_ranks = n_ranks,
                               .n_devices = n_devices,
                               .n_each = argc > 4 ? 1 : 50};
        good &= run(&bench);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
