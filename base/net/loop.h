/* base/net/loop.h: one event loop: timers, file descriptors, signals, deferred work, wake-ups.
 *
 * The only file that knows libevent. One thread owns a loop and everything made on it;
 * only loop_wakeup_signal() and loop_stop() may be called from others. A turn is: run the kicks,
 * sleep until something happens, run the callbacks. Callbacks may free any timer or watch, their
 * own included. Things made on a loop are freed before the loop. */
#pragma once

#include "base/list.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_timer;
struct loop_watch;
struct loop_wakeup;

typedef void loop_fn(void *user);
typedef void loop_watch_fn(void *user, unsigned events);

NODISCARD enum status loop_new(struct loop **loop);
/* Runs the kicks that are left (they free closed objects) and ends. NULL is fine. */
void loop_free(struct loop *loop);

/* Turns until loop_stop(); returns after the turn that saw it. */
void loop_run(struct loop *loop);

/* One turn. With `wait` it sleeps until something happens, else it only looks. */
void loop_turn(struct loop *loop, bool wait);

/* Any thread and signal handlers: ends loop_run(), now or when it is called next. */
void loop_stop(struct loop *loop);

/* CLOCK_MONOTONIC at the first callback of this turn: cheap, at most a turn old. */
uint64_t loop_now_ns(const struct loop *loop);

/* Turns that have begun: who bounds the work of a turn knows by it when the next one began. */
uint64_t loop_turns(const struct loop *loop);

/* The longest turn of the 10 s before now_ns (CLOCK_MONOTONIC; by whole seconds, so of 9 at least):
 * its callbacks and the kicks behind them, without the sleep. A turn counts when the next one
 * begins. */
struct loop_turn_max {
    uint64_t wall_ns;
    uint64_t cpu_ns; /* of the thread: what a busy machine took from it is not in it */
};
struct loop_turn_max loop_turn_max(const struct loop *loop, uint64_t now_ns);

/* 16 KiB for one read at a time; what is in it lasts until the next callback. */
#define LOOP_SCRATCH_BYTES 16384u
char *loop_scratch(struct loop *loop);

/* One-shot timers. They never fire before their time; a few milliseconds after it is usual. */
NODISCARD enum status loop_timer_new(struct loop *loop, loop_fn *fn, void *user,
                                     struct loop_timer **timer);
void loop_timer_free(struct loop_timer *timer);
void loop_timer_at(struct loop_timer *timer, uint64_t at_ns);       /* CLOCK_MONOTONIC */
void loop_timer_after(struct loop_timer *timer, uint64_t delay_ns); /* from now */
void loop_timer_stop(struct loop_timer *timer);

/* A file descriptor (borrowed) watched, level-triggered, until freed. Starts with no events. */
#define LOOP_READ  1u
#define LOOP_WRITE 2u
#define LOOP_GONE  4u /* the peer closed or reset, without reading (EPOLLRDHUP) */
NODISCARD enum status loop_watch_new(struct loop *loop, int fd, loop_watch_fn *fn, void *user,
                                     struct loop_watch **watch);
NODISCARD enum status loop_watch_set(struct loop_watch *watch, unsigned events);
void loop_watch_free(struct loop_watch *watch);

/* A signal as an event on the loop. `events` of the callback is the signal's number. */
NODISCARD enum status loop_signal_new(struct loop *loop, int signal, loop_watch_fn *fn, void *user,
                                      struct loop_watch **watch);

/* Deferred work: runs once before the next sleep. Storage belongs to the caller and must outlive
 * the call or be removed. One that adds itself again runs in the next turn, which does not sleep.
 * This is where streams are flushed, closed objects are freed, and an edge-triggered descriptor
 * (ZMQ_FD) that was not drained is looked at again. */
struct loop_kick {
    struct list link;
    loop_fn *fn;
    void *user; /* borrowed */
};

void loop_kick_init(struct loop_kick *kick, loop_fn *fn, void *user);
void loop_kick_add(struct loop *loop, struct loop_kick *kick); /* twice is once */
void loop_kick_remove(struct loop_kick *kick);                 /* fine when not added */

/* Wakes the loop from another thread. Signals before the callback ran are folded into one. */
NODISCARD enum status loop_wakeup_new(struct loop *loop, loop_fn *fn, void *user,
                                      struct loop_wakeup **wakeup);
void loop_wakeup_free(struct loop_wakeup *wakeup);
void loop_wakeup_signal(struct loop_wakeup *wakeup); /* any thread, signal handlers */
