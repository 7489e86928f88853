/* tools/bench/write.h: writes a report where an option wants it. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

/* Writes the text to `path` ("-": standard output) and clears it. STATUS_IO with the option and the path; or what
 * buf_status() says. */
NODISCARD enum status write_report(const char *option, const char *path, struct buf *text,
                                   struct error *error);
