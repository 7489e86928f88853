#include "kernels/quant/quant.h"

#include "base/checked.h"

#include <string.h>

const struct quant_format *const quant_table[] = {
    &quant_f32, &quant_f16, &quant_bf16, &quant_q4_0, &quant_q4_1, &quant_q8_0, NULL,
};

const struct quant_format *quant_find(const char *name) {
    for (size_t i = 0; quant_table[i]; i++)
        if (strcmp(quant_table[i]->name, name) == 0)
            return quant_table[i];
    return NULL;
}

bool quant_row_bytes(const struct quant_format *format, uint64_t n, uint64_t *n_bytes) {
    if (n % format->block_elems != 0)
        return false;
    return checked_mul(n / format->block_elems, format->block_bytes, n_bytes);
}
