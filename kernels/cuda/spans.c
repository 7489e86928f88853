/* kernels/cuda/spans.c: attention on tensor cores as launches. Nothing of one depends on how far the sequences are: there is
 * a place for all spans that a sequence may come to have. */
#include "kernels/cuda/spans.h"

#include "base/assert.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/tray.h"

static uint32_t pieces_of(uint32_t n, uint32_t size) {
    return (n + size - 1) / size;
}

static uint32_t heads_in_group(const struct kernels_limits *limits) {
    return limits->n_heads / limits->n_kv_heads;
}

static size_t tiles_bytes(const struct kernels_limits *limits, uint32_t n_tokens) {
    return (size_t)n_tokens * pieces_of(heads_in_group(limits), GPU_SPLIT_QUERIES) *
           sizeof(struct gpu_tile);
}

size_t cuda_spans_bytes(const struct kernels_limits *limits) {
    return cuda_tray_bytes(tiles_bytes(limits, limits->max_tokens));
}

/* Tiles of sequence `seq`, `width` queries each; answers how many. */
static uint32_t list_sequence(const uint32_t *seq_begin, uint32_t seq, uint32_t group,
                              uint32_t width, struct gpu_tile *tiles) {
    uint32_t n_queries = (seq_begin[seq + 1] - seq_begin[seq]) * group, n = 0;
    for (uint32_t first = 0; first < n_queries; first += width)
        tiles[n++] = (struct gpu_tile){.seq = seq,
                                       .token = seq_begin[seq],
                                       .first = first,
                                       .n = n_queries - first < width ? n_queries - first : width};
    return n;
}

void cuda_spans_list(struct kernels_ctx *ctx, uint32_t n_tokens, uint32_t n_seqs) {
    struct cuda_spans *spans = &ctx->step.spans;
    const uint32_t *seq_begin = ctx->step.seq_begin;
    uint32_t group = heads_in_group(&ctx->limits), n = 0;
    size_t n_bytes = tiles_bytes(&ctx->limits, n_tokens);
    struct gpu_tile *tiles = cuda_tray_take(&ctx->step.tray, n_bytes, &spans->tiles);
    for (uint32_t seq = 0; seq < n_seqs; seq++)
        if (seq_begin[seq + 1] - seq_begin[seq] == 1)
            n += list_sequence(seq_begin, seq, group, GPU_SPLIT_QUERIES, tiles + n);
    spans->n_split = n;
    for (uint32_t seq = 0; seq < n_seqs; seq++)
        if (seq_begin[seq + 1] - seq_begin[seq] != 1)
            n += list_sequence(seq_begin, seq, group, GPU_QUERIES, tiles + n);
    spans->n_tiles = n;
    ASSERT(n * sizeof *tiles <= n_bytes);
}

static bool has_kernels(uint32_t head_dim) {
    switch (head_dim) {
#define X(dim) case dim:
        GPU_TENSOR_HEADS(X)
#undef X
        return true;
    default:
        return false;
    }
}

void cuda_spans_open(struct kernels_ctx *ctx) {
    const struct kernels_limits *limits = &ctx->limits;
    ctx->step.spans.serves =
        ctx->fast && limits->kv_format == KV_F16 && has_kernels(limits->head_dim);
}

void cuda_spans_attend(struct kernels_ctx *ctx, struct gpu_attend *attend) {
    const struct cuda_spans *spans = &ctx->step.spans;
    const struct gpu_heads *heads = &attend->heads;
    uint32_t group = heads->n_heads / heads->n_kv_heads;
    attend->few = group < GPU_SPLIT_QUERIES ? group : GPU_SPLIT_QUERIES;
    attend->n_chunks = pieces_of(ctx->limits.max_context, GPU_SPAN);
    size_t places = (size_t)heads->n_kv_heads * attend->few * attend->n_chunks; /* of a tile */
    size_t most = ctx->attend_floats / (places * (heads->head_dim + 2));
    ASSERT(most > 0);
    for (uint32_t begin = 0; begin < spans->n_split; begin += attend->n_tiles) {
        uint32_t left = spans->n_split - begin;
        attend->n_tiles = attend->n_few = left < most ? left : (uint32_t)most;
        attend->tiles = spans->tiles + begin;
        attend->sums = ctx->attend;
        attend->maxima = ctx->attend + attend->n_tiles * places * heads->head_dim;
        attend->totals = attend->maxima + attend->n_tiles * places;
        cuda_launch_attend_tensor(ctx, attend);
        if (attend->n_tiles == spans->n_tiles)
            cuda_hold_join(ctx, attend);
        else
            cuda_launch_join_spans(ctx, attend);
    }
    attend->tiles = spans->tiles + spans->n_split;
    attend->n_tiles = spans->n_tiles - spans->n_split;
    attend->n_few = 0;
    if (attend->n_tiles > 0)
        cuda_launch_attend_tensor(ctx, attend);
}
