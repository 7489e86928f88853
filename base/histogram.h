/* base/histogram.h: a log-linear histogram of 64-bit values (after HdrHistogram) that also keeps
 * each bucket's sum.
 *
 * Count, sum, least and greatest are exact. A percentile is the mean of the bucket that holds the
 * wanted record: exact below 128 and wherever a bucket's records are equal, else within 1/128 of
 * the value. 116 KiB, no allocation; one owner thread, merge to combine. */
#pragma once

#include <stdint.h>

#define HISTOGRAM_SUB_BITS  7
#define HISTOGRAM_N_BUCKETS ((65 - HISTOGRAM_SUB_BITS) << HISTOGRAM_SUB_BITS)

/* Zeroed is empty. Values have the caller's unit, for example nanoseconds. */
struct histogram {
    uint64_t n;
    uint64_t min; /* of all values; 0 when empty */
    uint64_t max;
    unsigned __int128 sum;
    uint64_t counts[HISTOGRAM_N_BUCKETS];
    double above[HISTOGRAM_N_BUCKETS]; /* sum of (value - the bucket's first value) */
};

void histogram_record(struct histogram *histogram, uint64_t value);

double histogram_mean(const struct histogram *histogram); /* 0 when empty */

/* The value at or below which `percent` (0 to 100) of the records lie, by nearest rank. 0 when
 * empty. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);
