/* base/log/stderr.h: writes to standard error by a caller that must not wait for ever.
 *
 * The flag O_NONBLOCK belongs to the open file, which we share with the process that started us,
 * and poll() before write() is no promise, because others may fill the pipe between the two. So a
 * pipe or a terminal is opened once more, with a flag of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes until `until_ns` (of clock_now_ns()) at most, and at least tries; returns the bytes that
 * were written, fewer than n when standard error takes no more until then or the write fails. At
 * most PIPE_BUF bytes go into a pipe as a whole or not at all. SIGPIPE is not raised. Where a pipe
 * cannot be opened once more (it is another user's), it may block in the case above. Any thread,
 * signal handlers too. */
size_t stderr_write(const char *bytes, size_t n, uint64_t until_ns);

/* Whether standard error takes bytes now. */
bool stderr_has_room(void);
