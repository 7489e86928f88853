#include "tools/bench/core/schedule.h"

#include "base/assert.h"
#include "base/clock.h"

#include <math.h>

const char *profile_name(enum profile profile) {
    static const char *const names[PROFILE_N] = {
        [PROFILE_SYNCHRONOUS] = "synchronous",
        [PROFILE_CONCURRENT] = "concurrent",
        [PROFILE_THROUGHPUT] = "throughput",
        [PROFILE_CONSTANT] = "constant",
        [PROFILE_POISSON] = "poisson",
        [PROFILE_RAMP] = "ramp",
        [PROFILE_TRACE] = "trace",
    };
    ASSERT(profile < PROFILE_N);
    return names[profile];
}

bool profile_is_open(enum profile profile) {
    return profile >= PROFILE_CONSTANT;
}

/* An exponential gap with mean 1/rate, in nanoseconds. */
static uint64_t bench_exponential_ns(struct random *random, double rate) {
    double unit = ((double)(random_next(random) >> 11) + 0.5) * 0x1p-53; /* in (0, 1) */
    return (uint64_t)(-log(unit) / rate * (double)NS_PER_S);
}

/* When request k of a ramp is due: the rate grows evenly from r0 to r1 over d seconds, so
 * k = r0 t + (r1 - r0) t^2 / (2 d), solved for t. NaN when the ramp ends before. */
static double bench_ramp_s(double r0, double r1, double d, double k) {
    double slope = (r1 - r0) / d;
    if (fabs(slope) < 1e-12)
        return k / r0;
    return (sqrt(r0 * r0 + 2 * slope * k) - r0) / slope;
}

static uint64_t bench_schedule_due_after(struct schedule *schedule) {
    const struct schedule_spec *spec = &schedule->spec;
    double k = schedule->n_made;
    switch (spec->profile) {
    case PROFILE_CONSTANT:
        return schedule->begin_ns + (uint64_t)(k / spec->rate * (double)NS_PER_S);
    case PROFILE_POISSON:
        return schedule->next_ns + bench_exponential_ns(&schedule->random, spec->rate);
    case PROFILE_RAMP: {
        double at_s = bench_ramp_s(spec->rate_from, spec->rate,
                                   (double)spec->duration_ns / (double)NS_PER_S, k);
        return at_s >= 0 && at_s < 1e9 ? schedule->begin_ns + (uint64_t)(at_s * (double)NS_PER_S)
                                       : UINT64_MAX;
    }
    case PROFILE_TRACE:
        return schedule->n_made < spec->n_trace
                   ? schedule->begin_ns + spec->trace[schedule->n_made].at_ns
                   : UINT64_MAX;
    default:
        return schedule->begin_ns;
    }
}

void schedule_begin(struct schedule *schedule, const struct schedule_spec *spec, uint64_t now_ns) {
    ASSERT(spec->concurrency > 0);
    *schedule = (struct schedule){
        .spec = *spec, .begin_ns = now_ns, .next_ns = now_ns, .random = {.state = spec->seed}};
    if (spec->profile == PROFILE_RAMP || spec->profile == PROFILE_TRACE)
        schedule->next_ns = bench_schedule_due_after(schedule);
}

enum due schedule_due(const struct schedule *schedule, uint64_t now_ns, uint32_t n_running,
                      uint64_t *due_ns) {
    const struct schedule_spec *spec = &schedule->spec;
    uint64_t end_ns = spec->duration_ns ? schedule->begin_ns + spec->duration_ns : UINT64_MAX;
    bool open = profile_is_open(spec->profile);
    if ((spec->n_requests && schedule->n_made >= spec->n_requests) || now_ns >= end_ns ||
        (open && schedule->next_ns >= end_ns))
        return DUE_NEVER;
    if (open && schedule->next_ns > now_ns) {
        *due_ns = schedule->next_ns;
        return DUE_LATER;
    }
    if (n_running >= spec->concurrency)
        return DUE_WHEN_ONE_ENDS;
    *due_ns = open ? schedule->next_ns : now_ns;
    return DUE_NOW;
}

void schedule_made(struct schedule *schedule) {
    schedule->n_made++;
    schedule->next_ns = bench_schedule_due_after(schedule);
}
