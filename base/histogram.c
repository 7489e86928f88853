#include "base/histogram.h"

#include <math.h>

#define N_SUB (1u << HISTOGRAM_SUB_BITS)

/* Values below N_SUB have a bucket each; each doubling above them has N_SUB buckets. */
static unsigned histogram_bucket_of(uint64_t value) {
    if (value < N_SUB)
        return (unsigned)value;
    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

static uint64_t histogram_bucket_first(unsigned bucket) {
    if (bucket < N_SUB)
        return bucket;
    unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    return (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
}

/* The mean of a bucket's records, which is one of its values. */
static uint64_t histogram_bucket_mean(const struct histogram *histogram, unsigned bucket) {
    uint64_t first = histogram_bucket_first(bucket);
    double above = histogram->above[bucket] / (double)histogram->counts[bucket];
    uint64_t mean = first + (uint64_t)(above + 0.5);
    if (mean < first) /* the last bucket's end, rounded up past 64 bits */
        mean = UINT64_MAX;
    return mean < histogram->min ? histogram->min : mean > histogram->max ? histogram->max : mean;
}

void histogram_record(struct histogram *histogram, uint64_t value) {
    if (histogram->n == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->n++;
    histogram->sum += value;
    unsigned bucket = histogram_bucket_of(value);
    histogram->counts[bucket]++;
    histogram->above[bucket] += (double)(value - histogram_bucket_first(bucket));
}

double histogram_mean(const struct histogram *histogram) {
    return histogram->n ? (double)histogram->sum / (double)histogram->n : 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent) {
    if (histogram->n == 0)
        return 0;
    double rank = ceil(percent / 100 * (double)histogram->n);
    uint64_t wanted = rank < 1 ? 1 : rank >= (double)histogram->n ? histogram->n : (uint64_t)rank;
    if (wanted == 1 || wanted == histogram->n)
        return wanted == 1 ? histogram->min : histogram->max;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_N_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen >= wanted)
            return histogram_bucket_mean(histogram, i);
    }
    return histogram->max;
}
