#include "kernels/kernels.h"

#include <string.h>

extern const struct kernels kernels_ref;
extern const struct kernels kernels_cpu;
extern const struct kernels kernels_far; /* tests/support/far_kernels.c */
extern const struct kernels kernels_cuda;
extern const struct kernels kernels_cuda_fast;
extern const struct kernels kernels_cuda_emu;
extern const struct kernels kernels_cuda_emu_fast;

const struct kernels *const kernels_table[] = {
    &kernels_ref,
    &kernels_cpu,
#ifdef TANDEM_CUDA
    &kernels_cuda,
    &kernels_cuda_fast,
#endif
#ifdef TANDEM_EMU
    &kernels_cuda_emu,
    &kernels_cuda_emu_fast,
#endif
#ifdef TANDEM_FAR_KERNELS
    &kernels_far,
#endif
    NULL,
};

const struct kernels *kernels_find(const char *name) {
    for (size_t i = 0; kernels_table[i]; i++)
        if (strcmp(kernels_table[i]->name, name) == 0)
            return kernels_table[i];
    return NULL;
}
