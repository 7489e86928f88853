/* sim: many seeds, one after the other.
 *
 *   sim --seed N --seeds M --events K [--verbose] [--until EVENT] [--file SEEDS]
 *
 * Prints what was done and, of a seed that fails, the seed, the reason and the last 200 events;
 * ends with "N passed, M failed, K skipped" and exits 1 if any failed. --until runs one seed up to
 * that event and prints all of it. Every hundredth seed runs twice and must do the same. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct arguments {
    uint64_t seed, n_seeds, n_events, until;
    bool verbose;
    const char *file;
    double seconds; /* stop beginning new seeds after so much CPU time; 0: never */
};

static bool parse(int argc, char **argv, struct arguments *arguments) {
    *arguments = (struct arguments){.seed = 1, .n_seeds = 1, .n_events = 20000};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--verbose")) {
            arguments->verbose = true;
            continue;
        }
        if (!value)
            return false;
        if (!strcmp(argv[i], "--seed"))
            arguments->seed = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--seeds"))
            arguments->n_seeds = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--events"))
            arguments->n_events = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--until"))
            arguments->until = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--seconds"))
            arguments->seconds = strtod(value, NULL);
        else if (!strcmp(argv[i], "--file"))
            arguments->file = value;
        else
            return false;
        i++;
    }
    return true;
}

static void add(struct counts *sum, const struct counts *counts) {
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)counts;
    _Static_assert(sizeof *sum % sizeof *to == 0, "counts are plain numbers");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static void print_trace(const struct sim *sim) {
    uint64_t from = sim->n_trace > SIM_TRACE ? sim->n_trace - SIM_TRACE : 0;
    for (uint64_t n = from; n < sim->n_trace; n++)
        printf("%12.6f %8llu  %s\n", (double)sim->trace[n % SIM_TRACE].at_ns / 1e9,
               (unsigned long long)sim->trace[n % SIM_TRACE].n, sim->trace[n % SIM_TRACE].text);
}

/* Runs one seed; a failing one again, with its trace. Answers whether it passed. */
static bool one(struct sim *sim, uint64_t seed, const struct arguments *arguments,
                struct counts *sum) {
    bool passed = sim_run(sim, seed, arguments->n_events, arguments->until, arguments->verbose);
    uint64_t hash = sim->trace_hash;
    add(sum, &sim->counts);
    char failure[sizeof sim->failure];
    memcpy(failure, sim->failure, sizeof failure);
    sim_fini(sim);
    if (passed && seed % 100 == 0 && arguments->until == 0) {
        passed = sim_run(sim, seed, arguments->n_events, 0, false) && sim->trace_hash == hash;
        snprintf(failure, sizeof failure, "the same seed did something else");
        sim_fini(sim);
    }
    if (passed)
        return true;
    sim_run(sim, seed, arguments->n_events, 0, true);
    print_trace(sim);
    printf("seed %llu, %llu events: %s\n", (unsigned long long)seed,
           (unsigned long long)arguments->n_events, failure);
    sim_fini(sim);
    return false;
}

static void print_counts(const struct counts *counts, double seconds) {
    printf("events %llu (%.0f a second), messages %llu, tokens %llu\n",
           (unsigned long long)counts->events, (double)counts->events / seconds,
           (unsigned long long)counts->messages, (unsigned long long)counts->tokens);
    printf("faults %llu: crashes %llu, pauses %llu, partitions %llu, breaks %llu, corrupted %llu\n",
           (unsigned long long)counts->faults, (unsigned long long)counts->crashes,
           (unsigned long long)counts->pauses, (unsigned long long)counts->partitions,
           (unsigned long long)counts->breaks, (unsigned long long)counts->corrupted);
    printf("asked %llu: done %llu, cancelled %llu, failed %llu, refused %llu, turned away %llu "
           "(%llu without workers), "
           "lost with their router %llu\n",
           (unsigned long long)counts->asked, (unsigned long long)counts->done,
           (unsigned long long)counts->cancelled, (unsigned long long)counts->failed,
           (unsigned long long)counts->refused, (unsigned long long)counts->turned_away,
           (unsigned long long)counts->turned_closed, (unsigned long long)counts->lost_with_router);
    printf("replays %llu, hand-offs %llu, fenced %llu, resends %llu, poisoned %llu, inexact %llu, "
           "preemptions %llu, busy %llu\n",
           (unsigned long long)counts->replays, (unsigned long long)counts->handoffs,
           (unsigned long long)counts->fenced, (unsigned long long)counts->resends,
           (unsigned long long)counts->poisoned, (unsigned long long)counts->inexact,
           (unsigned long long)counts->preemptions, (unsigned long long)counts->busy);
}

static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

int main(int argc, char **argv) {
    struct arguments arguments;
    if (!parse(argc, argv, &arguments)) {
        fprintf(stderr, "usage: sim --seed N --seeds M --events K [--verbose] [--until EVENT] "
                        "[--seconds S] [--file SEEDS]\n");
        return 2;
    }
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return 1;
    struct counts sum = {0};
    uint64_t n_passed = 0, n_failed = 0, n_skipped = 0;
    if (arguments.file) { /* seeds that once failed: "SEED EVENTS", and # comments */
        FILE *file = fopen(arguments.file, "r");
        char line[256];
        while (file && fgets(line, sizeof line, file)) {
            unsigned long long seed, n_events;
            if (sscanf(line, "%llu %llu", &seed, &n_events) != 2)
                continue;
            struct arguments kept = arguments;
            kept.n_events = n_events;
            if (one(sim, seed, &kept, &sum))
                n_passed++;
            else
                n_failed++;
        }
        n_failed += !file;
        if (file)
            fclose(file);
    }
    for (uint64_t i = 0; i < arguments.n_seeds; i++) {
        if (arguments.seconds > 0 && cpu_seconds() > arguments.seconds) {
            n_skipped = arguments.n_seeds - i;
            break;
        }
        if (one(sim, arguments.seed + i, &arguments, &sum))
            n_passed++;
        else if (++n_failed >= 5) {
            n_skipped = arguments.n_seeds - i - 1;
            break;
        }
    }
    print_counts(&sum, cpu_seconds());
    for (uint32_t i = 0; i < sim->sights.n; i++)
        printf("  %8llu  %s\n", (unsigned long long)sim->sights.all[i].times,
               sim->sights.all[i].what);
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)n_passed,
           (unsigned long long)n_failed, (unsigned long long)n_skipped);
    free(sim);
    return n_failed == 0 ? 0 : 1;
}
