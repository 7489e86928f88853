#include "base/http/http2_stream.h"

#include "base/http/http2_request.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

struct http2_stream *http2_stream_find(struct http2_connection *http2, int32_t id) {
    return nghttp2_session_get_stream_user_data(http2->session, id);
}

struct http2_stream *http2_stream_add(struct http2_connection *http2, int32_t id) {
    struct http2_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->http2 = http2;
    stream->id = id;
    list_init(&stream->link);
    list_push_back(&http2->streams, &stream->link);
    http2->n_streams++;
    return stream;
}

void http2_stream_lose(struct http2_stream *stream) {
    struct connection_host *host = stream->http2->host;
    host->counts.n_gone += stream->exchange.id != 0 && stream->state == HTTP2_OUT;
    exchanges_lose(host->exchanges, &stream->exchange);
}

void http2_stream_unpark(struct http2_stream *stream) {
    if (stream->state != HTTP2_PARKED)
        return;
    stream->http2->n_parked--;
    stream->state = HTTP2_HEAD;
}

void http2_stream_bury(struct http2_stream *stream) {
    struct http2_connection *http2 = stream->http2;
    http2->n_refused -= stream->refused;
    http2->n_forget -= stream->forget;
    stream->refused = stream->forget = false;
    http2_stream_unpark(stream);
    size_t n = http2_stream_pending(stream);
    stream->sent = stream->out.n;
    http2_count_output(stream, 0, n);
    list_remove(&stream->link);
    list_push_back(&http2->dead, &stream->link);
    if (--http2->n_streams == 0)
        http2->since_ns = loop_now_ns(http2->host->loop);
    http2_stream_lose(stream);
    connection_kick(http2->connection);
}

void http2_free_dead(struct http2_connection *http2) {
    for (struct list *link; (link = list_first(&http2->dead)) != NULL;) {
        struct http2_stream *stream = list_entry(link, struct http2_stream, link);
        list_remove(link);
        http2_request_forget(stream);
        buf_fini(&stream->out);
        buf_fini(&stream->trailers);
        free(stream);
    }
}
