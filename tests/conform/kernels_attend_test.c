/* Attention of every backend, instruction set and number of threads gives the bits of the
 * reference: prompts whole and in chunks, alone and beside others, with unwritten slots of the
 * cache full of NaN and no block where nothing may be looked at. */
#include "kernels/limits.h"
#include "kernels/numbers.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_attend";
const double suite_timeout_s = 300;

#define N_SEQS   3
#define BLOCKS   26 /* of a sequence at most */
#define N_BLOCKS (N_SEQS * BLOCKS)
#ifdef FEW /* positions, where each access of a kernel is looked at */
#define LONGEST 155
#define LONGER  85
#elif defined __SANITIZE_ADDRESS__ /* more than ATTEND_CHUNK all the same */
#define LONGEST 274
#define LONGER  99
#else
#define LONGEST 295
#define LONGER  148
#endif
#define N_TOKENS (LONGEST + 36 + LONGER)

/* Cut into sevens, one token is left. */
static const uint32_t lengths[N_SEQS] = {LONGEST, 36, LONGER};

struct shape {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t rope_dims;
    enum rope_layout layout;
    uint32_t window;
    bool has_alibi;
    bool has_q_scale;
    enum kv_format format;
    bool has_norm;
    uint32_t n_variants;
};

static const struct shape shapes[] = {
    {9, 3, 64, 64, ROPE_HALF_SPLIT, 0, false, false, KV_F16, false, 1},
    {4, 4, 32, 32, ROPE_INTERLEAVED, 40, false, false, KV_F16, false, 2},
    {16, 1, 48, 24, ROPE_INTERLEAVED, 0, false, false, KV_F32, false, 1},
    {7, 1, 80, 80, ROPE_HALF_SPLIT, 256, false, true, KV_F16, true, 3},
    {5, 5, 16, 0, ROPE_NONE, 0, true, false, KV_F32, false, 1},
    {4, 2, 128, 64, ROPE_HALF_SPLIT, 1, true, false, KV_F16, false, 1},
    {8, 1, 64, 64, ROPE_HALF_SPLIT, 33, false, true, KV_F32, true, 2},
    {2, 1, 256, 128, ROPE_INTERLEAVED, 0, true, true, KV_F32, true, 1},
    {8, 2, 96, 32, ROPE_HALF_SPLIT, 16, true, false, KV_F32, false, 3},
    {6, 3, 10, 10, ROPE_HALF_SPLIT, 0, false, true, KV_F16, true, 1}, /* no whole lanes */
    {8, 8, 8, 4, ROPE_INTERLEAVED, 0, true, false, KV_F16, false, 1},
    {5, 1, 50, 26, ROPE_INTERLEAVED, 50, false, true, KV_F32, false, 2},
    {3, 1, 90, 90, ROPE_HALF_SPLIT, 0, false, false, KV_F16, true, 1},
    {2, 2, 250, 250, ROPE_HALF_SPLIT, 0, false, false, KV_F16, true, 1},
    {4, 2, 42, 42, ROPE_HALF_SPLIT, 33, true, true, KV_F32, true, 1},
    {12, 1, 40, 40, ROPE_HALF_SPLIT, 0, true, false, KV_F16, false, 1},
    {20, 1, 24, 24, ROPE_INTERLEAVED, 100, false, false, KV_F16, false, 1},
    {67, 1, 8, 8, ROPE_HALF_SPLIT, 0, false, false, KV_F32, false, 1}, /* two tiles a token */
};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* One model's inputs and, by the reference, its outputs. Tokens of sequence s begin at begin[s]. */
struct scene {
    struct shape shape;
    struct kernels_limits limits;
    uint32_t begin[N_SEQS + 1];
    size_t width; /* floats of a qkv row */
    float *qkv;
    float *expected; /* (N_TOKENS, n_heads * head_dim) */
    void *blocks;    /* the cache as the reference left it */
    float *cosines;
    float *sines;
    float *q_scale;
    float gains[2 * HEAD_DIM_MAX]; /* of q and k */
    float alibi[16];
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

/* The blocks that tokens [first, first + n) of a sequence may look at; the others have no place. */
static void fill_table(const struct scene *scene, uint32_t seq, uint32_t first, uint32_t n,
                       uint32_t *table) {
    uint32_t window = scene->shape.window;
    uint32_t begin = window != 0 && first + 1 > window ? first + 1 - window : 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        bool is_seen = i >= begin / KV_BLOCK_TOKENS && i <= (first + n - 1) / KV_BLOCK_TOKENS;
        table[i] = is_seen ? scene->tables[(size_t)seq * BLOCKS + i] : UINT32_MAX;
    }
}

/* What a scene's operations read and write, in a subject's memory. */
struct placed {
    float *qkv;
    float *result;
    float *cosines;
    float *sines;
    float *q_scale;
    float *gains;
    float *alibi;
    void *cache;
};

static size_t angles_of(const struct shape *shape) {
    return (size_t)shape->n_variants * BLOCKS * KV_BLOCK_TOKENS *
           (shape->rope_dims / 2 + 1); /* never none */
}

static struct placed scene_place(const struct scene *scene, struct subject *subject) {
    const struct shape *shape = &scene->shape;
    void *cache = new_cache(shape);
    struct placed placed = {
        .qkv = subject_floats(subject, NULL, N_TOKENS * scene->width),
        .result =
            subject_floats(subject, NULL, (size_t)N_TOKENS * shape->n_heads * shape->head_dim),
        .cosines = subject_floats(subject, scene->cosines, angles_of(shape)),
        .sines = subject_floats(subject, scene->sines, angles_of(shape)),
        .q_scale = subject_floats(subject, scene->q_scale, (size_t)BLOCKS * KV_BLOCK_TOKENS),
        .gains = subject_floats(subject, scene->gains, (size_t)2 * shape->head_dim),
        .alibi = subject_floats(subject, scene->alibi, 16),
        .cache = subject_bytes(subject, cache, N_BLOCKS * block_bytes(shape)),
    };
    free(cache);
    return placed;
}

/* A step over some tokens: rotation, cache and attention; outputs go to their place in `out`. */
struct step {
    uint32_t n_seqs;
    uint32_t seqs[N_SEQS];
    uint32_t first[N_SEQS];
    uint32_t n[N_SEQS];
};

static void run_step(const struct scene *scene, const struct subject *subject,
                     const struct placed *at, const struct step *step, float *out) {
    const struct shape *shape = &scene->shape;
    size_t out_width = (size_t)shape->n_heads * shape->head_dim;
    uint32_t positions[N_TOKENS];
    uint32_t seq_begin[N_SEQS + 1] = {0};
    uint32_t tables[N_SEQS * BLOCKS];
    uint32_t variants[N_SEQS];
    static uint32_t ids[N_TOKENS];
    uint32_t n_tokens = 0, t = 0;
    for (uint32_t s = 0; s < step->n_seqs; s++)
        n_tokens += step->n[s];
    float *qkv = malloc(n_tokens * scene->width * sizeof *qkv);
    float *result = malloc(n_tokens * out_width * sizeof *result);
    for (uint32_t s = 0; s < step->n_seqs; s++) {
        uint32_t seq = step->seqs[s];
        variants[s] = seq % shape->n_variants;
        fill_table(scene, seq, step->first[s], step->n[s], tables + (size_t)s * BLOCKS);
        for (uint32_t i = 0; i < step->n[s]; i++, t++) {
            positions[t] = step->first[s] + i;
            memcpy(qkv + t * scene->width,
                   scene->qkv + (scene->begin[seq] + positions[t]) * scene->width,
                   scene->width * sizeof *qkv);
        }
        seq_begin[s + 1] = t;
    }
    struct kernels_batch batch = {.n_tokens = t,
                                  .n_seqs = step->n_seqs,
                                  .ids = ids,
                                  .positions = positions,
                                  .seq_begin = seq_begin,
                                  .block_tables = tables,
                                  .block_table_stride = BLOCKS,
                                  .variants = shape->n_variants > 1 ? variants : NULL};
    struct rope rope = {.layout = shape->layout,
                        .dims = shape->rope_dims,
                        .n_variants = shape->n_variants,
                        .cos = at->cosines,
                        .sin = at->sines,
                        .q_scale = shape->has_q_scale ? at->q_scale : NULL,
                        .q_norm = shape->has_norm ? at->gains : NULL,
                        .k_norm = shape->has_norm ? at->gains + shape->head_dim : NULL,
                        .norm_eps = 1e-6f};
    struct kernels_kv kv = {.base = at->cache,
                            .block_bytes = block_bytes(shape),
                            .n_kv_heads = shape->n_kv_heads,
                            .head_dim = shape->head_dim,
                            .format = shape->format};
    subject_write(subject, at->qkv, qkv, t * scene->width * sizeof *qkv);
    struct kernels_step begun = subject_begin(subject, &batch, NULL, 0);
    subject->kernels->rope_kv(subject->ctx, at->qkv, &begun.batch, &rope, &kv);
    subject->kernels->attend(subject->ctx, at->result, at->qkv, &begun.batch, &kv, 0.125f,
                             shape->has_alibi ? at->alibi : NULL, shape->window);
    subject_end(subject);
    subject_read(subject, result, at->result, t * out_width * sizeof *result);
    for (uint32_t s = 0; s < step->n_seqs; s++)
        memcpy(out + (scene->begin[step->seqs[s]] + step->first[s]) * out_width,
               result + seq_begin[s] * out_width, step->n[s] * out_width * sizeof *out);
    free(qkv);
    free(result);
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
    size_t out_width = (size_t)shape->n_heads * shape->head_dim;
    size_t n_angles = angles_of(shape);
    scene->qkv = malloc(N_TOKENS * scene->width * sizeof(float));
    scene->expected = malloc(N_TOKENS * out_width * sizeof(float));
    scene->cosines = malloc(n_angles * sizeof(float));
    scene->sines = malloc(n_angles * sizeof(float));
    scene->q_scale = malloc(BLOCKS * KV_BLOCK_TOKENS * sizeof(float));
    fill_random(&random, scene->qkv, N_TOKENS * scene->width);
    fill_random(&random, scene->cosines, n_angles);
    fill_random(&random, scene->sines, n_angles);
    fill_random(&random, scene->q_scale, (size_t)BLOCKS * KV_BLOCK_TOKENS);
    fill_random(&random, scene->gains, (size_t)2 * shape->head_dim);
    for (int i = 0; i < 16; i++)
        scene->alibi[i] = 0.5f / (float)(i + 1);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        scene->tables[i] = i * 31 % N_BLOCKS; /* 31 and 78 have no common factor */
    scene->blocks = malloc(N_BLOCKS * block_bytes(shape));
    struct subject ref = subject_ref(&scene->limits);
    struct placed placed = scene_place(scene, &ref);
    struct step all = {.n_seqs = N_SEQS, .seqs = {0, 1, 2}, .n = {LONGEST, 36, LONGER}};
    run_step(scene, &ref, &placed, &all, scene->expected);
    subject_read(&ref, scene->blocks, placed.cache, N_BLOCKS * block_bytes(shape));
    subject_close(&ref);
}

static void scene_fini(struct scene *scene) {
    free(scene->qkv);
    free(scene->expected);
    free(scene->blocks);
    free(scene->cosines);
    free(scene->sines);
    free(scene->q_scale);
}

/* All sequences, each in chunks of `chunk` tokens, side by side; those that are done drop out. */
static void check_chunks(const struct scene *scene, struct subject *subject, uint32_t chunk) {
    size_t n_out = (size_t)N_TOKENS * scene->shape.n_heads * scene->shape.head_dim;
    size_t cache_bytes = N_BLOCKS * block_bytes(&scene->shape);
    struct placed placed = scene_place(scene, subject);
    void *cache = malloc(cache_bytes);
    float *out = calloc(n_out, sizeof *out);
    uint32_t done[N_SEQS] = {0};
    for (;;) {
        struct step step = {0};
        for (uint32_t i = 0; i < N_SEQS; i++) {
            uint32_t seq = (i + done[0] / chunk) % N_SEQS; /* another order in each step */
            uint32_t left = lengths[seq] - done[seq];
            uint32_t n = left < chunk ? left : chunk;
            if (n == 0)
                continue;
            step.seqs[step.n_seqs] = seq;
            step.first[step.n_seqs] = done[seq];
            step.n[step.n_seqs++] = n;
        }
        if (step.n_seqs == 0)
            break;
        run_step(scene, subject, &placed, &step, out);
        for (uint32_t i = 0; i < step.n_seqs; i++)
            done[step.seqs[i]] += step.n[i];
    }
    for (size_t i = 0; i < n_out; i++)
        if (memcmp(&out[i], &scene->expected[i], sizeof *out) != 0)
            ck_abort_msg("%s %s, %u threads, chunks of %u: output %zu is %a, reference %a",
                         subject->kernels->name, subject->isa ? subject->isa : "",
                         subject->n_threads, chunk, i, (double)out[i], (double)scene->expected[i]);
    subject_read(subject, cache, placed.cache, cache_bytes);
    ck_assert_int_eq(memcmp(cache, scene->blocks, cache_bytes), 0);
    subject_drop(subject);
    free(cache);
    free(out);
}

static const uint32_t chunks[] = {1, 7, 16, 64, 300};
#define N_CHUNKS ((int)(sizeof chunks / sizeof chunks[0]))

/* Every size on every path, and every number of threads: together, all three, in a third of the shapes each. */
static bool is_checked(const struct subject *subject, int shape, uint32_t chunk) {
    if (strcmp(subject->kernels->numerics(subject->ctx), NUMERICS_TEXT) != 0)
        return false;
#ifdef __SANITIZE_ADDRESS__ /* where these two take four fifths of the time: the rest of them is for other builds */
    if (strcmp(subject->kernels->name, "ref") == 0 && shape % 3 != 0)
        return false;
    if (subject->isa && strcmp(subject->isa, "scalar") == 0 && shapes[shape].n_heads <= 32)
        return (int)chunk == shape % N_CHUNKS;
#endif
    if (!subject->isa || shapes[shape].n_heads > 32)
        return chunks[chunk] == 7; /* the reference, and what stands in for a device, are slow */
    return (chunk + subject->n_threads + (uint32_t)shape) % 3 == 0;
}

START_TEST(attention_does_not_depend_on_how_a_prompt_is_cut) {
    struct scene scene;
    scene_init(&scene, &shapes[_i]);
    struct subject subject;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &scene.limits);) {
        for (int c = 0; c < N_CHUNKS; c++)
            if (is_checked(&subject, _i, (uint32_t)c))
                check_chunks(&scene, &subject, chunks[c]);
        subject_close(&subject);
    }
    scene_fini(&scene);
}
END_TEST

#define ROPE_TOKENS 21

/* Tokens of two sequences, each with its own table, from positions of their own. Tables and cache
 * are the host's. */
static void rotate_by(struct subject *subject, const struct rope *rope, const struct kernels_kv *kv,
                      float *qkv) {
    static const uint32_t seq_begin[] = {0, 9, ROPE_TOKENS};
    static const uint32_t tables[] = {3, 0, UINT32_MAX, 2, 1, UINT32_MAX};
    static const uint32_t ids[ROPE_TOKENS];
    uint32_t positions[ROPE_TOKENS];
    size_t n = (size_t)ROPE_TOKENS * 4 * kv->head_dim;
    size_t n_angles = (size_t)2 * 32 * (rope->dims / 2);
    struct rope at = *rope;
    struct kernels_kv at_kv = *kv;
    at.cos = subject_floats(subject, rope->cos, n_angles);
    at.sin = subject_floats(subject, rope->sin, n_angles);
    at.q_scale = rope->q_scale ? subject_floats(subject, rope->q_scale, 32) : NULL;
    at.q_norm = rope->q_norm ? subject_floats(subject, rope->q_norm, kv->head_dim) : NULL;
    at.k_norm = rope->k_norm ? subject_floats(subject, rope->k_norm, kv->head_dim) : NULL;
    at_kv.base = subject_bytes(subject, kv->base, 4 * kv->block_bytes);
    float *at_qkv = subject_floats(subject, qkv, n);
    for (uint32_t t = 0; t < ROPE_TOKENS; t++)
        positions[t] = t < 9 ? 5 + t : t + 3;
    struct kernels_batch batch = {.n_tokens = ROPE_TOKENS,
                                  .n_seqs = 2,
                                  .ids = ids,
                                  .positions = positions,
                                  .seq_begin = seq_begin,
                                  .block_tables = tables,
                                  .block_table_stride = 3,
                                  .variants = (const uint32_t[]){1, 0}};
    struct kernels_step step = subject_begin(subject, &batch, NULL, 0);
    subject->kernels->rope_kv(subject->ctx, at_qkv, &step.batch, &at, &at_kv);
    subject_end(subject);
    subject_read(subject, qkv, at_qkv, n * sizeof *qkv);
    subject_read(subject, kv->base, at_kv.base, 4 * kv->block_bytes);
    subject_drop(subject);
}

static const uint32_t odd_heads[] = {8, 10, 18, 30, 42, 50, 90, 100, 172, 250};
#define N_WHOLE_HEADS (HEAD_DIM_MAX / 16)
#define N_HEADS       (N_WHOLE_HEADS + (int)(sizeof odd_heads / sizeof *odd_heads))

/* All heads of 16 to 256 dimensions, and some that fill no whole lanes; rotated ones all, half, and
 * as few as two or all but two. */
START_TEST(heads_are_turned_alike_on_every_path) {
    uint32_t dim = _i < N_WHOLE_HEADS ? 16 * ((uint32_t)_i + 1) : odd_heads[_i - N_WHOLE_HEADS];
    const uint32_t rotated[] = {dim, dim / 4 * 2, 2, dim - 2, 0};
    struct random random = {dim};
    struct kernels_limits limits = {ROPE_TOKENS, 2, 32, 64, 64, 2, 1, dim, KV_F16};
    size_t n = (size_t)ROPE_TOKENS * 4 * dim;
    size_t cache_bytes = (size_t)4 * 2 * dim * KV_BLOCK_TOKENS * sizeof(float);
    size_t n_angles = (size_t)2 * 32 * dim / 2;
    float *floats = malloc((4 * n + 2 * n_angles + 2 * dim + 32) * sizeof *floats);
    float *qkv = floats;
    float *expected = qkv + n;
    float *got = expected + n;
    float *angles = got + n;
    float *gains = angles + 2 * n_angles;
    float *q_scale = gains + (size_t)2 * dim;
    char *caches = malloc(2 * cache_bytes);
    fill_random(&random, floats, 4 * n + 2 * n_angles + 2 * dim + 32);
    for (uint32_t variant = 0; variant < 4 * 5 * 2; variant++) {
        struct rope rope = {.layout = variant % 2 ? ROPE_HALF_SPLIT : ROPE_INTERLEAVED,
                            .dims = rotated[variant / 8],
                            .n_variants = 2,
                            .cos = angles,
                            .sin = angles + n_angles,
                            .q_scale = variant / 2 % 2 ? q_scale : NULL,
                            .q_norm = variant / 4 % 2 ? gains : NULL,
                            .k_norm = gains + dim,
                            .norm_eps = 1e-5f};
        limits.kv_format = variant % 3 ? KV_F16 : KV_F32;
        struct kernels_kv kv = {.block_bytes = cache_bytes / 4,
                                .n_kv_heads = 1,
                                .head_dim = dim,
                                .format = limits.kv_format};
        memset(caches, 0xff, 2 * cache_bytes);
        struct subject subject = subject_ref(&limits);
        memcpy(expected, qkv, n * sizeof *qkv);
        kv.base = caches;
        rotate_by(&subject, &rope, &kv, expected);
        subject_close(&subject);
        for (uint32_t i = 0; subject_next_exact(&subject, &i, &limits);) {
            memcpy(got, qkv, n * sizeof *qkv);
            memset(caches + cache_bytes, 0xff, cache_bytes);
            kv.base = caches + cache_bytes;
            rotate_by(&subject, &rope, &kv, got);
            ck_assert_int_eq(memcmp(got, expected, n * sizeof *got), 0);
            ck_assert_int_eq(memcmp(caches, caches + cache_bytes, cache_bytes), 0);
            subject_close(&subject);
        }
    }
    free(floats);
    free(caches);
}
END_TEST

START_TEST(a_head_is_normed_as_a_row_is) {
    enum { dim = 80 };
    struct random random = {80};
    struct kernels_limits limits = {ROPE_TOKENS, 2, 32, 64, 64, 2, 1, dim, KV_F32};
    float qkv[ROPE_TOKENS * 4 * dim];
    float copy[ROPE_TOKENS * 4 * dim];
    float gains[2 * dim];
    float normed[ROPE_TOKENS * 4 * dim]; /* each head as a row of its own */
    static float cache[4 * 2 * dim * KV_BLOCK_TOKENS];
    fill_random(&random, gains, (size_t)2 * dim);
    fill_random(&random, qkv, sizeof qkv / sizeof *qkv);
    struct rope rope = {.layout = ROPE_NONE,
                        .n_variants = 2,
                        .q_norm = gains,
                        .k_norm = gains + dim,
                        .norm_eps = 1e-6f};
    struct kernels_kv kv = {cache, sizeof cache / 4, 1, dim, KV_F32};
    struct subject subject;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &limits);) {
        memcpy(copy, qkv, sizeof qkv);
        rotate_by(&subject, &rope, &kv, copy);
        float *at = subject_floats(&subject, qkv, sizeof qkv / sizeof *qkv);
        float *at_normed = subject_floats(&subject, NULL, sizeof qkv / sizeof *qkv);
        float *at_gains = subject_floats(&subject, gains, (size_t)2 * dim);
        for (size_t head = 0; head < ROPE_TOKENS * 4; head++)
            subject.kernels->norm(subject.ctx, at_normed + head * dim, at + head * dim,
                                  head % 4 < 2 ? at_gains : at_gains + dim, 1e-6f, 1, dim);
        subject_read(&subject, normed, at_normed, sizeof normed);
        for (size_t head = 0; head < ROPE_TOKENS * 4; head++)
            ck_assert_mem_eq(copy + head * dim, (head % 4 < 3 ? normed : qkv) + head * dim,
                             dim * sizeof *qkv);
        subject_close(&subject);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, attention_does_not_depend_on_how_a_prompt_is_cut, 0, N_SHAPES);
    tcase_add_loop_test(tests, heads_are_turned_alike_on_every_path, 0, N_HEADS);
    tcase_add_test(tests, a_head_is_normed_as_a_row_is);
}
