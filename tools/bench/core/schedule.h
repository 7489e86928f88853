/* tools/bench/core/schedule.h: when requests are due.
 *
 * Pure. Closed profiles (synchronous, concurrent, throughput) send the next request when one has
 * ended; open ones (constant, Poisson, ramp, trace) have a time for each, whatever the server
 * does. */
#pragma once

#include "base/random.h"
#include "tools/bench/core/record.h"

enum profile {
    PROFILE_SYNCHRONOUS,
    PROFILE_CONCURRENT,
    PROFILE_THROUGHPUT,
    PROFILE_CONSTANT,
    PROFILE_POISSON,
    PROFILE_RAMP,
    PROFILE_TRACE,
    PROFILE_N
};

/* One line of a trace: when after its begin, and how long. */
struct trace_line {
    uint64_t at_ns;
    uint32_t n_prompt;
    uint32_t n_output;
    uint64_t *hash_ids; /* owned (n_hash_ids) by its reader: the prompt's blocks; or NULL */
    uint32_t n_hash_ids;
};

struct schedule_spec {
    enum profile profile;
    uint32_t concurrency; /* closed profiles: streams; open ones: the most that may run at once */
    double rate;          /* requests per second; of a ramp at its end */
    double rate_from;     /* of a ramp at its begin */
    uint64_t duration_ns; /* no request is due later; 0: n_requests alone ends it */
    uint32_t n_requests;  /* 0: no limit */
    uint64_t seed;        /* of Poisson's gaps */
    const struct trace_line *trace; /* borrowed (n_trace) */
    uint32_t n_trace;
};

struct schedule {
    struct schedule_spec spec;
    uint64_t begin_ns;
    uint64_t next_ns; /* when the next request is due; open profiles */
    uint32_t n_made;
    struct random random;
};

const char *profile_name(enum profile profile);
bool profile_is_open(enum profile profile);

void schedule_begin(struct schedule *schedule, const struct schedule_spec *spec, uint64_t now_ns);

enum due { DUE_NOW, DUE_LATER, DUE_WHEN_ONE_ENDS, DUE_NEVER };

/* Whether a request is to be sent now. *due_ns: of DUE_NOW when it was due (not after now_ns), of
 * DUE_LATER when to ask again. */
enum due schedule_due(const struct schedule *schedule, uint64_t now_ns, uint32_t n_running,
                      uint64_t *due_ns);

/* The request that was due is sent: on to the next. */
void schedule_made(struct schedule *schedule);
