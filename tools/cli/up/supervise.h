/* tools/cli/up/supervise.h: keeps a set of children running until told to stop (`tandem up`).
 *
 * A child that dies is started again: at once if it had been ready, else after 100 ms, doubling to
 * 5 s. One that exits with 78, or dies before any child of its kind was ever ready, ends the whole.
 * SIGINT or SIGTERM drains: children of the kind that was added first (the router), and once they
 * are gone the others, which serve it until then. What has not ended after 40 s, or the time that a
 * child asks for meanwhile (EXTEND_TIMEOUT_USEC, from its option `drain`), is killed. A second
 * signal ends all at once.
 *
 * Started on a terminal, it drains as well when that is gone, which SIGHUP says or a look once a
 * second finds. Elsewhere SIGHUP is passed on to the router, which reads certificates and keys again. */
#pragma once

#include "tools/cli/up/child.h"

struct supervisor;

/* folder: a private one, for the notify socket. */
NODISCARD enum status supervisor_new(struct loop *loop, const char *folder,
                                     struct supervisor **supervisor, struct error *error);
void supervisor_free(struct supervisor *supervisor);

/* A child to be filled with arguments before supervisor_run(). NULL when there are too many. */
struct child *supervisor_add(struct supervisor *supervisor, const char *kind, const char *name);

/* The names of the children that are not ready, with commas between. False: all are. */
bool supervisor_waits(const struct supervisor *supervisor, char *names, size_t size);

/* The process that `tandem up` would have one kill to see another go on: the last worker that was added and runs. NULL: none. */
const struct child *supervisor_victim(const struct supervisor *supervisor);

/* Was it told to stop? */
bool supervisor_ends(const struct supervisor *supervisor);

/* What is heard of children. */
struct supervisor_events {
    void (*listen)(void *user,
                   const char *address); /* the router's ("127.0.0.1:8000"); NULL: all are ready */
    void (*loaded)(void *user, const char *name, uint64_t n_done,
                   uint64_t n_all);                               /* bytes of a model */
    void (*settled)(void *user, const char *name, bool is_ready); /* it is ready, or has ended */
    void *user;                                                   /* borrowed */
};

/* Runs until stopped. Answers the exit code; what ended a child and so the whole ("error: ...") is said last. */
int supervisor_run(struct supervisor *supervisor, const struct supervisor_events *events);
