/* Attention of backends with fast numerics, on tensor cores: near to softmax in double precision, and for each query the same
 * bits by prefill in any chunks, by decode, alone or beside others. Slots that were never written hold NaN, and there is no
 * block where nothing may be looked at. Keys and values of 32 bits, and heads of other sizes, have the reference's bits. */
#include "kernels/half.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_attend_fast";
const double suite_timeout_s = 600;

#define N_SEQS   3
#define BLOCKS   34 /* of a sequence at most */
#define N_BLOCKS (N_SEQS * BLOCKS)
#ifdef FEW /* positions, where each access of a kernel is looked at: in two spans of keys */
#define LONGEST 290
#define LONGER  84
#else
#define LONGEST 530
#define LONGER  148
#endif
#define N_TOKENS (LONGEST + 36 + LONGER)

static const uint32_t lengths[N_SEQS] = {LONGEST, 36, LONGER};

struct shape {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t window;
    bool has_alibi;
    float scale;
    enum kv_format format;
};

/* Windows that end a key before, at and behind the bounds of blocks and spans; groups that fill a tile, and more. */
static const struct shape shapes[] = {
    {4, 1, 128, 0, false, 0.5f, KV_F16},  {2, 2, 64, 100, false, 0.7f, KV_F16},
    {16, 1, 80, 0, true, 0.6f, KV_F16},   {3, 3, 96, 256, false, 0.6f, KV_F16},
    {2, 1, 256, 0, true, 0.35f, KV_F16},  {20, 1, 64, 65, false, 0.7f, KV_F16},
    {8, 2, 128, 255, true, 0.5f, KV_F16}, {40, 1, 64, 0, false, 0.5f, KV_F16},
    {3, 1, 64, 1, false, 0.7f, KV_F16},   {1, 1, 256, 64, false, 0.35f, KV_F16},
    {5, 1, 96, 257, false, 2.0f, KV_F16}, {2, 1, 128, 0, false, 0.5f, KV_F32},
    {2, 1, 72, 40, true, 0.6f, KV_F16},
};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))
#define N_EXACT  2 /* the last ones: no kernels for tensor cores are made for them */

struct scene {
    struct shape shape;
    struct kernels_limits limits;
    uint32_t begin[N_SEQS + 1];
    size_t width; /* floats of a qkv row */
    size_t out_width;
    float *qkv;
    float *expected; /* (N_TOKENS, n_heads * head_dim) */
    float alibi[64];
    uint32_t tables[N_SEQS * BLOCKS];
};

static size_t block_bytes(const struct shape *shape) {
    return (size_t)2 * shape->n_kv_heads * shape->head_dim * KV_BLOCK_TOKENS *
           kv_format_bytes(shape->format);
}

static void *new_cache(const struct shape *shape) {
    size_t n_bytes = N_BLOCKS * block_bytes(shape);
    char *cache = malloc(n_bytes);
    for (size_t at = 0; at < n_bytes; at += kv_format_bytes(shape->format))
        if (shape->format == KV_F32)
            memcpy(cache + at, &(float){NAN}, 4);
        else
            memcpy(cache + at, &(uint16_t){0x7e00}, 2);
    return cache;
}

static void scene_init(struct scene *scene, const struct shape *shape) {
    struct random random = {shape->n_heads * 1000 + shape->head_dim};
    *scene = (struct scene){.shape = *shape};
    scene->limits = (struct kernels_limits){.max_tokens = N_TOKENS,
                                            .max_seqs = N_SEQS,
                                            .max_context = BLOCKS * KV_BLOCK_TOKENS,
                                            .max_dim = 64,
                                            .n_vocab = 64,
                                            .n_heads = shape->n_heads,
                                            .n_kv_heads = shape->n_kv_heads,
                                            .head_dim = shape->head_dim,
                                            .kv_format = shape->format};
    for (uint32_t s = 0; s < N_SEQS; s++)
        scene->begin[s + 1] = scene->begin[s] + lengths[s];
    scene->width = (size_t)(shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    scene->out_width = (size_t)shape->n_heads * shape->head_dim;
    scene->qkv = malloc(N_TOKENS * scene->width * sizeof(float));
    scene->expected = calloc(N_TOKENS * scene->out_width, sizeof(float));
    fill_random(&random, scene->qkv, N_TOKENS * scene->width);
    for (size_t i = 0; i < N_TOKENS * scene->width; i++)
        if (fabsf(scene->qkv[i]) > 1.0f) /* all are of size 1 */
            scene->qkv[i] /= 100.0f;
    for (int i = 0; i < 64; i++)
        scene->alibi[i] = 0.5f / (float)(i + 1);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        scene->tables[i] = i * 31 % N_BLOCKS; /* they have no common factor */
}

static void scene_fini(struct scene *scene) {
    free(scene->qkv);
    free(scene->expected);
}

/* What a scene's operations read and write, in a subject's memory. */
struct placed {
    float *qkv;
    float *result;
    float *alibi;
    void *cache;
};

static struct placed scene_place(const struct scene *scene, struct subject *subject) {
    void *cache = new_cache(&scene->shape);
    struct placed placed = {
        .qkv = subject_floats(subject, NULL, N_TOKENS * scene->width),
        .result = subject_floats(subject, NULL, N_TOKENS * scene->out_width),
        .alibi = subject_floats(subject, scene->alibi, 64),
        .cache = subject_bytes(subject, cache, N_BLOCKS * block_bytes(&scene->shape)),
    };
    free(cache);
    return placed;
}

static uint32_t first_seen(const struct shape *shape, uint32_t position) {
    return shape->window != 0 && position >= shape->window ? position + 1 - shape->window : 0;
}

/* The blocks that tokens [first, first + n) of a sequence may look at; the others have no place. */
static void fill_table(const struct scene *scene, uint32_t seq, uint32_t first, uint32_t n,
                       uint32_t *table) {
    uint32_t begin = first_seen(&scene->shape, first);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        bool is_seen = i >= begin / KV_BLOCK_TOKENS && i <= (first + n - 1) / KV_BLOCK_TOKENS;
        table[i] = is_seen ? scene->tables[(size_t)seq * BLOCKS + i] : UINT32_MAX;
    }
}

/* Some tokens of some sequences; their outputs go to their place in `out`. */
struct step {
    uint32_t n_seqs;
    uint32_t seqs[N_SEQS];
    uint32_t first[N_SEQS];
    uint32_t n[N_SEQS];
};

static void run_step(const struct scene *scene, const struct subject *subject,
                     const struct placed *at, const struct step *step, float *out) {
    const struct shape *shape = &scene->shape;
    uint32_t positions[N_TOKENS], seq_begin[N_SEQS + 1] = {0}, tables[N_SEQS * BLOCKS], t = 0;
    static const uint32_t ids[N_TOKENS];
    float *qkv = malloc(N_TOKENS * scene->width * sizeof *qkv);
    float *result = malloc(N_TOKENS * scene->out_width * sizeof *result);
    for (uint32_t s = 0; s < step->n_seqs; s++) {
        uint32_t from = scene->begin[step->seqs[s]] + step->first[s];
        fill_table(scene, step->seqs[s], step->first[s], step->n[s], tables + (size_t)s * BLOCKS);
        memcpy(qkv + t * scene->width, scene->qkv + from * scene->width,
               step->n[s] * scene->width * sizeof *qkv);
        for (uint32_t i = 0; i < step->n[s]; i++)
            positions[t++] = step->first[s] + i;
        seq_begin[s + 1] = t;
    }
    struct kernels_batch batch = {.n_tokens = t,
                                  .n_seqs = step->n_seqs,
                                  .ids = ids,
                                  .positions = positions,
                                  .seq_begin = seq_begin,
                                  .block_tables = tables,
                                  .block_table_stride = BLOCKS};
    struct rope rope = {.layout = ROPE_NONE, .n_variants = 1};
    struct kernels_kv kv = {at->cache, block_bytes(shape), shape->n_kv_heads, shape->head_dim,
                            shape->format};
    subject_write(subject, at->qkv, qkv, t * scene->width * sizeof *qkv);
    struct kernels_step begun = subject_begin(subject, &batch, NULL, 0);
    subject->kernels->rope_kv(subject->ctx, at->qkv, &begun.batch, &rope, &kv);
    subject->kernels->attend(subject->ctx, at->result, at->qkv, &begun.batch, &kv, shape->scale,
                             shape->has_alibi ? at->alibi : NULL, shape->window);
    subject_end(subject);
    subject_read(subject, result, at->result, t * scene->out_width * sizeof *result);
    for (uint32_t s = 0; s < step->n_seqs; s++)
        memcpy(out + (scene->begin[step->seqs[s]] + step->first[s]) * scene->out_width,
               result + seq_begin[s] * scene->out_width,
               step->n[s] * scene->out_width * sizeof *out);
    free(qkv);
    free(result);
}

/* Each sequence by itself, whole. */
static void run_alone(const struct scene *scene, struct subject *subject, float *out) {
    struct placed placed = scene_place(scene, subject);
    for (uint32_t s = 0; s < N_SEQS; s++) {
        struct step step = {.n_seqs = 1, .seqs = {s}, .n = {lengths[s]}};
        run_step(scene, subject, &placed, &step, out);
    }
    subject_drop(subject);
}

static double near(const struct scene *scene, uint32_t seq, uint32_t i, size_t at) {
    float x = scene->qkv[(scene->begin[seq] + i) * scene->width + at];
    return (double)half_to_float(float_to_half(x));
}

/* A head of the query at `position`: attention of what is rounded to binary16, in double precision. */
static void check_head(const struct scene *scene, uint32_t seq, uint32_t position, uint32_t head) {
    const struct shape *shape = &scene->shape;
    uint32_t dim = shape->head_dim, begin = first_seen(shape, position);
    uint32_t kv_head = head / (shape->n_heads / shape->n_kv_heads);
    size_t k = (size_t)(shape->n_heads + kv_head) * dim, v = k + (size_t)shape->n_kv_heads * dim;
    static double weights[BLOCKS * KV_BLOCK_TOKENS];
    double max = -INFINITY, total = 0;
    for (uint32_t j = begin; j <= position; j++) {
        double score = 0;
        for (uint32_t d = 0; d < dim; d++)
            score +=
                near(scene, seq, position, (size_t)head * dim + d) * near(scene, seq, j, k + d);
        weights[j] = score * (double)shape->scale;
        if (shape->has_alibi)
            weights[j] += (double)scene->alibi[head] * ((double)j - (double)position);
        max = fmax(max, weights[j]);
    }
    for (uint32_t j = begin; j <= position; j++)
        total += weights[j] = exp(weights[j] - max);
    const float *got =
        scene->expected + (scene->begin[seq] + position) * scene->out_width + (size_t)head * dim;
    for (uint32_t d = 0; d < dim; d++) {
        double sum = 0;
        for (uint32_t j = begin; j <= position; j++)
            sum += weights[j] / total * near(scene, seq, j, v + d);
        ck_assert_msg(fabs((double)got[d] - sum) <= 1e-3,
                      "heads of %u, window %u: dimension %u of head %u at %u is %f, not %f", dim,
                      shape->window, d, head, position, (double)got[d], sum);
    }
}

static void check_near(const struct scene *scene) {
    for (uint32_t seq = 0; seq < N_SEQS; seq++)
        for (uint32_t i = 0; i < lengths[seq]; i += i % 64 < 62 ? 13 : 1)
            check_head(scene, seq, i, i % scene->shape.n_heads);
}

enum pattern {
    WHOLE,
    SIXTY_FOURS,
    SEVENS,
    BOUNDS,
    N_PATTERNS
}; /* of the first sequence; of others, those behind it */

/* Tokens that come next: BOUNDS, one by one where a block or a span of keys ends, and all between at once. */
static uint32_t next_tokens(enum pattern pattern, uint32_t done, uint32_t length) {
    static const uint32_t bounds[] = {2, 63, 66, 127, 129, 254, 259, 509, 515};
    uint32_t n = length - done, most = n;
    if (pattern == SIXTY_FOURS || pattern == SEVENS)
        most = pattern == SEVENS ? 7 : 64;
    for (size_t i = 0; pattern == BOUNDS && i < sizeof bounds / sizeof *bounds; i++)
        if (done < bounds[i]) {
            most = i % 2 == 0 ? 1 : bounds[i] - done;
            break;
        }
    return n < most ? n : most;
}

/* All sequences side by side, by patterns of their own, in another order in each step. */
static void check_pattern(const struct scene *scene, struct subject *subject, int pattern) {
    size_t n_out = N_TOKENS * scene->out_width;
    struct placed placed = scene_place(scene, subject);
    float *out = calloc(n_out, sizeof *out);
    uint32_t done[N_SEQS] = {0};
    for (uint32_t number = 0;; number++) {
        struct step step = {0};
        for (uint32_t i = 0; i < N_SEQS; i++) {
            uint32_t seq = (i + number) % N_SEQS;
            uint32_t n = next_tokens((enum pattern)((pattern + (int)seq) % N_PATTERNS), done[seq],
                                     lengths[seq]);
            if (n == 0)
                continue;
            step.seqs[step.n_seqs] = seq;
            step.first[step.n_seqs] = done[seq];
            step.n[step.n_seqs++] = n;
            done[seq] += n;
        }
        if (step.n_seqs == 0)
            break;
        run_step(scene, subject, &placed, &step, out);
    }
    for (size_t i = 0; i < n_out; i++)
        ck_assert_msg(
            memcmp(&out[i], &scene->expected[i], sizeof *out) == 0,
            "%s, heads of %u, window %u, pattern %d: output %zu of token %zu is %a, alone %a",
            subject->kernels->name, scene->shape.head_dim, scene->shape.window, pattern,
            i % scene->out_width, i / scene->out_width, (double)out[i], (double)scene->expected[i]);
    subject_drop(subject);
    free(out);
}

START_TEST(a_query_has_its_bits_however_it_comes) {
    struct scene scene;
    struct subject subject;
    scene_init(&scene, &shapes[_i]);
    for (uint32_t i = 0; subject_next(&subject, &i, &scene.limits); subject_close(&subject)) {
        if (subject_is_exact(&subject))
            continue;
        run_alone(&scene, &subject, scene.expected);
        if (_i < N_SHAPES - N_EXACT)
            check_near(&scene);
        check_pattern(&scene, &subject, BOUNDS);
        check_pattern(&scene, &subject, _i % BOUNDS);
    }
    scene_fini(&scene);
}
END_TEST

START_TEST(what_is_not_for_tensor_cores_has_the_bits_of_the_reference) {
    struct scene scene;
    scene_init(&scene, &shapes[N_SHAPES - N_EXACT + _i]);
    struct subject subject = subject_ref(&scene.limits);
    size_t n_bytes = N_TOKENS * scene.out_width * sizeof(float);
    float *out = malloc(n_bytes);
    run_alone(&scene, &subject, scene.expected);
    subject_close(&subject);
    for (uint32_t i = 0; subject_next(&subject, &i, &scene.limits); subject_close(&subject)) {
        if (subject_is_exact(&subject))
            continue;
        run_alone(&scene, &subject, out);
        ck_assert_int_eq(memcmp(out, scene.expected, n_bytes), 0);
    }
    free(out);
    scene_fini(&scene);
}
END_TEST

/* The last two tokens of the longest sequence side by side, each of two tiles, where there is room for the spans of half of these;
 * its keys and values are those of a prompt. */
START_TEST(tiles_that_there_is_no_room_for_come_later) {
    const struct shape shape = {20, 1, 64, 0, false, 0.7f, KV_F16};
    static const struct step prompt = {1, {0}, {0}, {LONGEST}};
    static const struct step two = {2, {0, 0}, {LONGEST - 1, LONGEST - 2}, {1, 1}};
    struct scene scene;
    struct subject subject, small;
    scene_init(&scene, &shape);
    struct kernels_limits limits = scene.limits;
    limits.max_tokens = 2;
    size_t cache_bytes = N_BLOCKS * block_bytes(&shape), last = (LONGEST - 2) * scene.out_width;
    float *out = malloc(N_TOKENS * scene.out_width * sizeof *out);
    void *cache = malloc(cache_bytes);
    for (uint32_t i = 0; subject_next(&subject, &i, &scene.limits); subject_close(&subject)) {
        uint32_t same = i - 1;
        if (subject_is_exact(&subject))
            continue;
        struct placed placed = scene_place(&scene, &subject);
        run_step(&scene, &subject, &placed, &prompt, scene.expected);
        subject_read(&subject, cache, placed.cache, cache_bytes);
        ck_assert(subject_next(&small, &same, &limits));
        placed = scene_place(&scene, &small);
        subject_write(&small, placed.cache, cache, cache_bytes);
        run_step(&scene, &small, &placed, &two, out);
        ck_assert_int_eq(
            memcmp(out + last, scene.expected + last, 2 * scene.out_width * sizeof *out), 0);
        subject_drop(&subject);
        subject_close(&small);
    }
    free(cache);
    free(out);
    scene_fini(&scene);
}
END_TEST

START_TEST(there_is_a_backend_of_fast_numerics) {
    ck_assert(subject_has_fast());
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, there_is_a_backend_of_fast_numerics);
    tcase_add_loop_test(tests, a_query_has_its_bits_however_it_comes, 0, N_SHAPES);
    tcase_add_loop_test(tests, what_is_not_for_tensor_cores_has_the_bits_of_the_reference, 0,
                        N_EXACT);
    tcase_add_test(tests, tiles_that_there_is_no_room_for_come_later);
}
