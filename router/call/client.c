#include "router/call/client.h"

#include "base/http/exchange.h"
#include "base/http/sse.h"
#include "router/call/serving.h"

static void begin_stream(struct client *client) {
    const struct header headers[] = {{"Cache-Control", "no-cache"},
                                     {"X-Accel-Buffering", "no"},
                                     {"Vary", "Origin"},
                                     {"Access-Control-Allow-Origin", client->origin}};
    struct exchange_reply reply = {.status = 200,
                                   .content_type = SSE_CONTENT_TYPE,
                                   .headers = headers,
                                   .n_headers = client->origin ? 4 : 2};
    exchange_begin_stream(client->exchanges, client->exchange, &reply);
    client->state = CLIENT_STREAMS;
}

enum status client_send(struct client *client) {
    struct buf *pending = &client->pending;
    if (pending->n == 0)
        return STATUS_OK;
    TRY(buf_status(pending));
    if (client->state == CLIENT_WAITS)
        begin_stream(client);
    if (exchange_write(client->exchanges, client->exchange, pending->data, pending->n) ==
        STATUS_BUSY)
        client->state = CLIENT_BLOCKED;
    else
        buf_fini(pending); /* an idle stream holds no buffers */
    return STATUS_OK;
}

/* From here on it may leave as it likes. */
static void let_go(struct client *client) {
    struct exchange *exchange = exchange_find(client->exchanges, client->exchange);
    if (exchange)
        exchange->gone = NULL;
}

void client_reply(struct client *client, unsigned status, const struct serving_retry *retry,
                  struct buf *body) {
    struct header headers[4];
    unsigned n = 0;
    if (retry) {
        headers[n++] = (struct header){"Retry-After", retry->s};
        headers[n++] = (struct header){"retry-after-ms", retry->ms};
    }
    if (client->origin) {
        headers[n++] = (struct header){"Vary", "Origin"};
        headers[n++] = (struct header){"Access-Control-Allow-Origin", client->origin};
    }
    struct exchange_reply reply = {.status = status,
                                   .content_type = "application/json",
                                   .headers = headers,
                                   .n_headers = n,
                                   .body_buf = body};
    let_go(client);
    exchange_reply(client->exchanges, client->exchange, &reply);
}

void client_end(struct client *client) {
    let_go(client);
    exchange_end(client->exchanges, client->exchange, NULL, 0);
}

void client_fail(struct client *client, const struct api_error *error) {
    struct buf *out = &client->pending;
    errors_put_event(error, out);
    sse_done(out);
    let_go(client);
    if (exchange_write(client->exchanges, client->exchange, out->data, out->n) == STATUS_OK)
        exchange_end(client->exchanges, client->exchange, NULL, 0);
    else
        exchange_abort(client->exchanges, client->exchange);
}
