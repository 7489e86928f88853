/* tools/cli/model/model_tokenize.h: `tandem model tokenize`: JSON lines of texts in, JSON lines of
 * ids out; and `tandem model detokenize`, the way back. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct tokenizer;

/* For each line of `in`, a JSON string, writes one line to `out`: its ids as [1,2,3], or
 * {"error": "..."} when the line is not a JSON string or cannot be tokenized. `flags` are those of
 * tokenizer_encode(). Returns the exit code: 0, or 1 when any line was an error. */
int model_tokenize_lines(const struct tokenizer *tokenizer, unsigned flags, FILE *in, FILE *out);

/* The same for the tokenizer at `path` (a .gguf file, a model's folder, a tokenizer file, "hash");
 * when it cannot be opened, says why on standard error and returns 78. */
int model_tokenize(const char *path, unsigned flags, FILE *in, FILE *out);

/* For each line of `in`, a JSON list of ids, writes their text as a JSON string, put together token
 * by token as answers are streamed; {"error": "..."} when the line is no such list. Exit codes as
 * above. */
int model_detokenize(const char *path, bool skip_special, FILE *in, FILE *out);
