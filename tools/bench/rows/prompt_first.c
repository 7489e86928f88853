#include "tools/bench/rows/prompt_first.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK     16u
#define WATERMARK 0.01 /* of the blocks: kept free when a sequence is admitted */

/* Decode steps are alike but for the keys that they read: what depends on the number of rows is worked out once. */
struct decode_cost {
    bool known;
    double base_us, key_us;
    struct roofline_terms terms; /* without any key */
    uint64_t n_steps;
    double n_keys;
};

struct prompt_first_run {
    const struct prompt_first_spec *spec;
    struct prompt_first_request *requests;
    uint32_t n, next, n_done;
    uint32_t *made;    /* owned (n): tokens of each, up to date only where it does not run */
    uint32_t *waiting; /* owned (n): the oldest last */
    uint32_t n_waiting;
    uint32_t *running; /* owned (max_seqs): in the order of their admission */
    uint64_t *begun; /* owned (n): decode steps when it began to run, less the tokens that it had */
    uint32_t n_running;
    uint64_t n_decodes;   /* steps */
    uint32_t n_at[BLOCK]; /* running sequences by n_input - begun, modulo BLOCK */
    uint64_t n_blocks, n_used;
    double now_s;
    struct decode_cost *costs; /* owned (max_seqs + 1) */
    struct prompt_first_result *result;
};

static uint64_t prompt_first_blocks_of(uint64_t n_tokens) {
    return (n_tokens + BLOCK - 1) / BLOCK;
}

static uint64_t prompt_first_tokens_of(const struct prompt_first_run *run, uint32_t i) {
    return run->requests[i].n_input + (run->n_decodes - run->begun[i]);
}

static unsigned prompt_first_residue(const struct prompt_first_run *run, uint32_t i) {
    return (unsigned)((run->requests[i].n_input - run->begun[i]) % BLOCK);
}

static void prompt_first_start_running(struct prompt_first_run *run, uint32_t i) {
    run->begun[i] = run->n_decodes - run->made[i];
    run->running[run->n_running++] = i;
    run->n_at[prompt_first_residue(run, i)]++;
}

static void prompt_first_stop_running(struct prompt_first_run *run, uint32_t i) {
    run->made[i] = (uint32_t)(run->n_decodes - run->begun[i]);
    run->n_at[prompt_first_residue(run, i)]--;
}

static void prompt_first_arrive(struct prompt_first_run *run) {
    uint32_t n_new = 0;
    while (run->next + n_new < run->n && run->requests[run->next + n_new].at_s <= run->now_s)
        n_new++;
    if (n_new == 0)
        return;
    memmove(run->waiting + n_new, run->waiting, run->n_waiting * sizeof *run->waiting);
    for (uint32_t k = 0; k < n_new; k++)
        run->waiting[n_new - 1 - k] = run->next + k;
    run->n_waiting += n_new;
    run->next += n_new;
}

/* The prompts of the next step; 0: none can be admitted. */
struct admitted {
    uint32_t n, longest;
    uint64_t n_tokens, n_blocks;
    double n_pairs;
};

static struct admitted prompt_first_admit(const struct prompt_first_run *run) {
    struct admitted all = {0};
    double kept = WATERMARK * (double)run->n_blocks;
    while (all.n < run->n_waiting) {
        uint32_t i = run->waiting[run->n_waiting - 1 - all.n];
        uint64_t n = run->requests[i].n_input + run->made[i],
                 most = n > all.longest ? n : all.longest;
        uint64_t n_step = run->spec->pads ? (all.n + 1) * most : all.n_tokens + n;
        bool fits = (double)(run->n_used + all.n_blocks + prompt_first_blocks_of(n)) + kept <=
                    (double)run->n_blocks;
        bool is_alone = run->n_running == 0 && all.n == 0;
        if ((n_step > run->spec->prefill_tokens && all.n > 0) ||
            run->n_running + all.n + 1 > run->spec->max_seqs || (!fits && !is_alone))
            break;
        all.n++;
        all.longest = (uint32_t)most;
        all.n_tokens += n;
        all.n_blocks += prompt_first_blocks_of(n);
        all.n_pairs += 0.5 * (double)n * (double)n;
    }
    return all;
}

static void prompt_first_end_request(struct prompt_first_run *run, uint32_t i) {
    run->requests[i].end_s = run->now_s;
    run->n_done++;
}

static void prompt_first_prefill(struct prompt_first_run *run, const struct admitted *all) {
    uint64_t n_tokens = run->spec->pads ? (uint64_t)all->n * all->longest : all->n_tokens;
    struct roofline_step step = {(uint32_t)n_tokens, all->n, all->n, 0, all->n_pairs};
    struct roofline_terms terms;
    roofline_terms(&terms, run->spec->roofline, &step);
    roofline_add(run->result->us, &terms);
    run->now_s += terms.total_us * 1e-6;
    for (uint32_t k = 0; k < all->n; k++) {
        uint32_t i = run->waiting[--run->n_waiting];
        struct prompt_first_request *request = &run->requests[i];
        uint64_t n_blocks = prompt_first_blocks_of(request->n_input + run->made[i]);
        if (run->made[i]++ == 0)
            request->first_s = run->now_s;
        if (run->made[i] >= request->n_output) {
            prompt_first_end_request(run, i);
            continue;
        }
        run->n_used += n_blocks;
        prompt_first_start_running(run, i);
    }
}

/* Each sequence has the blocks of its tokens; the youngest give theirs up where there are too few. */
static void prompt_first_preempt(struct prompt_first_run *run) {
    uint64_t wanted = 0;
    for (uint32_t k = 0; k < run->n_running; k++)
        wanted += prompt_first_blocks_of(prompt_first_tokens_of(run, run->running[k]));
    while (wanted > run->n_blocks && run->n_running > 0) {
        uint32_t i = run->running[--run->n_running];
        wanted -= prompt_first_blocks_of(prompt_first_tokens_of(run, i));
        prompt_first_stop_running(run, i);
        run->waiting[run->n_waiting++] = i;
        run->result->n_preempted++;
    }
    run->n_used = wanted;
}

/* Sequences whose tokens begin a new block: (n_input - begun + n_decodes) is 1 modulo BLOCK. */
static uint64_t prompt_first_new_blocks(const struct prompt_first_run *run) {
    return run->n_at[(1 + BLOCK - run->n_decodes % BLOCK) % BLOCK];
}

static struct decode_cost *prompt_first_cost_of(struct prompt_first_run *run, uint32_t n) {
    struct decode_cost *cost = &run->costs[n];
    if (!cost->known) {
        struct roofline_terms more;
        roofline_terms(&cost->terms, run->spec->roofline, &(struct roofline_step){n, n, n, 0, 0});
        roofline_terms(&more, run->spec->roofline, &(struct roofline_step){n, n, n, 1e6, 0});
        cost->base_us = cost->terms.total_us;
        cost->key_us = more.us[ROOFLINE_KV] * 1e-6;
        cost->known = true;
    }
    return cost;
}

static void prompt_first_end_those_done(struct prompt_first_run *run) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < run->n_running; k++) {
        uint32_t i = run->running[k];
        if (run->n_decodes - run->begun[i] < run->requests[i].n_output) {
            run->running[n++] = i;
            continue;
        }
        /* It was never asked to have a block for its last token. */
        run->n_used -= prompt_first_blocks_of(prompt_first_tokens_of(run, i) - 1);
        prompt_first_stop_running(run, i);
        prompt_first_end_request(run, i);
    }
    run->n_running = n;
}

/* One token for all that run, again and again until something changes: a request ends or comes, blocks are short. */
static void prompt_first_decode(struct prompt_first_run *run) {
    uint64_t n_steps = UINT64_MAX;
    double n_keys = 0;
    bool has_blocks = run->n_used + prompt_first_new_blocks(run) > run->n_blocks;
    if (has_blocks) /* those that stay have them now: the step follows before anything is admitted */
        prompt_first_preempt(run);
    struct decode_cost *cost = prompt_first_cost_of(run, run->n_running);
    for (uint32_t k = 0; k < run->n_running; k++) {
        uint32_t i = run->running[k];
        uint64_t left = run->requests[i].n_output - (run->n_decodes - run->begun[i]);
        n_steps = left < n_steps ? left : n_steps;
        n_keys += (double)prompt_first_tokens_of(run, i);
    }
    bool waits = run->n_waiting > 0;
    double next_s = waits || run->next == run->n ? 1e300 : run->requests[run->next].at_s;
    double until_s = run->spec->until_s > 0 ? run->spec->until_s : 1e300;
    for (; n_steps > 0; n_steps--) {
        uint64_t n_new = has_blocks ? 0 : prompt_first_new_blocks(run);
        if (run->n_used + n_new > run->n_blocks)
            return; /* preempted when asked again */
        has_blocks = false;
        run->n_used += n_new;
        run->now_s += (cost->base_us + n_keys * cost->key_us) * 1e-6;
        run->n_decodes++;
        cost->n_steps++;
        cost->n_keys += n_keys;
        n_keys += run->n_running;
        if (run->now_s >= next_s || run->now_s > until_s) {
            n_steps--;
            break;
        }
    }
    if (n_steps == 0)
        prompt_first_end_those_done(run);
}

static void prompt_first_sum_decodes(struct prompt_first_run *run) {
    for (uint32_t n = 1; n <= run->spec->max_seqs; n++) {
        const struct decode_cost *cost = &run->costs[n];
        double us[ROOFLINE_TERMS] = {0};
        roofline_add(us, &cost->terms);
        for (unsigned i = 0; i < ROOFLINE_TERMS; i++)
            run->result->us[i] += us[i] * (double)cost->n_steps;
        run->result->us[ROOFLINE_KV] += cost->n_keys * cost->key_us;
    }
}

static enum status prompt_first_run_all(struct prompt_first_run *run) {
    while (run->n_done < run->n) {
        prompt_first_arrive(run);
        if (run->n_waiting == 0 && run->n_running == 0) {
            run->now_s = run->requests[run->next].at_s;
            continue;
        }
        if (run->spec->until_s > 0 && run->now_s > run->spec->until_s)
            return STATUS_OK;
        struct admitted all = prompt_first_admit(run);
        if (all.n > 0)
            prompt_first_prefill(run, &all);
        else
            prompt_first_decode(run);
    }
    return STATUS_OK;
}

enum status prompt_first_run(const struct prompt_first_spec *spec,
                             struct prompt_first_request *requests, uint32_t n,
                             struct prompt_first_result *result) {
    struct prompt_first_run run = {.spec = spec, .requests = requests, .n = n, .result = result};
    run.n_blocks = (uint64_t)(spec->kv_tokens / BLOCK);
    *result = (struct prompt_first_result){0};
    for (uint32_t i = 0; i < n; i++) {
        requests[i].first_s = requests[i].end_s = 0;
        if (prompt_first_blocks_of(requests[i].n_input + requests[i].n_output) > run.n_blocks)
            return STATUS_LIMIT;
    }
    run.made = calloc(n, sizeof *run.made);
    run.begun = calloc(n, sizeof *run.begun);
    run.waiting = calloc(n, sizeof *run.waiting);
    run.running = calloc(spec->max_seqs, sizeof *run.running);
    run.costs = calloc(spec->max_seqs + 1, sizeof *run.costs);
    bool has_memory = run.made && run.begun && run.waiting && run.running && run.costs;
    enum status status = has_memory ? prompt_first_run_all(&run) : STATUS_NOMEM;
    if (status == STATUS_OK)
        prompt_first_sum_decodes(&run);
    free(run.made);
    free(run.begun);
    free(run.waiting);
    free(run.running);
    free(run.costs);
    return status;
}
