/* tools/cli/model/model_render.h: `tandem model render`: JSON lines of chat requests in, prompts
 * out. */
#pragma once

#include <stdio.h>

/* For each line of `in`, a request as template_request.h says, writes one line to `out`: the
 * prompt's text as a JSON string, or {"error": "..."}. `path` is a model, or a file that holds a
 * template alone; bos_token and eos_token are the model's unless the request names others. Returns
 * the exit code: 0, or 1 when any line was an error. When `path` cannot be opened, says why on
 * standard error and returns 78. */
int model_render(const char *path, FILE *in, FILE *out);

/* Which kind of template a file holds, and how it writes calls of tools. Returns the exit code: 0, or 78 with a line on standard error. */
int model_render_about(const char *path, FILE *out);
