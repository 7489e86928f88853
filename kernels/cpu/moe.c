/* kernels/cpu/moe.c: a mixture of experts' feed-forward layer. Pairs of a row and one of its
 * experts are sorted by expert and go through in waves of whole experts: both matrices of all
 * experts of a wave are one job each for the pool, so that a token whose eight experts are small
 * wakes it as often as one large expert would. */
#include "kernels/cpu/cpu.h"

#include "base/assert.h"
#include "kernels/host.h"
#include "kernels/limits.h"

#define ADD_WORK_MIN 16384 /* multiplications of one item of the sum */

struct moe {
    struct kernels_ctx *ctx;
    float *out;
    const float *x;
    const struct weight *gate_up;
    const struct weight *down;
    uint32_t dim;
    uint32_t expert_dim;
    uint32_t wave_pairs; /* pairs of one wave at most */
    /* Pairs in order of expert, then of row: those of expert e begin at begin[e]. */
    uint32_t begin[EXPERTS_MAX + 1];
    uint32_t *rows;  /* (pairs), as all below in the caller's scratch */
    float *weights;  /* (pairs) */
    float *gathered; /* (wave_pairs, dim): x of experts whose rows are not neighbours */
    float *inner;    /* (wave_pairs, expert_dim) */
    float *outer;    /* (wave_pairs, dim) */
    /* The wave. */
    uint32_t first_pair;
    uint32_t n_pairs;
    uint32_t floats_per_item; /* of the sum */
};

static void cpu_moe_sort_pairs(struct moe *moe, const uint32_t *ids, const float *weights,
                               uint32_t n_rows, uint32_t n_active, uint32_t n_experts) {
    uint32_t next[EXPERTS_MAX];
    size_t n = (size_t)n_rows * n_active;
    memset(moe->begin, 0, (n_experts + 1) * sizeof *moe->begin);
    for (size_t i = 0; i < n; i++) {
        ASSERT(ids[i] < n_experts);
        moe->begin[ids[i] + 1]++;
    }
    for (uint32_t e = 0; e < n_experts; e++) {
        next[e] = moe->begin[e];
        moe->begin[e + 1] += moe->begin[e];
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t at = next[ids[i]]++;
        moe->rows[at] = (uint32_t)(i / n_active);
        moe->weights[at] = weights[i];
    }
}

/* The rows of one expert side by side: in x itself where they are. */
static const float *cpu_moe_expert_rows(const struct moe *moe, uint32_t begin, uint32_t end) {
    if (moe->rows[end - 1] - moe->rows[begin] == end - 1 - begin)
        return moe->x + (size_t)moe->rows[begin] * moe->dim;
    float *to = moe->gathered + (size_t)(begin - moe->first_pair) * moe->dim;
    for (uint32_t i = begin; i < end; i++)
        memcpy(to + (size_t)(i - begin) * moe->dim, moe->x + (size_t)moe->rows[i] * moe->dim,
               moe->dim * sizeof *to);
    return to;
}

/* Some columns of all rows of the wave. A row's experts rise with its pairs. */
static void cpu_moe_add_item(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct moe *moe = arg;
    uint32_t begin = item * moe->floats_per_item;
    uint32_t end = begin + moe->floats_per_item;
    end = end < moe->dim ? end : moe->dim;
    for (uint32_t i = 0; i < moe->n_pairs; i++)
        moe->ctx->path->add_scaled(moe->out + (size_t)moe->rows[moe->first_pair + i] * moe->dim +
                                       begin,
                                   moe->outer + (size_t)i * moe->dim + begin,
                                   moe->weights[moe->first_pair + i], end - begin);
}

static void cpu_moe_add_wave(struct moe *moe) {
    uint32_t least = ADD_WORK_MIN / moe->n_pairs / 16 * 16 + 16;
    uint32_t share = (moe->dim / moe->ctx->n_threads + 15) / 16 * 16;
    moe->floats_per_item = share > least ? share : least;
    thread_pool_run(moe->ctx->pool, (moe->dim + moe->floats_per_item - 1) / moe->floats_per_item,
                    cpu_moe_add_item, moe);
}

/* Experts from `expert` on, as many as fit; gives the first that was left out. */
static uint32_t cpu_moe_run_wave(struct moe *moe, uint32_t expert, uint32_t n_experts) {
    struct linear_task inner[LINEAR_TASKS_MAX];
    struct linear_task outer[LINEAR_TASKS_MAX];
    uint32_t n = 0;
    moe->first_pair = moe->begin[expert];
    for (; expert < n_experts && n < LINEAR_TASKS_MAX; expert++) {
        uint32_t begin = moe->begin[expert];
        uint32_t end = moe->begin[expert + 1];
        if (begin == end)
            continue;
        if (end - moe->first_pair > moe->wave_pairs)
            break;
        size_t at = begin - moe->first_pair;
        inner[n] = (struct linear_task){.weight = &moe->gate_up[expert],
                                        .x = cpu_moe_expert_rows(moe, begin, end),
                                        .out = moe->inner + at * moe->expert_dim,
                                        .out_stride = moe->expert_dim,
                                        .n_rows = end - begin,
                                        .epilogue = EPILOGUE_SILU_MUL};
        outer[n++] = (struct linear_task){.weight = &moe->down[expert],
                                          .x = moe->inner + at * moe->expert_dim,
                                          .out = moe->outer + at * moe->dim,
                                          .out_stride = moe->dim,
                                          .n_rows = end - begin,
                                          .epilogue = EPILOGUE_NONE};
    }
    moe->n_pairs = moe->begin[expert] - moe->first_pair;
    if (n == 0)
        return expert;
    cpu_linears(moe->ctx, inner, n);
    cpu_linears(moe->ctx, outer, n);
    cpu_moe_add_wave(moe);
    return expert;
}

void cpu_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                 const float *weights, uint32_t n_rows, uint32_t n_active,
                 const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                 float *scratch) {
    ASSERT(n_experts >= 1 && n_experts <= EXPERTS_MAX);
    ASSERT(n_active <= n_experts);
    uint32_t saved = numbers_enter();
    struct moe moe __attribute__((uninitialized)); /* large, and written before read */
    moe.ctx = ctx;
    moe.out = out;
    moe.x = x;
    moe.gate_up = gate_up;
    moe.down = down;
    moe.dim = gate_up[0].k;
    moe.expert_dim = gate_up[0].n / 2;
    moe.wave_pairs = host_moe_wave(n_rows, n_active);
    moe.gathered = scratch;
    moe.outer = moe.gathered + (size_t)moe.wave_pairs * moe.dim;
    moe.inner = moe.outer + (size_t)moe.wave_pairs * moe.dim;
    moe.weights = moe.inner + (size_t)moe.wave_pairs * moe.expert_dim;
    moe.rows = (uint32_t *)(moe.weights + (size_t)n_rows * n_active);
    memset(out, 0, (size_t)n_rows * moe.dim * sizeof *out);
    cpu_moe_sort_pairs(&moe, ids, weights, n_rows, n_active, n_experts);
    for (uint32_t expert = 0; expert < n_experts;)
        expert = cpu_moe_run_wave(&moe, expert, n_experts);
    numbers_leave(saved);
}
