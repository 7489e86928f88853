/* tests/gpu/bits_attend.c: rotation, the KV cache and attention, by the shapes that kernels are made for. Attention on tensor cores
 * (16-bit keys and values, in fast numerics) is near to the CPU's; all else has its bits. Of either kind a query has the same bits by
 * prefill and by decode, in any piece of its prompt and beside any other sequence. */
#include "kernels/half.h"
#include "tests/gpu/bits.h"
#include "tests/support/random_tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What rounding queries and weights to 16 bits makes of all outputs, where queries, keys and values are of size 1. */
#define NEAR_ATTEND 1e-3

struct attention {
    const char *name;
    enum kv_format format;
    enum rope_layout layout;
    bool norms;
    bool alibi;
    bool logn;
    uint32_t window;
};

#define N_SEQS   5
#define N_BLOCKS 400

/* Sequences of a step: how many tokens are new, and where they begin. */
static const uint32_t sequences[N_SEQS][2] = {{1, 0}, {1, 700}, {100, 250}, {40, 0}, {3, 1190}};

/* Whether the pair's numerics differ in attention of such heads. */
static bool is_near(const struct pair *pair, enum kv_format format) {
    static const uint32_t dims[] = {64, 80, 96, 128, 256}; /* with kernels for tensor cores */
    bool made = false;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        made = made || pair->limits.head_dim == dims[i];
    return pair->near && format == KV_F16 && made;
}

/* Scores of numbers a hundred times as large differ by more than 1: nothing could be said of what is near. */
static float *pair_small_floats(struct pair *pair, size_t n) {
    float *x = pair_floats(pair, n);
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > 1.0f)
            x[i] /= 100.0f;
    return x;
}

static float *operand(struct pair *pair, const struct attention *test, size_t n) {
    return is_near(pair, test->format) ? pair_small_floats(pair, n) : pair_floats(pair, n);
}

/* A cache that was written before: n floats, or twice as many halves. */
static float *old_cache(struct pair *pair, const struct attention *test, size_t n) {
    float *old = operand(pair, test, n);
    for (size_t i = 0; test->format == KV_F16 && i < n; i++) {
        uint16_t halves[2] = {float_to_half(old[i]), float_to_half(-old[i])};
        memcpy(&old[i], halves, 4);
    }
    return old;
}

struct sequences_of {
    uint32_t n_tokens;
    uint32_t stride;
    uint32_t begin[N_SEQS + 1];
    uint32_t positions[256];
    uint32_t variants[N_SEQS];
    uint32_t *blocks; /* owned */
};

static struct sequences_of place_sequences(const struct pair *pair) {
    struct sequences_of all = {.stride = (pair->limits.max_context + KV_BLOCK_TOKENS - 1) /
                                         KV_BLOCK_TOKENS};
    uint32_t next = 3;
    all.blocks = calloc((size_t)N_SEQS * all.stride, sizeof *all.blocks);
    if (!all.blocks)
        abort();
    for (uint32_t s = 0; s < N_SEQS; s++) {
        for (uint32_t i = 0; i < sequences[s][0]; i++)
            all.positions[all.n_tokens++] = sequences[s][1] + i;
        all.begin[s + 1] = all.n_tokens;
        all.variants[s] = s % 2;
        uint32_t last = sequences[s][0] + sequences[s][1] - 1;
        for (uint32_t b = 0; b < all.stride; b++)
            all.blocks[s * all.stride + b] = b <= last / KV_BLOCK_TOKENS ? next++ : UINT32_MAX;
    }
    return all;
}

static void compare_attention(struct pair *pair, const struct attention *test,
                              float *const out_of[2], size_t n) {
    char what[128];
    snprintf(what, sizeof what, "attend %s, %u heads of %u, %u of keys", test->name,
             pair->limits.n_heads, pair->limits.head_dim, pair->limits.n_kv_heads);
    if (is_near(pair, test->format))
        pair_compare_near(pair, what, out_of[0], out_of[1], n, NEAR_ATTEND);
    else
        pair_compare(pair, what, out_of[0], out_of[1], n);
}

static void check_attention(struct pair *pair, const struct attention *test) {
    static const uint32_t ids[256];
    const struct kernels_limits *limits = &pair->limits;
    uint32_t dim = limits->head_dim, n_heads = limits->n_heads, n_kv = limits->n_kv_heads;
    struct sequences_of all = place_sequences(pair);
    size_t width = (size_t)(n_heads + 2 * n_kv) * dim, n_table = (size_t)limits->max_context * dim;
    size_t block_bytes = (size_t)2 * n_kv * dim * KV_BLOCK_TOKENS * kv_format_bytes(test->format);
    size_t kv_floats = N_BLOCKS * block_bytes / 4, n_qkv = all.n_tokens * width;
    float *qkv = operand(pair, test, n_qkv), *tables = operand(pair, test, 2 * n_table);
    float *gains = operand(pair, test, 2 * dim), *slopes = operand(pair, test, n_heads);
    float *logn = operand(pair, test, limits->max_context), *old = old_cache(pair, test, kv_floats);
    float *kv_of[2], *qkv_of[2];
    char what[128];
    BOTH(pair, (size_t)all.n_tokens * n_heads * dim, out, {
        struct kernels_step step = {.batch = {.n_tokens = all.n_tokens,
                                              .n_seqs = N_SEQS,
                                              .ids = ids,
                                              .positions = all.positions,
                                              .seq_begin = all.begin,
                                              .block_tables = all.blocks,
                                              .block_table_stride = all.stride,
                                              .variants = all.variants}};
        struct rope rope = {.layout = test->layout,
                            .dims = test->layout == ROPE_INTERLEAVED ? dim / 2 : dim,
                            .n_variants = 2,
                            .norm_eps = 1e-6f};
        struct kernels_kv kv = {.block_bytes = block_bytes,
                                .n_kv_heads = n_kv,
                                .head_dim = dim,
                                .format = test->format};
        rope.cos = side_floats(side, tables, n_table);
        rope.sin = side_floats(side, tables + n_table, n_table);
        rope.q_scale = test->logn ? side_floats(side, logn, limits->max_context) : NULL;
        rope.q_norm = test->norms ? side_floats(side, gains, dim) : NULL;
        rope.k_norm = test->norms ? side_floats(side, gains + dim, dim) : NULL;
        kv.base = side_floats(side, old, kv_floats);
        float *x = side_floats(side, qkv, n_qkv);
        side->kernels->step_begin(side->ctx, &step);
        side->kernels->rope_kv(side->ctx, x, &step.batch, &rope, &kv);
        side->kernels->attend(side->ctx, out, x, &step.batch, &kv, 0.125f,
                              test->alibi ? side_floats(side, slopes, n_heads) : NULL,
                              test->window);
        side_end_step(side);
        kv_of[which_] = kv.base;
        qkv_of[which_] = x;
    });
    snprintf(what, sizeof what, "rope_kv %s: q and k", test->name);
    pair_compare(pair, what, qkv_of[0], qkv_of[1], n_qkv);
    snprintf(what, sizeof what, "rope_kv %s: blocks", test->name);
    pair_compare(pair, what, kv_of[0], kv_of[1], kv_floats);
    compare_attention(pair, test, out_of, (size_t)all.n_tokens * n_heads * dim);
    pair_clear(pair);
    free(all.blocks);
    free(qkv);
    free(tables);
    free(gains);
    free(slopes);
    free(logn);
    free(old);
}

/* A sequence, and one beside it that has the cache's blocks behind it. */
#define LONG     600
#define BESIDE   40
#define PREFILL  300 /* tokens of a step */
#define WINDOW   290
#define N_TABLE  ((LONG + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS)
#define N_CACHED (2 * N_TABLE)

/* A pair of contexts of their own: heads and format are those of a context. */
static struct pair open_heads(const struct pair *pair, const uint32_t heads[3],
                              enum kv_format format) {
    struct pair other = {.random = pair->random, .limits = pair->limits, .near = pair->near};
    other.limits.max_tokens = PREFILL + BESIDE;
    other.limits.n_heads = heads[0];
    other.limits.n_kv_heads = heads[1];
    other.limits.head_dim = heads[2];
    other.limits.kv_format = format;
    other.limits.max_dim = 1024;
    other.limits.n_vocab = 1000;
    const struct kernels_options options = {.limits = other.limits};
    side_open(&other.got, pair->backends[0], &options);
    side_open(&other.want, pair->backends[1], &options);
    return other;
}

static void close_heads(struct pair *pair, struct pair *other) {
    side_close(&other->got);
    side_close(&other->want);
    pair->n_compared += other->n_compared;
    pair->n_different += other->n_different;
}

static void check_alone(struct pair *pair, const uint32_t heads[3], const struct attention *test) {
    struct pair other = open_heads(pair, heads, test->format);
    check_attention(&other, test);
    close_heads(pair, &other);
}

static void check_kinds(struct pair *pair) {
    static const struct attention tests[] = {
        {"f16", KV_F16, ROPE_HALF_SPLIT, false, false, false, 0},
        {"f32", KV_F32, ROPE_HALF_SPLIT, false, false, false, 0},
        {"interleaved", KV_F16, ROPE_INTERLEAVED, false, false, false, 0},
        {"alibi", KV_F16, ROPE_NONE, false, true, false, 0},
        {"norms", KV_F16, ROPE_HALF_SPLIT, true, false, false, 0},
        {"logn", KV_F16, ROPE_HALF_SPLIT, false, false, true, 0},
        {"window 100", KV_F16, ROPE_HALF_SPLIT, false, false, false, 100},
        {"window 600 f32", KV_F32, ROPE_HALF_SPLIT, false, false, false, 600},
    };
    static const uint32_t heads[] = {8, 2, 64};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        check_alone(pair, heads, &tests[i]);
}

struct scene {
    struct side *side;
    struct kernels_kv kv;
    struct rope rope;
    size_t width;
    size_t out_width;
    float *qkv;  /* (LONG + BESIDE, width), the host's: the second sequence's behind the first's */
    float *x;    /* (max_tokens, width) */
    float *out;  /* (max_tokens, out_width) */
    float *host; /* the same, the host's */
    const float *slopes;
    uint32_t window;
};

/* Tokens of the first sequence, and (n_beside > 0) the first ones of the other, before or behind them. */
struct piece {
    uint32_t first;
    uint32_t n;
    uint32_t n_beside;
    bool behind;
};

/* Computes the piece; what its tokens of the first sequence come to, in scene->host. */
static const float *run_piece(struct scene *scene, const struct piece *piece) {
    static const uint32_t ids[PREFILL + BESIDE];
    struct side *side = scene->side;
    uint32_t n = piece->n + piece->n_beside, at = piece->behind ? piece->n_beside : 0;
    uint32_t other = piece->behind ? 0 : piece->n, n_seqs = piece->n_beside > 0 ? 2 : 1;
    uint32_t positions[PREFILL + BESIDE], begin[3] = {0, n, n}, tables[2 * N_TABLE];
    size_t row_bytes = scene->width * sizeof(float);
    for (uint32_t i = 0; i < piece->n; i++)
        positions[at + i] = piece->first + i;
    for (uint32_t i = 0; i < piece->n_beside; i++)
        positions[other + i] = i;
    if (n_seqs == 2)
        begin[1] = piece->behind ? piece->n_beside : piece->n;
    for (uint32_t s = 0; s < n_seqs; s++)
        for (uint32_t b = 0; b < N_TABLE; b++) /* blocks far from each other */
            tables[s * N_TABLE + b] = 2 * b + (s == (piece->behind ? 0u : 1u) && n_seqs == 2);
    const struct kernels *k = side->kernels;
    struct kernels_step step = {.batch = {.n_tokens = n,
                                          .n_seqs = n_seqs,
                                          .ids = ids,
                                          .positions = positions,
                                          .seq_begin = begin,
                                          .block_tables = tables,
                                          .block_table_stride = N_TABLE}};
    k->put(side->ctx, scene->x + at * scene->width, scene->qkv + piece->first * scene->width,
           piece->n * row_bytes);
    if (n_seqs == 2)
        k->put(side->ctx, scene->x + other * scene->width, scene->qkv + LONG * scene->width,
               piece->n_beside * row_bytes);
    k->step_begin(side->ctx, &step);
    k->rope_kv(side->ctx, scene->x, &step.batch, &scene->rope, &scene->kv);
    k->attend(side->ctx, scene->out, scene->x, &step.batch, &scene->kv, 0.125f, scene->slopes,
              scene->window);
    side_end_step(side);
    k->get(side->ctx, scene->host, scene->out, n * scene->out_width * sizeof(float));
    side_end_step(side);
    return scene->host + at * scene->out_width;
}

static void compare_piece(struct pair *pair, struct scene *scene, const struct piece *piece,
                          const float *whole) {
    const float *got = run_piece(scene, piece);
    bool same = memcmp(got, whole + piece->first * scene->out_width,
                       piece->n * scene->out_width * sizeof *got) == 0;
    pair->n_compared++;
    pair->n_different += !same;
    if (!same)
        printf("DIFFERENT attend, %u heads of %u, %u of keys, window %u: %u queries from %u beside "
               "%u, and the same in a prompt\n",
               pair->limits.n_heads, pair->limits.head_dim, pair->limits.n_kv_heads, scene->window,
               piece->n, piece->first, piece->n_beside);
}

/* A prompt in steps of PREFILL tokens, then pieces of it again: at the bounds of blocks, of the spans of 256 and of the
 * window, by single tokens as in decode and by several. */
static void check_pieces(struct pair *pair, bool alibi, uint32_t window) {
    static const struct piece pieces[] = {
        {0, 1, 0, false},    {63, 2, 1, true},   {255, 1, 1, false}, {256, 1, 1, true},
        {255, 2, 33, false}, {299, 7, 0, false}, {290, 1, 0, false}, {511, 64, 40, true},
        {512, 1, 0, false},  {599, 1, 1, true},  {599, 1, 0, false}, {300, 300, 40, false},
    };
    struct side *side = &pair->got;
    uint32_t dim = pair->limits.head_dim, n_kv = pair->limits.n_kv_heads;
    struct scene scene = {.side = side,
                          .width = (size_t)(pair->limits.n_heads + 2 * n_kv) * dim,
                          .out_width = (size_t)pair->limits.n_heads * dim,
                          .window = window};
    size_t max = PREFILL + BESIDE;
    float *tables = pair_small_floats(pair, (size_t)2 * pair->limits.max_context * dim);
    float *slopes = pair_small_floats(pair, pair->limits.n_heads);
    float *whole = malloc(LONG * scene.out_width * sizeof *whole);
    scene.host = malloc(max * scene.out_width * sizeof *scene.host);
    if (!whole || !scene.host)
        abort();
    scene.qkv = pair_small_floats(pair, (LONG + BESIDE) * scene.width);
    scene.x = side_floats(side, NULL, max * scene.width);
    scene.out = side_floats(side, NULL, max * scene.out_width);
    scene.slopes = alibi ? side_floats(side, slopes, pair->limits.n_heads) : NULL;
    scene.rope = (struct rope){.layout = ROPE_HALF_SPLIT, .dims = dim, .n_variants = 1};
    scene.rope.cos = side_floats(side, tables, (size_t)pair->limits.max_context * dim);
    scene.rope.sin = side_floats(side, tables + (size_t)pair->limits.max_context * dim,
                                 (size_t)pair->limits.max_context * dim);
    scene.kv = (struct kernels_kv){.block_bytes = (size_t)2 * n_kv * dim * KV_BLOCK_TOKENS * 2,
                                   .n_kv_heads = n_kv,
                                   .head_dim = dim,
                                   .format = KV_F16};
    scene.kv.base = side_put(side, NULL, N_CACHED * scene.kv.block_bytes);
    for (uint32_t first = 0; first < LONG; first += PREFILL)
        memcpy(whole + first * scene.out_width,
               run_piece(&scene, &(struct piece){.first = first, .n = PREFILL}),
               PREFILL * scene.out_width * sizeof *whole);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        compare_piece(pair, &scene, &pieces[i], whole);
    pair_clear(pair);
    free(tables);
    free(slopes);
    free(whole);
    free(scene.host);
    free(scene.qkv);
}

/* Kernels differ by how many queries share a head of keys, and by the format. Quick: three on tensor cores. */
static void check_heads(struct pair *pair, bool quick) {
    static const struct attention tests[] = {
        {"f16", KV_F16, ROPE_HALF_SPLIT, false, false, false, 0},
        {"window 300 f32", KV_F32, ROPE_HALF_SPLIT, false, true, false, 300},
    };
    static const uint32_t heads[][3] = {{4, 4, 128}, {7, 1, 80},  {2, 2, 256}, {6, 3, 128},
                                        {12, 1, 66}, {20, 1, 40}, {68, 1, 16}, {3, 1, 96}};
    for (size_t h = 0; h < (quick ? 3 : sizeof heads / sizeof *heads); h++) {
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
            check_alone(pair, heads[h], &tests[i]);
        struct pair other = open_heads(pair, heads[h], KV_F16);
        check_pieces(&other, h % 4 != 3, h % 2 == 1 ? WINDOW : 0);
        close_heads(pair, &other);
    }
}

void check_attentions(struct pair *pair, bool quick) {
    check_heads(pair, quick);
    if (!quick)
        check_kinds(pair);
}
