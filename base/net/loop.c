#include "base/net/loop.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/window.h"

#include <errno.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct loop {
    struct event_base *base; /* owned */
    struct list kicks;       /* to run before the next sleep */
    char *scratch;           /* owned (LOOP_SCRATCH_BYTES) */
    uint64_t now_ns;
    bool in_turn; /* a callback of this turn has run */
    uint64_t n_turns;
    struct loop_wakeup *stopper;
    atomic_bool stopping;
    struct window walls, cpus; /* ns, of turns */
    uint64_t busy_ns;          /* of this turn so far */
    uint64_t cpu_ns;           /* the thread's, when the last turn ended */
};

struct loop_timer {
    struct loop *loop;   /* borrowed */
    struct event *event; /* owned */
    uint64_t at_ns;
    loop_fn *fn;
    void *user;
};

struct loop_watch {
    struct loop *loop;   /* borrowed */
    struct event *event; /* owned */
    int fd;
    unsigned events; /* armed now */
    loop_watch_fn *fn;
    void *user;
};

struct loop_wakeup {
    struct loop_watch *watch; /* owned */
    int fd;
    atomic_bool signalled;
    loop_fn *fn;
    void *user;
};

/* The first callback of a turn reads the clock for all of them. */
static void loop_enter_callback(struct loop *loop) {
    if (loop->in_turn)
        return;
    loop->in_turn = true;
    loop->now_ns = clock_now_ns();
}

static uint64_t thread_cpu_ns(void) {
    struct timespec ts = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Before the sleep. The sleep itself costs next to nothing, so one look at the thread's clock is
 * enough for a turn. */
static void loop_note_turn(struct loop *loop, uint64_t now_ns) {
    uint64_t cpu_ns = thread_cpu_ns();
    uint64_t used_ns = cpu_ns > loop->cpu_ns ? cpu_ns - loop->cpu_ns : 0;
    if (loop->cpu_ns != 0)
        window_note(&loop->cpus, now_ns, used_ns);
    window_note(&loop->walls, now_ns, loop->busy_ns);
    loop->cpu_ns = cpu_ns;
    loop->busy_ns = 0;
}

/* Nothing to do: the wake-up only ends the sleep so that `stopping` is seen. */
static void loop_on_stop(void *user) {
    (void)user;
}

static void loop_run_kicks(struct loop *loop) {
    struct list todo;
    list_init(&todo);
    /* What kicks add from here on belongs to the next turn, or two could starve the sockets. */
    while (!list_empty(&loop->kicks)) {
        struct list *link = list_first(&loop->kicks);
        list_remove(link);
        list_push_back(&todo, link);
    }
    for (struct list *link; (link = list_first(&todo)) != NULL;) {
        list_remove(link);
        struct loop_kick *kick = list_entry(link, struct loop_kick, link);
        kick->fn(kick->user);
    }
}

enum status loop_new(struct loop **out) {
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return STATUS_NOMEM;
    list_init(&loop->kicks);
    loop->now_ns = clock_now_ns();
    struct event_config *config = event_config_new();
    if (config) {
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        loop->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    loop->scratch = malloc(LOOP_SCRATCH_BYTES);
    if (!loop->base || !loop->scratch ||
        loop_wakeup_new(loop, loop_on_stop, loop, &loop->stopper) != STATUS_OK) {
        loop_free(loop);
        return STATUS_NOMEM;
    }
    *out = loop;
    return STATUS_OK;
}

void loop_free(struct loop *loop) {
    if (!loop)
        return;
    for (unsigned i = 0; i < 8 && !list_empty(&loop->kicks); i++)
        loop_run_kicks(loop);
    loop_wakeup_free(loop->stopper);
    if (loop->base)
        event_base_free(loop->base);
    free(loop->scratch);
    free(loop);
}

void loop_turn(struct loop *loop, bool wait) {
    uint64_t start_ns = 0;
    loop->n_turns++;
    if (!list_empty(&loop->kicks)) {
        start_ns = clock_now_ns();
        loop->now_ns = start_ns;
        loop_run_kicks(loop);
        loop->busy_ns += clock_now_ns() - start_ns;
    }
    loop_note_turn(loop, start_ns ? start_ns : loop->now_ns);
    bool sleep = wait && list_empty(&loop->kicks) && !atomic_load(&loop->stopping);
    loop->in_turn = false;
    int rc = event_base_loop(loop->base, EVLOOP_ONCE | (sleep ? 0 : EVLOOP_NONBLOCK));
    ASSERT(rc >= 0); /* epoll_wait() with our own descriptor cannot fail but by our mistake */
    if (loop->in_turn)
        loop->busy_ns += clock_now_ns() - loop->now_ns;
}

void loop_run(struct loop *loop) {
    while (!atomic_load(&loop->stopping))
        loop_turn(loop, true);
    atomic_store(&loop->stopping, false);
}

void loop_stop(struct loop *loop) {
    atomic_store(&loop->stopping, true);
    loop_wakeup_signal(loop->stopper);
}

char *loop_scratch(struct loop *loop) {
    return loop->scratch;
}

uint64_t loop_now_ns(const struct loop *loop) {
    return loop->now_ns;
}

uint64_t loop_turns(const struct loop *loop) {
    return loop->n_turns;
}

struct loop_turn_max loop_turn_max(const struct loop *loop, uint64_t now_ns) {
    return (struct loop_turn_max){.wall_ns = window_most(&loop->walls, now_ns),
                                  .cpu_ns = window_most(&loop->cpus, now_ns)};
}

static void loop_add_timeout(struct loop_timer *timer, uint64_t now_ns) {
    uint64_t delay_ns = timer->at_ns > now_ns ? timer->at_ns - now_ns : 0;
    uint64_t delay_us = (delay_ns + NS_PER_US - 1) / NS_PER_US;
    struct timeval tv = {.tv_sec = (time_t)(delay_us / 1000000),
                         .tv_usec = (suseconds_t)(delay_us % 1000000)};
    int rc = evtimer_add(timer->event, &tv);
    ASSERT(rc == 0); /* room in the heap was made when the timer was first set, or memory is out */
}

/* libevent reads the coarse clock, which may be a tick ahead of or behind ours. */
static void loop_on_timeout(evutil_socket_t fd, short events, void *user) {
    (void)fd;
    (void)events;
    struct loop_timer *timer = user;
    loop_enter_callback(timer->loop);
    uint64_t now_ns = clock_now_ns();
    if (now_ns < timer->at_ns) {
        loop_add_timeout(timer, now_ns);
        return;
    }
    timer->fn(timer->user);
}

enum status loop_timer_new(struct loop *loop, loop_fn *fn, void *user, struct loop_timer **out) {
    struct loop_timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return STATUS_NOMEM;
    *timer = (struct loop_timer){.loop = loop, .fn = fn, .user = user};
    timer->event = evtimer_new(loop->base, loop_on_timeout, timer);
    if (!timer->event) {
        free(timer);
        return STATUS_NOMEM;
    }
    *out = timer;
    return STATUS_OK;
}

void loop_timer_free(struct loop_timer *timer) {
    if (!timer)
        return;
    event_free(timer->event);
    free(timer);
}

void loop_timer_at(struct loop_timer *timer, uint64_t at_ns) {
    timer->at_ns = at_ns;
    loop_add_timeout(timer, clock_now_ns());
}

void loop_timer_after(struct loop_timer *timer, uint64_t delay_ns) {
    uint64_t now_ns = clock_now_ns();
    timer->at_ns = delay_ns < UINT64_MAX - now_ns ? now_ns + delay_ns : UINT64_MAX;
    loop_add_timeout(timer, now_ns);
}

void loop_timer_stop(struct loop_timer *timer) {
    evtimer_del(timer->event);
}

static void loop_on_watch(evutil_socket_t fd, short events, void *user) {
    (void)fd;
    struct loop_watch *watch = user;
    loop_enter_callback(watch->loop);
    unsigned seen = ((events & EV_READ) ? LOOP_READ : 0) | ((events & EV_WRITE) ? LOOP_WRITE : 0) |
                    ((events & EV_CLOSED) ? LOOP_GONE : 0);
    watch->fn(watch->user, seen);
}

enum status loop_watch_new(struct loop *loop, int fd, loop_watch_fn *fn, void *user,
                           struct loop_watch **out) {
    struct loop_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return STATUS_NOMEM;
    *watch = (struct loop_watch){.loop = loop, .fd = fd, .fn = fn, .user = user};
    watch->event = event_new(loop->base, fd, EV_PERSIST, loop_on_watch, watch);
    if (!watch->event) {
        free(watch);
        return STATUS_NOMEM;
    }
    *out = watch;
    return STATUS_OK;
}

enum status loop_watch_set(struct loop_watch *watch, unsigned events) {
    if (events == watch->events)
        return STATUS_OK;
    if (watch->events)
        event_del(watch->event);
    watch->events = 0;
    short flags =
        (short)(EV_PERSIST | ((events & LOOP_READ) ? EV_READ : 0) |
                ((events & LOOP_WRITE) ? EV_WRITE : 0) | ((events & LOOP_GONE) ? EV_CLOSED : 0));
    if (!events)
        return STATUS_OK;
    if (event_assign(watch->event, watch->loop->base, watch->fd, flags, loop_on_watch, watch) !=
            0 ||
        event_add(watch->event, NULL) != 0)
        return STATUS_IO;
    watch->events = events;
    return STATUS_OK;
}

void loop_watch_free(struct loop_watch *watch) {
    if (!watch)
        return;
    event_free(watch->event);
    free(watch);
}

static void loop_on_signal(evutil_socket_t signal, short events, void *user) {
    (void)events;
    struct loop_watch *watch = user;
    loop_enter_callback(watch->loop);
    watch->fn(watch->user, (unsigned)signal);
}

enum status loop_signal_new(struct loop *loop, int signal, loop_watch_fn *fn, void *user,
                            struct loop_watch **out) {
    struct loop_watch *watch;
    TRY(loop_watch_new(loop, -1, fn, user, &watch));
    if (evsignal_assign(watch->event, loop->base, signal, loop_on_signal, watch) != 0 ||
        event_add(watch->event, NULL) != 0) {
        loop_watch_free(watch);
        return STATUS_IO;
    }
    *out = watch;
    return STATUS_OK;
}

void loop_kick_init(struct loop_kick *kick, loop_fn *fn, void *user) {
    *kick = (struct loop_kick){.fn = fn, .user = user};
    list_init(&kick->link);
}

void loop_kick_add(struct loop *loop, struct loop_kick *kick) {
    list_remove(&kick->link);
    list_push_back(&loop->kicks, &kick->link);
}

void loop_kick_remove(struct loop_kick *kick) {
    list_remove(&kick->link);
}

static void loop_on_wakeup(void *user, unsigned events) {
    (void)events;
    struct loop_wakeup *wakeup = user;
    uint64_t count;
    ssize_t n = read(wakeup->fd, &count, sizeof count);
    (void)n;                                 /* non-blocking: empty is fine */
    atomic_store(&wakeup->signalled, false); /* before fn: what comes later wakes again */
    wakeup->fn(wakeup->user);
}

enum status loop_wakeup_new(struct loop *loop, loop_fn *fn, void *user, struct loop_wakeup **out) {
    struct loop_wakeup *wakeup = calloc(1, sizeof *wakeup);
    if (!wakeup)
        return STATUS_NOMEM;
    wakeup->fn = fn;
    wakeup->user = user;
    wakeup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wakeup->fd < 0 ||
        loop_watch_new(loop, wakeup->fd, loop_on_wakeup, wakeup, &wakeup->watch) != STATUS_OK ||
        loop_watch_set(wakeup->watch, LOOP_READ) != STATUS_OK) {
        loop_wakeup_free(wakeup);
        return STATUS_IO;
    }
    *out = wakeup;
    return STATUS_OK;
}

void loop_wakeup_free(struct loop_wakeup *wakeup) {
    if (!wakeup)
        return;
    loop_watch_free(wakeup->watch);
    if (wakeup->fd >= 0)
        close(wakeup->fd);
    free(wakeup);
}

void loop_wakeup_signal(struct loop_wakeup *wakeup) {
    if (atomic_exchange(&wakeup->signalled, true))
        return;
    uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(wakeup->fd, &one, sizeof one);
    (void)n; /* a full counter means that it is readable anyway */
    errno = saved;
}
