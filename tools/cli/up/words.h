/* tools/cli/up/words.h: a daemon's logfmt line as one short line for people. Pure: the caller brings the time and prints. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define WORDS_LINE_MAX 512

/* The line in words, without its time: "chat 200  31+8 tok  110 ms  prefill0 > decode0" for a request, "warning: ..." and
 * "error: ..." for what is wrong, with `who` (the child that said it, or NULL) named before. False: it is none of logfmt, and
 * is for people as it is. "": of no interest beyond the log; with `all` every line has words. */
bool words_of(const char *line, const char *who, bool all, char words[WORDS_LINE_MAX]);
