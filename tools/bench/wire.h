/* tools/bench/wire.h: how requests reach a server: one member per protocol, chosen by the target's
 * scheme. A member's link carries one request at a time and turns what comes back into the core's
 * events. Loop thread only. */
#pragma once

#include "base/error.h"
#include "base/net/loop.h"
#include "tools/bench/core/record.h"
#include "tools/bench/core/workload.h"

struct http_url;
struct wire_link; /* each member has its own */

struct wire_target {
    const char *text;            /* borrowed: as the user wrote it */
    const struct http_url *url;  /* borrowed */
    const char *api_key;         /* borrowed; or NULL */
    const struct ask_form *form; /* borrowed */
};

/* Events come with `kind` and what belongs to it; at_ns is set, `request` is not. EVENT_END is the
 * last and comes once, `error` (else NULL) says why where it has a fault. */
typedef void wire_event_fn(void *user, const struct event *event, const struct error *error);

struct wire {
    enum status (*open)(struct loop *loop, const struct wire_target *target, wire_event_fn *fn,
                        void *user, struct wire_link **link, struct error *error);
    /* Copies the body. May end the request before it returns. */
    void (*send)(struct wire_link *link, const char *body, size_t n);
    void (*cancel)(struct wire_link *link); /* no event comes any more; the link is free again */
    void (*close)(struct wire_link *link);  /* NULL is fine */
};

extern const struct wire wire_http, wire_grpc;

/* The member for a target; NULL: its scheme is not spoken. Without a scheme it is http. */
const struct wire *wire_find(const char *url);
