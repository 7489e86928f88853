/* tools/kbench/machine.h: what the machine can do, and one matrix product timed against it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct machine {
    uint32_t n_threads;
    double read_gb_s;   /* all threads reading memory far larger than the caches */
    double int8_gmac_s; /* all threads multiplying int8 in registers; 0 where there is no AVX2 */
};

struct gemm_figures {
    double seconds; /* of one call, median */
    double bytes;   /* packed weights read by one call */
};

/* n_threads 0: one per core. Takes about a second. */
struct machine machine_measure(uint32_t n_threads);

/* Times linear() of a random matrix (n, k) on m rows, over copies that together leave the caches.
 * False when the backend cannot be opened. */
bool machine_time_gemm(const char *backend, const char *isa, uint32_t n_threads, const char *format,
                       uint32_t n, uint32_t k, uint32_t m, struct gemm_figures *figures);
