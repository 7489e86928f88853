/* tests/gpu/bits.c: every operation of one backend against another, bit by bit, on random operands: names the first
 * operation and the first number that differ. What a backend of other numerics computes otherwise (norms, products, attention on
 * tensor cores) is compared by accuracy; rows of it have the same bits beside any others. The conformance suites ask more and say less of a
 * failure; this is for a machine with a GPU, and for the shapes of real models. */
#include "tests/gpu/bits.h"
#include "base/random.h"
#include "kernels/half.h"
#include "kernels/quant/quant.h"
#include "tests/support/random_sampling.h"
#include "tests/support/random_tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_ONE     30   /* times the bound of all: one number */
#define NEAR_NORM    1e-6 /* the order of additions alone */
#define NEAR_MIXTURE 3e-3 /* a product of products */

static const struct kernels_limits limits = {.max_tokens = 320,
                                             .max_seqs = 16,
                                             .max_context = 1200,
                                             .max_dim = 16384,
                                             .n_vocab = 152064,
                                             .n_heads = 8,
                                             .n_kv_heads = 2,
                                             .head_dim = 64};

float *pair_floats(struct pair *pair, size_t n) {
    float *x = malloc(n * sizeof *x);
    if (!x)
        abort();
    fill_random(&pair->random, x, n);
    return x;
}

/* NaN is equal to any NaN: which one comes out is the processor's choice. */
static bool is_same(float a, float b) {
    return float_bits(a) == float_bits(b) || (isnan(a) && isnan(b));
}

void pair_compare(struct pair *pair, const char *what, const float *got, const float *want,
                  size_t n) {
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    size_t n_other = 0, first = 0;
    if (!a || !b)
        abort();
    pair->got.kernels->get(pair->got.ctx, a, got, n * sizeof *a);
    pair->want.kernels->get(pair->want.ctx, b, want, n * sizeof *b);
    side_end_step(&pair->got);
    for (size_t i = n; i-- > 0;)
        if (!is_same(a[i], b[i])) {
            n_other++;
            first = i;
        }
    pair->n_compared++;
    pair->n_different += n_other > 0;
    if (n_other > 0)
        printf("DIFFERENT %s: %zu of %zu, the first at %zu: %a, not %a (%08x, not %08x)\n", what,
               n_other, n, first, (double)a[first], (double)b[first], float_bits(a[first]),
               float_bits(b[first]));
    free(a);
    free(b);
}

void pair_compare_near(struct pair *pair, const char *what, const float *got, const float *want,
                       size_t n, double bound) {
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    size_t n_other = 0, first = 0;
    double square = 0, error = 0, farthest = 0;
    if (!a || !b)
        abort();
    pair->got.kernels->get(pair->got.ctx, a, got, n * sizeof *a);
    pair->want.kernels->get(pair->want.ctx, b, want, n * sizeof *b);
    side_end_step(&pair->got);
    for (size_t i = 0; i < n; i++)
        square += (double)b[i] * (double)b[i];
    double size = sqrt(square / (double)n);
    for (size_t i = n; i-- > 0;) {
        double off = fabs((double)a[i] - (double)b[i]);
        error += off * off;
        farthest = off > farthest ? off : farthest;
        if (!(off <= NEAR_ONE * bound * (size + fabs((double)b[i])))) {
            n_other++;
            first = i;
        }
    }
    bool is_near = sqrt(error / (double)n) <= bound * size && n_other == 0;
    pair->n_compared++;
    pair->n_different += !is_near;
    printf("%s %s: error %.2e, farthest %.2e\n", is_near ? "near" : "TOO FAR", what,
           sqrt(error / (double)n) / size, farthest / size);
    if (n_other > 0)
        printf("%zu of %zu, the first at %zu: %a, not %a\n", n_other, n, first, (double)a[first],
               (double)b[first]);
    free(a);
    free(b);
}

void pair_compare_norm(struct pair *pair, const char *what, const float *got, const float *want,
                       size_t n) {
    if (pair->near)
        pair_compare_near(pair, what, got, want, n, NEAR_NORM);
    else
        pair_compare(pair, what, got, want, n);
}

void pair_clear(struct pair *pair) {
    side_clear(&pair->got);
    side_clear(&pair->want);
}

static void check_norms(struct pair *pair) {
    static const uint32_t shapes[][2] = {{1, 64},  {3, 576},  {17, 4096}, {5, 8200},
                                         {2, 579}, {1, 9001}, {2, 12},    {9, 16400}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t rows = shapes[i][0], dim = shapes[i][1];
        char what[64];
        float *x = pair_floats(pair, (size_t)rows * dim), *gain = pair_floats(pair, dim);
        BOTH(pair, (size_t)rows * dim, out, {
            side->kernels->norm(side->ctx, out, side_floats(side, x, (size_t)rows * dim),
                                side_floats(side, gain, dim), 1e-5f, rows, dim);
        });
        snprintf(what, sizeof what, "norm %u x %u", rows, dim);
        pair_compare_norm(pair, what, out_of[0], out_of[1], (size_t)rows * dim);
        pair_clear(pair);
        free(x);
        free(gain);
    }
}

static void check_gathers(struct pair *pair) {
    static const uint32_t dims[] = {8, 93, 4096, 1028};
    enum { rows = 6, taken = 4 };
    static const uint32_t list[taken] = {5, 0, 3, 3};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        uint32_t dim = dims[i];
        char what[64];
        float *x = pair_floats(pair, (size_t)rows * dim);
        BOTH(pair, (size_t)taken * dim, out, {
            uint32_t *at = (uint32_t *)side_floats(side, NULL, taken);
            side->kernels->put(side->ctx, at, list, sizeof list);
            side->kernels->gather_rows(side->ctx, out, side_floats(side, x, (size_t)rows * dim), at,
                                       taken, dim);
        });
        snprintf(what, sizeof what, "gather %u of %u x %u", taken, rows, dim);
        pair_compare(pair, what, out_of[0], out_of[1], (size_t)taken * dim);
        pair_clear(pair);
        free(x);
    }
}

/* Products that round to the smallest normal number or to what is flushed. */
static void check_edges(struct pair *pair) {
    enum { n = 4096 };
    float *gate = pair_floats(pair, n), *up = pair_floats(pair, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t near = 0x00800000u + (uint32_t)random_below(&pair->random, 64) - 32;
        gate[i] = i % 2 ? 1.0f : 40.0f;
        /* silu(40) is 40; silu(1) a little below 3/4 */
        up[i] = float_from_bits(i % 4 < 2 ? near : near - 0x00200000u);
    }
    BOTH(pair, n, out, {
        side->kernels->silu_mul(side->ctx, out, side_floats(side, gate, n),
                                side_floats(side, up, n), n);
    });
    pair_compare(pair, "products at the edge of what is flushed to zero", out_of[0], out_of[1], n);
    pair_clear(pair);
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = ldexpf(1.0f + (float)i / n, -63);
        up[i] = ldexpf(1.0f - (float)i / (2 * n), -63);
    }
    BOTH(pair, n, sums, {
        float *x = side_floats(side, up, n);
        side->kernels->put(side->ctx, sums, gate, n * sizeof *gate);
        side->kernels->add_gated(side->ctx, sums, x, NULL, 1, n);
    });
    pair_compare(pair, "sums of tiny numbers", sums_of[0], sums_of[1], n);
    pair_clear(pair);
    free(gate);
    free(up);
}

static void check_elementwise(struct pair *pair) {
    enum { rows = 7, dim = 3001 };
    float *a = pair_floats(pair, rows * dim), *b = pair_floats(pair, rows * dim),
          *gate = pair_floats(pair, rows);
    BOTH(pair, rows * dim, out, {
        side->kernels->silu_mul(side->ctx, out, side_floats(side, a, rows * dim),
                                side_floats(side, b, rows * dim), rows * dim);
    });
    pair_compare(pair, "silu_mul", out_of[0], out_of[1], rows * dim);
    pair_clear(pair);
    BOTH(pair, rows * dim, sum, {
        side->kernels->put(side->ctx, sum, a, rows * dim * sizeof *a);
        side->kernels->add_gated(side->ctx, sum, side_floats(side, b, rows * dim),
                                 side_floats(side, gate, rows), rows, dim);
    });
    pair_compare(pair, "add_gated", sum_of[0], sum_of[1], rows * dim);
    pair_clear(pair);
    free(a);
    free(b);
    free(gate);
}

static void check_embeds(struct pair *pair) {
    enum { n = 200, k = 512, n_tokens = 9 };
    for (size_t f = 0; quant_table[f]; f++) {
        struct weight_tensor tensor = random_tensor(&pair->random, quant_table[f]->name, n, k);
        uint32_t ids[n_tokens] = {0, 199, 5, 5, 1000, 77, 3, 128, 64};
        char what[64];
        BOTH(pair, n_tokens * k, out, {
            struct weight weight = side_pack(side, &tensor);
            side_embed(side, out, &weight, ids, n_tokens, 3);
        });
        snprintf(what, sizeof what, "embed %s", quant_table[f]->name);
        pair_compare(pair, what, out_of[0], out_of[1], n_tokens * k);
        pair_clear(pair);
        tensor_free(&tensor);
    }
}

static void check_mixture(struct pair *pair, const char *format, uint32_t rows) {
    enum { n_experts = 12, n_active = 4, dim = 512, inner = 256 };
    struct weight_tensor gates[n_experts], ups[n_experts], downs[n_experts];
    for (uint32_t e = 0; e < n_experts; e++) {
        gates[e] = random_tensor(&pair->random, format, inner, dim);
        ups[e] = random_tensor(&pair->random, format, inner, dim);
        downs[e] = random_tensor(&pair->random, format, dim, inner);
    }
    float *x = pair_floats(pair, rows * dim), *logits = pair_floats(pair, rows * n_experts);
    float *weights_of[2];
    char what[64];
    BOTH(pair, (size_t)rows * dim, out, {
        struct weight gate_up[n_experts], down[n_experts];
        for (uint32_t e = 0; e < n_experts; e++) {
            gate_up[e] = pair_weight(pair, side, side_pack_pair(side, &gates[e], &ups[e]));
            down[e] = pair_weight(pair, side, side_pack(side, &downs[e]));
        }
        uint32_t *ids = side_put(side, NULL, (size_t)rows * n_active * sizeof *ids);
        weights_of[which_] = side_floats(side, NULL, (size_t)rows * n_active);
        side->kernels->moe_route(side->ctx, ids, weights_of[which_],
                                 side_floats(side, logits, (size_t)rows * n_experts), rows,
                                 n_experts, n_active, rows % 2);
        side->kernels->moe_ffn(
            side->ctx, out, side_floats(side, x, (size_t)rows * dim), ids, weights_of[which_], rows,
            n_active, gate_up, down, n_experts,
            side_floats(side, NULL, side->kernels->moe_scratch(rows, n_active, dim, inner)));
    });
    snprintf(what, sizeof what, "moe_route %u rows", rows);
    pair_compare(pair, what, weights_of[0], weights_of[1], (size_t)rows * n_active);
    snprintf(what, sizeof what, "moe_ffn %s %u rows", format, rows);
    if (pair->near)
        pair_compare_near(pair, what, out_of[0], out_of[1], (size_t)rows * dim, NEAR_MIXTURE);
    else
        pair_compare(pair, what, out_of[0], out_of[1], (size_t)rows * dim);
    pair_clear(pair);
    for (uint32_t e = 0; e < n_experts; e++) {
        tensor_free(&gates[e]);
        tensor_free(&ups[e]);
        tensor_free(&downs[e]);
    }
    free(x);
    free(logits);
}

/* What the choices of a row are: bit by bit, and NaN as NaN. */
static bool is_same_choice(const struct sample_result *a, const struct sample_result *b) {
    bool same = a->valid == b->valid && a->emptied == b->emptied && a->id == b->id &&
                is_same(a->logprob, b->logprob) && a->n_top == b->n_top;
    for (uint32_t i = 0; same && i < a->n_top; i++)
        same = a->top_ids[i] == b->top_ids[i] && is_same(a->top_logprobs[i], b->top_logprobs[i]);
    return same;
}

static void print_choice(const char *name, const struct sample_result *result) {
    printf("    %s: %s id %u, logprob %a, %u best:", name, result->valid ? "valid" : "not valid",
           result->id, (double)result->logprob, result->n_top);
    for (uint32_t i = 0; i < result->n_top; i++)
        printf(" %u %a", result->top_ids[i], (double)result->top_logprobs[i]);
    printf("\n");
}

static void check_choice(struct pair *pair, uint32_t n_vocab, uint32_t row,
                         const struct sample_params *params, const struct sample_result *got,
                         const struct sample_result *want) {
    pair->n_compared++;
    if (is_same_choice(got, want))
        return;
    pair->n_different++;
    printf("DIFFERENT sample of %u ids, row %u: temperature %g, top_k %u, top_p %g, min_p %g, "
           "uniform %a, %u seen, %u biased, %u allowed, %u barred, %s\n",
           n_vocab, row, (double)params->temperature, params->top_k, (double)params->top_p,
           (double)params->min_p, (double)params->uniform, params->n_seen, params->n_bias,
           params->n_allowed, params->n_barred, params->allowed_bits ? "masked" : "no mask");
    print_choice(pair->got.kernels->name, got);
    print_choice(pair->want.kernels->name, want);
}

/* All rows of a step at once: every parameter, over vocabularies of real models. */
static void check_samples(struct pair *pair, uint32_t n_vocab, uint32_t n_rounds) {
    enum { n_rows = 16 };
    float *logits = malloc((size_t)n_rows * n_vocab * sizeof *logits);
    if (!logits)
        abort();
    for (uint32_t round = 0; round < n_rounds; round++) {
        struct sample_params params[n_rows];
        struct sample_result results[2][n_rows];
        memset(results, 0xa5, sizeof results);
        for (uint32_t row = 0; row < n_rows; row++) {
            random_logits(&pair->random, logits + (size_t)row * n_vocab, n_vocab);
            params[row] = random_sampling(&pair->random, n_vocab);
        }
        for (int i = 0; i < 2; i++) {
            struct side *side = i ? &pair->want : &pair->got;
            side->kernels->sample(side->ctx, side_floats(side, logits, (size_t)n_rows * n_vocab),
                                  n_rows, n_vocab, params, results[i]);
            side_end_step(side);
        }
        for (uint32_t row = 0; row < n_rows; row++)
            check_choice(pair, n_vocab, row, &params[row], &results[0][row], &results[1][row]);
        pair_clear(pair);
    }
    free(logits);
}

static void check_rows(struct pair *pair, bool quick) {
    (void)quick;
    check_norms(pair);
    check_gathers(pair);
    check_elementwise(pair);
    check_edges(pair);
    check_embeds(pair);
}

static void check_experts(struct pair *pair, bool quick) {
    static const char *const formats[] = {"q4_1", "awq", "gptq4", "q6_k", "f16"};
    static const uint32_t rows[] = {1, 3, 40};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            if (!quick || (f + r) % 2 == 0)
                check_mixture(pair, formats[f], rows[r]);
}

/* Both kinds of numerics draw tokens by the same kernels: those of the exact one are enough. */
static void check_draws(struct pair *pair, bool quick) {
    if (pair->near)
        return;
    check_samples(pair, 1000, quick ? 4 : 50);
    check_samples(pair, 32000, quick ? 1 : 20);
    check_samples(pair, limits.n_vocab, quick ? 1 : 20);
}

/* In the order of what changed last. */
static const struct {
    const char *name;
    void (*check)(struct pair *pair, bool quick);
} parts[] = {{"attend", check_attentions},
             {"products", check_products},
             {"rows", check_rows},
             {"experts", check_experts},
             {"draws", check_draws}};

static bool is_wanted(const char *part, int argc, char **argv) {
    bool all = true;
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], "quick") != 0) {
            all = false;
            if (strcmp(argv[i], part) == 0)
                return true;
        }
    return all;
}

static const char usage[] = "usage: gpu_bits BACKEND AGAINST [quick] "
                            "[attend|products|rows|experts|draws ...]\n";

int main(int argc, char **argv) {
    bool quick = false, known = argc > 2;
    for (int i = 3; i < argc; i++) {
        bool is_part = strcmp(argv[i], "quick") == 0;
        quick = quick || is_part;
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            is_part = is_part || strcmp(argv[i], parts[p].name) == 0;
        known = known && is_part;
    }
    if (!known) {
        fputs(usage, stderr);
        return EXIT_FAILURE;
    }
    const struct kernels_options options = {.limits = limits};
    struct pair pair = {.random = {1}, .limits = limits, .backends = {argv[1], argv[2]}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    side_open(&pair.got, argv[1], &options);
    side_open(&pair.want, argv[2], &options);
    pair.near = strcmp(pair.got.kernels->numerics(pair.got.ctx),
                       pair.want.kernels->numerics(pair.want.ctx)) != 0;
    uint32_t n_passed = 0, n_failed = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        if (is_wanted(parts[p].name, argc, argv)) {
            uint32_t n_compared = pair.n_compared, n_different = pair.n_different;
            parts[p].check(&pair, quick);
            n_compared = pair.n_compared - n_compared;
            n_different = pair.n_different - n_different;
            n_passed += n_compared > 0 && n_different == 0;
            n_failed += n_different > 0;
            printf("{\"measure\": \"bits\", \"backend\": \"%s\", \"against\": \"%s\", "
                   "\"part\": \"%s\", \"compared\": %u, \"different\": %u}\n",
                   argv[1], argv[2], parts[p].name, n_compared, n_different);
        }
    side_close(&pair.got);
    side_close(&pair.want);
    printf("compared %u results of %s with those of %s, %u different\n", pair.n_compared, argv[1],
           argv[2], pair.n_different);
    printf("%u passed, %u failed, 0 skipped\n", n_passed, n_failed);
    return n_failed > 0 || n_passed == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
