/* tools/bench/rows/cluster.h: a virtual cluster (tools/cell) whose steps take as long as the roofline says. One owner
 * thread. */
#pragma once

#include "tools/cell/cell.h"
#include "worker/device/roofline.h"

#define CLUSTER_WORKERS_MAX 256u

struct cluster {
    struct cell_spec spec; /* of cell_new() and virtual_run() */
    struct cell_worker workers[CLUSTER_WORKERS_MAX];
    struct roofline roofline;  /* of each worker */
    double us[ROOFLINE_TERMS]; /* what the steps' time went to, all workers together */
};

/* Tokens of KV beside the weights: 0.9 of each device's memory, as vLLM's and Tandem's default. */
double cluster_kv_tokens(const struct roofline *roofline);

/* One router and one worker with the defaults of tandem-worker, for sequences of up to n_tokens. Must not be moved or
 * copied. false: the model and one such sequence do not fit. */
bool cluster_one(struct cluster *cluster, const struct roofline *roofline, uint32_t n_tokens);

/* As cluster_one(), of n_workers: first n_prefill for prefill, then n_decode for decode, the others mixed. */
bool cluster_of(struct cluster *cluster, const struct roofline *roofline, uint32_t n_tokens,
                uint32_t n_workers, uint32_t n_prefill, uint32_t n_decode);
