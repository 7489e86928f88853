/* kernels/cuda/spans.c: attention on tensor cores as launches. Nothing of one depends on how far the sequences are: where the
 * spans of each lie, as many as its position has, the step's arrays say. What there is no room for comes in another wave of
 * launches; only then do these depend on positions. */
#include "kernels/cuda/spans.h"

#include "base/assert.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/tray.h"
#include "kernels/limits.h"

static uint32_t pieces_of(uint32_t n, uint32_t size) {
    return (n + size - 1) / size;
}

/* The most tiles that so many tokens have. */
static size_t most_tiles(const struct kernels_limits *limits, uint32_t n_tokens) {
    return (size_t)n_tokens * pieces_of(limits_heads_in_group(limits), GPU_SPLIT_QUERIES);
}

size_t cuda_spans_bytes(const struct kernels_limits *limits) {
    size_t n = most_tiles(limits, limits->max_tokens);
    return cuda_tray_bytes(n * sizeof(struct gpu_tile)) + cuda_tray_bytes(n * sizeof(uint32_t));
}

static uint32_t few_of(const struct kernels_limits *limits) {
    uint32_t group = limits_heads_in_group(limits);
    return group < GPU_SPLIT_QUERIES ? group : GPU_SPLIT_QUERIES;
}

/* Results of one span of a tile. */
static uint32_t queries_of(const struct kernels_limits *limits) {
    return limits->n_kv_heads * few_of(limits);
}

/* Spans of tiles whose results there is room for. */
static uint32_t room_of(const struct kernels_ctx *ctx) {
    return (uint32_t)(ctx->attend_floats / queries_of(&ctx->limits) / (ctx->limits.head_dim + 2));
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

/* What fills a step up has no spans, and stands behind the others. */
static void find_places(struct kernels_ctx *ctx, const struct gpu_tile *tiles, uint32_t *places) {
    struct cuda_spans *spans = &ctx->step.spans;
    uint32_t room = room_of(ctx), used = 0;
    spans->n_waves = spans->n_split > 0;
    for (uint32_t i = 0; i < spans->n_split; i++) {
        uint32_t position = ctx->step.positions[tiles[i].token];
        uint32_t n = position == GPU_NO_TOKEN ? 0 : position / GPU_SPAN + 1;
        ASSERT(n <= room);
        if (n > room - used) {
            used = 0;
            spans->n_waves++;
        }
        places[i] = used;
        used += n;
    }
}

void cuda_spans_list(struct kernels_ctx *ctx, uint32_t n_tokens, uint32_t n_seqs) {
    struct cuda_spans *spans = &ctx->step.spans;
    const uint32_t *seq_begin = ctx->step.seq_begin;
    uint32_t group = limits_heads_in_group(&ctx->limits), n = 0;
    size_t most = most_tiles(&ctx->limits, n_tokens);
    struct gpu_tile *tiles = cuda_tray_take(&ctx->step.tray, most * sizeof *tiles, &spans->tiles);
    for (uint32_t seq = 0; seq < n_seqs; seq++)
        if (seq_begin[seq + 1] - seq_begin[seq] == 1)
            n += list_sequence(seq_begin, seq, group, GPU_SPLIT_QUERIES, tiles + n);
    spans->n_split = n;
    for (uint32_t seq = 0; seq < n_seqs; seq++)
        if (seq_begin[seq + 1] - seq_begin[seq] != 1)
            n += list_sequence(seq_begin, seq, group, GPU_QUERIES, tiles + n);
    spans->n_tiles = n;
    ASSERT(n <= most);
    uint32_t *places = cuda_tray_take(&ctx->step.tray, most * sizeof *places, &spans->places);
    find_places(ctx, tiles, places);
    spans->host_places = places;
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

/* Split tiles from `begin` on that have room together. */
static uint32_t tiles_of_wave(const struct cuda_spans *spans, uint32_t begin) {
    uint32_t end = begin + 1;
    while (end < spans->n_split && spans->host_places[end] > 0)
        end++;
    return end - begin;
}

void cuda_spans_attend(struct kernels_ctx *ctx, struct gpu_attend *attend) {
    const struct cuda_spans *spans = &ctx->step.spans;
    size_t n_results = (size_t)room_of(ctx) * queries_of(&ctx->limits);
    attend->few = few_of(&ctx->limits);
    attend->n_chunks = pieces_of(ctx->limits.max_context, GPU_SPAN);
    attend->sums = ctx->attend;
    attend->maxima = ctx->attend + n_results * attend->heads.head_dim;
    attend->totals = attend->maxima + n_results;
    for (uint32_t begin = 0; begin < spans->n_split; begin += attend->n_tiles) {
        attend->n_tiles = attend->n_few = tiles_of_wave(spans, begin);
        attend->tiles = spans->tiles + begin;
        attend->places = spans->places + begin;
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
