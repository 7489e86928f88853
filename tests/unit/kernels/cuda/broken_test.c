/* Each mistake of broken_kernels.cu must be named. Built twice: with each access looked at (WATCHED), where
 * all of them are, and without, where the emulator's own checks see some, and ASan and UBSan others where the
 * emulator is built with them (EMU_SANITIZED). */
#include "tests/support/suite.h"
#include "tests/unit/kernels/cuda/broken_kernels.h"

#include <math.h>
#include <string.h>

#if defined(WATCHED)
#define SAYS(kernel) (kernel)->watched
#elif defined(EMU_SANITIZED)
#define SAYS(kernel) (kernel)->plain
#else
#define SAYS(kernel) ((kernel)->plain ? (kernel)->plain : (kernel)->bare)
#endif

#ifdef WATCHED
const char *const suite_name = "kernels_cuda_broken_watched";
#else
const char *const suite_name = "kernels_cuda_broken";
#endif
const double suite_timeout_s = 60;

extern const struct device_kind device_emu;

START_TEST(the_mistake_is_named) {
    const struct broken_kernel *kernel = &broken_kernels[_i];
    struct device *device;
    struct error error;
    ck_assert_int_eq(device_emu.open(0, &device, &error), STATUS_OK);
    device_emu.use(device);
    struct device_stream *stream = device_emu.stream_make(device);
    float *pinned = device_emu.pinned_alloc(device, 64 * sizeof(float));
    for (int i = 0; i < 64; i++)
        pinned[i] = (float)i;
    float *in = device_emu.alloc(device, 64 * sizeof(float));
    float *out = device_emu.alloc(device, 64 * sizeof(float));
    device_emu.copy_in(stream, in, pinned, 64 * sizeof(float));
    kernel->launch(stream, out, in);
    device_emu.copy_out(stream, pinned, out, 64 * sizeof(float));
    enum status status = device_emu.wait(stream);
    const char *want = SAYS(kernel);
    if (want[0] == '\0') {
        bool poisoned = false;
        ck_assert_int_eq(status, STATUS_OK);
        for (int i = 0; i < 64; i++)
            poisoned = poisoned || isnan(pinned[i]);
        ck_assert_msg(poisoned, "%s: nothing was seen", kernel->name);
    } else {
        device_emu.dealloc(device, out);
        const char *said = device_emu.failure(device);
        ck_assert(status == STATUS_IO || strcmp(want, "behind a piece") == 0);
        ck_assert_msg(said && strstr(said, want), "%s: %s", kernel->name, said);
        ck_assert_int_eq(device_emu.wait(stream), STATUS_IO); /* it stays so */
    }
    device_emu.stream_free(stream);
    device_emu.close(device);
}
END_TEST

void suite_add(TCase *tests) {
    for (int i = 0; i < (int)n_broken_kernels; i++)
        if (SAYS(&broken_kernels[i]))
            tcase_add_loop_test(tests, the_mistake_is_named, i, i + 1);
}
