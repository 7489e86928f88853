#include "tests/support/device_members.h"

#include "tests/support/suite.h"

#include <string.h>

#ifdef TANDEM_EMU
extern const struct device_kind device_emu;
#endif
#ifdef TANDEM_CUDA
extern const struct device_kind device_cuda;
#endif

const struct device_member device_members[] = {
#ifdef TANDEM_EMU
    {&device_emu, &device_kernels_emu},
#endif
#ifdef TANDEM_CUDA
    {&device_cuda, &device_kernels_cuda},
#endif
};
const int n_device_members = sizeof device_members / sizeof device_members[0];

const struct device_kind *kind;
const struct device_kernels *kernels;
struct device *device;
struct device_stream *stream;

bool device_member_opens(int number) {
    static int known[sizeof device_members / sizeof device_members[0]]; /* 0, or 1: no, 2: yes */
    if (known[number] == 0) {
        struct device *opened;
        struct error error;
        known[number] = 1;
        if (device_members[number].kind->open(0, &opened, &error) == STATUS_OK) {
            device_members[number].kind->close(opened);
            known[number] = 2;
        } else {
            suite_skip(device_members[number].kind->name, error.text);
        }
    }
    return known[number] == 2;
}

void device_member_open(int number) {
    struct error error;
    kind = device_members[number].kind;
    kernels = device_members[number].kernels;
    ck_assert_int_eq(kind->open(0, &device, &error), STATUS_OK);
    kind->use(device);
    stream = kind->stream_make(device);
    ck_assert_ptr_nonnull(stream);
}

void device_member_close(void) {
    kind->stream_free(stream);
    kind->close(device);
}

void *device_member_up(const void *from, size_t n_bytes) {
    void *pinned = kind->pinned_alloc(device, n_bytes);
    void *to = kind->alloc(device, n_bytes);
    ck_assert(pinned && to);
    memcpy(pinned, from, n_bytes);
    kind->copy_in(stream, to, pinned, n_bytes);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    kind->pinned_free(device, pinned);
    return to;
}

void device_member_down(void *to, const void *from, size_t n_bytes) {
    void *pinned = kind->pinned_alloc(device, n_bytes);
    ck_assert_ptr_nonnull(pinned);
    kind->copy_out(stream, pinned, from, n_bytes);
    enum status status = kind->wait(stream);
    ck_assert_msg(status == STATUS_OK, "%s", kind->failure(device));
    memcpy(to, pinned, n_bytes);
    kind->pinned_free(device, pinned);
}
