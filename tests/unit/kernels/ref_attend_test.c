/* The reference backend's heads and attention against the same mathematics in double. */
#include "kernels/limits.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_ref_attend";
const double suite_timeout_s = 120;

#define TOKENS 300
#define BLOCKS 19
#define BASE   10000.0
#define SCALE  0.2

struct attention_case {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    enum rope_layout layout;
    uint32_t dims;
    uint32_t window;
    bool has_alibi;
    bool has_norm;
    bool has_q_scale;
    enum kv_format format;
};

static const struct attention_case cases[] = {
    {6, 2, 32, ROPE_HALF_SPLIT, 32, 0, false, false, false, KV_F16},
    {6, 2, 32, ROPE_INTERLEAVED, 16, 50, false, false, false, KV_F16},
    {6, 2, 32, ROPE_NONE, 0, 0, true, false, false, KV_F16},
    {3, 3, 48, ROPE_HALF_SPLIT, 48, 0, false, true, false, KV_F32},
    {3, 1, 16, ROPE_HALF_SPLIT, 8, 0, false, false, true, KV_F32},
    {4, 1, 64, ROPE_INTERLEAVED, 32, 0, false, false, false, KV_F32},
    {7, 1, 80, ROPE_HALF_SPLIT, 80, 1, false, true, true, KV_F32},
    {8, 1, 128, ROPE_INTERLEAVED, 64, 0, true, false, false, KV_F32},
    {16, 1, 32, ROPE_NONE, 0, 17, true, false, false, KV_F32},
    {40, 40, 16, ROPE_NONE, 0, 0, true, false, false, KV_F32},
    {2, 2, 256, ROPE_HALF_SPLIT, 256, 256, false, true, false, KV_F32},
    {4, 2, 8, ROPE_HALF_SPLIT, 8, 0, false, true, false, KV_F32},
    {3, 1, 10, ROPE_HALF_SPLIT, 10, 0, false, true, true, KV_F32},
    {2, 1, 50, ROPE_INTERLEAVED, 26, 40, false, false, false, KV_F16},
    {2, 2, 90, ROPE_NONE, 0, 0, true, false, false, KV_F16},
    {2, 1, 250, ROPE_HALF_SPLIT, 250, 0, false, true, true, KV_F32},
};
#define N_CASES ((int)(sizeof cases / sizeof cases[0]))

/* What all heads share; `rows` are q | k | v before and after what rope_kv does to them. */
struct scene {
    const struct attention_case *test;
    size_t width;
    float *qkv;
    double *rows;
    float *cosines;
    float *sines;
    float *q_scale;
    float gains[2 * HEAD_DIM_MAX];
    float alibi[64];
};

static double angle(const struct attention_case *test, uint32_t position, uint32_t pair) {
    return position * pow(BASE, -2.0 * pair / test->dims);
}

static void norm_head(double *x, const float *gain, uint32_t dim) {
    double squares = 0.0;
    for (uint32_t d = 0; d < dim; d++)
        squares += x[d] * x[d];
    for (uint32_t d = 0; d < dim; d++)
        x[d] = x[d] / sqrt(squares / dim + 1e-6) * (double)gain[d];
}

static void rotate_head(const struct attention_case *test, double *x, uint32_t position) {
    double before[HEAD_DIM_MAX];
    memcpy(before, x, test->head_dim * sizeof *x);
    uint32_t half = test->dims / 2;
    for (uint32_t i = 0; i < half && test->layout != ROPE_NONE; i++) {
        double t = angle(test, position, i);
        uint32_t a = test->layout == ROPE_HALF_SPLIT ? i : 2 * i;
        uint32_t b = test->layout == ROPE_HALF_SPLIT ? i + half : 2 * i + 1;
        x[a] = before[a] * cos(t) - before[b] * sin(t);
        x[b] = before[b] * cos(t) + before[a] * sin(t);
    }
}

/* Slopes of Press et al. 2022 for any number of heads: those of a power of two, then every second
 * of the next one. */
static double alibi_slope(uint32_t head, uint32_t n_heads) {
    uint32_t power = 1;
    while (power * 2 <= n_heads)
        power *= 2;
    return head < power ? pow(2.0, -8.0 * (head + 1) / power)
                        : pow(2.0, -8.0 * (2 * (head - power) + 1) / (2 * power));
}

static void scene_init(struct scene *scene, const struct attention_case *test, uint64_t seed) {
    struct random random = {seed};
    uint32_t dim = test->head_dim;
    size_t half = test->dims / 2;
    *scene =
        (struct scene){.test = test, .width = (size_t)(test->n_heads + 2 * test->n_kv_heads) * dim};
    size_t n = TOKENS * scene->width;
    scene->qkv = malloc(n * sizeof *scene->qkv);
    scene->rows = malloc(n * sizeof *scene->rows);
    scene->cosines = malloc(TOKENS * (half + 1) * sizeof(float));
    scene->sines = malloc(TOKENS * (half + 1) * sizeof(float));
    scene->q_scale = malloc(TOKENS * sizeof(float));
    for (uint32_t h = 0; h < test->n_heads; h++)
        scene->alibi[h] = (float)alibi_slope(h, test->n_heads);
    for (uint32_t d = 0; d < 2 * dim; d++)
        scene->gains[d] = 0.5f + random_unit(random_next(&random));
    for (size_t i = 0; i < n; i++) {
        scene->qkv[i] = random_unit(random_next(&random)) * 4.0f - 2.0f;
        scene->rows[i] = (double)scene->qkv[i];
    }
    for (uint32_t t = 0; t < TOKENS; t++) {
        scene->q_scale[t] = t < 100 ? 1.0f : logf((float)t) / logf(100.0f);
        for (uint32_t i = 0; i < half; i++) {
            scene->cosines[t * half + i] = (float)cos(angle(test, t, i));
            scene->sines[t * half + i] = (float)sin(angle(test, t, i));
        }
        for (uint32_t h = 0; h < test->n_heads + test->n_kv_heads; h++) {
            double *head = scene->rows + t * scene->width + (size_t)h * dim;
            bool is_query = h < test->n_heads;
            if (test->has_norm)
                norm_head(head, scene->gains + (is_query ? 0 : dim), dim);
            rotate_head(test, head, t);
            for (uint32_t d = 0; test->has_q_scale && is_query && d < dim; d++)
                head[d] *= (double)scene->q_scale[t];
        }
    }
}

static void scene_fini(struct scene *scene) {
    free(scene->qkv);
    free(scene->rows);
    free(scene->cosines);
    free(scene->sines);
    free(scene->q_scale);
}

static void exact_head(const struct scene *scene, uint32_t token, uint32_t head, double *out) {
    static double weights[TOKENS];
    const struct attention_case *test = scene->test;
    uint32_t dim = test->head_dim;
    uint32_t kv_head = head / (test->n_heads / test->n_kv_heads);
    const double *q = scene->rows + token * scene->width + (size_t)head * dim;
    const double *k = scene->rows + (size_t)(test->n_heads + kv_head) * dim;
    const double *v = k + (size_t)test->n_kv_heads * dim;
    double max = -INFINITY;
    double total = 0.0;
    for (uint32_t j = 0; j <= token; j++) {
        weights[j] = 0.0;
        for (uint32_t d = 0; d < dim; d++)
            weights[j] += q[d] * k[j * scene->width + d] * SCALE;
        if (test->has_alibi)
            weights[j] += alibi_slope(head, test->n_heads) * ((double)j - token);
        if (test->window != 0 && j + test->window <= token) /* i - W < j */
            weights[j] = -INFINITY;
        max = weights[j] > max ? weights[j] : max;
    }
    memset(out, 0, dim * sizeof *out);
    for (uint32_t j = 0; j <= token; j++) {
        double p = exp(weights[j] - max);
        total += p;
        for (uint32_t d = 0; d < dim; d++)
            out[d] += p * v[j * scene->width + d];
    }
    for (uint32_t d = 0; d < dim; d++)
        out[d] /= total;
}

/* All tokens as one sequence through rope_kv and attend. */
static void run_reference(const struct scene *scene, float *out) {
    const struct attention_case *test = scene->test;
    uint32_t positions[TOKENS];
    uint32_t blocks[BLOCKS];
    for (uint32_t t = 0; t < TOKENS; t++)
        positions[t] = t;
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = BLOCKS - 1 - i;
    struct kernels_limits limits = {.max_tokens = TOKENS,
                                    .max_seqs = 1,
                                    .max_context = TOKENS,
                                    .max_dim = 64,
                                    .n_vocab = 64,
                                    .n_heads = test->n_heads,
                                    .n_kv_heads = test->n_kv_heads,
                                    .head_dim = test->head_dim,
                                    .kv_format = test->format};
    struct kernels_batch batch = {.n_tokens = TOKENS,
                                  .n_seqs = 1,
                                  .positions = positions,
                                  .seq_begin = (const uint32_t[]){0, TOKENS},
                                  .block_tables = blocks,
                                  .block_table_stride = BLOCKS};
    size_t block_bytes = (size_t)2 * test->n_kv_heads * test->head_dim * KV_BLOCK_TOKENS *
                         kv_format_bytes(test->format);
    struct subject ref = subject_ref(&limits);
    void *cache = ref.kernels->alloc(ref.ctx, BLOCKS * block_bytes);
    struct kernels_kv kv = {cache, block_bytes, test->n_kv_heads, test->head_dim, test->format};
    struct rope rope = {.layout = test->layout,
                        .dims = test->dims,
                        .n_variants = 1,
                        .cos = scene->cosines,
                        .sin = scene->sines,
                        .q_scale = test->has_q_scale ? scene->q_scale : NULL,
                        .q_norm = test->has_norm ? scene->gains : NULL,
                        .k_norm = test->has_norm ? scene->gains + test->head_dim : NULL,
                        .norm_eps = 1e-6f};
    ref.kernels->rope_kv(ref.ctx, scene->qkv, &batch, &rope, &kv);
    ref.kernels->attend(ref.ctx, out, scene->qkv, &batch, &kv, (float)SCALE,
                        test->has_alibi ? scene->alibi : NULL, test->window);
    ref.kernels->dealloc(ref.ctx, cache, BLOCKS * block_bytes);
    subject_close(&ref);
}

START_TEST(attention_is_softmax_over_rotated_keys) {
    const struct attention_case *test = &cases[_i];
    uint32_t dim = test->head_dim;
    struct scene scene;
    scene_init(&scene, test, 8);
    float *out = malloc((size_t)TOKENS * test->n_heads * dim * sizeof *out);
    run_reference(&scene, out);
    /* Keys and values of binary16 are off by 2^-11 of themselves. Scores reach 100, and exp makes
     * of their error in float32 one of a thousandth of a percent. */
    double allowed = test->format == KV_F16 ? 8e-3 : 3e-5;
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t h = 0; h < test->n_heads; h++) {
            double expected[HEAD_DIM_MAX];
            exact_head(&scene, t, h, expected);
            const float *got = out + ((size_t)t * test->n_heads + h) * dim;
            for (uint32_t d = 0; d < dim; d++)
                if (!(fabs((double)got[d] - expected[d]) <= allowed))
                    ck_abort_msg("token %u, head %u: %g at %u, exactly %g", t, h, (double)got[d], d,
                                 expected[d]);
        }
    free(out);
    scene_fini(&scene);
}
END_TEST

START_TEST(slopes_of_forty_heads_are_those_of_baichuan) {
    ck_assert_double_eq_tol(alibi_slope(0, 40), 0.840896, 1e-6);
    ck_assert_double_eq_tol(alibi_slope(31, 40), 0.00390625, 1e-9);
    ck_assert_double_eq_tol(alibi_slope(32, 40), 0.917004, 1e-6);
    ck_assert_double_eq_tol(alibi_slope(39, 40), 0.272627, 1e-6);
}
END_TEST

/* A sequence's own table: what variant 1 does is what a table of those angles alone does. */
START_TEST(a_sequence_is_turned_by_its_own_table) {
    enum { dim = 32, context = 48, half = dim / 2, width = 4 * dim };
    struct random random = {5};
    static float angles[2][3 * context * half];
    static float qkv[2 * width];
    static float alone[2 * width];
    static float cache[2 * 2 * dim * KV_BLOCK_TOKENS];
    fill_random(&random, angles[0], sizeof angles / sizeof(float));
    fill_random(&random, qkv, 2 * width);
    memcpy(alone, qkv, sizeof qkv);
    struct kernels_limits limits = {2, 2, context, 64, 64, 2, 1, dim, KV_F32};
    struct subject ref = subject_ref(&limits);
    struct kernels_kv kv = {cache, sizeof cache / 2, 1, dim, KV_F32};
    struct kernels_batch batch = {.n_tokens = 2,
                                  .n_seqs = 2,
                                  .positions = (const uint32_t[]){7, 11},
                                  .seq_begin = (const uint32_t[]){0, 1, 2},
                                  .block_tables = (const uint32_t[]){0, 1},
                                  .block_table_stride = 1,
                                  .variants = (const uint32_t[]){2, 1}};
    struct rope rope = {.layout = ROPE_HALF_SPLIT,
                        .dims = dim,
                        .n_variants = 3,
                        .cos = angles[0],
                        .sin = angles[1]};
    ref.kernels->rope_kv(ref.ctx, qkv, &batch, &rope, &kv);
    for (uint32_t seq = 0; seq < 2; seq++) {
        size_t at = (size_t)batch.variants[seq] * context * half;
        struct kernels_batch one = {.n_tokens = 1,
                                    .n_seqs = 1,
                                    .positions = batch.positions + seq,
                                    .seq_begin = batch.seq_begin,
                                    .block_tables = batch.block_tables,
                                    .block_table_stride = 1};
        struct rope own = rope;
        own.n_variants = 1;
        own.cos += at;
        own.sin += at;
        ref.kernels->rope_kv(ref.ctx, alone + (size_t)seq * width, &one, &own, &kv);
    }
    ck_assert_mem_eq(qkv, alone, sizeof qkv);
    subject_close(&ref);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, attention_is_softmax_over_rotated_keys, 0, N_CASES);
    tcase_add_test(tests, slopes_of_forty_heads_are_those_of_baichuan);
    tcase_add_test(tests, a_sequence_is_turned_by_its_own_table);
}
