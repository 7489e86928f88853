#include "tests/sim/campaign.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TWICE_OF 100 /* one seed of so many runs twice and must do the same */

/* What a job tells the campaign; in memory that both see. */
struct job {
    pid_t pid;     /* written by the campaign alone */
    uint64_t next; /* the run it is at */
    bool in_run;
    struct campaign_result result;
};

static void add_counts(struct counts *sum, const struct counts *counts) {
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)counts;
    _Static_assert(sizeof *sum % sizeof *to == 0, "counts are plain numbers");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static void note_failure(struct campaign_result *result, const struct seed_run *run,
                         const char *failure) {
    if (result->n_failed < FAILURES_MAX) {
        result->failures[result->n_failed].run = *run;
        snprintf(result->failures[result->n_failed].failure, sizeof result->failures[0].failure,
                 "%s", failure);
    }
    result->n_failed++;
}

static void run_one(struct sim *sim, const struct seed_run *run, struct campaign_result *result) {
    sim->sights = &result->sights;
    sim_run(sim, run->seed, &run->limits, 0, false);
    uint64_t hash = sim->trace_hash;
    char failure[sizeof sim->failure];
    memcpy(failure, sim->failure, sizeof failure);
    add_counts(&result->counts, &sim->counts);
    sim_fini(sim);
    if (!failure[0] && run->seed % TWICE_OF == 0) {
        struct sights again = {0};
        sim->sights = &again;
        sim_run(sim, run->seed, &run->limits, 0, false);
        if (sim->trace_hash != hash)
            snprintf(failure, sizeof failure, "the same seed did something else");
        sim_fini(sim);
    }
    if (failure[0])
        note_failure(result, run, failure);
    else
        result->n_passed++;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Every n_jobs-th seed, from where it stands. */
static void work(const struct campaign *campaign, struct job *job, double until_s) {
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    for (; job->next < campaign->n_runs; job->next += campaign->n_jobs) {
        if (job->result.n_failed >= FAILURES_MAX || (until_s > 0 && now_s() > until_s)) {
            job->result.n_skipped++;
            continue;
        }
        job->in_run = true;
        run_one(sim, &campaign->runs[job->next], &job->result);
        job->in_run = false;
    }
    free(sim);
}

static void start(const struct campaign *campaign, struct job *job, double until_s) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid > 0) {
        job->pid = pid;
        return;
    }
    work(campaign, job, until_s);
    fflush(NULL);
    _exit(0);
}

static void describe_end(int status, char failure[256]) {
    if (WIFSIGNALED(status))
        snprintf(failure, 256, "the process ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(failure, 256, "the process ended with status %d", WEXITSTATUS(status));
}

/* A process that ended in the middle of a seed: that seed has failed, the rest goes on. */
static bool resume(const struct campaign *campaign, struct job *job, int status, double until_s) {
    if (!job->in_run && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    char failure[256];
    describe_end(status, failure);
    uint64_t at = job->next < campaign->n_runs ? job->next : campaign->n_runs - 1;
    note_failure(&job->result, &campaign->runs[at], failure);
    job->in_run = false;
    job->next += campaign->n_jobs;
    if (job->next >= campaign->n_runs)
        return false;
    start(campaign, job, until_s);
    return true;
}

static void *shared(size_t n) {
    void *memory = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

static void wait_all(const struct campaign *campaign, struct job *jobs, double until_s) {
    uint32_t n_left = campaign->n_jobs;
    while (n_left > 0) {
        int status;
        pid_t pid = wait(&status);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            abort();
        for (uint32_t i = 0; i < campaign->n_jobs; i++) {
            if (jobs[i].pid == pid)
                n_left -= !resume(campaign, &jobs[i], status, until_s);
        }
    }
}

void campaign_run(const struct campaign *campaign, struct campaign_result *result) {
    size_t n = campaign->n_jobs * sizeof(struct job);
    struct job *jobs = shared(n);
    double until_s = campaign->seconds > 0 ? now_s() + campaign->seconds : 0;
    *result = (struct campaign_result){0};
    for (uint32_t i = 0; i < campaign->n_jobs; i++) {
        jobs[i].next = i;
        start(campaign, &jobs[i], until_s);
    }
    wait_all(campaign, jobs, until_s);
    for (uint32_t i = 0; i < campaign->n_jobs; i++) {
        const struct campaign_result *part = &jobs[i].result;
        add_counts(&result->counts, &part->counts);
        sights_add(&result->sights, &part->sights);
        result->n_passed += part->n_passed;
        result->n_skipped += part->n_skipped;
        for (uint64_t k = 0; k < part->n_failed; k++)
            note_failure(result, &part->failures[k < FAILURES_MAX ? k : 0].run,
                         part->failures[k < FAILURES_MAX ? k : 0].failure);
    }
    munmap(jobs, n);
}

bool campaign_fails(const struct seed_run *run, char failure[256]) {
    struct campaign_result *result = shared(sizeof *result);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        struct sim *sim = calloc(1, sizeof *sim);
        if (!sim || !freopen("/dev/null", "w", stderr)) /* an assert's words, many times over */
            abort();
        run_one(sim, run, result);
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    bool failed = result->n_failed > 0;
    if (failed)
        memcpy(failure, result->failures[0].failure, 256);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        failed = true;
        describe_end(status, failure);
    }
    munmap(result, sizeof *result);
    return failed;
}
