#include "model/text/grammar/engine/trace.h"

#include "model/text/grammar/program/program.h"

#include <stdlib.h>

enum status trace_init(struct trace *trace) {
    *trace = (struct trace){.n = 1, .size = 16, .region = PROGRAM_NONE};
    trace->changes = calloc(trace->size, sizeof *trace->changes);
    return trace->changes ? STATUS_OK : STATUS_NOMEM;
}

void trace_fini(struct trace *trace) {
    free(trace->changes);
    *trace = (struct trace){0};
}

enum status trace_note(struct trace *trace, uint32_t before, uint32_t region, uint64_t at,
                       uint32_t *change) {
    uint32_t is_in = before == 0 ? trace->region : trace->changes[before].region;
    if (is_in == region) {
        *change = before;
        return STATUS_OK;
    }
    if (trace->n >= TRACE_CHANGES_MAX)
        return STATUS_LIMIT;
    if (trace->n == trace->size) {
        struct trace_change *grown =
            realloc(trace->changes, (size_t)trace->size * 2 * sizeof *grown);
        if (!grown)
            return STATUS_NOMEM;
        trace->changes = grown;
        trace->size *= 2;
    }
    trace->changes[trace->n] = (struct trace_change){.before = before, .region = region, .at = at};
    *change = trace->n++;
    return STATUS_OK;
}
