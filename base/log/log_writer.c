#include "base/log/log_writer.h"

#include "base/clock.h"
#include "base/log/log_format.h"
#include "base/log/stderr.h"
#include "base/signals.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES  (256u << 10)
#define STACK_BYTES (256u << 10)
#define RETRY_NS    NS_PER_S    /* after a write that failed */
#define LAST_BYTES  (16u << 10) /* of the ring, for lines that say why a program ends */
#define AT_EXIT_MS  5000        /* for all lines that wait when a program ends */
#define STALLED_MS  1000        /* of these, while standard error takes nothing */
#define BATCH_BYTES PIPE_BUF    /* whole lines, in one piece even on a pipe that others write to */

_Static_assert(LOG_LINE_MAX < BATCH_BYTES, "a line and the newline before it fit a batch");
_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "positions wrap with the ring");

enum written {
    WRITTEN_ALL, /* nothing waits */
    WRITTEN_SOME,
    WRITTEN_NOT, /* standard error takes nothing */
    WRITTEN_BY_OTHERS,
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* of the thread */
    /* under `mutex` */
    char bytes[RING_BYTES];
    uint64_t n_taken; /* bytes, ever rising; n_put - n_taken are in the ring */
    uint64_t n_lost;  /* lines that no report was written of */
    uint64_t gap_at;  /* position of the report: where the first of them is missing */
    bool busy;        /* somebody writes a batch: the thread, or who ends the program */
    bool torn;        /* the last write left a line without its end */
    /* any thread, and signal handlers read them */
    atomic_bool running;
    atomic_uint_fast64_t n_put;
    atomic_uint_fast64_t n_done; /* written, or lost by a write that failed */
    atomic_uint_fast64_t n_lost_ever;
} writer = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* Bytes that went out; fewer than n when standard error takes no more for now. */
static size_t log_writer_write_all(const char *bytes, size_t n) {
    size_t n_written = 0;
    while (n_written < n) {
        ssize_t some = write(STDERR_FILENO, bytes + n_written, n - n_written);
        if (some >= 0) {
            n_written += (size_t)some;
        } else if (errno == EAGAIN) { /* somebody else made it non-blocking */
            struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
            poll(&ready, 1, 1000);
        } else if (errno != EINTR) {
            break;
        }
    }
    return n_written;
}

static unsigned log_writer_count_lines(const char *bytes, size_t n) {
    unsigned n_lines = 0;
    for (size_t i = 0; i < n; i++)
        n_lines += bytes[i] == '\n';
    return n_lines;
}

/* Under the mutex. The next whole lines before the gap; 0: none. */
static size_t log_writer_take_lines(char batch[BATCH_BYTES]) {
    uint64_t end = writer.n_lost > 0 ? writer.gap_at : atomic_load(&writer.n_put);
    size_t n = end - writer.n_taken < LOG_LINE_MAX ? (size_t)(end - writer.n_taken) : LOG_LINE_MAX;
    for (size_t i = 0; i < n; i++)
        batch[i] = writer.bytes[(writer.n_taken + i) % RING_BYTES];
    while (n > 0 && batch[n - 1] != '\n')
        n--;
    return n;
}

/* Under the mutex, which is given back meanwhile. Until `until_ns` at most; 0: however long it
 * takes. False: standard error takes nothing. */
static bool log_writer_write_batch(char *batch, size_t n, uint64_t until_ns) {
    char bytes[BATCH_BYTES + 1];
    size_t n_before = writer.torn;
    bytes[0] = '\n'; /* ends the line that was torn */
    memcpy(bytes + n_before, batch, n);
    writer.busy = true;
    pthread_mutex_unlock(&writer.mutex);
    size_t n_written = until_ns > 0 ? stderr_write(bytes, n_before + n, until_ns)
                                    : log_writer_write_all(bytes, n_before + n);
    pthread_mutex_lock(&writer.mutex);
    writer.busy = false;
    if (n_written > 0)
        writer.torn = bytes[n_written - 1] != '\n';
    return n_written == n_before + n;
}

/* Under the mutex. */
static bool log_writer_write_lines(char *batch, size_t n, uint64_t until_ns) {
    bool done = log_writer_write_batch(batch, n, until_ns);
    writer.n_taken += n;
    if (!done) {
        unsigned n_lines = log_writer_count_lines(batch, n);
        writer.n_lost += n_lines;
        writer.gap_at = writer.n_taken;
        atomic_fetch_add(&writer.n_lost_ever, n_lines);
    }
    atomic_fetch_add(&writer.n_done, n);
    return done;
}

/* Under the mutex. The lines lost until now; more may be lost while it is written. */
static bool log_writer_write_report(char *batch, uint64_t until_ns) {
    uint64_t n_lost = writer.n_lost;
    size_t n = log_format(batch, BATCH_BYTES, LOG_WARN, "log lines lost", "n=%llu",
                          (unsigned long long)n_lost);
    if (!log_writer_write_batch(batch, n, until_ns))
        return false;
    writer.n_lost -= n_lost;
    return true;
}

/* Under the mutex, while no batch is being written. */
static enum written log_writer_write_next(uint64_t until_ns) {
    char batch[BATCH_BYTES];
    size_t n = log_writer_take_lines(batch);
    if (n == 0 && writer.n_lost == 0)
        return WRITTEN_ALL;
    bool done = n > 0 ? log_writer_write_lines(batch, n, until_ns)
                      : log_writer_write_report(batch, until_ns);
    return done ? WRITTEN_SOME : WRITTEN_NOT;
}

static void log_writer_rest(void) {
    uint64_t until_ns = clock_now_ns() + RETRY_NS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    while (pthread_cond_clockwait(&writer.wake, &writer.mutex, CLOCK_MONOTONIC, &until) == 0)
        ;
}

static void *log_writer_run(void *user) {
    (void)user;
    pthread_mutex_lock(&writer.mutex);
    for (;;) {
        enum written written = writer.busy ? WRITTEN_ALL : log_writer_write_next(0);
        if (written == WRITTEN_ALL)
            pthread_cond_wait(&writer.wake, &writer.mutex);
        else if (written == WRITTEN_NOT) /* new lines wait in the ring: the report is tried first */
            log_writer_rest();
    }
    return NULL;
}

static void log_writer_before_fork(void) {
    pthread_mutex_lock(&writer.mutex);
}

static void log_writer_in_parent(void) {
    pthread_mutex_unlock(&writer.mutex);
}

static void log_writer_in_child(void) {
    atomic_store(&writer.running, false);
    writer.n_taken = writer.n_lost = writer.gap_at = 0;
    writer.busy = false;
    atomic_store(&writer.n_put, 0);
    atomic_store(&writer.n_done, 0);
    pthread_mutex_unlock(&writer.mutex);
}

static void log_writer_at_exit(void) {
    (void)log_writer_finish();
}

/* Signals are for the other threads: a handler must not wait behind a write, and SIGPIPE becomes
 * EPIPE. */
static bool log_writer_start_thread(void) {
    sigset_t before;
    pthread_t thread;
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, STACK_BYTES);
    signals_leave(&before);
    bool started = pthread_create(&thread, &how, log_writer_run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    return started;
}

void log_writer_start(void) {
    static bool registered; /* forks and exits are told once */
    if (atomic_load(&writer.running) || !log_writer_start_thread())
        return;
    atomic_store(&writer.running, true);
    if (!registered &&
        pthread_atfork(log_writer_before_fork, log_writer_in_parent, log_writer_in_child) == 0)
        registered = atexit(log_writer_at_exit) == 0;
}

/* Under the mutex. */
static void log_writer_lose_line(void) {
    if (writer.n_lost++ == 0)
        writer.gap_at = atomic_load(&writer.n_put);
    atomic_fetch_add(&writer.n_lost_ever, 1);
}

static void log_writer_put_bytes(const char *bytes, size_t n) {
    uint64_t at = atomic_load(&writer.n_put);
    for (size_t i = 0; i < n; i++)
        writer.bytes[(at + i) % RING_BYTES] = bytes[i];
    atomic_store(&writer.n_put, at + n);
}

void log_writer_put(const char *line, size_t n, enum log_weight weight) {
    char whole[LOG_LINE_MAX];
    size_t kept = weight == LOG_LAST ? 0 : LAST_BYTES;
    while (n > 0 && line[n - 1] == '\n')
        n--;
    n = n < LOG_LINE_MAX ? n : LOG_LINE_MAX - 1;
    memcpy(whole, line, n);
    whole[n++] = '\n';
    if (!atomic_load(&writer.running)) {
        (void)!log_writer_write_all(whole, n);
        return;
    }
    pthread_mutex_lock(&writer.mutex);
    if (RING_BYTES - (atomic_load(&writer.n_put) - writer.n_taken) < n + kept)
        log_writer_lose_line();
    else
        log_writer_put_bytes(whole, n);
    pthread_cond_signal(&writer.wake);
    pthread_mutex_unlock(&writer.mutex);
}

bool log_writer_flush(unsigned limit_ms) {
    uint64_t until_ns = clock_now_ns() + limit_ms * NS_PER_MS;
    uint64_t n_put = atomic_load(&writer.n_put);
    while (atomic_load(&writer.n_done) < n_put) {
        if (!atomic_load(&writer.running) || clock_now_ns() >= until_ns)
            return false;
        poll(NULL, 0, 1); /* a handler may call neither locks nor conditions */
    }
    return true;
}

/* A batch, unless somebody else writes one or has the mutex. It is only tried: the thread that a
 * signal interrupted may be the one that holds it. */
static enum written log_writer_help(uint64_t until_ns) {
    enum written written = WRITTEN_BY_OTHERS;
    if (pthread_mutex_trylock(&writer.mutex) != 0)
        return written;
    if (!writer.busy)
        written = log_writer_write_next(until_ns);
    pthread_cond_signal(&writer.wake); /* more may have come while the thread left it to us */
    pthread_mutex_unlock(&writer.mutex);
    return written;
}

bool log_writer_finish(void) {
    uint64_t now_ns = clock_now_ns(), end_ns = now_ns + AT_EXIT_MS * NS_PER_MS;
    uint64_t stalled_ns = now_ns + STALLED_MS * NS_PER_MS;
    for (;;) {
        enum written written = log_writer_help(stalled_ns < end_ns ? stalled_ns : end_ns);
        if (written == WRITTEN_ALL || written == WRITTEN_NOT)
            return written == WRITTEN_ALL;
        now_ns = clock_now_ns();
        if (written == WRITTEN_SOME || stderr_has_room())
            stalled_ns = now_ns + STALLED_MS * NS_PER_MS;
        if (now_ns >= end_ns || now_ns >= stalled_ns)
            return false;
        if (written == WRITTEN_BY_OTHERS)
            poll(NULL, 0, 1);
    }
}

void log_writer_last(const char *line, size_t n) {
    (void)log_writer_finish();
    (void)stderr_write(line, n, 0);
}

uint64_t log_writer_lost(void) {
    return atomic_load(&writer.n_lost_ever);
}
