#include "base/log_writer.h"

#include "base/clock.h"
#include "base/log_format.h"
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
#define RETRY_NS    NS_PER_S /* after a write that failed */
#define AT_EXIT_MS  100
#define BATCH_BYTES PIPE_BUF /* whole lines, in one piece even on a pipe that others write to */

_Static_assert(LOG_LINE_MAX < BATCH_BYTES, "a line and the newline before it fit a batch");
_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "positions wrap with the ring");

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* of the thread */
    /* under `mutex` */
    char bytes[RING_BYTES];
    uint64_t n_taken; /* bytes, ever rising; n_put - n_taken are in the ring */
    uint64_t n_lost;  /* lines that no report was written of */
    uint64_t gap_at;  /* position of the report: where the first of them is missing */
    /* any thread, and signal handlers read them */
    atomic_bool running;
    atomic_uint_fast64_t n_put;
    atomic_uint_fast64_t n_done; /* written, or lost by a write that failed */
    atomic_uint_fast64_t n_lost_ever;
    /* the thread's */
    bool torn; /* the last write left a line without its end */
} writer = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* Bytes that went out; fewer than n when standard error takes no more for now. */
static size_t write_all(const char *bytes, size_t n) {
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

static unsigned count_lines(const char *bytes, size_t n) {
    unsigned n_lines = 0;
    for (size_t i = 0; i < n; i++)
        n_lines += bytes[i] == '\n';
    return n_lines;
}

/* Under the mutex. The next whole lines before the gap; 0: none. */
static size_t take_lines(char batch[BATCH_BYTES]) {
    uint64_t end = writer.n_lost > 0 ? writer.gap_at : atomic_load(&writer.n_put);
    size_t n = end - writer.n_taken < LOG_LINE_MAX ? (size_t)(end - writer.n_taken) : LOG_LINE_MAX;
    for (size_t i = 0; i < n; i++)
        batch[i] = writer.bytes[(writer.n_taken + i) % RING_BYTES];
    while (n > 0 && batch[n - 1] != '\n')
        n--;
    return n;
}

/* Under the mutex, which is given back meanwhile. False: standard error takes nothing. */
static bool write_batch(char *batch, size_t n) {
    char bytes[BATCH_BYTES + 1];
    size_t n_before = writer.torn;
    bytes[0] = '\n'; /* ends the line that was torn */
    memcpy(bytes + n_before, batch, n);
    pthread_mutex_unlock(&writer.mutex);
    size_t n_written = write_all(bytes, n_before + n);
    pthread_mutex_lock(&writer.mutex);
    if (n_written > 0)
        writer.torn = bytes[n_written - 1] != '\n';
    return n_written == n_before + n;
}

/* Under the mutex. */
static bool write_lines(char *batch, size_t n) {
    bool done = write_batch(batch, n);
    writer.n_taken += n;
    if (!done) {
        unsigned n_lines = count_lines(batch, n);
        writer.n_lost += n_lines;
        writer.gap_at = writer.n_taken;
        atomic_fetch_add(&writer.n_lost_ever, n_lines);
    }
    atomic_fetch_add(&writer.n_done, n);
    return done;
}

/* Under the mutex. The lines lost until now; more may be lost while it is written. */
static bool write_report(char *batch) {
    uint64_t n_lost = writer.n_lost;
    size_t n = log_format(batch, BATCH_BYTES, LOG_WARN, "log lines lost", "n=%llu",
                          (unsigned long long)n_lost);
    if (!write_batch(batch, n))
        return false;
    writer.n_lost -= n_lost;
    return true;
}

static void rest(void) {
    uint64_t until_ns = clock_now_ns() + RETRY_NS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    while (pthread_cond_clockwait(&writer.wake, &writer.mutex, CLOCK_MONOTONIC, &until) == 0)
        ;
}

static void *log_writer_run(void *user) {
    char batch[BATCH_BYTES];
    (void)user;
    pthread_mutex_lock(&writer.mutex);
    for (;;) {
        bool well = true;
        size_t n = take_lines(batch);
        if (n > 0)
            well = write_lines(batch, n);
        else if (writer.n_lost > 0)
            well = write_report(batch);
        else
            pthread_cond_wait(&writer.wake, &writer.mutex);
        if (!well) /* new lines wait in the ring: the report is tried first */
            rest();
    }
    return NULL;
}

static void before_fork(void) {
    pthread_mutex_lock(&writer.mutex);
}

static void in_parent(void) {
    pthread_mutex_unlock(&writer.mutex);
}

static void in_child(void) {
    atomic_store(&writer.running, false);
    writer.n_taken = writer.n_lost = writer.gap_at = 0;
    atomic_store(&writer.n_put, 0);
    atomic_store(&writer.n_done, 0);
    pthread_mutex_unlock(&writer.mutex);
}

static void at_exit(void) {
    (void)log_writer_flush(AT_EXIT_MS);
}

/* Signals are for the other threads: a handler must not wait behind a write, and SIGPIPE becomes
 * EPIPE. */
static bool start_thread(void) {
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
    if (atomic_load(&writer.running) || !start_thread())
        return;
    atomic_store(&writer.running, true);
    if (!registered && pthread_atfork(before_fork, in_parent, in_child) == 0)
        registered = atexit(at_exit) == 0;
}

/* Under the mutex. */
static void lose_line(void) {
    if (writer.n_lost++ == 0)
        writer.gap_at = atomic_load(&writer.n_put);
    atomic_fetch_add(&writer.n_lost_ever, 1);
}

static void put_bytes(const char *bytes, size_t n) {
    uint64_t at = atomic_load(&writer.n_put);
    for (size_t i = 0; i < n; i++)
        writer.bytes[(at + i) % RING_BYTES] = bytes[i];
    atomic_store(&writer.n_put, at + n);
}

void log_writer_put(const char *line, size_t n) {
    char whole[LOG_LINE_MAX];
    while (n > 0 && line[n - 1] == '\n')
        n--;
    n = n < LOG_LINE_MAX ? n : LOG_LINE_MAX - 1;
    memcpy(whole, line, n);
    whole[n++] = '\n';
    if (!atomic_load(&writer.running)) {
        (void)!write_all(whole, n);
        return;
    }
    pthread_mutex_lock(&writer.mutex);
    if (RING_BYTES - (atomic_load(&writer.n_put) - writer.n_taken) < n)
        lose_line();
    else
        put_bytes(whole, n);
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

void log_writer_last(const char *line, size_t n) {
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    (void)log_writer_flush(AT_EXIT_MS);
    if (poll(&ready, 1, AT_EXIT_MS) == 1 && (ready.revents & POLLOUT))
        (void)!write(STDERR_FILENO, line, n);
}

uint64_t log_writer_lost(void) {
    return atomic_load(&writer.n_lost_ever);
}
