/* base/signals.h: which signals a helper thread leaves to others. */
#pragma once

#include <signal.h>

/* Ignores signals that would end the process by default without a request to end: SIGPIPE, as
 * writes have errors, and SIGUSR1, SIGUSR2 and SIGALRM, which mean nothing to our programs. Before
 * other threads start. */
void signals_ignore_strays(void);

/* Blocks in this thread, and in those it starts, every signal but those that the thread raises by
 * its own fault (SIGBUS, SIGSEGV, SIGILL, SIGFPE): blocked, these end the process without the
 * handler of file_guard(). `before` gets the old set, for pthread_sigmask(SIG_SETMASK). */
void signals_leave(sigset_t *before);
