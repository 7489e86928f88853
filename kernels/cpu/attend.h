/* kernels/cpu/attend.h: causal attention over paged KV. Compiled once per path, after its vec_*.h.
 *
 * Rows (a query head of a token) go in tiles of up to ATTEND_ROWS, so that keys and values are
 * widened once per tile. A row's result depends on its own keys only: it walks them in chunks of
 * ATTEND_CHUNK counted from position 0, its scores are lanes of 16 tokens with one chain of FMAs
 * over the head's dimensions, its values are added token by token, and keys outside its range are
 * not touched, whatever its neighbours in the tile look at. */
#pragma once

#include "kernels/cpu/path.h"
#include "kernels/limits.h"

#define ATTEND_VECS PATH_VECS /* sums of 16 lanes per row that fit the registers: 4, or 1 */

/* What a row sees and its softmax so far. */
struct attend_row {
    const float *q;
    float *out;     /* (head_dim): values weighted with exp(score - max) */
    uint32_t begin; /* first key */
    uint32_t end;   /* one past the last */
    float slope;    /* ALiBi */
    float max;
    float total;
    bool started;
};

struct attend_tile {
    const struct attend_job *job;
    uint32_t n_rows;
    struct attend_row rows[ATTEND_ROWS];
    float scores[ATTEND_ROWS][ATTEND_CHUNK]; /* then weights */
    float sums[ATTEND_ROWS][HEAD_DIM_MAX];   /* of one chunk */
    uint32_t last_block;                     /* that any row looks at */
    bool asks; /* the others of its job find in the cache what it read */
};

/* Keys of this head in a block, and values from index `at` on. `format` is a constant wherever it
 * is passed: both formats are compiled from the same lines, and neither asks which one it is. */
VEC_INLINE const char *attend_k(const struct attend_job *job, uint32_t block,
                                const enum kv_format format) {
    const struct kernels_kv *kv = job->kv;
    size_t at = (size_t)job->kv_head * kv->head_dim * KV_BLOCK_TOKENS;
    return (const char *)kv->base + job->blocks[block] * kv->block_bytes +
           at * kv_format_bytes(format);
}

VEC_INLINE const char *attend_v(const struct attend_job *job, uint32_t block, size_t at,
                                const enum kv_format format) {
    const struct kernels_kv *kv = job->kv;
    at += (size_t)kv->n_kv_heads * kv->head_dim * KV_BLOCK_TOKENS;
    return attend_k(job, block, format) + at * kv_format_bytes(format);
}

/* Blocks lie anywhere, so the processor cannot know which comes next: each is asked for, into the L2
 * cache, as many blocks before its turn as scores are computed of at once. Only the first tile of a job
 * does, since asking for what is there costs prompts a tenth. `asks` is a constant, as `format` is. */
VEC_INLINE uint32_t attend_ahead(const struct attend_tile *tile, uint32_t block) {
    block += ATTEND_VECS;
    return block < tile->last_block ? block : tile->last_block;
}

VEC_INLINE void attend_fetch(const char *from, size_t n_bytes, const bool asks) {
    for (size_t i = 0; asks && i < n_bytes; i += 64)
        __builtin_prefetch(from + i, 0, 2);
}

/* 16 numbers of the cache, `at` numbers behind `from`. */
VEC_INLINE struct vec attend_load(const char *from, size_t at, const enum kv_format format) {
    return format == KV_F32 ? vec_load((const float *)from + at)
                            : vec_load_half((const uint16_t *)from + at);
}

/* n of them, then zeros: behind the last dimension there may be no memory. */
VEC_INLINE struct vec attend_load_n(const char *from, uint32_t n, const enum kv_format format) {
    return format == KV_F32 ? vec_load_n((const float *)from, n, 0.0f)
                            : vec_load_half_n((const uint16_t *)from, n);
}

/* Dot products of n_rows rows with the keys of n_blocks blocks. */
VEC_INLINE void attend_dots(struct attend_tile *tile, uint32_t first_row, const uint32_t n_rows,
                            uint32_t block, const uint32_t n_blocks, uint32_t at,
                            const enum kv_format format, const bool asks) {
    const struct attend_job *job = tile->job;
    const size_t bytes = KV_BLOCK_TOKENS * kv_format_bytes(format); /* of a dimension */
    const char *k[ATTEND_VECS];
    const char *ahead[ATTEND_VECS];
    struct vec dots[ATTEND_ROWS * ATTEND_VECS];
    VEC_UNROLL(4)
    for (uint32_t b = 0; b < n_blocks; b++) {
        k[b] = attend_k(job, block + b, format);
        ahead[b] = attend_k(job, attend_ahead(tile, block + b), format);
        VEC_UNROLL(4)
        for (uint32_t r = 0; r < n_rows; r++)
            dots[r * n_blocks + b] = vec_set(0.0f);
    }
    for (uint32_t d = 0; d < job->kv->head_dim; d++)
        VEC_UNROLL(4)
    for (uint32_t b = 0; b < n_blocks; b++) {
        if (d * bytes % 64 == 0)
            attend_fetch(ahead[b] + d * bytes, 1, asks);
        struct vec keys = attend_load(k[b], (size_t)d * KV_BLOCK_TOKENS, format);
        VEC_UNROLL(4)
        for (uint32_t r = 0; r < n_rows; r++)
            dots[r * n_blocks + b] =
                vec_fma(vec_set(tile->rows[first_row + r].q[d]), keys, dots[r * n_blocks + b]);
    }
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        VEC_UNROLL(4)
    for (uint32_t b = 0; b < n_blocks; b++)
        vec_store(&tile->scores[first_row + r][at + b * KV_BLOCK_TOKENS], dots[r * n_blocks + b]);
}

/* Adds the values of tokens [begin, end), weighted, to dimensions [d, d + 16 whole_vecs) of n_rows
 * rows; where whole_vecs is 0 to the last ones, [d, dim), which are fewer than 16. */
VEC_INLINE void attend_add(struct attend_tile *tile, uint32_t first_row, const uint32_t n_rows,
                           uint32_t begin, uint32_t end, uint32_t d, const uint32_t whole_vecs,
                           const enum kv_format format, const bool asks) {
    struct vec sums[ATTEND_ROWS * ATTEND_VECS];
    uint32_t dim = tile->job->kv->head_dim;
    const uint32_t n_vecs = whole_vecs ? whole_vecs : 1;
    const size_t row_bytes = dim * kv_format_bytes(format);
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        VEC_UNROLL(4)
    for (uint32_t i = 0; i < n_vecs; i++)
        sums[r * n_vecs + i] = vec_load(&tile->sums[first_row + r][d + 16 * i]);
    for (uint32_t j = begin; j < end;) {
        uint32_t slot = j % KV_BLOCK_TOKENS;
        uint32_t block = j / KV_BLOCK_TOKENS;
        size_t at = (size_t)slot * dim + d;
        const char *v = attend_v(tile->job, block, at, format);
        const char *ahead = attend_v(tile->job, attend_ahead(tile, block), at, format);
        uint32_t last = j - slot + KV_BLOCK_TOKENS < end ? j - slot + KV_BLOCK_TOKENS : end;
        for (; j < last; j++, v += row_bytes, ahead += row_bytes) {
            struct vec values[ATTEND_VECS];
            attend_fetch(ahead, 16 * n_vecs * kv_format_bytes(format), asks);
            VEC_UNROLL(4)
            for (uint32_t i = 0; i < n_vecs; i++)
                values[i] = whole_vecs ? attend_load(v, (size_t)16 * i, format)
                                       : attend_load_n(v, dim - d, format);
            VEC_UNROLL(4)
            for (uint32_t r = 0; r < n_rows; r++) {
                struct vec p = vec_set(tile->scores[first_row + r][j % ATTEND_CHUNK]);
                VEC_UNROLL(4)
                for (uint32_t i = 0; i < n_vecs; i++)
                    sums[r * n_vecs + i] = vec_fma(p, values[i], sums[r * n_vecs + i]);
            }
        }
    }
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        VEC_UNROLL(4)
    for (uint32_t i = 0; i < n_vecs; i++)
        vec_store(&tile->sums[first_row + r][d + 16 * i], sums[r * n_vecs + i]);
}

#define ATTEND_CASES(call)                                                                         \
    switch (n_rows) {                                                                              \
    case 1:                                                                                        \
        call(1);                                                                                   \
        break;                                                                                     \
    case 2:                                                                                        \
        call(2);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        call(3);                                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        call(4);                                                                                   \
        break;                                                                                     \
    }

VEC_INLINE void attend_scores_of(struct attend_tile *tile, uint32_t begin, uint32_t end,
                                 const enum kv_format format, const bool asks) {
    uint32_t n_rows = tile->n_rows;
    uint32_t last = (end + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    for (uint32_t block = begin / KV_BLOCK_TOKENS; block < last;) {
        uint32_t at = block * KV_BLOCK_TOKENS % ATTEND_CHUNK;
        if (last - block >= ATTEND_VECS) {
#define CALL(rows) attend_dots(tile, 0, rows, block, ATTEND_VECS, at, format, asks)
            ATTEND_CASES(CALL)
#undef CALL
            block += ATTEND_VECS;
            continue;
        }
#define CALL(rows) attend_dots(tile, 0, rows, block, 1, at, format, asks)
        ATTEND_CASES(CALL)
#undef CALL
        block++;
    }
}

VEC_INLINE void attend_values_of(struct attend_tile *tile, uint32_t first_row, uint32_t n_rows,
                                 uint32_t begin, uint32_t end, const enum kv_format format,
                                 const bool asks) {
    uint32_t dim = tile->job->kv->head_dim;
    uint32_t d = 0;
    for (; d + 16 * ATTEND_VECS <= dim; d += 16 * ATTEND_VECS) {
#define CALL(rows) attend_add(tile, first_row, rows, begin, end, d, ATTEND_VECS, format, asks)
        ATTEND_CASES(CALL)
#undef CALL
    }
    for (; d + 16 <= dim; d += 16) {
#define CALL(rows) attend_add(tile, first_row, rows, begin, end, d, 1, format, asks)
        ATTEND_CASES(CALL)
#undef CALL
    }
    if (d < dim) {
#define CALL(rows) attend_add(tile, first_row, rows, begin, end, d, 0, format, asks)
        ATTEND_CASES(CALL)
#undef CALL
    }
}

/* Runs call(format, asks) with constants. */
#define ATTEND_FORMS(tile, call)                                                                   \
    if ((tile)->job->kv->format == KV_F32 && (tile)->asks)                                         \
        call(KV_F32, true);                                                                        \
    else if ((tile)->job->kv->format == KV_F32)                                                    \
        call(KV_F32, false);                                                                       \
    else if ((tile)->asks)                                                                         \
        call(KV_F16, true);                                                                        \
    else                                                                                           \
        call(KV_F16, false)

static void attend_scores(struct attend_tile *tile, uint32_t begin, uint32_t end) {
#define CALL(format, asks) attend_scores_of(tile, begin, end, format, asks)
    ATTEND_FORMS(tile, CALL);
#undef CALL
}

static void attend_values(struct attend_tile *tile, uint32_t first_row, uint32_t n_rows,
                          uint32_t begin, uint32_t end) {
    if (begin >= end)
        return;
#define CALL(format, asks) attend_values_of(tile, first_row, n_rows, begin, end, format, asks)
    ATTEND_FORMS(tile, CALL);
#undef CALL
}

static const float attend_lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Scores become weights exp(score - max); lanes outside [begin, end) become an exact zero. Gives
 * the chunk's maximum and the sum of the weights. */
static void attend_softmax(struct attend_tile *tile, uint32_t r, uint32_t begin, uint32_t end,
                           float *max_out, float *total) {
    const struct attend_job *job = tile->job;
    const struct attend_row *row = &tile->rows[r];
    float *scores = tile->scores[r];
    uint32_t chunk = begin / ATTEND_CHUNK * ATTEND_CHUNK;
    uint32_t first = (begin - chunk) / 16 * 16;
    uint32_t last = end - chunk;
    struct vec max = vec_set(-INFINITY);
    for (uint32_t i = first; i < last; i += 16) {
        struct vec s = vec_mul(vec_load(scores + i), vec_set(job->scale));
        if (job->alibi) {
            /* j - i: whole numbers below 2^24, so that their sum is exact. */
            float first_away = (float)((int32_t)(chunk + i) - (int32_t)(row->end - 1));
            struct vec away = vec_add(vec_set(first_away), vec_load(attend_lanes));
            s = vec_fma(vec_set(row->slope), away, s);
        }
        vec_store(scores + i, s);
        if (chunk + i < begin)
            for (uint32_t lane = 0; lane < begin - chunk - i; lane++)
                scores[i + lane] = -INFINITY;
        if (i + 16 > last)
            for (uint32_t lane = last - i; lane < 16; lane++)
                scores[i + lane] = -INFINITY;
        max = vec_max(vec_load(scores + i), max);
    }
    *max_out = vec_max_lane(max);
    struct vec sum = vec_set(0.0f);
    for (uint32_t i = first; i < last; i += 16) {
        struct vec p = vec_exp(vec_sub(vec_load(scores + i), vec_set(*max_out)));
        vec_store(scores + i, p);
        sum = vec_add(sum, p);
    }
    *total = vec_sum(sum);
}

/* n outputs of a row from dimension d on, 16 or the last few: behind them is the next head's. */
VEC_INLINE struct vec attend_load_out(const struct attend_row *row, uint32_t d, uint32_t n) {
    return n == 16 ? vec_load(row->out + d) : vec_load_n(row->out + d, n, 0.0f);
}

VEC_INLINE void attend_store_out(const struct attend_row *row, uint32_t d, uint32_t n,
                                 struct vec v) {
    if (n == 16)
        vec_store(row->out + d, v);
    else
        vec_store_n(row->out + d, n, v);
}

/* Adds the chunk's result to the row's. */
static void attend_merge(struct attend_tile *tile, uint32_t r, float max, float total) {
    struct attend_row *row = &tile->rows[r];
    uint32_t dim = tile->job->kv->head_dim;
    if (!row->started) {
        memcpy(row->out, tile->sums[r], dim * sizeof *row->out);
        row->max = max;
        row->total = total;
        row->started = true;
        return;
    }
    float both = row->max > max ? row->max : max;
    float keep = numbers_exp(row->max - both);
    float add = numbers_exp(max - both);
    row->total = fmaf(row->total, keep, total * add);
    row->max = both;
    for (uint32_t d = 0; d < dim; d += 16) {
        uint32_t n = dim - d < 16 ? dim - d : 16;
        struct vec before = attend_load_out(row, d, n);
        attend_store_out(
            row, d, n,
            vec_fma(before, vec_set(keep), vec_mul(vec_load(&tile->sums[r][d]), vec_set(add))));
    }
}

static uint32_t attend_clamp(uint32_t x, uint32_t low, uint32_t high) {
    return x < low ? low : (x > high ? high : x);
}

/* One chunk, tokens [chunk, chunk + ATTEND_CHUNK), for all rows of the tile. */
static void attend_chunk(struct attend_tile *tile, uint32_t chunk) {
    uint32_t begin[ATTEND_ROWS];
    uint32_t end[ATTEND_ROWS];
    uint32_t any_begin = chunk + ATTEND_CHUNK;
    uint32_t any_end = chunk;
    uint32_t all_begin = chunk;
    uint32_t all_end = chunk + ATTEND_CHUNK;
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        begin[r] = attend_clamp(tile->rows[r].begin, chunk, chunk + ATTEND_CHUNK);
        end[r] = attend_clamp(tile->rows[r].end, chunk, chunk + ATTEND_CHUNK);
        any_begin = begin[r] < any_begin ? begin[r] : any_begin;
        any_end = end[r] > any_end ? end[r] : any_end;
        all_begin = begin[r] > all_begin ? begin[r] : all_begin;
        all_end = end[r] < all_end ? end[r] : all_end;
    }
    attend_scores(tile, any_begin, any_end);
    float max[ATTEND_ROWS];
    float total[ATTEND_ROWS];
    if (all_begin >= all_end)
        all_begin = all_end = any_begin; /* nothing in common: each row by itself */
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        if (begin[r] >= end[r])
            continue;
        attend_softmax(tile, r, begin[r], end[r], &max[r], &total[r]);
        memset(tile->sums[r], 0, (tile->job->kv->head_dim + 15) / 16 * 16 * sizeof(float));
        if (all_begin < all_end)
            attend_values(tile, r, 1, begin[r], all_begin);
    }
    attend_values(tile, 0, tile->n_rows, all_begin, all_end);
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        if (begin[r] >= end[r])
            continue;
        attend_values(tile, r, 1, all_begin < all_end ? all_end : begin[r], end[r]);
        attend_merge(tile, r, max[r], total[r]);
    }
}

static void attend_tile_run(struct attend_tile *tile) {
    uint32_t dim = tile->job->kv->head_dim;
    uint32_t begin = tile->rows[0].begin;
    uint32_t end = 0;
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        begin = tile->rows[r].begin < begin ? tile->rows[r].begin : begin;
        end = tile->rows[r].end > end ? tile->rows[r].end : end;
    }
    tile->last_block = (end - 1) / KV_BLOCK_TOKENS;
    for (uint32_t chunk = begin / ATTEND_CHUNK * ATTEND_CHUNK; chunk < end; chunk += ATTEND_CHUNK)
        attend_chunk(tile, chunk);
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        struct attend_row *row = &tile->rows[r];
        for (uint32_t d = 0; d < dim; d += 16) {
            uint32_t n = dim - d < 16 ? dim - d : 16;
            attend_store_out(row, d, n, vec_div(attend_load_out(row, d, n), vec_set(row->total)));
        }
    }
}

static void path_attend(const struct attend_job *job) {
    struct attend_tile tile __attribute__((uninitialized)); /* large, and written before read */
    uint32_t n = job->n_tokens * job->n_group;
    tile.job = job;
    for (uint32_t first = 0; first < n; first += ATTEND_ROWS) {
        tile.n_rows = n - first < ATTEND_ROWS ? n - first : ATTEND_ROWS;
        tile.asks = first == 0;
        for (uint32_t r = 0; r < tile.n_rows; r++) {
            uint32_t token = (first + r) / job->n_group;
            uint32_t head = (first + r) % job->n_group;
            uint32_t end = job->positions[token] + 1;
            size_t at = (size_t)head * job->kv->head_dim;
            tile.rows[r] = (struct attend_row){
                .q = job->q + token * job->q_stride + at,
                .out = job->out + token * job->out_stride + at,
                .begin = job->window != 0 && end > job->window ? end - job->window : 0,
                .end = end,
                .slope = job->alibi ? job->alibi[head] : 0.0f,
            };
        }
        attend_tile_run(&tile);
    }
}
