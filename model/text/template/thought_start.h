/* model/text/template/thought_start.h: whether an answer begins with what the model thinks, which the prompt that its template made
 * tells. Pure, any thread. */
#pragma once

#include "model/text/template/thought_format.h"

struct template_input;
struct template_prompt;

/* How an answer begins. */
enum thought_start {
    THOUGHT_NONE,  /* with the answer proper: the model does not think, or was told not to */
    THOUGHT_MAYBE, /* with the mark, if the model thinks */
    THOUGHT_OPEN,  /* behind the mark, which ends the prompt */
};

/* How an answer to this prompt begins; `format`: the model's, or NULL. Only the template's own text counts, and where the
 * last message is continued that message's. */
enum thought_start thought_start_of(const struct thought_format *format,
                                    const struct template_input *input,
                                    const struct template_prompt *prompt);
