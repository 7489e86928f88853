/* tools/bench/wire_http.c: OpenAI-style requests over HTTP/1.1, streamed or not. */
#include "tools/bench/wire.h"

#include "base/client/http_client.h"
#include "base/clock.h"
#include "tools/bench/core/answer.h"
#include "tools/lib/sse_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX (64u << 20) /* of an answer that is not streamed */

struct wire_link {
    struct http_client *client; /* owned */
    struct sse_client sse;
    struct answer answer;
    struct wire_target target;
    struct buf body;    /* of an answer that is not streamed, or of an error */
    enum fault fault;   /* seen in the stream, told at its end */
    struct error error; /* of that fault */
    bool has_heard;     /* a body's byte came */
    bool has_told;      /* of the bytes that are looked at */
    uint64_t at_ns;     /* when those came */
    wire_event_fn *fn;
    void *user;
};

static void wire_http_tell(struct wire_link *link, struct event event) {
    event.at_ns = link->at_ns;
    link->has_told = true;
    link->fn(link->user, &event, NULL);
}

static void bench_http_on_line(void *user, const char *data, size_t n) {
    struct wire_link *link = user;
    struct event events[2];
    enum fault fault;
    unsigned n_events = answer_line(&link->answer, data, n, events, &fault);
    if (fault != FAULT_NONE && link->fault == FAULT_NONE) {
        link->fault = fault;
        (void)error_set(&link->error, STATUS_CORRUPT, "%s: %.*s", fault_name(fault),
                        (int)(n < 200 ? n : 200), data);
    }
    for (unsigned i = 0; i < n_events; i++)
        wire_http_tell(link, events[i]);
}

/* Some servers keep a stream alive by events that say nothing. */
static void bench_http_on_event(void *user, const char *data, size_t n) {
    if (n > 0)
        bench_http_on_line(user, data, n);
}

static void bench_http_on_body(void *user, const char *bytes, size_t n) {
    struct wire_link *link = user;
    link->has_heard = true;
    link->has_told = false;
    link->at_ns = clock_now_ns();
    if (link->target.form->stream && sse_client_feed(&link->sse, bytes, n) != STATUS_OK &&
        link->fault == FAULT_NONE) {
        link->fault = FAULT_MALFORMED;
        (void)error_set(&link->error, STATUS_LIMIT, "%s: an event of more than %zu MiB",
                        fault_name(link->fault), SSE_EVENT_MAX >> 20);
    }
    if (!link->has_told)
        wire_http_tell(link, (struct event){.kind = EVENT_HEARD});
    if (!link->target.form->stream || link->answer.n_lines == 0)
        buf_append(&link->body, bytes, n);
}

/* What the transport's end means, given how far the answer came. */
static enum fault bench_http_judge(struct wire_link *link, enum status status, int http_status) {
    if (status == STATUS_CORRUPT)
        return FAULT_MALFORMED;
    if (status != STATUS_OK && http_client_sent_ns(link->client) == 0)
        return FAULT_REFUSED;
    if (status != STATUS_OK) /* STATUS_IO: what TLS has against the server's bytes */
        return status == STATUS_IO && link->target.url->is_tls ? FAULT_TLS : FAULT_CUT;
    if (http_status != 200)
        return FAULT_STATUS;
    if (link->fault != FAULT_NONE)
        return link->fault;
    if (link->target.form->stream && link->answer.n_lines == 0)
        return link->has_heard ? FAULT_MALFORMED : FAULT_EMPTY;
    return link->target.form->stream && !answer_is_over(&link->answer) ? FAULT_CUT : FAULT_NONE;
}

/* An answer in one piece: its text came when it ended. */
static void bench_http_take_whole(struct wire_link *link) {
    buf_putc(&link->body, 0);
    size_t n = link->body.n - 1;
    while (n > 0 && (link->body.data[n - 1] == '\n' || link->body.data[n - 1] == '\r'))
        link->body.data[--n] = 0;
    bench_http_on_line(link, link->body.data, n);
}

static void bench_http_on_end(void *user, enum status status, int http_status,
                              const struct error *error) {
    struct wire_link *link = user;
    link->at_ns = clock_now_ns();
    if (status == STATUS_OK && http_status == 200 && !link->target.form->stream &&
        buf_status(&link->body) == STATUS_OK)
        bench_http_take_whole(link);
    struct event event = {.kind = EVENT_END,
                          .at_ns = link->at_ns,
                          .http_status = http_status,
                          .fault = bench_http_judge(link, status, http_status)};
    struct error said = link->error;
    if (status != STATUS_OK)
        said = *error;
    else if (event.fault != FAULT_NONE && link->fault == FAULT_NONE)
        (void)error_set(&said, STATUS_CORRUPT, "%s: HTTP status %d: %.*s", fault_name(event.fault),
                        http_status, (int)(link->body.n < 200 ? link->body.n : 200),
                        link->body.data ? link->body.data : "");
    link->fn(link->user, &event, event.fault ? &said : NULL);
}

static void bench_http_close(struct wire_link *link) {
    if (!link)
        return;
    http_client_free(link->client);
    sse_client_fini(&link->sse);
    buf_fini(&link->body);
    free(link);
}

static enum status bench_http_open(struct loop *loop, const struct wire_target *target,
                                   wire_event_fn *fn, void *user, struct wire_link **link,
                                   struct error *error) {
    struct wire_link *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "out of memory for a connection");
    made->target = *target;
    made->fn = fn;
    made->user = user;
    buf_init(&made->body, BODY_MAX);
    sse_client_init(&made->sse, bench_http_on_event, made);
    enum status status = http_client_new(loop, target->url, &made->client);
    if (status != STATUS_OK) {
        bench_http_close(made);
        return error_set(error, status, "out of memory for a connection");
    }
    *link = made;
    return STATUS_OK;
}

static void bench_http_send(struct wire_link *link, const char *body, size_t n) {
    struct http_ask ask = {.method = "POST",
                           .path = ask_path(link->target.form),
                           .api_key = link->target.api_key,
                           .accept = "text/event-stream",
                           .body = body,
                           .n_body = n};
    link->answer = (struct answer){.model = link->target.form->model};
    link->fault = FAULT_NONE;
    link->has_heard = false;
    buf_clear(&link->body);
    sse_client_reset(&link->sse);
    struct http_events events = {bench_http_on_body, bench_http_on_end, link};
    http_client_start(link->client, &ask, &events);
}

static void bench_http_cancel(struct wire_link *link) {
    http_client_abort(link->client);
}

const struct wire wire_http = {.open = bench_http_open,
                               .send = bench_http_send,
                               .cancel = bench_http_cancel,
                               .close = bench_http_close};
