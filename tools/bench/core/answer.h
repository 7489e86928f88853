/* tools/bench/core/answer.h: the events of an answer, from its lines of JSON: chunks of chat and
 * text completions, whole answers of these and of vLLM's and TGI's /generate.
 *
 * A line is read once from its begin to its end, into no tree: at 40,000 tokens a second that would
 * be what is measured. A line that is not one JSON object is malformed. */
#pragma once

#include "tools/bench/core/record.h"

#include <stddef.h>

struct answer {
    const char *model; /* borrowed; what was asked for, NULL: any */
    bool is_done;      /* [DONE] came */
    bool has_finish;   /* a reason came why the answer ended */
    bool has_checked;  /* the model's name was compared */
    uint32_t n_lines;  /* events that came */
};

/* Reads one event's data. Fills up to two events (kind, chunk, finish, usage
 * alone) and answers how many; *fault: what is wrong with the line, else FAULT_NONE. */
unsigned answer_line(struct answer *answer, const char *data, size_t n, struct event events[2],
                     enum fault *fault);

/* The answer is whole: [DONE] came, which not every server sends, or a reason why it ended. */
bool answer_is_over(const struct answer *answer);
