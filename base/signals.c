#include "base/signals.h"

#include <stddef.h>

void signals_ignore_strays(void) {
    static const int strays[] = {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++)
        sigaction(strays[i], &ignore, NULL);
}

void signals_leave(sigset_t *before) {
    static const int own[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE};
    sigset_t others;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, before);
}
