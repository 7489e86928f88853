/* States: following, setting back, ends, masks. */
#include "model/text/grammar/engine/mask.h"
#include "model/text/grammar/grammar_own.h"
#include "model/text/grammar/vocabulary.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define FOLLOW_BYTES 64u /* of text, for which as much work is allowed as for a mask */

static void grammar_state_enlist(struct grammar_state *state) {
    struct grammar *grammar = state->grammar;
    pthread_mutex_lock(&grammar->lock);
    state->next = grammar->states;
    if (state->next)
        state->next->before = state;
    grammar->states = state;
    pthread_mutex_unlock(&grammar->lock);
}

static const struct grammar_step *grammar_state_newest(const struct grammar_state *state) {
    return &state->steps[state->at];
}

/* What the newest threads say about the end. */
static void grammar_state_find_ends(struct grammar_state *state) {
    const struct grammar_step *step = grammar_state_newest(state);
    bool goes_on = false;
    state->may_end = false;
    for (uint32_t i = 0; i < step->n; i++) {
        if (state->threads.at[step->begin + i].set == SET_FINAL)
            state->may_end = true;
        else
            goes_on = true;
    }
    state->must_end = state->may_end && !goes_on;
}

/* The lock is held, or the state is not on the list yet. */
static void grammar_state_begin_anew(struct grammar_state *state) {
    const struct threads *start = &state->grammar->start;
    state->threads.n = 0;
    for (uint32_t i = 0; i < start->n; i++) /* room was made for them by grammar_state_new() */
        state->threads.at[state->threads.n++] = start->at[i];
    state->at = 0;
    state->n_known = 0;
    state->steps[0] = (struct grammar_step){.begin = 0, .n = start->n};
    state->n_followed = 0;
    state->told = 0;
    if (state->has_trace) {
        state->trace.n = 1;
        state->trace.region = PROGRAM_NONE;
    }
    grammar_state_find_ends(state);
}

void grammar_reset(struct grammar_state *state) {
    pthread_mutex_lock(&state->grammar->lock);
    grammar_state_begin_anew(state);
    pthread_mutex_unlock(&state->grammar->lock);
}

enum status grammar_state_new(struct grammar *grammar, uint32_t n_back,
                              struct grammar_state **made) {
    struct grammar_state *state = calloc(1, sizeof *state);
    if (!state)
        return STATUS_NOMEM;
    state->steps = calloc((size_t)n_back + 1, sizeof *state->steps);
    if (!state->steps || threads_reserve(&state->threads, grammar->start.n + 1) != STATUS_OK) {
        free(state->steps);
        free(state);
        return STATUS_NOMEM;
    }
    state->grammar = grammar_ref(grammar);
    state->n_back = n_back;
    grammar_state_begin_anew(state);
    grammar_state_enlist(state);
    *made = state;
    return STATUS_OK;
}

/* Fills a fresh state. The lock is held: another thread may be marking the frames of both. */
static enum status grammar_state_copy_to(const struct grammar_state *from,
                                         struct grammar_state *state) {
    state->threads.n = 0;
    TRY(threads_reserve(&state->threads, from->threads.n + 1));
    memcpy(state->threads.at, from->threads.at, from->threads.n * sizeof *from->threads.at);
    memcpy(state->steps, from->steps, ((size_t)from->n_back + 1) * sizeof *from->steps);
    state->threads.n = from->threads.n;
    state->at = from->at;
    state->n_known = from->n_known;
    if (from->has_trace) {
        TRY(grammar_watch(state));
        state->trace.region = from->trace.region;
        for (uint32_t i = 1; i < from->trace.n; i++) {
            uint32_t change;
            const struct trace_change *of = &from->trace.changes[i];
            TRY(trace_note(&state->trace, of->before, of->region, of->at, &change));
        }
    }
    state->n_followed = from->n_followed;
    state->told = from->told;
    grammar_state_find_ends(state);
    return STATUS_OK;
}

enum status grammar_state_copy(const struct grammar_state *from, struct grammar_state **made) {
    struct grammar_state *state;
    TRY(grammar_state_new(from->grammar, from->n_back, &state));
    pthread_mutex_lock(&from->grammar->lock);
    enum status status = grammar_state_copy_to(from, state);
    pthread_mutex_unlock(&from->grammar->lock);
    if (status == STATUS_OK)
        *made = state;
    else
        grammar_state_free(state);
    return status;
}

void grammar_state_free(struct grammar_state *state) {
    if (!state)
        return;
    struct grammar *grammar = state->grammar;
    pthread_mutex_lock(&grammar->lock);
    if (state->before)
        state->before->next = state->next;
    else
        grammar->states = state->next;
    if (state->next)
        state->next->before = state->before;
    pthread_mutex_unlock(&grammar->lock);
    threads_fini(&state->threads);
    threads_fini(&state->scratch);
    trace_fini(&state->trace);
    free(state->steps);
    free(state);
    grammar_unref(grammar);
}

static void grammar_state_mark(struct frames *frames, const struct threads *threads) {
    for (uint32_t i = 0; i < threads->n; i++)
        frames_mark(frames, threads->at[i].stack);
}

/* Drops the frames that no state has, nor `scratch`, when they are many. The lock is held. */
static void grammar_state_tidy(struct grammar *grammar, const struct threads *scratch) {
    struct frames *frames = &grammar->machine.frames;
    if (!frames_nearly_full(frames))
        return;
    grammar_state_mark(frames, &grammar->start);
    grammar_state_mark(frames, scratch);
    for (const struct grammar_state *state = grammar->states; state; state = state->next)
        grammar_state_mark(frames, &state->threads);
    frames_sweep(frames);
}

/* Keeps the threads in scratch as the newest step. The lock is held: another thread may be marking. */
static enum status grammar_state_remember(struct grammar_state *state) {
    uint32_t n = state->scratch.n;
    uint32_t oldest_known = state->n_known < state->n_back ? state->n_known : state->n_back;
    uint32_t ring = state->n_back + 1;
    if (state->n_back == 0)
        state->threads.n = 0;
    else if (state->threads.size - state->threads.n < n) {
        /* Moves the remembered ones to the front before it grows. */
        uint32_t first = state->steps[(state->at + ring - oldest_known) % ring].begin;
        memmove(state->threads.at, state->threads.at + first,
                (state->threads.n - first) * sizeof *state->threads.at);
        state->threads.n -= first;
        for (uint32_t i = 0; i <= oldest_known; i++)
            state->steps[(state->at + ring - i) % ring].begin -= first;
    }
    TRY(threads_reserve(&state->threads, n));
    state->at = (state->at + 1) % ring;
    state->n_known = oldest_known < state->n_back ? oldest_known + 1 : state->n_back;
    state->steps[state->at] = (struct grammar_step){.begin = state->threads.n, .n = n};
    memcpy(state->threads.at + state->threads.n, state->scratch.at, n * sizeof *state->scratch.at);
    state->threads.n += n;
    grammar_state_find_ends(state);
    return STATUS_OK;
}

/* Leaves the threads behind `text` in scratch; *n_done bytes were taken. The lock is held. */
static enum status grammar_state_run(struct grammar_state *state, struct span text,
                                     size_t *n_done) {
    struct machine *machine = &state->grammar->machine;
    struct threads *scratch = &state->scratch;
    const struct grammar_step *step = grammar_state_newest(state);
    scratch->n = 0;
    TRY(threads_reserve(scratch, step->n));
    memcpy(scratch->at, state->threads.at + step->begin, step->n * sizeof *scratch->at);
    scratch->n = step->n;
    for (*n_done = 0; *n_done < text.n; ++*n_done) {
        uint32_t n = scratch->n;
        grammar_state_tidy(state->grammar, scratch);
        TRY(threads_reserve(scratch, machine_room(machine)));
        TRY(machine_byte(machine, scratch->at, n, (uint8_t)text.bytes[*n_done], scratch,
                         state->has_trace ? &state->trace : NULL, state->n_followed + *n_done));
        uint32_t n_new = scratch->n - n;
        if (n_new == 0) {
            scratch->n = n;
            return STATUS_CONFLICT;
        }
        memmove(scratch->at, scratch->at + n, n_new * sizeof *scratch->at);
        scratch->n = n_new;
    }
    return STATUS_OK;
}

enum status grammar_accept(struct grammar_state *state, uint32_t token) {
    struct grammar *grammar = state->grammar;
    const struct grammar_vocabulary *vocabulary = grammar->vocabulary;
    size_t n_done;
    if (!vocabulary || token >= vocabulary->n_tokens)
        return STATUS_INVALID;
    struct span text = grammar_vocabulary_bytes(vocabulary, token);
    bool is_special = vocabulary->is_special[token];
    if (!is_special && text.n == 0)
        return STATUS_CONFLICT;
    pthread_mutex_lock(&grammar->lock);
    machine_allow(&grammar->machine, grammar->limits.n_mask_steps);
    enum status status = STATUS_OK;
    if (is_special) {
        const struct grammar_step *step = grammar_state_newest(state);
        state->scratch.n = 0;
        grammar_state_tidy(grammar, &state->scratch);
        status = machine_token(&grammar->machine, state->threads.at + step->begin, step->n, token,
                               &state->scratch);
        if (status == STATUS_OK && state->scratch.n == 0)
            status = STATUS_CONFLICT;
    } else {
        status = grammar_state_run(state, text, &n_done);
    }
    if (status == STATUS_OK)
        status = grammar_state_remember(state);
    pthread_mutex_unlock(&grammar->lock);
    if (status == STATUS_OK && !is_special)
        state->n_followed += text.n;
    return status;
}

enum status grammar_follow(struct grammar_state *state, struct span text, size_t *n_followed) {
    struct grammar *grammar = state->grammar;
    *n_followed = 0;
    pthread_mutex_lock(&grammar->lock);
    machine_allow(&grammar->machine, grammar->limits.n_mask_steps * (1 + text.n / FOLLOW_BYTES));
    enum status status = grammar_state_run(state, text, n_followed);
    if (*n_followed > 0) { /* as far as it went */
        enum status kept = grammar_state_remember(state);
        status = kept != STATUS_OK ? kept : status;
    }
    pthread_mutex_unlock(&grammar->lock);
    state->n_followed += *n_followed;
    return status;
}

enum status grammar_back(struct grammar_state *state, uint32_t n) {
    if (n > state->n_known || state->has_trace)
        return STATUS_LIMIT;
    uint32_t ring = state->n_back + 1;
    pthread_mutex_lock(&state->grammar->lock);
    state->at = (state->at + ring - n) % ring;
    state->n_known -= n;
    state->threads.n = grammar_state_newest(state)->begin + grammar_state_newest(state)->n;
    pthread_mutex_unlock(&state->grammar->lock);
    grammar_state_find_ends(state);
    return STATUS_OK;
}

bool grammar_may_end(const struct grammar_state *state) {
    return state->may_end;
}

bool grammar_must_end(const struct grammar_state *state) {
    return state->must_end;
}

void grammar_state_key(const struct grammar_state *state, uint64_t key[2]) {
    struct grammar *grammar = state->grammar;
    const struct grammar_step *step = grammar_state_newest(state);
    pthread_mutex_lock(&grammar->lock);
    mask_key(&grammar->machine, grammar->hash, state->threads.at + step->begin, step->n, key);
    pthread_mutex_unlock(&grammar->lock);
}

enum status grammar_mask(struct grammar_state *state, const struct grammar_mask **mask) {
    uint64_t n_steps = UINT64_MAX;
    return grammar_mask_within(state, &n_steps, mask);
}

enum status grammar_mask_within(struct grammar_state *state, uint64_t *n_steps,
                                const struct grammar_mask **mask) {
    struct grammar *grammar = state->grammar;
    struct grammar_vocabulary *vocabulary = grammar->vocabulary;
    const struct grammar_step *step = grammar_state_newest(state);
    const struct thread *threads = state->threads.at + step->begin;
    uint64_t key[2];
    if (!vocabulary)
        return STATUS_UNSUPPORTED;
    state->scratch.n = 0;
    pthread_mutex_lock(&grammar->lock);
    grammar_state_tidy(grammar, &state->scratch);
    mask_key(&grammar->machine, grammar->hash, threads, step->n, key);
    struct grammar_mask *made = store_get(&vocabulary->store, key);
    enum status status = STATUS_OK;
    if (!made) {
        uint64_t n_done = grammar->machine.automaton.n_steps;
        uint64_t n_steps_max = grammar->limits.n_mask_steps;
        machine_allow(&grammar->machine, *n_steps < n_steps_max ? *n_steps : n_steps_max);
        status = mask_make(&grammar->machine, vocabulary, grammar->hash, threads, step->n, &made);
        n_done = grammar->machine.automaton.n_steps - n_done;
        *n_steps -= n_done < *n_steps ? n_done : *n_steps;
        if (status == STATUS_OK)
            store_put(&vocabulary->store, key, made);
    }
    pthread_mutex_unlock(&grammar->lock);
    if (status == STATUS_OK)
        *mask = made;
    return status;
}

void grammar_mask_unref(const struct grammar_mask *mask) {
    store_item_unref((void *)(uintptr_t)mask);
}

const uint32_t *grammar_mask_bits(const struct grammar_mask *mask) {
    return mask->bits;
}

uint32_t grammar_mask_n_allowed(const struct grammar_mask *mask) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < (mask->n_tokens + 31) / 32; i++)
        n += (uint32_t)__builtin_popcount(mask->bits[i]);
    return n;
}

enum status grammar_watch(struct grammar_state *state) {
    if (!state->has_trace)
        TRY(trace_init(&state->trace));
    state->has_trace = true;
    state->n_followed = 0;
    state->told = 0;
    return STATUS_OK;
}
