#include "kernels/quant/quant.h"

enum status quant_grouped_sizes(const struct weight_tensor *tensor, uint32_t per_word,
                                struct quant_sizes *sizes, struct error *error) {
    uint64_t n = tensor->n;
    if (tensor->group == 0 || (tensor->group % GROUP != 0 && tensor->group < tensor->k))
        return error_set(error, STATUS_UNSUPPORTED,
                         "groups of %u inputs of a %s tensor; multiples of %d are read",
                         tensor->group, tensor->format, GROUP);
    uint64_t n_groups = ((uint64_t)tensor->k + tensor->group - 1) / tensor->group;
    /* below 2^64: a group has at least 32 inputs */
    sizes->values = n * tensor->k / per_word * 4; /* one of the two is whole words */
    sizes->zeros = n_groups * (n / per_word) * 4;
    sizes->scales = n_groups * n * 2;
    return STATUS_OK;
}
