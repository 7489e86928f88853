#include "router/call/client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/http/exchange.h"
#include "router/api/dialect.h"
#include "router/call/serving.h"

/* Of what our replies have, beside what any page may read. */
#define EXPOSED "x-request-id, retry-after, retry-after-ms"

#define HEADERS_MAX (DIALECT_HEADERS_MAX + 7)
#define KEEP_BYTES  512u /* events of a token fit; a stream keeps no larger buffer between them */

/* What lets the page that asked read the answer, behind the n headers that are there. */
static unsigned client_add_origin(const struct client *client, struct header *headers, unsigned n) {
    if (!client->origin)
        return n;
    headers[n++] = (struct header){"Vary", "Origin"};
    headers[n++] = (struct header){"Access-Control-Allow-Origin", client->origin};
    headers[n++] = (struct header){"Access-Control-Expose-Headers", EXPOSED};
    return n;
}

static void client_begin_stream(struct client *client) {
    const struct dialect_form *form = client->form;
    struct header headers[HEADERS_MAX];
    ASSERT(form->n_stream_headers <= DIALECT_HEADERS_MAX);
    for (unsigned i = 0; i < form->n_stream_headers; i++)
        headers[i] = form->stream_headers[i];
    struct exchange_reply reply = {.status = 200,
                                   .content_type = form->stream_type,
                                   .headers = headers,
                                   .n_headers =
                                       client_add_origin(client, headers, form->n_stream_headers)};
    exchange_begin_stream(client->exchanges, client->exchange, &reply);
    client->state = CLIENT_STREAMS;
}

enum status client_send(struct client *client) {
    struct buf *pending = &client->pending;
    if (pending->n == 0)
        return STATUS_OK;
    TRY(buf_status(pending));
    if (client->state == CLIENT_WAITS)
        client_begin_stream(client);
    client->told_ns = clock_now_ns();
    if (exchange_write(client->exchanges, client->exchange, pending->data, pending->n) ==
        STATUS_BUSY)
        client->state = CLIENT_BLOCKED;
    else if (pending->size > KEEP_BYTES)
        buf_fini(pending);
    else
        buf_clear(pending);
    return STATUS_OK;
}

/* From here on it may leave as it likes. */
static void client_let_go(struct client *client) {
    struct exchange *exchange = exchange_find(client->exchanges, client->exchange);
    if (exchange)
        exchange->gone = NULL;
}

void client_reply(struct client *client, unsigned status, const char *content_type,
                  struct buf *body) {
    struct header headers[HEADERS_MAX];
    struct exchange_reply reply = {.status = status,
                                   .content_type = content_type,
                                   .headers = headers,
                                   .n_headers = client_add_origin(client, headers, 0),
                                   .body_buf = body,
                                   .trailers = client->form->trailers,
                                   .n_trailers = client->form->n_trailers};
    client_let_go(client);
    exchange_reply(client->exchanges, client->exchange, &reply);
}

void client_refuse(struct client *client, struct serving *serving, const struct api_error *error) {
    struct buf body;
    struct serving_retry retry;
    struct dialect_refusal refusal = {.body = &body};
    struct header headers[HEADERS_MAX];
    unsigned n = 0;
    buf_init(&body, 0);
    client->form->refuse(error, &refusal);
    for (; n < refusal.n_headers; n++)
        headers[n] = refusal.headers[n];
    if (serving_retry(serving, error, &retry)) {
        headers[n++] = (struct header){"Retry-After", retry.s};
        headers[n++] = (struct header){"retry-after-ms", retry.ms};
    }
    if (error->allow)
        headers[n++] = (struct header){"Allow", error->allow};
    if (refusal.http == 401)
        headers[n++] = (struct header){"WWW-Authenticate", "Bearer"};
    struct exchange_reply reply = {.status = refusal.http,
                                   .content_type = client->form->content_type,
                                   .headers = headers,
                                   .n_headers = client_add_origin(client, headers, n),
                                   .body_buf = &body};
    client_let_go(client);
    exchange_reply(client->exchanges, client->exchange, &reply);
    buf_fini(&body);
}

void client_end(struct client *client) {
    client_let_go(client);
    exchange_end(client->exchanges, client->exchange, client->form->trailers,
                 client->form->n_trailers);
}

/* Where a good stream has trailers, a failed one says there what a refusal says in its head. */
static void client_end_failed(struct client *client, const struct api_error *error) {
    struct buf body;
    struct dialect_refusal refusal = {.body = &body};
    buf_init(&body, 0);
    if (client->form->n_trailers > 0)
        client->form->refuse(error, &refusal);
    exchange_end(client->exchanges, client->exchange, refusal.headers, refusal.n_headers);
    buf_fini(&body);
}

void client_fail(struct client *client, const struct api_error *error) {
    struct buf *out = &client->pending;
    client_let_go(client);
    if (exchange_write(client->exchanges, client->exchange, out->data, out->n) == STATUS_OK)
        client_end_failed(client, error);
    else
        exchange_abort(client->exchanges, client->exchange);
}
