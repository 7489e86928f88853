/* Small kernels whose results are known, on every member of device.h that opens a device here: what the instructions
 * and functions that kernels use compute, the same on a GPU and on the emulator. */
#include "base/random.h"
#include "kernels/half.h"
#include "tests/support/device_members.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

const char *const suite_name = "conform_device_kernels";
const double suite_timeout_s = 120;

START_TEST(every_thread_of_every_block_runs) {
    device_member_open(_i);
    float a[1000], b[1000], out[1000];
    for (int i = 0; i < 1000; i++) {
        a[i] = (float)i;
        b[i] = 0.5f;
    }
    float *at = kind->alloc(device, sizeof out);
    kernels->add(stream, at, device_member_up(a, sizeof a), device_member_up(b, sizeof b), 1000);
    device_member_down(out, at, sizeof out);
    for (int i = 0; i < 1000; i++)
        ck_assert(out[i] == (float)i + 0.5f);
    device_member_close();
}
END_TEST

START_TEST(a_block_adds_up_by_shuffles_and_shared_memory) {
    device_member_open(_i);
    for (uint32_t n_warps = 1; n_warps <= 32; n_warps += 1 + n_warps / 3) {
        uint32_t in[1024], sum = 0, out[3];
        for (uint32_t i = 0; i < n_warps * 32; i++)
            sum += in[i] = i * i + 7;
        uint32_t *at = kind->alloc(device, sizeof out);
        kernels->block_sum(stream, at, device_member_up(in, sizeof in), n_warps);
        device_member_down(out, at, sizeof out);
        for (int i = 0; i < 3; i++)
            ck_assert_uint_eq(out[i], sum);
    }
    device_member_close();
}
END_TEST

START_TEST(atomics_count_all_blocks) {
    device_member_open(_i);
    uint32_t *at = kind->alloc(device, sizeof *at), out;
    kernels->count(stream, at, 37);
    kernels->count(stream, at, 1);
    device_member_down(&out, at, sizeof out);
    ck_assert_uint_eq(out, 38);
    device_member_close();
}
END_TEST

START_TEST(shuffles_and_votes_are_those_of_the_ISA) {
    device_member_open(_i);
    uint32_t in[33], out[DEVICE_SHUFFLES][32];
    for (uint32_t i = 0; i < 33; i++)
        in[i] = 1000 + i;
    uint32_t *at = kind->alloc(device, sizeof out);
    kernels->shuffles(stream, at, device_member_up(in, sizeof in));
    device_member_down(out, at, sizeof out);
    uint32_t ballot = 0;
    for (uint32_t i = 0; i < 32; i++)
        ballot |= (uint32_t)(in[i] % 3 == 0) << i;
    for (uint32_t i = 0; i < 32; i++) {
        ck_assert_uint_eq(out[0][i], in[(i * 7 + 3) % 32]);
        ck_assert_uint_eq(out[1][i], in[i / 8 * 8 + 5]);
        ck_assert_uint_eq(out[2][i], in[i < 3 ? i : i - 3]);
        ck_assert_uint_eq(out[3][i], in[i % 8 < 3 ? i : i - 3]);
        ck_assert_uint_eq(out[4][i], in[i + 5 > 31 ? i : i + 5]);
        ck_assert_uint_eq(out[5][i], in[i % 16 + 5 > 15 ? i : i + 5]);
        ck_assert_uint_eq(out[6][i], in[i ^ 9]);
        ck_assert_uint_eq(out[7][i], in[(i ^ 12) < (i / 8 + 1) * 8 ? i ^ 12 : i]);
        ck_assert_uint_eq(out[8][i], ballot);
        ck_assert_uint_eq(out[9][i], i < 16);
        ck_assert_uint_eq(out[10][i], 1);
        ck_assert_uint_eq(out[11][i], i < 8 ? in[i ^ 1] : 0);
    }
    device_member_close();
}
END_TEST

START_TEST(mma_of_int8_is_the_product) {
    device_member_open(_i);
    struct random random = {.state = 1};
    int8_t x[16][32], w[8][32];
    int32_t y[16][8];
    for (int i = 0; i < 16 * 32; i++)
        x[i / 32][i % 32] = (int8_t)random_next(&random);
    for (int i = 0; i < 8 * 32; i++)
        w[i / 32][i % 32] = (int8_t)random_next(&random);
    int32_t *at = kind->alloc(device, sizeof y);
    kernels->product_s8(stream, at, device_member_up(x, sizeof x), device_member_up(w, sizeof w));
    device_member_down(y, at, sizeof y);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            int32_t sum = 0;
            for (int k = 0; k < 32; k++)
                sum += x[m][k] * w[n][k];
            ck_assert_int_eq(y[m][n], sum);
        }
    device_member_close();
}
END_TEST

/* `small`: x are denormals of their format. */
static void check_mma(bool bf16, bool small) {
    struct random random = {.state = 2};
    uint16_t (*of)(float value) = bf16 ? float_to_bf16 : float_to_half;
    float (*value)(uint16_t bits) = bf16 ? bf16_to_float : half_to_float;
    uint16_t x[16][16], w[16][8];
    float y[16][8], x_unit = !small ? 1.0f : bf16 ? 0x1p-133f : 0x1p-24f;
    float w_unit = small && bf16 ? 0x1p+40f : 1.0f; /* the products are none */
    for (int i = 0; i < 16 * 16; i++)               /* small integers: every sum is exact */
        x[i / 16][i % 16] = of(((float)(random_next(&random) % 64) - 31.0f) * x_unit);
    for (int i = 0; i < 16 * 8; i++)
        w[i / 8][i % 8] = of(((float)(random_next(&random) % 64) - 31.0f) * w_unit);
    float *at = kind->alloc(device, sizeof y);
    (bf16 ? kernels->product_bf16 : kernels->product_f16)(stream, at, device_member_up(x, sizeof x),
                                                          device_member_up(w, sizeof w));
    device_member_down(y, at, sizeof y);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            float sum = 0.0f;
            for (int k = 0; k < 16; k++)
                sum += value(x[m][k]) * value(w[k][n]);
            ck_assert(y[m][n] == sum);
        }
}

START_TEST(mma_of_16_bits_is_the_product) {
    device_member_open(_i);
    for (int i = 0; i < 4; i++)
        check_mma(i % 2 == 1, i >= 2);
    device_member_close();
}
END_TEST

START_TEST(atomics_add_and_choose) {
    device_member_open(_i);
    uint32_t out[7], *at = kind->alloc(device, sizeof out);
    float sum;
    kernels->atomics(stream, at);
    device_member_down(out, at, sizeof out);
    memcpy(&sum, &out[6], 4);
    ck_assert_int_eq((int)out[0], 96 * 95 / 2 - 96 * 40);
    ck_assert_int_eq((int)out[1], 55);
    ck_assert_int_eq((int)out[2], -40);
    ck_assert_uint_eq(out[3], 96 * 95 / 2 - 96 * 40);
    ck_assert_uint_eq(out[4], UINT32_MAX);
    ck_assert_uint_eq(out[5], 0);
    ck_assert(sum == 720.0f);
    device_member_close();
}
END_TEST

START_TEST(every_block_runs_once) {
    device_member_open(_i);
    static const uint32_t sizes[] = {1, 2, 7, 30, 36, 97};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        uint32_t n = sizes[k], order[97], seen[97] = {0};
        uint32_t *at = kind->alloc(device, sizeof order), *next = kind->alloc(device, 4);
        kernels->order(stream, at, next, n);
        device_member_down(order, at, sizeof order);
        for (uint32_t i = 0; i < n; i++) {
            ck_assert_uint_lt(order[i], n);
            ck_assert_uint_eq(seen[order[i]]++, 0);
        }
    }
    device_member_close();
}
END_TEST

START_TEST(ldmatrix_gives_each_lane_its_pairs) {
    device_member_open(_i);
    for (uint32_t stride = 16; stride <= 128; stride *= 8) {
        uint32_t out[32][4], *at = kind->alloc(device, sizeof out);
        kernels->matrices(stream, at, stride);
        device_member_down(out, at, sizeof out);
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t j = 0; j < 4; j++) {
                uint32_t first = (8 * j + lane / 4) * stride / 2 + lane % 4 * 2;
                ck_assert_uint_eq(out[lane][j], first | (first + 1) << 16);
            }
    }
    device_member_close();
}
END_TEST

START_TEST(floats_are_ieee_and_denormals_are_zero) {
    device_member_open(_i);
    static const float pairs[][2] = {{1.1f, 3.3f},     {1e-20f, 1e-20f}, {1e-40f, 1.0f},
                                     {2.0f, -7.7e19f}, {1e-38f, 4.0f},   {0.1f, 1e30f}};
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        float a = pairs[k][0], b = pairs[k][1], out[5], *at = kind->alloc(device, sizeof out);
        float flushed = fabsf(a) < 0x1p-126f ? 0.0f : a;
        kernels->floats(stream, at, a, b);
        device_member_down(out, at, sizeof out);
        float want[5] = {flushed * b, flushed + b, flushed / b, sqrtf(flushed),
                         fmaf(flushed, b, flushed)};
        for (int i = 0; i < 5; i++) {
            want[i] = fabsf(want[i]) < 0x1p-126f ? want[i] * 0.0f : want[i];
            ck_assert_msg(memcmp(&out[i], &want[i], 4) == 0, "pair %zu, %d: %a, not %a", k, i,
                          (double)out[i], (double)want[i]);
        }
    }
    volatile float denormal = 1e-40f; /* the host's own arithmetic is as before */
    ck_assert(denormal * 2.0f > 0.0f);
    device_member_close();
}
END_TEST

START_TEST(dp4a_multiplies_signed_bytes) {
    device_member_open(_i);
    struct random random = {.state = 3};
    uint32_t a[500], b[500];
    int32_t out[500], *at = kind->alloc(device, sizeof out);
    for (int i = 0; i < 500; i++) {
        a[i] = (uint32_t)random_next(&random);
        b[i] = (uint32_t)random_next(&random);
    }
    a[0] = b[0] = 0x80808080u;
    kernels->dots(stream, at, device_member_up(a, sizeof a), device_member_up(b, sizeof b), 500);
    device_member_down(out, at, sizeof out);
    for (int i = 0; i < 500; i++) {
        int32_t want = i;
        for (int k = 0; k < 4; k++)
            want += (int8_t)(a[i] >> 8 * k) * (int8_t)(b[i] >> 8 * k);
        ck_assert_int_eq(out[i], want);
    }
    device_member_close();
}
END_TEST

/* Rounds once, whatever the type: through double, where these sums are exact or far from a tie. */
static uint16_t half_of(double x) {
    float nearest = (float)x;
    if ((double)nearest != x && ((float_bits(nearest) & 0x1fffu) == 0x1000u)) /* a tie it was not */
        nearest = nextafterf(nearest, x > (double)nearest ? INFINITY : -INFINITY);
    return float_to_half(nearest);
}

static bool is_same_half(uint32_t got, uint16_t want) {
    bool nan = (want & 0x7c00u) == 0x7c00u && (want & 0x3ffu) != 0;
    return nan ? (got & 0x7c00u) == 0x7c00u && (got & 0x3ffu) != 0 : got == want;
}

#define N_HALVES 65536

START_TEST(binary16_rounds_once_and_knows_denormals) {
    device_member_open(_i);
    struct random random = {.state = 4};
    static uint32_t a[N_HALVES], b[N_HALVES], c[N_HALVES], out[N_HALVES][4];
    for (uint32_t i = 0; i < N_HALVES; i++) {
        a[i] = i | (i * 40503u & 0xffffu) << 16;
        b[i] = (uint32_t)random_next(&random);
        c[i] = (uint32_t)random_next(&random);
    }
    uint32_t *at = kind->alloc(device, sizeof out);
    kernels->halves(stream, at, device_member_up(a, sizeof a), device_member_up(b, sizeof b),
                    device_member_up(c, sizeof c), N_HALVES);
    device_member_down(out, at, sizeof out);
    for (uint32_t i = 0; i < N_HALVES; i++) {
        for (int k = 0; k < 2; k++) {
            double x = (double)half_to_float((uint16_t)(a[i] >> 16 * k));
            double y = (double)half_to_float((uint16_t)(b[i] >> 16 * k));
            double z = (double)half_to_float((uint16_t)(c[i] >> 16 * k));
            ck_assert(is_same_half(out[i][0] >> 16 * k & 0xffffu, half_of(x - y)));
            ck_assert(is_same_half(out[i][1] >> 16 * k & 0xffffu, half_of(x * y + z)));
        }
        float want = half_to_float((uint16_t)a[i]), got = float_from_bits(out[i][2]);
        ck_assert(isnan(want) ? isnan(got) : memcmp(&want, &got, 4) == 0);
        ck_assert(is_same_half(out[i][3] & 0xffffu, float_to_half(float_from_bits(b[i]))));
        ck_assert(is_same_half(out[i][3] >> 16, float_to_half(float_from_bits(c[i]))));
    }
    device_member_close();
}
END_TEST

START_TEST(a_copy_is_there_after_its_wait) {
    device_member_open(_i);
    uint32_t in[4] = {1, 2, 3, 4}, out[4], *at = kind->alloc(device, sizeof out);
    kernels->load_16(stream, at, device_member_up(in, sizeof in));
    device_member_down(out, at, sizeof out);
    ck_assert_mem_eq(out, in, sizeof out);
    kernels->late(stream, at, device_member_up(in, sizeof in));
    device_member_down(out, at, sizeof out);
    ck_assert_uint_eq(out[1], 3);
    ck_assert_uint_eq(out[2], 0); /* only 12 of 16 bytes were asked for */
    device_member_close();
}
END_TEST

START_TEST(blocks_that_are_alive_together_wait_for_each_other) {
    device_member_open(_i);
    for (uint32_t n = 1; n <= 16; n *= 2) {
        uint32_t *out = kind->alloc(device, 4), *flags = kind->alloc(device, (n + 1) * 4), got;
        kernels->relay(stream, out, flags, n, true);
        device_member_down(&got, out, 4);
        ck_assert_uint_eq(got, n * (n - 1) / 2);
    }
    device_member_close();
}
END_TEST

void suite_add(TCase *tests) {
    DEVICE_MEMBER_TEST(tests, every_thread_of_every_block_runs);
    DEVICE_MEMBER_TEST(tests, a_block_adds_up_by_shuffles_and_shared_memory);
    DEVICE_MEMBER_TEST(tests, atomics_count_all_blocks);
    DEVICE_MEMBER_TEST(tests, shuffles_and_votes_are_those_of_the_ISA);
    DEVICE_MEMBER_TEST(tests, mma_of_int8_is_the_product);
    DEVICE_MEMBER_TEST(tests, mma_of_16_bits_is_the_product);
    DEVICE_MEMBER_TEST(tests, atomics_add_and_choose);
    DEVICE_MEMBER_TEST(tests, every_block_runs_once);
    DEVICE_MEMBER_TEST(tests, ldmatrix_gives_each_lane_its_pairs);
    DEVICE_MEMBER_TEST(tests, floats_are_ieee_and_denormals_are_zero);
    DEVICE_MEMBER_TEST(tests, dp4a_multiplies_signed_bytes);
    DEVICE_MEMBER_TEST(tests, binary16_rounds_once_and_knows_denormals);
    DEVICE_MEMBER_TEST(tests, a_copy_is_there_after_its_wait);
    DEVICE_MEMBER_TEST(tests, blocks_that_are_alive_together_wait_for_each_other);
}
