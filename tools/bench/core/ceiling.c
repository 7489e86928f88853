#include "tools/bench/core/ceiling.h"

#define QUIET_TIMES 4

/* When the first whole answer ended; UINT64_MAX: none did. */
static uint64_t bench_first_end_ns(const struct level *level) {
    uint64_t end_ns = UINT64_MAX;
    for (uint32_t i = 0; i < level->n_records; i++) {
        const struct record *record = &level->records[i];
        if (record->outcome == OUTCOME_OK && record->end_ns < end_ns)
            end_ns = record->end_ns;
    }
    return end_ns;
}

bool ceiling_shows(const struct level *level) {
    uint64_t end_ns = bench_first_end_ns(level), first_ns = level->begin_ns;
    uint64_t n_begun = 0;
    for (uint32_t i = 0; i < level->n_records; i++) {
        const struct record *record = &level->records[i];
        if (record->n_texts == 0 || record->first_ns >= end_ns)
            continue;
        n_begun++;
        first_ns = record->first_ns > first_ns ? record->first_ns : first_ns;
    }
    if (n_begun == 0 || end_ns == UINT64_MAX)
        return false;
    bool has_waited = false; /* since before the last of these first tokens */
    for (uint32_t i = 0; i < level->n_records; i++) {
        const struct record *record = &level->records[i];
        has_waited |= record->sent_ns < first_ns && record->end_ns > end_ns &&
                      (record->n_texts == 0 || record->first_ns >= end_ns);
    }
    return has_waited && (end_ns - first_ns) * n_begun > QUIET_TIMES * (first_ns - level->begin_ns);
}
