/* sim: campaigns of seeds, or one seed from near.
 *
 *   sim --seed N --seeds M [--fresh F] [--base B] [--file SEEDS] [--jobs J] [--sights] [--seconds
 * S] sim --seed N [--events K] [--routers R] [--workers W] [--clients C] [--tenants T]
 *       [--without KIND,...] [--verbose] [--until EVENT]
 *   sim --hashes --seed N --seeds M [--file SEEDS]
 *
 * Runs the seeds of the file, then N .. N+M-1, then F new ones from base B (from the time, unless
 * given). The first that fails is run again with less and less; what is left is printed with its
 * last 200 events and the command that repeats it. With --sights a path that no seed reached is a
 * failure. Ends with "N passed, M failed, K skipped" and exits 1 if any failed.
 *
 * With --hashes each seed is one line, "SEED EVENTS HASH": its number of events and the hash over
 * all of them. A change that must not touch any decision leaves every line as it is. */
#include "tests/sim/campaign.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENTS 20000

struct arguments {
    uint64_t seed, n_seeds, n_fresh, base, until;
    struct limits limits;
    uint32_t n_jobs;
    bool verbose, sights, no_shrink, hashes;
    const char *file;
    double seconds;
};

static bool parse_kinds(const char *text, uint64_t *kinds) {
    while (*text) {
        size_t n = strcspn(text, ",");
        uint32_t kind = 0;
        while (kind_name(kind) &&
               (strlen(kind_name(kind)) != n || strncmp(kind_name(kind), text, n) != 0))
            kind++;
        if (!kind_name(kind)) {
            fprintf(stderr, "sim: --without: no such kind of fault: %.*s\n", (int)n, text);
            return false;
        }
        *kinds |= 1ull << kind;
        text += n + (text[n] == ',');
    }
    return true;
}

static bool parse_number(const char *text, uint64_t *number) {
    char *end;
    *number = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

/* An option with a value. */
static bool parse_value(struct arguments *arguments, const char *name, const char *value) {
    uint64_t number = 0;
    if (!strcmp(name, "--file")) {
        arguments->file = value;
        return true;
    }
    if (!strcmp(name, "--without"))
        return parse_kinds(value, &arguments->limits.without);
    if (!parse_number(value, &number))
        return false;
    if (!strcmp(name, "--seed"))
        arguments->seed = number;
    else if (!strcmp(name, "--seeds"))
        arguments->n_seeds = number;
    else if (!strcmp(name, "--fresh"))
        arguments->n_fresh = number;
    else if (!strcmp(name, "--base"))
        arguments->base = number;
    else if (!strcmp(name, "--jobs"))
        arguments->n_jobs = number > 0 && number < 256 ? (uint32_t)number : 1;
    else if (!strcmp(name, "--events"))
        arguments->limits.n_events = number;
    else if (!strcmp(name, "--routers"))
        arguments->limits.n_routers = (uint32_t)number;
    else if (!strcmp(name, "--workers"))
        arguments->limits.n_workers = (uint32_t)number;
    else if (!strcmp(name, "--clients"))
        arguments->limits.n_clients = number;
    else if (!strcmp(name, "--tenants"))
        arguments->limits.n_tenants = number;
    else if (!strcmp(name, "--until"))
        arguments->until = number;
    else if (!strcmp(name, "--seconds"))
        arguments->seconds = (double)number;
    else
        return false;
    return true;
}

static bool parse(int argc, char **argv, struct arguments *arguments) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
    *arguments = (struct arguments){.seed = 1, .n_seeds = 1, .n_jobs = 1};
    arguments->limits.n_events = EVENTS;
    arguments->base = mix64(time) % 1000000000000ull * 1000000; /* readable, and far apart */
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--verbose"))
            arguments->verbose = true;
        else if (!strcmp(argv[i], "--sights"))
            arguments->sights = true;
        else if (!strcmp(argv[i], "--no-shrink"))
            arguments->no_shrink = true;
        else if (!strcmp(argv[i], "--hashes"))
            arguments->hashes = true;
        else if (i + 1 < argc && parse_value(arguments, argv[i], argv[i + 1]))
            i++;
        else
            return false;
    }
    return true;
}

/* Seeds that once failed: "SEED EVENTS", and what follows is for the reader. Answers how many;
 * UINT64_MAX: the file cannot be read or has none. */
static uint64_t read_seeds(const char *name, struct seed_run *runs, uint64_t n_max) {
    FILE *file = fopen(name, "r");
    char line[256];
    uint64_t n = 0;
    while (file && n < n_max && fgets(line, sizeof line, file)) {
        unsigned long long seed, n_events;
        if (sscanf(line, "%llu %llu", &seed, &n_events) == 2)
            runs[n++] = (struct seed_run){.seed = seed, .limits.n_events = n_events};
    }
    if (file)
        fclose(file);
    return n > 0 ? n : UINT64_MAX;
}

#define FILE_SEEDS_MAX 1000

static bool gather(const struct arguments *arguments, struct campaign *campaign) {
    uint64_t n_max = FILE_SEEDS_MAX + arguments->n_seeds + arguments->n_fresh, n = 0;
    struct seed_run *runs = calloc(n_max, sizeof *runs);
    if (!runs)
        return false;
    if (arguments->file) {
        n = read_seeds(arguments->file, runs, FILE_SEEDS_MAX);
        if (n == UINT64_MAX) {
            fprintf(stderr, "sim: --file: %s has no seeds\n", arguments->file);
            free(runs);
            return false;
        }
    }
    for (uint64_t i = 0; i < arguments->n_seeds; i++)
        runs[n++] = (struct seed_run){arguments->seed + i, arguments->limits};
    for (uint64_t i = 0; i < arguments->n_fresh; i++)
        runs[n++] = (struct seed_run){arguments->base + i, arguments->limits};
    *campaign = (struct campaign){
        .runs = runs, .n_runs = n, .n_jobs = arguments->n_jobs, .seconds = arguments->seconds};
    return true;
}

static void print_trace(const struct sim *sim) {
    uint64_t from = sim->n_trace > SIM_TRACE ? sim->n_trace - SIM_TRACE : 0;
    for (uint64_t n = from; n < sim->n_trace; n++)
        printf("%12.6f %8llu  %s\n", (double)sim->trace[n % SIM_TRACE].at_ns / 1e9,
               (unsigned long long)sim->trace[n % SIM_TRACE].n, sim->trace[n % SIM_TRACE].text);
}

void print_command(const struct seed_run *run, const char *more, FILE *file) {
    const struct limits *limits = &run->limits;
    fprintf(file, "sim --seed %llu --events %llu", (unsigned long long)run->seed,
            (unsigned long long)limits->n_events);
    if (limits->n_routers > 0)
        fprintf(file, " --routers %u", limits->n_routers);
    if (limits->n_workers > 0)
        fprintf(file, " --workers %u", limits->n_workers);
    if (limits->n_clients > 0)
        fprintf(file, " --clients %llu", (unsigned long long)limits->n_clients);
    if (limits->n_tenants > 0)
        fprintf(file, " --tenants %llu", (unsigned long long)limits->n_tenants);
    const char *before = " --without ";
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
        if (limits->without >> kind & 1) {
            fprintf(file, "%s%s", before, kind_name(kind));
            before = ",";
        }
    }
    fprintf(file, "%s\n", more);
}

/* In this process: its last words are the assert's, if it ends in one. */
static bool show(const struct seed_run *run, uint64_t until) {
    static struct sights sights;
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    sim->sights = &sights;
    sim_run(sim, run->seed, &run->limits, until, true);
    bool failed = sim->failure[0] != '\0';
    if (until == 0)
        print_trace(sim);
    if (failed)
        printf("%s\n", sim->failure);
    sim_fini(sim);
    free(sim);
    return failed;
}

/* The first failure gets the work; the others may be the same one. */
static void report(const struct seed_run *found, const char *found_failure, bool shrinks) {
    struct seed_run run = *found;
    char failure[256];
    snprintf(failure, sizeof failure, "%s", found_failure);
    printf("seed %llu, %llu events: %s\n", (unsigned long long)run.seed,
           (unsigned long long)run.limits.n_events, failure);
    if (shrinks) {
        fflush(NULL);
        shrink(&run, failure);
        bool ends_itself = strncmp(failure, "the process", 11) == 0;
        if (!ends_itself)
            show(&run, 0);
        printf("smaller: %s\n", failure);
    }
    printf("  ");
    print_command(&run, " --verbose", stdout);
}

static void print_counts(const struct counts *counts, double seconds) {
#define N(field) (unsigned long long)counts->field
    printf("events %llu (%.0f a second), messages %llu, tokens %llu\n", N(events),
           (double)counts->events / seconds, N(messages), N(tokens));
    printf(
        "faults %llu: crashes %llu, pauses %llu, partitions %llu, breaks %llu, stolen CPUs %llu, "
        "corrupted %llu\n",
        N(faults), N(crashes), N(pauses), N(partitions), N(breaks), N(stolen), N(corrupted));
    printf("messages lost %llu, repeated %llu, reordered %llu, garbled %llu; busy %llu\n", N(lost),
           N(duplicated), N(reordered), N(garbled), N(busy));
    printf(
        "asked %llu: done %llu, cancelled %llu, failed %llu, refused %llu (given up after losses "
        "%llu), turned away %llu (%llu without workers), lost with their router %llu\n",
        N(asked), N(done), N(cancelled), N(failed), N(refused), N(given_up), N(turned_away),
        N(turned_closed), N(lost_with_router));
    printf("replays %llu, hand-offs %llu, fenced %llu, resends %llu, poisoned %llu, inexact %llu, "
           "preemptions %llu\n",
           N(replays), N(handoffs), N(fenced), N(resends), N(poisoned), N(inexact), N(preemptions));
#undef N
}

/* A line for each seed; 1 when one of them failed, which its line then says. */
static int print_hashes(const struct arguments *arguments) {
    static struct sights sights;
    struct campaign campaign;
    bool failed = false;
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim || !gather(arguments, &campaign))
        return 2;
    for (uint64_t i = 0; i < campaign.n_runs; i++) {
        sim->sights = &sights;
        sim_run(sim, campaign.runs[i].seed, &campaign.runs[i].limits, 0, false);
        printf("%llu %llu %016llx%s%s\n", (unsigned long long)campaign.runs[i].seed,
               (unsigned long long)sim->counts.events, (unsigned long long)sim->trace_hash,
               sim->failure[0] ? " failed: " : "", sim->failure);
        failed |= sim->failure[0] != '\0';
        sim_fini(sim);
    }
    free((void *)campaign.runs);
    free(sim);
    return failed ? 1 : 0;
}

static int run_campaign(const struct arguments *arguments) {
    static struct campaign_result result;
    struct campaign campaign;
    if (!gather(arguments, &campaign))
        return 2;
    if (arguments->n_fresh > 0)
        printf("base %llu (--base %llu repeats the new seeds)\n",
               (unsigned long long)arguments->base, (unsigned long long)arguments->base);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    campaign_run(&campaign, &result);
    clock_gettime(CLOCK_MONOTONIC, &end);
    free((void *)campaign.runs);
    for (uint64_t i = 0; i < result.n_failed && i < FAILURES_MAX; i++)
        report(&result.failures[i].run, result.failures[i].failure,
               i == 0 && !arguments->no_shrink);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    print_counts(&result.counts, seconds);
    uint32_t n_missing = sights_print(&result.sights, arguments->limits.n_tenants > 0, stdout);
    uint64_t n_failed = result.n_failed + (arguments->sights ? n_missing : 0);
    printf("%llu seeds in %.1f s, %u of %u sights\n",
           (unsigned long long)(result.n_passed + result.n_failed), seconds,
           SIGHT_COUNT - n_missing, (unsigned)SIGHT_COUNT);
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)result.n_passed,
           (unsigned long long)n_failed, (unsigned long long)result.n_skipped);
    return n_failed == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    struct arguments arguments;
    if (!parse(argc, argv, &arguments)) {
        fprintf(stderr,
                "usage: sim --seed N --seeds M [--fresh F] [--base B] [--file SEEDS] [--jobs J] "
                "[--sights] [--no-shrink] [--seconds S]\n"
                "       sim --seed N [--events K] [--routers R] [--workers W] [--clients C] "
                "[--tenants T] [--without KIND,...] [--verbose] [--until EVENT]\n"
                "       sim --hashes --seed N --seeds M [--file SEEDS]\n");
        return 2;
    }
    if (arguments.verbose || arguments.until > 0) {
        struct seed_run run = {arguments.seed, arguments.limits};
        return show(&run, arguments.until) ? 1 : 0;
    }
    return arguments.hashes ? print_hashes(&arguments) : run_campaign(&arguments);
}
