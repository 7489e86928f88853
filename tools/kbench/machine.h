/* tools/kbench/machine.h: what the machine can do, and one matrix product timed against it. */
#pragma once

#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The two limits that no kernel can pass, as far as they were seen: machine_measure() may be called
 * again and again, and the best of all counts. Other programs make any one measure too low. */
struct machine {
    uint32_t n_threads;
    const char *isa;    /* borrowed; NULL: the best of this processor */
    double read_gb_s;   /* all threads reading memory far larger than the caches */
    double int8_gmac_s; /* all threads multiplying int8 in registers with this instruction set's own
                         * dot product; 0 where it has none (scalar) */
    uint8_t *memory;    /* owned (memory_bytes): what is read */
    size_t memory_bytes;
};

/* What is timed. */
struct subject {
    const struct kernels *kernels;
    const char *isa; /* NULL: best */
    uint32_t n_threads;
};

/* A context of it. NULL after a line on standard error: it cannot be opened. */
struct kernels_ctx *subject_open(const struct subject *subject,
                                 const struct kernels_limits *limits);

struct gemm_figures {
    double seconds; /* of one call, median */
    double bytes;   /* packed weights read by one call */
};

/* Takes the memory and measures once. n_threads 0: one per core. Ends the program
 * without memory. */
void machine_init(struct machine *machine, uint32_t n_threads, const char *isa);
void machine_measure(struct machine *machine); /* half a second */
void machine_fini(struct machine *machine);

/* Sorts the values. */
double machine_median(double *values, size_t n);

/* Times linear() of a random matrix (n, k) on m rows, over copies that together leave the caches.
 * False when the backend cannot be opened. */
bool machine_time_gemm(const struct subject *subject, const char *format, uint32_t n, uint32_t k,
                       uint32_t m, struct gemm_figures *figures);
