/* Every init that allocates by configuration, with each of its allocations failing in turn: it
 * answers STATUS_NOMEM, leaks nothing, and works again when there is memory. */
#include "tests/support/nomem.h"

#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/map.h"
#include "proto/codec.h"
#include "router/core/router.h"
#include "tests/support/suite.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/sample.h"

#include <string.h>

const char *const suite_name = "conform_nomem";
const double suite_timeout_s = 60;

static enum status start_router(const char *policy) {
    struct router_config config = {.router_id = 1,
                                   .max_requests = 64,
                                   .max_queue = 8,
                                   .max_workers = 8,
                                   .max_prompt = 128,
                                   .n_vocab = 65536,
                                   .policy = policy};
    struct router_sink sink = {0};
    struct router *router = NULL;
    enum status status = router_new(&config, &sink, &router);
    router_free(router);
    return status == STATUS_OK && !router ? STATUS_INVALID : status;
}

static enum status start_round_robin(void) {
    return start_router("round_robin");
}

static enum status start_least_load(void) {
    return start_router("least_load");
}

static enum status start_two_choices(void) {
    return start_router("two_choices");
}

static enum status start_prefix_affinity(void) {
    return start_router("prefix_affinity");
}

static enum status start_engine(void) {
    struct engine_config config = {.n_blocks = 16,
                                   .block_tokens = 16,
                                   .n_layers = 4,
                                   .layer_groups = 2,
                                   .block_bytes = 64,
                                   .chunk_tokens = 32,
                                   .chunk_bytes = 256,
                                   .max_batch = 4,
                                   .max_seqs = 8,
                                   .context = 64,
                                   .max_links = 4};
    struct engine_sink sink = {0};
    struct engine *engine = NULL;
    enum status status = engine_new(&config, &sink, &engine);
    engine_free(engine);
    return status == STATUS_OK && !engine ? STATUS_INVALID : status;
}

static enum status start_codec(void) {
    struct codec codec;
    memset(&codec, 0, sizeof codec);
    enum status status = codec_init(&codec);
    codec_fini(&codec);
    return status;
}

static enum status start_map(void) {
    struct map map = {0};
    enum status status = map_init(&map, 100, 1);
    map_fini(&map);
    return status;
}

static enum status start_exchanges(void) {
    struct exchanges *all = NULL;
    const struct exchanges_bounds bounds = {
        .n_max = 16, .body_bytes_max = 1u << 20, .output_bytes_max = 1u << 20};
    enum status status = exchanges_new(&bounds, &all);
    exchanges_free(all);
    return status;
}

static enum status start_batch(void) {
    struct batch batch = {0};
    enum status status = batch_init(&batch, 64, 8, 128);
    batch_fini(&batch);
    return status;
}

static enum status start_sample(void) {
    struct sample sample = {0};
    struct sample_options options = {.max_seqs = 4, .max_slots = 8, .context = 64, .n_vocab = 100};
    enum status status = sample_init(&sample, &options);
    sample_fini(&sample);
    return status;
}

static const struct {
    const char *name;
    enum status (*start)(void);
    uint64_t n_least; /* allocations that it surely makes */
} inits[] = {
    {"router with round_robin", start_round_robin, 6},
    {"router with least_load", start_least_load, 5},
    {"router with two_choices", start_two_choices, 5},
    {"router with prefix_affinity", start_prefix_affinity, 6},
    {"engine", start_engine, 20},
    {"codec", start_codec, 1},
    {"map", start_map, 1},
    {"exchanges", start_exchanges, 1},
    {"batch", start_batch, 5},
    {"sample", start_sample, 5},
};

/* One start with the n-th allocation failing (0: none). Nothing of Check's in between: it may be
 * linked in, and allocates too. */
static enum status start(int which, uint64_t n, bool *struck, int64_t *n_leaked) {
    int64_t n_live = nomem_live();
    nomem_fail(n);
    enum status status = inits[which].start();
    *struck = nomem_struck();
    nomem_fail(0);
    *n_leaked = nomem_live() - n_live;
    return status;
}

/* The registry of metrics is not a row here: without memory it goes on and counts what it drops. */
START_TEST(each_allocation_may_fail) {
    bool struck = true;
    uint64_t n = 0;
    while (struck) {
        int64_t n_leaked;
        enum status status = start(_i, ++n, &struck, &n_leaked);
        ck_assert_msg(n_leaked == 0, "%s: allocation %d fails: %d leak", inits[_i].name, (int)n,
                      (int)n_leaked);
        ck_assert_msg(status == (struck ? STATUS_NOMEM : STATUS_OK), "%s: allocation %d fails: %s",
                      inits[_i].name, (int)n, status_name(status));
    }
    ck_assert_msg(n > inits[_i].n_least, "%s: only %d allocations", inits[_i].name, (int)n - 1);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, each_allocation_may_fail, 0, sizeof inits / sizeof *inits);
}
