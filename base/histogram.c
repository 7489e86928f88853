#include "base/histogram.h"

#include <math.h>
#include <string.h>

#define N_SUB (1u << HISTOGRAM_SUB_BITS)

/* Values below N_SUB have a bucket each; each doubling above them has N_SUB buckets. */
static unsigned bucket_of(uint64_t value) {
    if (value < N_SUB)
        return (unsigned)value;
    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

static uint64_t bucket_last(unsigned bucket) {
    if (bucket < N_SUB)
        return bucket;
    unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    uint64_t first = (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
    return first + ((1ull << shift) - 1);
}

void histogram_record(struct histogram *histogram, uint64_t value) {
    if (histogram->n == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->n++;
    histogram->sum += (double)value;
    histogram->counts[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from) {
    if (from->n == 0)
        return;
    if (into->n == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->n += from->n;
    into->sum += from->sum;
    for (unsigned i = 0; i < HISTOGRAM_N_BUCKETS; i++)
        into->counts[i] += from->counts[i];
}

void histogram_clear(struct histogram *histogram) {
    memset(histogram, 0, sizeof *histogram);
}

double histogram_mean(const struct histogram *histogram) {
    return histogram->n ? histogram->sum / (double)histogram->n : 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent) {
    if (histogram->n == 0)
        return 0;
    double rank = ceil(percent / 100 * (double)histogram->n);
    uint64_t wanted = rank < 1 ? 1 : rank >= (double)histogram->n ? histogram->n : (uint64_t)rank;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_N_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen >= wanted) {
            uint64_t value = bucket_last(i);
            return value < histogram->max ? value : histogram->max;
        }
    }
    return histogram->max;
}
