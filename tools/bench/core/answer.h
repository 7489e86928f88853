/* tools/bench/core/answer.h: the events of a streamed answer, from its lines of JSON.
 *
 * A chunk is not parsed into a tree: at 40,000 tokens a second that would be what is measured. What
 * counts is found as text; a line that is not a JSON object is malformed. */
#pragma once

#include "tools/bench/core/record.h"

#include <stddef.h>

struct answer {
    const char *model; /* borrowed; what was asked for, NULL: any */
    bool is_done;      /* [DONE] came */
    bool has_checked;  /* the model's name was compared */
    uint32_t n_lines;  /* events that came */
};

/* Reads one event's data (NUL-terminated at n). Fills up to two events (kind, chunk, finish, usage
 * alone) and answers how many; *fault: what is wrong with the line, else FAULT_NONE. */
unsigned answer_line(struct answer *answer, const char *data, size_t n, struct event events[2],
                     enum fault *fault);
