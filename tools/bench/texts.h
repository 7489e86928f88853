/* tools/bench/texts.h: files that a load is made from: prompts' texts and traces. */
#pragma once

#include "base/error.h"
#include "tools/bench/core/schedule.h"

/* The prompts of a file that begins as JSON (conversations.h), or any other text as one piece. A byte order mark is
 * left out. Errors name the file. The caller frees with texts_free(). */
NODISCARD enum status texts_read(const char *path, char ***texts, uint32_t *n_texts,
                                 struct error *error);
void texts_free(char **texts, uint32_t n_texts);

/* JSON lines {"timestamp": MS, "input_length": N, "output_length": N, "hash_ids": [N, ...]}, as the
 * Mooncake traces have them, in order of time. hash_ids, which may be missing, are the prompt's
 * blocks of TRACE_BLOCK_TOKENS; other members are passed over. Errors name file and line. The caller
 * frees with trace_free(). */
NODISCARD enum status trace_read(const char *path, struct trace_line **lines, uint32_t *n_lines,
                                 struct error *error);
void trace_free(struct trace_line *lines, uint32_t n_lines); /* NULL is fine */
