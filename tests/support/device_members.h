/* tests/support/device_members.h: the members of kernels/cuda/device.h that this program is linked with, each with the
 * kernels that were compiled for it. A member that opens no device here is skipped with its reason. */
#pragma once

#include "tests/support/device_kernels.h"

struct device_member {
    const struct device_kind *kind;
    const struct device_kernels *kernels;
};
extern const struct device_member device_members[];
extern const int n_device_members;

/* The fixture of a looped test, whose number is the member's. */
extern const struct device_kind *kind;
extern const struct device_kernels *kernels;
extern struct device *device;
extern struct device_stream *stream;
void device_member_open(int number);
void device_member_close(void);

/* Bytes of the host on the device, and back; both wait. */
void *device_member_up(const void *from, size_t n_bytes);
void device_member_down(void *to, const void *from, size_t n_bytes);

/* Adds the test once per member that opens a device. */
#define DEVICE_MEMBER_TEST(tests, name)                                                            \
    for (int member_ = 0; member_ < n_device_members; member_++)                                   \
        if (device_member_opens(member_))                                                          \
    tcase_add_loop_test(tests, name, member_, member_ + 1)
bool device_member_opens(int number); /* asked once per member; says why not */
