/* Mixtures of experts and the gates around them: every backend, instruction set and number of
 * threads gives the bits of the reference, whatever other rows stand beside a row, and looks at no
 * expert that nobody chose. Fast numerics are near to it, with bits of their own beside any rows. */
#include "kernels/limits.h"
#include "kernels/numbers.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_moe";
const double suite_timeout_s = 600;

#define ROWS_MAX 40
/* Pairs of a row and an expert, at once: 70 experts have up to 8 rows, and more rows than these have few experts each. */
#define EMULATED_PAIRS      600
#define EMULATED_PAIRS_LONG 100

static const struct kernels_limits limits = {
    .max_tokens = ROWS_MAX,
    .max_seqs = 4,
    .max_context = 16,
    .max_dim = 1024,
    .n_vocab = 64,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 16,
    .kv_format = KV_F16,
};

static void compare(const struct subject *subject, const char *what, const void *got,
                    const void *expected, size_t n_bytes) {
    if (memcmp(got, expected, n_bytes) == 0)
        return;
    size_t i = 0;
    while (((const char *)got)[i] == ((const char *)expected)[i])
        i++;
    ck_abort_msg("%s %s, %u threads: %s differs at number %zu", subject->kernels->name,
                 subject->isa ? subject->isa : "", subject->n_threads, what, i / 4);
}

static bool has_reference_numbers(const struct subject *subject) {
    return strcmp(subject->kernels->numerics(subject->ctx), NUMERICS_TEXT) == 0;
}

struct moe_case {
    const char *gate_up;
    const char *down;
    uint32_t n_experts;
    uint32_t n_active;
    uint32_t dim;
    uint32_t expert_dim;
};

static const struct moe_case cases[] = {
    {"f32", "f32", 8, 2, 64, 32},       {"f16", "f16", 16, 4, 96, 64},
    {"bf16", "bf16", 8, 3, 64, 96},     {"q4_1", "q4_0", 60, 4, 64, 32},
    {"q8_0", "q8_0", 8, 8, 160, 64},    {"q4_0", "q8_0", 64, 8, 256, 128},
    {"bf16", "q4_1", 3, 3, 32, 32},     {"f32", "f16", 1, 1, 64, 160},
    {"q8_0", "f32", 100, 70, 32, 32},   {"f32", "f16", 5, 2, 45, 43},
    {"bf16", "bf16", 4, 3, 45, 43},     {"gptq4", "gptq4", 6, 3, 136, 88},
    {"awq", "gptq8", 5, 2, 200, 100},   {"gptq4", "gptq8", 5, 2, 1024, 64},
    {"f16", "f16", 1, 1, 64, 128},      {"gptq4", "gptq4", 4, 2, 128, 64},
    {"gptq4", "gptq4", 5, 2, 128, 128},
};
#define N_CASES ((int)(sizeof cases / sizeof cases[0]))
#define UNLIKE  (&cases[N_CASES - 1]) /* some of its experts have scales of fewer inputs */
#define ORDERED                                                                                    \
    (&cases[N_CASES - 2]) /* some have an order of inputs, and are stored like the others */
#define SINGLE (&cases[N_CASES - 3])

/* A mixture and what the reference makes of each row alone. */
struct scene {
    const struct moe_case *test;
    struct weight_tensor *tensors; /* (2 n_experts): gate_up and down of each */
    float *x;
    uint32_t *ids;
    float *weights;
    float *expected;
};

struct experts {
    struct weight *gate_up; /* (n_experts), like all below */
    struct weight *down;
    size_t *gate_up_bytes;
    size_t *down_bytes;
};

static bool is_long(uint32_t n_rows, uint32_t n_active) {
    return n_rows * n_active > (n_rows > 8 ? EMULATED_PAIRS_LONG : EMULATED_PAIRS);
}

static struct experts experts_pack(const struct scene *scene, const struct subject *subject) {
    const struct moe_case *test = scene->test;
    struct experts experts = {calloc(test->n_experts, sizeof(struct weight)),
                              calloc(test->n_experts, sizeof(struct weight)),
                              calloc(test->n_experts, sizeof(size_t)),
                              calloc(test->n_experts, sizeof(size_t))};
    for (uint32_t e = 0; e < test->n_experts; e++) {
        experts.gate_up[e] =
            subject_pack_tensor(subject, &scene->tensors[2 * e], &experts.gate_up_bytes[e]);
        experts.down[e] =
            subject_pack_tensor(subject, &scene->tensors[2 * e + 1], &experts.down_bytes[e]);
    }
    return experts;
}

static void experts_free(const struct scene *scene, const struct subject *subject,
                         struct experts *experts) {
    for (uint32_t e = 0; e < scene->test->n_experts; e++) {
        subject_unpack(subject, &experts->gate_up[e], experts->gate_up_bytes[e]);
        subject_unpack(subject, &experts->down[e], experts->down_bytes[e]);
    }
    free(experts->gate_up);
    free(experts->down);
    free(experts->gate_up_bytes);
    free(experts->down_bytes);
}

/* m rows from `shift` on, around the end. Experts that none of them chose have no memory. */
static void run_rows(const struct scene *scene, struct subject *subject,
                     const struct experts *experts, uint32_t shift, uint32_t m, float *out) {
    const struct moe_case *test = scene->test;
    size_t dim = test->dim;
    size_t n_active = test->n_active;
    float *x = malloc(m * dim * sizeof *x);
    uint32_t *ids = malloc(m * n_active * sizeof *ids);
    float *weights = malloc(m * n_active * sizeof *weights);
    struct weight *gate_up = calloc(test->n_experts, sizeof *gate_up);
    struct weight *down = calloc(test->n_experts, sizeof *down);
    for (uint32_t e = 0; e < test->n_experts; e++) {
        gate_up[e] = experts->gate_up[e];
        down[e] = experts->down[e];
        gate_up[e].data = down[e].data = NULL;
    }
    for (uint32_t i = 0; i < m; i++) {
        size_t row = (shift + i) % ROWS_MAX;
        memcpy(x + i * dim, scene->x + row * dim, dim * sizeof *x);
        memcpy(ids + i * n_active, scene->ids + row * n_active, n_active * sizeof *ids);
        memcpy(weights + i * n_active, scene->weights + row * n_active, n_active * sizeof *weights);
        for (size_t j = 0; j < n_active; j++) {
            uint32_t e = ids[i * n_active + j];
            gate_up[e].data = experts->gate_up[e].data;
            down[e].data = experts->down[e].data;
        }
    }
    memset(out, 0xff, m * dim * sizeof *out);
    float *at_out = subject_floats(subject, out, m * dim);
    float *scratch = subject_floats(
        subject, NULL,
        subject->kernels->moe_scratch(m, test->n_active, test->dim, test->expert_dim));
    const float *at_x = subject_floats(subject, x, m * dim);
    const float *at_weights = subject_floats(subject, weights, m * n_active);
    const void *host_ids = subject_ids(subject, ids, m * n_active);
    void *at_ids = subject_ids(subject, NULL, m * n_active);
    /* The last thing that is done before, as in a layer: a kernel writes the ids. */
    subject->kernels->gather_rows(subject->ctx, at_ids, host_ids,
                                  subject_ids(subject, &(uint32_t){0}, 1), 1, m * test->n_active);
    subject->kernels->moe_ffn(subject->ctx, at_out, at_x, at_ids, at_weights, m, test->n_active,
                              gate_up, down, test->n_experts, scratch);
    subject_read(subject, out, at_out, m * dim * sizeof *out);
    subject_drop(subject);
    free(x);
    free(ids);
    free(weights);
    free(gate_up);
    free(down);
}

struct routes {
    uint32_t n_rows;
    uint32_t n_experts;
    uint32_t n_active;
    bool normalise;
};

/* moe_route() on arrays of the host. */
static void route_rows(struct subject *subject, uint32_t *ids, float *weights, const float *logits,
                       const struct routes *routes) {
    size_t n_pairs = (size_t)routes->n_rows * routes->n_active;
    uint32_t *at_ids = subject_ids(subject, ids, n_pairs);
    float *at_weights = subject_floats(subject, weights, n_pairs);
    float *at_logits = subject_floats(subject, logits, (size_t)routes->n_rows * routes->n_experts);
    subject->kernels->moe_route(subject->ctx, at_ids, at_weights, at_logits, routes->n_rows,
                                routes->n_experts, routes->n_active, routes->normalise);
    subject_read(subject, ids, at_ids, n_pairs * sizeof *ids);
    subject_read(subject, weights, at_weights, n_pairs * sizeof *weights);
    subject_drop(subject);
}

/* Each input in any of the groups, where the format says in which: as many are stored as fill 32s. */
static void draw_groups(struct random *random, struct weight_tensor *tensor) {
    if (strncmp(tensor->format, "gptq", 4) != 0)
        return;
    int32_t *groups = malloc(tensor->k * sizeof *groups);
    for (uint32_t i = 0; i < tensor->k; i++)
        groups[i] = (int32_t)random_below(random, tensor->k / tensor->group);
    tensor->group_of = groups;
}

static void scene_init(struct scene *scene, const struct moe_case *test) {
    struct random random = {test->n_experts * 100 + test->dim};
    size_t dim = test->dim;
    size_t n_pairs = (size_t)ROWS_MAX * test->n_active;
    *scene =
        (struct scene){.test = test,
                       .tensors = calloc(2 * (size_t)test->n_experts, sizeof(struct weight_tensor)),
                       .x = malloc(ROWS_MAX * dim * sizeof(float)),
                       .ids = calloc(n_pairs, sizeof(uint32_t)),
                       .weights = calloc(n_pairs, sizeof(float)),
                       .expected = malloc(ROWS_MAX * dim * sizeof(float))};
    for (uint32_t e = 0; e < test->n_experts; e++) {
        if (test == UNLIKE && e % 3 == 1) {
            scene->tensors[2 * e] =
                random_grouped_tensor(&random, test->gate_up, 2 * test->expert_dim, test->dim, 32);
            scene->tensors[2 * e + 1] =
                random_grouped_tensor(&random, test->down, test->dim, test->expert_dim, 32);
            continue;
        }
        scene->tensors[2 * e] =
            random_tensor(&random, test->gate_up, 2 * test->expert_dim, test->dim);
        scene->tensors[2 * e + 1] = random_tensor(&random, test->down, test->dim, test->expert_dim);
        for (uint32_t i = 0; e % 2 && i < 2; i++) {
            if (test == ORDERED)
                random_order(&random, &scene->tensors[2 * e + i]);
            else
                draw_groups(&random, &scene->tensors[2 * e + i]);
        }
    }
    fill_random(&random, scene->x, ROWS_MAX * dim);
    float *logits = malloc((size_t)ROWS_MAX * test->n_experts * sizeof *logits);
    fill_random(&random, logits, (size_t)ROWS_MAX * test->n_experts);
    for (uint32_t row = 0; row < ROWS_MAX; row += 3) /* one that many rows choose */
        logits[(size_t)row * test->n_experts + test->n_experts / 2] = 30.0f;
    struct subject ref = subject_ref(&limits);
    route_rows(&ref, scene->ids, scene->weights, logits,
               &(struct routes){ROWS_MAX, test->n_experts, test->n_active, false});
    struct experts experts = experts_pack(scene, &ref);
    for (uint32_t row = 0; row < ROWS_MAX; row++)
        run_rows(scene, &ref, &experts, row, 1, scene->expected + row * dim);
    experts_free(scene, &ref, &experts);
    subject_close(&ref);
    free(logits);
}

static void scene_fini(struct scene *scene) {
    for (uint32_t i = 0; i < 2 * scene->test->n_experts; i++)
        tensor_free(&scene->tensors[i]);
    free(scene->tensors);
    free(scene->x);
    free(scene->ids);
    free(scene->weights);
    free(scene->expected);
}

START_TEST(a_row_of_a_mixture_has_the_same_bits_beside_any_others) {
    static const uint32_t sizes[] = {1, 2, 3, 8, 17, ROWS_MAX};
    struct scene scene;
    scene_init(&scene, &cases[_i]);
    size_t dim = scene.test->dim;
    float *out = malloc(ROWS_MAX * dim * sizeof *out);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        if (has_reference_numbers(&subject)) {
            struct experts experts = experts_pack(&scene, &subject);
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
                for (uint32_t shift = 0; shift < ROWS_MAX; shift += 11) {
                    if (subject_is_emulated(&subject) && (shift / 11 != (s + (size_t)_i) % 4 ||
                                                          is_long(sizes[s], scene.test->n_active)))
                        continue;
                    run_rows(&scene, &subject, &experts, shift, sizes[s], out);
                    for (uint32_t row = 0; row < sizes[s]; row++)
                        compare(&subject, scene.test->gate_up, out + row * dim,
                                scene.expected + (shift + row) % ROWS_MAX * dim, dim * sizeof *out);
                }
            experts_free(&scene, &subject, &experts);
        }
        subject_close(&subject);
    }
    free(out);
    scene_fini(&scene);
}
END_TEST

#define NEAR 0.03 /* of the numbers' size: of integers the reference rounds activations to 8 bits */

START_TEST(a_row_of_a_mixture_in_fast_numerics_is_near_and_has_the_same_bits_beside_any_others) {
    static const uint32_t sizes[] = {1, 3, 17};
    struct scene scene;
    struct subject subject;
    scene_init(&scene, &cases[_i]);
    size_t dim = scene.test->dim;
    uint32_t most = is_long(ROWS_MAX, scene.test->n_active) ? 8 : ROWS_MAX;
    float *all = malloc(ROWS_MAX * dim * sizeof *all),
          *some = malloc(ROWS_MAX * dim * sizeof *some);
    for (uint32_t i = 0; subject_next(&subject, &i, &limits); subject_close(&subject)) {
        if (has_reference_numbers(&subject))
            continue;
        struct experts experts = experts_pack(&scene, &subject);
        double off = 0, square = 0;
        run_rows(&scene, &subject, &experts, 0, most, all);
        for (size_t n = 0; n < most * dim; n++) {
            double expected = (double)scene.expected[n], by = (double)all[n] - expected;
            off += by * by;
            square += expected * expected;
        }
        ck_assert_msg(sqrt(off) <= NEAR * sqrt(square),
                      "%s, case %d: %g of the reference's size off", subject.kernels->name, _i,
                      sqrt(off / square));
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && sizes[s] <= most; s++) {
            uint32_t shift = ((uint32_t)s * 11 + (uint32_t)_i * 7) % (most + 1 - sizes[s]);
            run_rows(&scene, &subject, &experts, shift, sizes[s], some);
            for (uint32_t row = 0; row < sizes[s]; row++)
                compare(&subject, scene.test->gate_up, some + row * dim, all + (shift + row) * dim,
                        dim * sizeof *some);
        }
        experts_free(&scene, &subject, &experts);
    }
    free(all);
    free(some);
    scene_fini(&scene);
}
END_TEST

/* So many of one expert that its first product takes blocks of more rows than its second. */
START_TEST(many_rows_in_fast_numerics_have_the_bits_of_fewer) {
    enum { m = 70 };
    struct kernels_limits large = limits;
    large.max_tokens = m;
    struct scene scene;
    struct subject subject;
    scene_init(&scene, SINGLE);
    size_t dim = scene.test->dim;
    float *many = malloc(m * dim * sizeof *many), *fewer = malloc(ROWS_MAX * dim * sizeof *fewer);
    for (uint32_t i = 0; subject_next(&subject, &i, &large); subject_close(&subject)) {
        if (has_reference_numbers(&subject))
            continue;
        struct experts experts = experts_pack(&scene, &subject);
        run_rows(&scene, &subject, &experts, 0, ROWS_MAX, fewer);
        run_rows(&scene, &subject, &experts, 0, m, many);
        for (uint32_t row = 0; row < m; row++)
            compare(&subject, scene.test->gate_up, many + row * dim, fewer + row % ROWS_MAX * dim,
                    dim * sizeof *many);
        experts_free(&scene, &subject, &experts);
    }
    free(many);
    free(fewer);
    scene_fini(&scene);
}
END_TEST

/* So many that an expert's rows do not fit into the scratch memory of one product. */
START_TEST(many_rows_are_taken_in_turns) {
    enum { m = 700 };
    struct kernels_limits large = limits;
    large.max_tokens = m;
    struct scene scene;
    scene_init(&scene, &cases[6]);
    size_t dim = scene.test->dim;
    float *out = malloc(m * dim * sizeof *out);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &large);) {
        if (has_reference_numbers(&subject)) {
            struct experts experts = experts_pack(&scene, &subject);
            run_rows(&scene, &subject, &experts, 0, m, out);
            for (uint32_t row = 0; row < m; row++)
                compare(&subject, scene.test->gate_up, out + row * dim,
                        scene.expected + row % ROWS_MAX * dim, dim * sizeof *out);
            experts_free(&scene, &subject, &experts);
        }
        subject_close(&subject);
    }
    free(out);
    scene_fini(&scene);
}
END_TEST

START_TEST(routes_are_those_of_the_reference) {
    static const uint32_t shapes[][2] = {{1, 1},  {5, 2},  {16, 16},
                                         {60, 4}, {64, 8}, {EXPERTS_MAX, 9}};
    uint32_t n_experts = shapes[_i / 2][0];
    uint32_t n_active = shapes[_i / 2][1];
    bool normalise = _i % 2 != 0;
    struct random random = {n_experts};
    size_t n = (size_t)ROWS_MAX * n_experts;
    size_t n_pairs = (size_t)ROWS_MAX * n_active;
    float *logits = malloc(n * sizeof *logits);
    uint32_t *ids = calloc(2 * n_pairs, sizeof *ids);
    float *weights = calloc(2 * n_pairs, sizeof *weights);
    const struct routes wanted = {ROWS_MAX, n_experts, n_active, normalise};
    fill_random(&random, logits, n);
    for (size_t i = 0; i < n / 2; i++) /* many equal ones */
        logits[i] = (float)(int)(logits[i] * 3.0f);
    struct subject ref = subject_ref(&limits);
    route_rows(&ref, ids, weights, logits, &wanted);
    subject_close(&ref);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        if (has_reference_numbers(&subject)) {
            memset(ids + n_pairs, 0xff, n_pairs * sizeof *ids);
            memset(weights + n_pairs, 0xff, n_pairs * sizeof *weights);
            route_rows(&subject, ids + n_pairs, weights + n_pairs, logits, &wanted);
            compare(&subject, "an expert", ids + n_pairs, ids, n_pairs * sizeof *ids);
            compare(&subject, "a weight", weights + n_pairs, weights, n_pairs * sizeof *weights);
        }
        subject_close(&subject);
    }
    free(logits);
    free(ids);
    free(weights);
}
END_TEST

/* Nothing below may index memory by what such a row gives. */
START_TEST(a_row_that_is_not_a_number_still_has_experts) {
    enum { n_experts = 20, n_active = 3, rows = 4 };
    float logits[rows * n_experts] = {0};
    logits[7] = NAN;
    logits[n_experts + 2] = INFINITY;
    for (int e = 0; e < n_experts; e++)
        logits[2 * n_experts + e] = -INFINITY;
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        uint32_t ids[rows * n_active] = {0};
        float weights[rows * n_active] = {0};
        route_rows(&subject, ids, weights, logits,
                   &(struct routes){rows, n_experts, n_active, false});
        for (uint32_t j = 0; j < rows * n_active; j++) {
            ck_assert_uint_eq(ids[j], j % n_active);
            ck_assert(j / n_active == 3 ? weights[j] == 1.0f / n_experts
                                        : weights[j] != weights[j]);
        }
        subject_close(&subject);
    }
}
END_TEST

/* products (n) = silu(a) * b; sums (n), of which (n_rows, dim) += sigmoid(b) * a. */
static void gate_rows(struct subject *subject, float *products, float *sums, const float *a,
                      const float *b, size_t n, uint32_t n_rows, uint32_t dim) {
    float *at_a = subject_floats(subject, a, n), *at_b = subject_floats(subject, b, n);
    float *at_products = subject_floats(subject, NULL, n);
    float *at_sums = subject_floats(subject, sums, n);
    subject->kernels->silu_mul(subject->ctx, at_products, at_a, at_b, n);
    subject->kernels->add_gated(subject->ctx, at_sums, at_a, at_b, n_rows, dim);
    subject_read(subject, products, at_products, n * sizeof *products);
    subject_read(subject, sums, at_sums, n * sizeof *sums);
    subject_drop(subject);
}

START_TEST(gates_have_the_bits_of_the_reference) {
    enum { n = 100003, dim = 301, rows = 37 };
    struct random random = {11};
    float *floats = malloc((size_t)5 * n * sizeof *floats);
    float *a = floats + n;
    float *b = a + n;
    float *expected = b + n;
    float *sums = expected + n;
    fill_random(&random, floats, (size_t)3 * n);
    memcpy(sums, floats, n * sizeof *sums);
    struct subject ref = subject_ref(&limits);
    gate_rows(&ref, expected, sums, a, b, n, rows, dim);
    subject_close(&ref);
    float *out = malloc((size_t)2 * n * sizeof *out);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        if (has_reference_numbers(&subject)) {
            memcpy(out + n, floats, n * sizeof *out);
            gate_rows(&subject, out, out + n, a, b, n, rows, dim);
            compare(&subject, "silu_mul", out, expected, n * sizeof *out);
            compare(&subject, "add_gated", out + n, sums, n * sizeof *out);
        }
        subject_close(&subject);
    }
    free(floats);
    free(out);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_row_of_a_mixture_has_the_same_bits_beside_any_others, 0, N_CASES);
    tcase_add_loop_test(
        tests, a_row_of_a_mixture_in_fast_numerics_is_near_and_has_the_same_bits_beside_any_others,
        0, N_CASES);
    tcase_add_test(tests, many_rows_in_fast_numerics_have_the_bits_of_fewer);
    tcase_add_test(tests, many_rows_are_taken_in_turns);
    tcase_add_loop_test(tests, routes_are_those_of_the_reference, 0, 12);
    tcase_add_test(tests, a_row_that_is_not_a_number_still_has_experts);
    tcase_add_test(tests, gates_have_the_bits_of_the_reference);
}
