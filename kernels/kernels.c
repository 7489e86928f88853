#include "kernels/kernels.h"

#include <string.h>

extern const struct kernels kernels_ref;
extern const struct kernels kernels_cpu;
extern const struct kernels kernels_far; /* tests/support/far_kernels.c */
extern const struct kernels kernels_cuda_fast;
extern const struct kernels kernels_cuda_exact;
extern const struct kernels kernels_cuda_emu_fast;
extern const struct kernels kernels_cuda_emu_exact;

const struct kernels *const kernels_table[] = {
    &kernels_ref,
    &kernels_cpu,
#ifdef TANDEM_CUDA
    &kernels_cuda_fast, /* first: what the name alone means */
    &kernels_cuda_exact,
#endif
#ifdef TANDEM_EMU
    &kernels_cuda_emu_fast,
    &kernels_cuda_emu_exact,
#endif
#ifdef TANDEM_FAR_KERNELS
    &kernels_far,
#endif
    NULL,
};

const struct kernels *kernels_find(const char *label) {
    size_t n = strcspn(label, ":");
    for (size_t i = 0; kernels_table[i]; i++) {
        const struct kernels *row = kernels_table[i];
        bool is_named = strncmp(row->name, label, n) == 0 && row->name[n] == '\0';
        if (is_named && (label[n] == '\0' || strcmp(row->numerics_kind, label + n + 1) == 0))
            return row;
    }
    return NULL;
}
