/* tools/model_render.h: `tandem model render`: JSON lines of chat requests in, prompts out. */
#pragma once

#include <stdio.h>

struct template;

/* For each line of `in`, an object with `messages` and perhaps `add_generation_prompt`, writes one
 * line to `out`: the prompt's text as a JSON string, or {"error": "..."}. Returns the exit code: 0,
 * or 1 when any line was an error. */
int model_render_lines(const struct template *chosen, FILE *in, FILE *out);

/* The same for the template of the model at `path`, or for the template in the file at `path` when
 * that is no model. When it cannot be opened, says why on standard error and returns 78. */
int model_render(const char *path, FILE *in, FILE *out);
