/* tests/gpu/bits_products.c: products of every format, alone and behind a norm, at the shapes that each kernel is
 * launched with; of fast numerics by accuracy, and that a row's bits are the same beside any others. */
#include "kernels/quant/quant.h"
#include "tests/gpu/bits.h"
#include "tests/support/random_tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What rounding activations, and integers times their scales, to 16 bits makes of all sums, several times: a group of
 * inputs left out is tens of times as far away. A single sum may be farther: its row and its output may be a hundred
 * times as large as others; in a small product it is most of all sums, and what it is the sum of may nearly cancel. */
#define NEAR      3e-3
#define NEAR_SILU 5e-3 /* a product of two sums */

struct product {
    uint32_t n;
    uint32_t k;
    uint32_t rows;
};

static const char *const epilogue_names[] = {"", " added", " silu"};

/* Numbers of a matrix that `side` packed, which stand behind its arrays as long as those do. */
static struct weight as_floats(struct side *side, struct weight weight) {
    size_t row_bytes = sizeof(float) * weight.k;
    char *values = malloc(row_bytes * weight.n);
    float *out = side_floats(side, NULL, (size_t)SIDE_EMBEDS * weight.k);
    uint32_t ids[SIDE_EMBEDS];
    if (!values)
        abort();
    for (uint32_t row = 0, n; row < weight.n; row += n) {
        n = weight.n - row < SIDE_EMBEDS ? weight.n - row : SIDE_EMBEDS;
        for (uint32_t i = 0; i < n; i++)
            ids[i] = row + i;
        side_embed(side, out, &weight, ids, n, 0);
        side->kernels->get(side->ctx, values + row * row_bytes, out, n * row_bytes);
    }
    struct weight_tensor floats = {.format = "f32",
                                   .values = values,
                                   .n_value_bytes = row_bytes * weight.n,
                                   .n = weight.n,
                                   .k = weight.k};
    weight = side_pack(side, &floats);
    free(values);
    return weight;
}

struct weight pair_weight(const struct pair *pair, struct side *side, struct weight packed) {
    if (pair->near && side == &pair->want &&
        (packed.format == WEIGHT_I4G || packed.format == WEIGHT_I8G))
        return as_floats(side, packed);
    return packed;
}

/* A product of both sides: by its bits, or by accuracy where the numerics are not the same. */
static void compare_product(struct pair *pair, const char *what, const char *format,
                            enum epilogue epilogue, float *const out_of[2], size_t n) {
    if (pair->near && strcmp(format, "f32") != 0)
        pair_compare_near(pair, what, out_of[0], out_of[1], n,
                          epilogue == EPILOGUE_SILU_MUL ? NEAR_SILU : NEAR);
    else
        pair_compare(pair, what, out_of[0], out_of[1], n);
}

static void check_product(struct pair *pair, const char *format, const struct product *shape,
                          enum epilogue epilogue, bool sorted) {
    /* Groups of 64 inputs where the format leaves it open; of large matrices 128, as models have them. */
    struct weight_tensor tensor =
        quant_find(format)->sizes && shape->k > 1024
            ? random_grouped_tensor(&pair->random, format, shape->n, shape->k, 128)
            : random_tensor(&pair->random, format, shape->n, shape->k);
    if (sorted)
        random_order(&pair->random, &tensor);
    size_t n_out = (size_t)shape->rows * (shape->n + 3);
    float *x = pair_floats(pair, (size_t)shape->rows * shape->k), *old = pair_floats(pair, n_out);
    float *bias = pair_floats(pair, shape->n), *scale = pair_floats(pair, shape->n);
    char what[128];
    BOTH(pair, n_out, out, {
        struct weight weight = pair_weight(pair, side, side_pack(side, &tensor));
        weight.bias = epilogue == EPILOGUE_NONE ? side_floats(side, bias, shape->n) : NULL;
        weight.scale = epilogue == EPILOGUE_ADD ? side_floats(side, scale, shape->n) : NULL;
        side->kernels->put(side->ctx, out, old, n_out * sizeof *old);
        side->kernels->linear(side->ctx, out, shape->n + 3,
                              side_floats(side, x, (size_t)shape->rows * shape->k), &weight,
                              shape->rows, epilogue);
    });
    snprintf(what, sizeof what, "linear %s%s %u x %u, %u rows%s", format, sorted ? " sorted" : "",
             shape->n, shape->k, shape->rows, epilogue_names[epilogue]);
    compare_product(pair, what, format, epilogue, out_of, n_out);
    pair_clear(pair);
    tensor_free(&tensor);
    free(x);
    free(old);
    free(bias);
    free(scale);
}

/* A norm and the product of its rows, and what lies in them afterwards. */
static void check_normed_product(struct pair *pair, const char *format, uint32_t k, uint32_t rows,
                                 enum epilogue epilogue, bool sorted) {
    enum { n = 72 };
    struct weight_tensor tensor = random_tensor(&pair->random, format, n, k);
    if (sorted)
        random_order(&pair->random, &tensor);
    float *x = pair_floats(pair, (size_t)rows * k), *gain = pair_floats(pair, k);
    float *old = pair_floats(pair, (size_t)rows * n), *normed_of[2];
    char what[128];
    BOTH(pair, (size_t)rows * n, out, {
        struct weight weight = pair_weight(pair, side, side_pack(side, &tensor));
        float *normed = side_floats(side, NULL, (size_t)rows * k);
        const float *from = side_floats(side, x, (size_t)rows * k);
        const float *gains = side_floats(side, gain, k);
        side->kernels->put(side->ctx, out, old, (size_t)rows * n * sizeof *old);
        side->kernels->norm(side->ctx, normed, from, gains, 1e-5f, rows, k);
        side->kernels->linear(side->ctx, out, n, normed, &weight, rows, epilogue);
        normed_of[which_] = normed;
    });
    snprintf(what, sizeof what, "norm and linear %s%s %u x %u, %u rows%s", format,
             sorted ? " sorted" : "", n, k, rows, epilogue_names[epilogue]);
    compare_product(pair, what, format, epilogue, out_of, (size_t)rows * n);
    pair_compare_norm(pair, "its norm", normed_of[0], normed_of[1], (size_t)rows * k);
    pair_clear(pair);
    tensor_free(&tensor);
    free(x);
    free(gain);
    free(old);
}

static void check_normed_products(struct pair *pair) {
    static const char *const formats[] = {"awq", "gptq4", "q4_1", "q8_0", "f16"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (enum epilogue epilogue = EPILOGUE_NONE; epilogue <= EPILOGUE_SILU_MUL; epilogue++) {
            check_normed_product(pair, formats[i], 512, 3, epilogue, false);
            check_normed_product(pair, formats[i], 4352, 1, epilogue, false);
        }
    check_normed_product(pair, "gptq4", 512, 5, EPILOGUE_NONE, true);
    check_normed_product(pair, "awq", 8448, 2, EPILOGUE_NONE, false);
    check_normed_product(pair, "q4_1", 12288, 2, EPILOGUE_NONE, false);
}

/* Quick: all but the largest shapes, and of every second shape and format one epilogue, not the same for all; the shape of many
 * outputs and rows (half of the time of all) for every fourth format. */
static void check_shapes(struct pair *pair, bool quick) {
    static const struct product shapes[] = {
        {72, 256, 1},     {72, 4608, 1},    {136, 3584, 2}, {64, 512, 2},    {200, 1536, 3},
        {136, 768, 4},    {72, 512, 7},     {1000, 512, 9}, {72, 1024, 17},  {264, 512, 33},
        {1000, 768, 100}, {8512, 256, 300}, {4304, 256, 3}, {10904, 256, 5}, {4096, 4096, 1},
        {6144, 4096, 16}, {1024, 14336, 65}};
    for (size_t f = 0; quant_table[f]; f++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes - (quick ? 3 : 0); i++)
            for (enum epilogue epilogue = EPILOGUE_NONE; epilogue <= EPILOGUE_SILU_MUL;
                 epilogue++) {
                const char *format = quant_table[f]->name;
                if (quick && (epilogue != (enum epilogue)((f + i) % 3) || (f + i) % 2 ||
                              (shapes[i].rows == 300 && f % 4 != 1)))
                    continue;
                check_product(pair, format, &shapes[i], epilogue, false);
                if (strncmp(format, "gptq", 4) == 0)
                    check_product(pair, format, &shapes[i], epilogue, true);
            }
    /* Where the products of floats have other code: many outputs, many rows, rows that end in a piece. */
    static const char *const of_floats[] = {"f32", "f16", "bf16"};
    static const struct product more[] = {{8200, 77, 12}, {8256, 132, 50}, {264, 331, 1100}};
    for (size_t f = 0; f < 3; f++)
        for (size_t i = 0; i < sizeof more / sizeof *more; i++)
            for (enum epilogue epilogue = EPILOGUE_NONE; epilogue <= EPILOGUE_SILU_MUL; epilogue++)
                if (!quick || epilogue == (enum epilogue)((f + i) % 3))
                    check_product(pair, of_floats[f], &more[i], epilogue, false);
}

/* The last rows of many, alone: every number of rows has the bits of the others. */
static void check_invariance(struct pair *pair, const char *format, uint32_t n, uint32_t k,
                             uint32_t most, enum epilogue epilogue) {
    static const uint32_t counts[] = {1, 2, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 100, 129};
    struct side *side = &pair->got;
    uint32_t block = quant_find(format)->block;
    k = (k + block - 1) / block * block;
    struct weight_tensor tensor = random_tensor(&pair->random, format, n, k);
    float *x = pair_floats(pair, (size_t)most * k);
    struct weight weight = side_pack(side, &tensor);
    float *at_x = side_floats(side, x, (size_t)most * k);
    float *all = side_floats(side, NULL, (size_t)most * n), *some;
    float *a = malloc((size_t)most * n * sizeof *a), *b = malloc((size_t)most * n * sizeof *b);
    if (!a || !b)
        abort();
    memset(a, 0, (size_t)most * n * sizeof *a);
    side->kernels->put(side->ctx, all, a, (size_t)most * n * sizeof *a);
    some = side_floats(side, a, (size_t)most * n);
    side->kernels->linear(side->ctx, all, n, at_x, &weight, most, epilogue);
    side->kernels->get(side->ctx, a, all, (size_t)most * n * sizeof *a);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && counts[i] < most; i++) {
        size_t first = (size_t)(most - counts[i]);
        memset(b, 0, (size_t)most * n * sizeof *b);
        side->kernels->put(side->ctx, some, b, (size_t)most * n * sizeof *b);
        side->kernels->linear(side->ctx, some + first * n, n, at_x + first * k, &weight, counts[i],
                              epilogue);
        side->kernels->get(side->ctx, b, some, (size_t)most * n * sizeof *b);
        bool same = memcmp(a + first * n, b + first * n, counts[i] * (size_t)n * sizeof *a) == 0;
        pair->n_compared++;
        pair->n_different += !same;
        if (!same)
            printf("DIFFERENT linear %s %u x %u: %u rows alone and the same among %u\n", format, n,
                   k, counts[i], most);
    }
    side_end_step(side);
    pair_clear(pair);
    tensor_free(&tensor);
    free(x);
    free(a);
    free(b);
}

/* Of each tile there is a shape, whose inputs end within its stage. */
static void check_invariances(struct pair *pair, bool quick) {
    static const char *const formats[] = {"f16", "bf16", "awq", "gptq8", "q4_1", "q6_k"};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        check_invariance(pair, formats[f], 200, 840, 150, EPILOGUE_SILU_MUL);
        if (!quick || f % 2 == 0)
            check_invariance(pair, formats[f], 16384, 232, 65, EPILOGUE_NONE);
        if (!quick) {
            check_invariance(pair, formats[f], 15360, 5120, 300, EPILOGUE_NONE);
            check_invariance(pair, formats[f], 5120, 13696, 300, EPILOGUE_ADD);
        }
    }
}

void check_products(struct pair *pair, bool quick) {
    check_invariances(pair, quick);
    check_shapes(pair, quick);
    check_normed_products(pair);
}
