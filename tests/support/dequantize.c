#include "tests/support/dequantize.h"

#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

static uint32_t bits_at(const void *bytes, size_t begin, uint32_t n) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t bit = begin + i;
        value |= (uint32_t)(((const uint8_t *)bytes)[bit / 8] >> bit % 8 & 1) << i;
    }
    return value;
}

static double half_at(const void *bytes, size_t byte) {
    uint32_t half = bits_at(bytes, byte * 8, 16);
    double sign = half >> 15 ? -1.0 : 1.0;
    int exponent = (int)(half >> 10 & 31);
    int fraction = (int)(half & 1023);
    ck_assert_int_ne(exponent, 31);
    return exponent == 0 ? sign * ldexp(fraction, -24)
                         : sign * ldexp(1024 + fraction, exponent - 25);
}

static double float_at(const void *bytes, size_t byte, uint32_t n_bytes) {
    uint32_t bits = bits_at(bytes, byte * 8, n_bytes * 8) << (32 - n_bytes * 8);
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Blocks of 32; i: the input within the block. */
static double small_block(const char *format, const uint8_t *block, uint32_t i) {
    double d = half_at(block, 0);
    uint32_t nibble = i < 16 ? 0 : 4;
    if (strcmp(format, "q4_0") == 0)
        return d * ((double)bits_at(block, (2 + i % 16) * 8 + nibble, 4) - 8.0);
    if (strcmp(format, "q4_1") == 0)
        return d * bits_at(block, (4 + i % 16) * 8 + nibble, 4) + half_at(block, 2);
    if (strcmp(format, "q8_0") == 0)
        return d * (int8_t)block[2 + i];
    size_t high = strcmp(format, "q5_1") == 0 ? 4 : 2;
    double q = bits_at(block, (high + 4 + i % 16) * 8 + nibble, 4) +
               16.0 * bits_at(block, high * 8 + i, 1);
    return high == 4 ? d * q + half_at(block, 2) : d * (q - 16.0);
}

/* The two 6-bit numbers of group g in the twelve bytes of Q4_K and Q5_K. */
static void six_bits(const uint8_t *bytes, uint32_t g, double *scale, double *min) {
    if (g < 4) {
        *scale = bits_at(bytes, (size_t)g * 8, 6);
        *min = bits_at(bytes, (size_t)g * 8 + 32, 6);
        return;
    }
    *scale = bits_at(bytes, (size_t)g * 8 + 32, 4) + 16.0 * bits_at(bytes, (g - 4) * 8 + 6, 2);
    *min = bits_at(bytes, (size_t)g * 8 + 36, 4) + 16.0 * bits_at(bytes, (size_t)g * 8 + 6, 2);
}

/* Blocks of 256. */
static double large_block(const char *format, const uint8_t *block, uint32_t i) {
    uint32_t g = i / 32;
    if (strcmp(format, "q6_k") == 0) {
        uint32_t in_half = i % 128;
        uint32_t low = 64 * (i / 128) + in_half % 64;
        uint32_t high = 128 + 32 * (i / 128) + in_half % 32;
        double q = bits_at(block, (size_t)low * 8 + in_half / 64 * 4, 4) +
                   16.0 * bits_at(block, (size_t)high * 8 + in_half / 32 * 2, 2);
        return half_at(block, 208) * (int8_t)block[192 + i / 16] * (q - 32.0);
    }
    bool five = strcmp(format, "q5_k") == 0;
    size_t nibble = ((five ? 48u : 16u) + g / 2 * 32 + i % 32) * 8 + g % 2 * 4;
    double q = bits_at(block, nibble, 4);
    double scale;
    double min;
    if (five)
        q += 16.0 * bits_at(block, (16 + i % 32) * 8 + g, 1);
    six_bits(block + 4, g, &scale, &min);
    return half_at(block, 0) * scale * q - half_at(block, 2) * min;
}

static bool is_listed(const struct weight_tensor *tensor) {
    bool any = false;
    for (uint32_t i = 0; tensor->group_of && i < tensor->k; i++)
        any |= bits_at(tensor->group_of, (size_t)i * 32, 32) != 0;
    return any; /* a list of zeros means nothing */
}

static double gptq(const struct weight_tensor *t, uint32_t output, uint32_t input) {
    uint32_t bits = t->format[4] == '4' ? 4 : 8;
    bool v1 = strstr(t->format, "_v2") == NULL;
    uint32_t g = is_listed(t) ? bits_at(t->group_of, (size_t)input * 32, 32) : input / t->group;
    size_t word = (size_t)(input / (32 / bits)) * t->n + output;
    double q = bits_at(t->values, word * 32 + input % (32 / bits) * bits, bits);
    size_t zero_word = (size_t)g * (t->n / (32 / bits)) + output / (32 / bits);
    uint32_t zeros = bits_at(t->zeros, zero_word * 32, 32);
    if (v1)
        zeros += bits == 4 ? 0x11111111u : 0x01010101u;
    if (strstr(t->format, "_sym"))
        zeros = bits == 4 ? 0x88888888u : 0x80808080u;
    double z = zeros >> output % (32 / bits) * bits & (bits == 4 ? 15u : 255u);
    return half_at(t->scales, ((size_t)g * t->n + output) * 2) * (q - z);
}

static double awq(const struct weight_tensor *t, uint32_t output, uint32_t input) {
    static const uint32_t order[] = {0, 2, 4, 6, 1, 3, 5, 7}; /* output of each nibble */
    uint32_t nibble = 0;
    while (order[nibble] != output % 8)
        nibble++;
    uint32_t g = input / t->group;
    size_t per_row = t->n / 8;
    double q = bits_at(t->values, (input * per_row + output / 8) * 32 + 4 * nibble, 4);
    double z = bits_at(t->zeros, (g * per_row + output / 8) * 32 + 4 * nibble, 4);
    return half_at(t->scales, ((size_t)g * t->n + output) * 2) * (q - z);
}

double dequantize(const struct weight_tensor *tensor, uint32_t output, uint32_t input) {
    static const struct {
        const char *format;
        uint32_t bytes;
    } blocks[] = {{"q4_0", 18}, {"q4_1", 20},  {"q5_0", 22},  {"q5_1", 24},
                  {"q8_0", 34}, {"q4_k", 144}, {"q5_k", 176}, {"q6_k", 210}};
    const char *format = tensor->format;
    size_t at = (size_t)output * tensor->k + input;
    if (strcmp(format, "f32") == 0)
        return float_at(tensor->values, at * 4, 4);
    if (strcmp(format, "bf16") == 0)
        return float_at(tensor->values, at * 2, 2);
    if (strcmp(format, "f16") == 0)
        return half_at(tensor->values, at * 2);
    if (strcmp(format, "awq") == 0)
        return awq(tensor, output, input);
    if (strncmp(format, "gptq", 4) == 0)
        return gptq(tensor, output, input);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (strcmp(format, blocks[i].format) != 0)
            continue;
        uint32_t block = blocks[i].bytes >= 144 ? 256 : 32;
        const uint8_t *bytes = (const uint8_t *)tensor->values + at / block * blocks[i].bytes;
        return block == 32 ? small_block(format, bytes, input % 32)
                           : large_block(format, bytes, input % 256);
    }
    ck_abort_msg("no formula for %s", format);
}
