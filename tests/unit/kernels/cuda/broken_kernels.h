/* Kernels with one mistake each, and what the emulator must say of it. */
#pragma once

#include "kernels/cuda/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One launch of 64 threads or of what the mistake needs. in: (64), 0, 1, 2, ...; out: (64). */
struct broken_kernel {
    const char *name;
    void (*launch)(struct device_stream *stream, float *out, const float *in);
    const char *watched; /* part of what it says when each access is looked at */
    const char *plain;   /* else: NULL when it says nothing itself, "" when the output is poison */
    const char *bare;    /* where `plain` is NULL, without ASan: what it says in the end, or NULL */
};
extern const struct broken_kernel broken_kernels[];
extern const unsigned n_broken_kernels;

#ifdef __cplusplus
}
#endif
