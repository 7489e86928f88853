#include "base/signals.h"

#include <stddef.h>

void signals_leave(sigset_t *before) {
    static const int own[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE};
    sigset_t others;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, before);
}
