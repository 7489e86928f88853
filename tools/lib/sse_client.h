/* tools/lib/sse_client.h: takes a stream of server-sent events apart, as "Interpreting an event
 * stream" of the WHATWG HTML standard has it; https://html.spec.whatwg.org/multipage/server-sent-events.html
 *
 * Lines end with LF, CRLF or CR. The `data` fields of an event are joined by newlines, and a blank line
 * ends it; one without any is no event. Comments, other fields and a byte order mark at the begin are
 * passed over, and an event that the stream's end cuts never comes. Reads may cut it anywhere.
 * One owner thread. */
#pragma once

#include "base/buf.h"
#include "base/span.h"

#define SSE_EVENT_MAX ((size_t)8 << 20) /* bytes of a line, and of an event's data */

struct sse_client {
    struct buf line;   /* that a read cut */
    struct buf data;   /* of the event so far, where it is not `value` alone */
    struct span value; /* borrowed from the bytes at hand: the event's only field so far */
    bool has_data;     /* a field of data came since the last event */
    bool has_line;     /* the stream's first line is over */
    bool has_cr;       /* the last byte was a CR: an LF behind it belongs to it */
    /* `data`: until it returns; no NUL stands behind it. It must not feed or end the reader. */
    void (*on_event)(void *user, const char *data, size_t n);
    void *user;
};

void sse_client_init(struct sse_client *sse,
                     void (*on_event)(void *user, const char *data, size_t n), void *user);
void sse_client_fini(struct sse_client *sse);
void sse_client_reset(struct sse_client *sse); /* a new stream begins */

/* Tells each event that these bytes complete. STATUS_LIMIT or STATUS_NOMEM, also for all that is fed
 * afterwards: an event that is too long has come, and what follows it is not read. */
NODISCARD enum status sse_client_feed(struct sse_client *sse, const char *bytes, size_t n);
