/* kernels/cuda/emulator/figures.h: what the launches of the calling thread met so far, for reports and gates. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emu_figures {
    uint64_t n_launches;
    uint64_t n_blocks;
    uint64_t n_threads;
    uint64_t n_switches;       /* from one thread to another */
    uint64_t n_ldmatrix;       /* matrices of 8 rows */
    uint64_t n_bank_conflicts; /* passes of ldmatrix beyond those it must take */
};
void emu_figures_now(struct emu_figures *figures);

#ifdef __cplusplus
}
#endif
