/* tools/cli/up/ready.h: when `tandem up` may say that it serves: all children are ready and the
 * router has met its workers. Until then it says now and then whom it waits for. Loop thread
 * only. */
#pragma once

#include "base/client/http_client.h"

#include "base/buf.h"
#include "base/net/loop.h"
#include "base/patience.h"

#include <stdbool.h>
#include <stdint.h>

struct supervisor;

struct ready {
    struct loop *loop;                   /* borrowed */
    const struct supervisor *supervisor; /* borrowed */
    unsigned n_workers;                  /* that the router has to meet */
    bool has_page;                       /* at /: it is named, too */
    char address[300];                   /* of the router, once known */
    struct buf answer;                   /* of the probe */
    struct http_url url;                 /* owned: of the router */
    struct http_client *probe;           /* owned: asks /readyz until it says yes */
    struct loop_timer *again;            /* owned: the next probe, */
    uint64_t probe_ns;                   /* so long after the last */
    struct loop_timer *look;             /* owned: says what is waited for */
    struct patience patience;
    struct loop_timer *print; /* owned: until standard output takes the line */
    bool probing;
    bool printed;
};

NODISCARD enum status ready_begin(struct ready *ready, struct loop *loop,
                                  const struct supervisor *supervisor, unsigned n_workers);
/* The line below all others while it serves, in less than `width` bytes: the address, and how the workers are. "": it does
 * not serve yet. */
const char *ready_foot(const struct ready *ready, char *text, size_t width);
void ready_fini(struct ready *ready); /* fine on a zeroed one; before the loop is freed */

void ready_listens(struct ready *ready, const char *address); /* the router: "127.0.0.1:8000" */

/* All children are ready: the router is asked until it has met all its workers, and then the one line on standard
 * output says where it serves. */
void ready_all(struct ready *ready);
