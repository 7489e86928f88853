/* model/text/template/template_run.h: one run of a model's own template, and values for it.
 *
 * For the members of model/text/template alone. Any thread. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/template/jinja/jinja.h"
#include "model/text/template/template.h"

#include <jansson.h>

/* Runs the program on these messages and on all else that the input has. The caller ends *output
 * with jinja_output_fini() on success. Errors as jinja_render(). */
NODISCARD enum status template_run(const struct template *chosen,
                                   const struct template_input *input, json_t *messages,
                                   struct jinja_output *output, struct error *error);

/* A new string of these bytes; NULL when memory is short. */
json_t *template_text_value(struct span text);

/* A new reference to the value. Counts move while a render lasts, and nothing else changes. */
json_t *template_keep(const json_t *value);
