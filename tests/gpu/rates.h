/* tests/gpu/rates.h: what a device does at best, as it is measured there: what the times of kernels are compared with. */
#pragma once

#include "kernels/cuda/device.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels that do one thing. */
struct rate_kernels {
    /* Reads n_bytes, a multiple of RATE_STEP, by all of a device's multiprocessors; `out` (1) is not written but for one sum of all. */
    void (*read)(struct device_stream *stream, uint32_t *out, const void *from, size_t n_bytes,
                 uint32_t n_sms);
    /* n_turns of RATE_MMA products of 16 x 8 x 16 numbers in each of n_blocks * RATE_WARPS warps. */
    void (*multiply)(struct device_stream *stream, float *out, uint32_t n_turns, uint32_t n_blocks);
    /* Nothing; `ahead`: it begins while the one before it ends. */
    void (*nothing)(struct device_stream *stream, bool ahead);
};
#define RATE_STEP  65536
#define RATE_MMA   8
#define RATE_WARPS 8

/* The kernels, and what they run on, of a backend's name; NULL: this program has none of it. */
struct rate_member {
    const char *name;
    const struct device_kind *kind;
    const struct rate_kernels *kernels;
};
const struct rate_member *rates_find(const char *name);

struct rates {
    char device[96];
    uint32_t n_sms;
    uint32_t capability;
    double copy_bytes_s; /* read and written */
    double read_bytes_s;
    double mma_ops_s;    /* multiplications and additions by mma.sync, of binary16 */
    double node_s;       /* an empty kernel behind another in a graph, */
    double node_ahead_s; /* and one that begins while that ends */
};

/* Measures all of it, in about a second and with two GiB; an emulated device's numbers mean nothing. Ends the program with a line
 * where there is no device. */
void rates_measure(const struct rate_member *member, bool emulated, struct rates *rates);

#ifdef __cplusplus
}
#endif
