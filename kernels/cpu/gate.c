/* kernels/cpu/gate.c: what is computed between the matrices of a feed-forward layer: silu(gate) * up, a
 * gated sum, and which experts a token goes to. */
#include "kernels/cpu/cpu.h"

#include "base/assert.h"
#include "kernels/limits.h"

#define ITEM_FLOATS 16384 /* a few microseconds of work: less is not worth a second thread */

struct gate_job {
    const struct kernels_ctx *ctx;
    float *out;
    const float *x;
    const float *gate;
    size_t n; /* floats, or rows */
    size_t n_per_item;
    uint32_t dim;
    /* moe_route */
    uint32_t *ids;
    uint32_t n_active;
    bool normalise;
};

static uint32_t cpu_gate_n_items(const struct gate_job *job) {
    return (uint32_t)((job->n + job->n_per_item - 1) / job->n_per_item);
}

static size_t cpu_gate_item_end(const struct gate_job *job, uint32_t item) {
    size_t end = (item + (size_t)1) * job->n_per_item;
    return end < job->n ? end : job->n;
}

static void cpu_silu_mul_item(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct gate_job *job = arg;
    size_t begin = item * job->n_per_item;
    job->ctx->path->silu_mul(job->out + begin, job->gate + begin, job->x + begin,
                             cpu_gate_item_end(job, item) - begin);
}

void cpu_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                  size_t n) {
    uint32_t saved = numbers_enter();
    struct gate_job job = {
        .ctx = ctx, .out = out, .x = up, .gate = gate, .n = n, .n_per_item = ITEM_FLOATS};
    thread_pool_run(ctx->pool, cpu_gate_n_items(&job), cpu_silu_mul_item, &job);
    numbers_leave(saved);
}

static void cpu_add_gated_item(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct gate_job *job = arg;
    for (size_t row = item * job->n_per_item; row < cpu_gate_item_end(job, item); row++)
        job->ctx->path->add_scaled(job->out + row * job->dim, job->x + row * job->dim,
                                   job->gate ? numbers_sigmoid(job->gate[row]) : 1.0f, job->dim);
}

void cpu_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                   uint32_t n_rows, uint32_t dim) {
    uint32_t saved = numbers_enter();
    struct gate_job job = {.ctx = ctx,
                           .out = out,
                           .x = x,
                           .gate = gate,
                           .n = n_rows,
                           .n_per_item = ITEM_FLOATS / dim + 1,
                           .dim = dim};
    thread_pool_run(ctx->pool, cpu_gate_n_items(&job), cpu_add_gated_item, &job);
    numbers_leave(saved);
}

/* The n_active largest of p, best first. A comparison with NaN is false, so that of equal or
 * undefined numbers the lowest id stays. */
static void cpu_route_choose(const float *p, uint32_t n, uint32_t *ids, float *weights,
                             uint32_t n_active) {
    bool taken[EXPERTS_MAX];
    memset(taken, 0, n * sizeof *taken);
    for (uint32_t i = 0; i < n_active; i++) {
        uint32_t best = 0;
        while (taken[best])
            best++;
        for (uint32_t e = best + 1; e < n; e++)
            if (p[e] > p[best] && !taken[e])
                best = e;
        taken[best] = true;
        ids[i] = best;
        weights[i] = p[best];
    }
}

static void cpu_route_item(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct gate_job *job = arg;
    float p[EXPERTS_MAX];
    for (size_t row = item * job->n_per_item; row < cpu_gate_item_end(job, item); row++) {
        float *weights = job->out + row * job->n_active;
        job->ctx->path->softmax(p, job->x + row * job->dim, job->dim);
        cpu_route_choose(p, job->dim, job->ids + row * job->n_active, weights, job->n_active);
        float total = 0.0f;
        for (uint32_t i = 0; i < job->n_active; i++)
            total += weights[i];
        for (uint32_t i = 0; job->normalise && i < job->n_active; i++)
            weights[i] = weights[i] / total;
    }
}

void cpu_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                   uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise) {
    ASSERT(n_experts <= EXPERTS_MAX);
    ASSERT(n_active >= 1 && n_active <= n_experts);
    uint32_t saved = numbers_enter();
    struct gate_job job = {.ctx = ctx,
                           .out = weights,
                           .x = logits,
                           .n = n_rows,
                           .n_per_item = ITEM_FLOATS / (n_experts * n_active) + 1,
                           .dim = n_experts,
                           .ids = ids,
                           .n_active = n_active,
                           .normalise = normalise};
    thread_pool_run(ctx->pool, cpu_gate_n_items(&job), cpu_route_item, &job);
    numbers_leave(saved);
}
