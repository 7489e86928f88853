/* base/interval.h: runs of whole numbers, as lists that ascend and do not touch. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct interval {
    uint32_t begin;
    uint32_t end; /* above begin; the first number past it */
};

/* Is the number in one of the intervals (n)? */
static inline bool intervals_hold(const struct interval *intervals, uint32_t n, uint32_t number) {
    uint32_t low = 0;
    uint32_t high = n; /* the first interval that ends past the number lies in [low, high] */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (intervals[middle].end > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low < n && intervals[low].begin <= number;
}
