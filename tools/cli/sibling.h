/* tools/cli/sibling.h: the programs that were installed beside this one, run for what they say. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

/* Runs the program `name` of this program's own folder with args (NULL at the end, without the
 * name) and waits for its end. Appends what it writes to `out` and to `errors`, *code is its exit
 * code, -1 after a signal. STATUS_NOT_FOUND: it is not there; STATUS_IO. */
NODISCARD enum status sibling_run(const char *name, const char *const *args, struct buf *out,
                                  struct buf *errors, int *code, struct error *error);
