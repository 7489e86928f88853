/* The emulator by small kernels whose results are known, through the emulated device. */
#include "base/random.h"
#include "kernels/half.h"
#include "tests/support/suite.h"
#include "tests/unit/kernels/cuda/emu_kernels.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_cuda_emu";
const double suite_timeout_s = 60;

static struct device *device;
static struct device_stream *stream;

static void open_device(void) {
    struct error error;
    ck_assert_int_eq(device_emu.open(0, &device, &error), STATUS_OK);
    device_emu.use(device);
    stream = device_emu.stream_make(device);
}

static void close_device(void) {
    device_emu.stream_free(stream);
    device_emu.close(device);
}

/* Bytes of the host on the device, and back. */
static void *up(const void *from, size_t n_bytes) {
    void *pinned = device_emu.pinned_alloc(device, n_bytes);
    memcpy(pinned, from, n_bytes);
    void *to = device_emu.alloc(device, n_bytes);
    device_emu.copy_in(stream, to, pinned, n_bytes);
    ck_assert_int_eq(device_emu.wait(stream), STATUS_OK);
    device_emu.pinned_free(device, pinned);
    return to;
}

static void down(void *to, const void *from, size_t n_bytes) {
    void *pinned = device_emu.pinned_alloc(device, n_bytes);
    device_emu.copy_out(stream, pinned, from, n_bytes);
    ck_assert_msg(device_emu.wait(stream) == STATUS_OK, "%s", device_emu.failure(device));
    memcpy(to, pinned, n_bytes);
    device_emu.pinned_free(device, pinned);
}

START_TEST(every_thread_of_every_block_runs) {
    float a[1000], b[1000], out[1000];
    for (int i = 0; i < 1000; i++) {
        a[i] = (float)i;
        b[i] = 0.5f;
    }
    float *at = device_emu.alloc(device, sizeof out);
    emu_add(stream, at, up(a, sizeof a), up(b, sizeof b), 1000);
    down(out, at, sizeof out);
    for (int i = 0; i < 1000; i++)
        ck_assert(out[i] == (float)i + 0.5f);
}
END_TEST

START_TEST(a_block_adds_up_by_shuffles_and_shared_memory) {
    for (uint32_t n_warps = 1; n_warps <= 32; n_warps += 1 + n_warps / 3) {
        uint32_t in[1024], sum = 0, out;
        for (uint32_t i = 0; i < n_warps * 32; i++)
            sum += in[i] = i * i + 7;
        uint32_t *at = device_emu.alloc(device, sizeof out);
        emu_block_sum(stream, at, up(in, sizeof in), n_warps);
        down(&out, at, sizeof out);
        ck_assert_uint_eq(out, sum);
    }
}
END_TEST

START_TEST(atomics_count_all_blocks) {
    uint32_t *at = device_emu.alloc(device, sizeof *at), out;
    emu_count(stream, at, 37);
    emu_count(stream, at, 1);
    down(&out, at, sizeof out);
    ck_assert_uint_eq(out, 38);
}
END_TEST

START_TEST(shuffles_and_votes_are_those_of_the_ISA) {
    uint32_t in[33], out[EMU_SHUFFLES][32];
    for (uint32_t i = 0; i < 33; i++)
        in[i] = 1000 + i;
    uint32_t *at = device_emu.alloc(device, sizeof out);
    emu_shuffles(stream, at, up(in, sizeof in));
    down(out, at, sizeof out);
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
}
END_TEST

START_TEST(mma_of_int8_is_the_product) {
    struct random random = {.state = 1};
    int8_t x[16][32], w[8][32];
    int32_t y[16][8];
    for (int i = 0; i < 16 * 32; i++)
        x[i / 32][i % 32] = (int8_t)random_next(&random);
    for (int i = 0; i < 8 * 32; i++)
        w[i / 32][i % 32] = (int8_t)random_next(&random);
    int32_t *at = device_emu.alloc(device, sizeof y);
    emu_product_s8(stream, at, up(x, sizeof x), up(w, sizeof w));
    down(y, at, sizeof y);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            int32_t sum = 0;
            for (int k = 0; k < 32; k++)
                sum += x[m][k] * w[n][k];
            ck_assert_int_eq(y[m][n], sum);
        }
}
END_TEST

START_TEST(mma_of_binary16_is_the_product) {
    struct random random = {.state = 2};
    uint16_t x[16][16], w[16][8];
    float y[16][8];
    for (int i = 0; i < 16 * 16; i++) /* small integers: every sum is exact */
        x[i / 16][i % 16] = float_to_half((float)(random_next(&random) % 64) - 31.0f);
    for (int i = 0; i < 16 * 8; i++)
        w[i / 8][i % 8] = float_to_half((float)(random_next(&random) % 64) - 31.0f);
    float *at = device_emu.alloc(device, sizeof y);
    emu_product_f16(stream, at, up(x, sizeof x), up(w, sizeof w));
    down(y, at, sizeof y);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            float sum = 0.0f;
            for (int k = 0; k < 16; k++)
                sum += half_to_float(x[m][k]) * half_to_float(w[k][n]);
            ck_assert(y[m][n] == sum);
        }
}
END_TEST

START_TEST(denormals_are_zero_in_kernels_and_not_after_them) {
    volatile float denormal = 1e-40f, small = 1e-20f;
    float out[2], *at = device_emu.alloc(device, sizeof out);
    emu_floats(stream, at, small, small);
    down(out, at, sizeof out);
    ck_assert(out[0] == 0.0f && out[1] > 0.0f);
    emu_floats(stream, at, denormal, 1.0f);
    down(out, at, sizeof out);
    ck_assert(out[0] == 0.0f && out[1] == 1.0f);
    ck_assert(denormal * 2.0f > 0.0f);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, open_device, close_device);
    tcase_add_test(tests, every_thread_of_every_block_runs);
    tcase_add_test(tests, a_block_adds_up_by_shuffles_and_shared_memory);
    tcase_add_test(tests, atomics_count_all_blocks);
    tcase_add_test(tests, shuffles_and_votes_are_those_of_the_ISA);
    tcase_add_test(tests, mma_of_int8_is_the_product);
    tcase_add_test(tests, mma_of_binary16_is_the_product);
    tcase_add_test(tests, denormals_are_zero_in_kernels_and_not_after_them);
}
