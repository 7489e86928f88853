#include "tools/bench/rows/cluster.h"

#include "base/clock.h"

#define MEMORY_SHARE 0.9
#define SPARE_BYTES                                                                                \
    0.3e9 /* activations, logits and tables of a step of 512 tokens (--dry-run: 0.13 to 0.30 GB) */
#define BLOCK_TOKENS 16
#define CHUNK_TOKENS 512 /* tandem-worker --chunk-tokens, and as its memory.c: */
#define BATCH_LEAST  64
#define BATCH_MOST   256
#define BATCH_TOKENS 256
#define CONTEXT_MOST 32768
#define DELAY_NS     (30 * NS_PER_US) /* of a message over ipc or one switch */
#define LOOK_NS      (5 * NS_PER_MS)
#define KV_BYTES_S   10e9 /* shared memory or 100 Gbit/s Ethernet */

double cluster_kv_tokens(const struct roofline *roofline) {
    return roofline_kv_tokens(roofline, MEMORY_SHARE, SPARE_BYTES);
}

static uint64_t bench_rows_step_ns(void *context, uint32_t worker, const struct cell_step *step) {
    struct cluster *cluster = context;
    struct roofline_step what = {step->n_tokens, step->n_sampled, step->n_seqs, step->n_keys,
                                 step->n_pairs};
    struct roofline_terms terms;
    (void)worker;
    roofline_terms(&terms, &cluster->roofline, &what);
    if (!step->is_trial)
        roofline_add(cluster->us, &terms);
    return (uint64_t)(terms.total_us * 1e3);
}

bool cluster_of(struct cluster *cluster, const struct roofline *roofline, uint32_t n_tokens,
                uint32_t n_workers, uint32_t n_prefill, uint32_t n_decode) {
    double kv_tokens = cluster_kv_tokens(roofline);
    uint32_t n_blocks = (uint32_t)(kv_tokens / BLOCK_TOKENS),
             n_batch = (uint32_t)(kv_tokens / BATCH_TOKENS);
    if (n_workers > CLUSTER_WORKERS_MAX || n_prefill + n_decode > n_workers ||
        kv_tokens < n_tokens + BLOCK_TOKENS)
        return false;
    n_batch = n_batch < BATCH_LEAST ? BATCH_LEAST : n_batch > BATCH_MOST ? BATCH_MOST : n_batch;
    *cluster = (struct cluster){.roofline = *roofline,
                                .spec = {.n_routers = 1,
                                         .n_workers = n_workers,
                                         .policy = "prefix_affinity",
                                         .max_requests = 65536,
                                         .max_prompt = CONTEXT_MOST,
                                         .delay_ns = DELAY_NS,
                                         .look_ns = LOOK_NS,
                                         .kv_bytes_s = KV_BYTES_S}};
    const struct roofline_model *model = &roofline->model;
    for (uint32_t i = 0; i < n_workers; i++)
        cluster->workers[i] = (struct cell_worker){
            .role = i < n_prefill              ? CELL_PREFILL
                    : i < n_prefill + n_decode ? CELL_DECODE
                                               : CELL_MIXED,
            .n_blocks = n_blocks,
            .n_layers = model->n_layers,
            .block_bytes = (uint32_t)(model->kv_bytes / model->n_layers) * BLOCK_TOKENS,
            .chunk_tokens = CHUNK_TOKENS,
            .max_batch = n_batch,
            .context = kv_tokens < CONTEXT_MOST ? n_blocks * BLOCK_TOKENS : CONTEXT_MOST};
    cluster->spec.workers = cluster->workers;
    cluster->spec.model = (struct cell_model){.context = cluster, .step_ns = bench_rows_step_ns};
    return true;
}

bool cluster_one(struct cluster *cluster, const struct roofline *roofline, uint32_t n_tokens) {
    return cluster_of(cluster, roofline, n_tokens, 1, 0, 0);
}
