#include "kernels/quant/order.h"

#include "kernels/quant/quant.h"

#include <stdlib.h>

bool order_is_plain(const struct weight_tensor *tensor) {
    bool zeros = true;
    bool plain = true;
    for (uint32_t i = 0; tensor->group_of && i < tensor->k && (zeros || plain); i++) {
        uint32_t group = quant_group_of(tensor, i);
        zeros &= group == 0;
        plain &= group == i / tensor->group;
    }
    return zeros || plain;
}

bool order_is_same(const struct weight_tensor *a, const struct weight_tensor *b) {
    if (a->k != b->k)
        return false;
    if (a->group_of == b->group_of)
        return true;
    return a->group_of && b->group_of &&
           memcmp(a->group_of, b->group_of, (size_t)a->k * sizeof(int32_t)) == 0;
}

/* From the number of inputs in each group: where each begins (into the same array), how many are
 * stored, and the largest stride of scales that fits all borders. */
static uint64_t quant_order_place_groups(uint32_t *groups, uint32_t n_groups, uint32_t *stride) {
    uint64_t begin = 0;
    uint32_t divisor = 0;
    for (uint32_t g = 0; g < n_groups; g++) {
        uint32_t n = order_filled(groups[g]);
        if (n != 0)
            divisor = begin == 0 ? 0 : order_divisor(divisor, (uint32_t)begin);
        groups[g] = (uint32_t)begin;
        begin += n;
    }
    *stride = divisor == 0 ? (uint32_t)begin : divisor;
    return begin;
}

enum status order_init(struct order *order, const struct weight_tensor *tensor, uint32_t k_begin,
                       uint32_t k, uint32_t stored_max, struct error *error) {
    uint32_t n_groups = (uint32_t)(((uint64_t)tensor->k + tensor->group - 1) / tensor->group);
    uint32_t *next = calloc(n_groups, sizeof *next);
    if (!next)
        return error_set(error, STATUS_NOMEM, "no memory for an order of %u inputs", k);
    for (uint32_t i = 0; i < k; i++)
        next[quant_group_of(tensor, k_begin + i)]++;
    uint32_t stride;
    uint64_t n = quant_order_place_groups(next, n_groups, &stride);
    if (n > stored_max) {
        free(next);
        return error_set(
            error, STATUS_LIMIT,
            "%u inputs in %u groups become %llu in whole groups of %d; %u are possible", k,
            n_groups, (unsigned long long)n, GROUP, stored_max);
    }
    uint32_t *inputs = malloc((size_t)n * sizeof *inputs);
    if (!inputs) {
        free(next);
        return error_set(error, STATUS_NOMEM, "no memory for an order of %u inputs", k);
    }
    for (uint64_t i = 0; i < n; i++)
        inputs[i] = WEIGHT_NO_INPUT;
    for (uint32_t i = 0; i < k; i++)
        inputs[next[quant_group_of(tensor, k_begin + i)]++] = i;
    free(next);
    *order = (struct order){
        .inputs = inputs, .k_stored = (uint32_t)n, .group = stride, .is_sorted = true};
    return STATUS_OK;
}

enum status order_fill(struct order *order, uint32_t k_begin, uint32_t k, uint32_t group,
                       struct error *error) {
    uint32_t n_before = k_begin % GROUP;
    uint32_t n = order_filled(n_before + k);
    uint32_t *inputs = malloc((size_t)n * sizeof *inputs);
    if (!inputs)
        return error_set(error, STATUS_NOMEM, "no memory for an order of %u inputs", k);
    for (uint32_t i = 0; i < n; i++)
        inputs[i] = i < n_before || i - n_before >= k ? WEIGHT_NO_INPUT : i - n_before;
    *order = (struct order){.inputs = inputs, .k_stored = n, .group = group};
    return STATUS_OK;
}

void order_fini(struct order *order) {
    free(order->inputs);
    *order = (struct order){0};
}
