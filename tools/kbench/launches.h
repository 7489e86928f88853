/* tools/kbench/launches.h: launches that the emulated device was told of, each as a line: what of a GPU it can use. */
#pragma once

#include "tests/emulator/figures.h"

#include <stdbool.h>
#include <stdint.h>

struct device;

#define CODES_MAX 512
#define CHAIN_MAX 256

/* A kernel of the GPU's code, from sass.py. */
struct code {
    char arch[8], name[160];
    uint32_t registers, load_bytes, load_registers,
        copy_bytes; /* of a thread: loads, and what they fill; cp.async */
};

struct launches {
    const struct device *gpu;
    struct code codes[CODES_MAX];
    uint32_t n_codes;          /* 0: nothing is said of registers and bytes under way */
    uint32_t n;                /* that were seen */
    uint32_t n_short;          /* of them: that cannot reach 80 % of what the device does at best */
    char names[CHAIN_MAX][32]; /* of kernels, that launches_name() was told of */
    uint32_t n_names;          /* may be more */
};

/* Of a file that tests/gpu/sass.py --registers wrote; false: it is none. */
bool launches_read_codes(struct launches *launches, const char *path);

/* Prints one: the watcher of struct emu_watch, whose context is a struct launches. */
void launches_seen(void *context, const struct emu_seen *launch);
/* Such a watcher too: it notes the kernel's name and prints nothing. */
void launches_name(void *context, const struct emu_seen *launch);
