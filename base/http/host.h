/* base/http/host.h: what all connections of one listener share, and what every protocol's replies
 * have in common: date, request ids, the text of a refusal.
 *
 * Loop's thread only. */
#pragma once

#include "base/buf.h"
#include "base/http/exchange.h"
#include "base/http/heads.h"
#include "base/http/listener.h"
#include "base/random.h"

#include <stdbool.h>
#include <stdint.h>

struct connection;
struct loop;

/* A stream may have so much output waiting, apart from the bound for all: what is written within a
 * turn of the loop is not refused. */
#define STREAM_FREE_BYTES 4096u

struct connection_host {
    struct loop *loop;           /* borrowed */
    struct exchanges *exchanges; /* borrowed */
    struct listener_config config;
    struct listener_counts counts;
    struct listener_calls calls;
    void (*release)(struct connection_host *host, struct connection *connection);
    struct buf scratch; /* a reply's head while it is written */
    int64_t date_s;
    char date[40];        /* of date_s, for the Date field */
    struct heads heads;   /* of clients that speak HTTP/2 */
    bool draining;        /* each reply is the connection's last */
    struct random random; /* request ids */
};

/* Now, as the Date field has it; until the next call. */
const char *host_date(struct connection_host *host);

/* The request's id: `sent` (may be NULL) if it is short and printable, for it goes into a header of
 * ours and into the log; else one is made. */
void host_request_id(struct connection_host *host, const char *sent, char id[EXCHANGE_ID_MAX + 1]);

/* An answer in the parser's name, with JSON in `body`. `reason` is a constant of ours without quotes,
 * so it needs no escaping. */
struct exchange_reply host_refusal(unsigned status, const char *reason, char body[256]);

/* Appends a field's value without control bytes: one with a line break would be two fields. */
void host_put_value(struct buf *out, const char *value);

/* How long a client may take nothing of its output now: less where the output of all leaves little
 * room, for then those who read nothing keep others from their answers. */
uint64_t host_stall_ns(const struct connection_host *host);

/* What a client is told (503) whose reply has no room in the output of all. */
extern const char host_output_is_full[];

/* Was since_ns more than limit_ns before now_ns? */
bool host_passed(uint64_t now_ns, uint64_t since_ns, uint64_t limit_ns);

/* A body has a bound in all, one for each pause, and a rate, so that no client holds memory by sending
 * a byte now and then: it began at began_ns, its last byte came at since_ns, n_seen have come. */
bool host_body_is_late(const struct connection_host *host, uint64_t now_ns, uint64_t began_ns,
                       uint64_t since_ns, uint64_t n_seen);
