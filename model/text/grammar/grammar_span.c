/* Which runs of a followed text are decided: where all threads tell the same changes of region. */
#include "model/text/grammar/grammar_own.h"

/* The first change behind offset `from` in a thread's chain; NULL: none. */
static const struct trace_change *grammar_span_change_behind(const struct trace *trace,
                                                             uint32_t last, uint64_t from,
                                                             uint32_t *region) {
    const struct trace_change *found = NULL;
    *region = trace->region;
    for (uint32_t i = last; i != 0; i = trace->changes[i].before) {
        if (trace->changes[i].at <= from) {
            *region = trace->changes[i].region;
            break;
        }
        found = &trace->changes[i];
    }
    return found;
}

/* Forgets changes that were told. */
static void grammar_span_forget(struct grammar_state *state, const struct grammar_step *step) {
    uint32_t region = state->trace.region;
    for (uint32_t i = 0; i < step->n; i++) {
        uint32_t last = state->threads.at[step->begin + i].trace;
        uint32_t is_in = last == 0 ? state->trace.region : state->trace.changes[last].region;
        if (i > 0 && is_in != region)
            return;
        region = is_in;
    }
    for (uint32_t i = 0; i < step->n; i++)
        state->threads.at[step->begin + i].trace = 0;
    state->trace.n = 1;
    state->trace.region = region;
}

bool grammar_next_span(struct grammar_state *state, bool is_last, struct grammar_span *span) {
    const struct grammar_step *step = &state->steps[state->at];
    const struct trace *trace = &state->trace;
    if (!state->has_trace || state->told >= state->n_followed)
        return false;
    uint32_t region = PROGRAM_NONE;
    uint64_t end = state->n_followed;
    bool is_first = true;
    bool ends = false;
    for (uint32_t i = 0; i < step->n; i++) {
        const struct thread *thread = &state->threads.at[step->begin + i];
        uint32_t own;
        if (is_last && state->may_end && thread->set != SET_FINAL)
            continue;
        const struct trace_change *next =
            grammar_span_change_behind(trace, thread->trace, state->told, &own);
        uint64_t until = next ? next->at : state->n_followed;
        if (!is_first && own != region)
            return false; /* the next byte itself is undecided */
        if (is_first || until < end) {
            ends = next != NULL;
            end = until;
        } else if (until > end || (until == end && !next)) {
            ends = false; /* some reading goes on here */
        }
        region = own;
        is_first = false;
        if (is_last && !state->may_end)
            break;
    }
    if (is_first || end == state->told)
        return false;
    *span = (struct grammar_span){
        .region = region == PROGRAM_NONE ? NULL : state->grammar->program.regions[region],
        .begin = state->told,
        .end = end,
        .ends = ends};
    state->told = end;
    if (state->told == state->n_followed)
        grammar_span_forget(state, step);
    return true;
}
