/* router/api/tools_text.h: a text that is no call, where only its beginning tells. Pure, any thread. */
#pragma once

#include "base/buf.h"
#include "base/span.h"

#include <stddef.h>

/* Appends a grammar in GBNF of all texts that begin with none of `starts` (n), which are ASCII, not empty, and sorted by this
 * function. It has some 30 bytes for each of their bytes, but for those that several share at their begin. */
void tools_text_other(struct span *starts, size_t n, struct buf *out);
