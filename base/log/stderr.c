#include "base/log/stderr.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The same pipe or terminal with a flag of its own. Not a regular file: it would have an offset of
 * its own, and its writes wait for a disk at most. */
static int stderr_open_again(void) {
    struct stat info;
    if (fstat(STDERR_FILENO, &info) < 0 || !(S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)))
        return -1;
    return open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool stderr_wait_for_room(int fd, int limit_ms) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    return poll(&ready, 1, limit_ms) > 0; /* POLLERR: the write says what is wrong */
}

bool stderr_has_room(void) {
    return stderr_wait_for_room(STDERR_FILENO, 0);
}

static ssize_t stderr_write_some(int fd, const char *bytes, size_t n) {
    ssize_t some = send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    return some < 0 && errno == ENOTSOCK ? write(fd, bytes, n) : some;
}

static size_t stderr_write_until(int fd, const char *bytes, size_t n, uint64_t until_ns) {
    size_t n_written = 0;
    for (;;) {
        uint64_t now_ns = clock_now_ns();
        if (stderr_wait_for_room(fd, now_ns < until_ns ? 1 : 0)) {
            ssize_t some = stderr_write_some(fd, bytes + n_written, n - n_written);
            if (some >= 0)
                n_written += (size_t)some;
            else if (errno != EAGAIN && errno != EINTR)
                return n_written;
        }
        if (n_written == n || now_ns >= until_ns)
            return n_written;
    }
}

size_t stderr_write(const char *bytes, size_t n, uint64_t until_ns) {
    sigset_t broken, before, pending;
    struct timespec at_once = {0};
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    int own = stderr_open_again();
    size_t n_written = stderr_write_until(own >= 0 ? own : STDERR_FILENO, bytes, n, until_ns);
    if (own >= 0)
        close(own);
    if (n_written < n && !sigismember(&pending, SIGPIPE))
        (void)sigtimedwait(&broken, NULL, &at_once); /* takes the one that our write raised */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n_written;
}
