/* tools/kbench/plan.h: what the CUDA backend would launch at the shapes of the reference models, and what of a GPU that
 * could use. The launches are the backend's own: it runs on the emulated device, which shows them and runs none. */
#pragma once

#include <stdbool.h>

struct plan_options {
    const char *device; /* a name of worker/device/device.c, or "all" */
    const char *
        code; /* a file that tests/gpu/sass.py --registers wrote; NULL: nothing is said of registers and bytes under way */
    const char *only; /* a part of the model's name, or NULL */
    const char *tp;   /* numbers of ranks, separated by commas */
    bool json;        /* only what a step is predicted to take in fast numerics, a line each */
    const char *link; /* "nvlink" or "pcie" between their devices; NULL: the device's own */
};

/* Answers an exit status. */
int plan_print(const struct plan_options *options);
