#include "base/clock.h"
#include "base/http/http2_reply.h"
#include "base/http/http2_request.h"
#include "base/http/http2_stream.h"
#include "base/net/stream.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_STREAM     (256u << 10) /* of a body that may be on its way */
#define WINDOW_CONNECTION (1u << 20)   /* of all bodies of a connection */
#define CREDIT_MAX        10000.0      /* frames that a busy client may save up */
/* Earned by each frame of a reply: it may be acknowledged by two window updates, and by a ping that
 * measures. */
#define CREDIT_FRAME  3.0
#define REQUEST_BYTES 2048u /* of a turn's heads, for each request: what the rest of it costs */
#define HEAD_TIMES    8u    /* limits.head_bytes: beyond, a head is not even decoded */
#define PAUSE_BYTES   (256u << 10) /* queued for the socket: no frames are read meanwhile */
/* Of heads that a connection keeps: beyond, a stream is refused. HPACK makes large ones of few
 * bytes. A request that would wait for room has less. */
#define KEPT_BYTES   (1u << 20)
#define PARKED_BYTES (128u << 10)

static const uint8_t ping_drain[8] = "tandemGO", ping_alive[8] = "tandemUP";

/* --- the limit of frames without use ------------------------------------------------------- */

/* Says why, and ends. What still comes is not looked at. */
static void http2_doom_connection(struct http2_connection *http2, uint32_t code) {
    if (http2->doomed)
        return;
    http2->doomed = true;
    http2->failed |= nghttp2_session_terminate_session(http2->session, code) != 0;
    connection_kick(http2->connection);
}

/* Pings, settings, priorities, window updates, empty frames and streams that are broken off cost us
 * work and the client nothing. Each costs one; there are some for a start, some come back each
 * second, and each frame of a reply earns a few. */
static void http2_spend_frame(struct http2_connection *http2) {
    const struct listener_config *config = &http2->host->config;
    uint64_t now_ns = loop_now_ns(http2->host->loop);
    if (http2->credit < config->useless_frames_max) {
        http2->credit +=
            (double)(now_ns - http2->credit_ns) / (double)NS_PER_S * config->useless_frame_rate;
        if (http2->credit > config->useless_frames_max)
            http2->credit = config->useless_frames_max;
    }
    http2->credit_ns = now_ns;
    http2->credit -= 1;
    if (http2->credit >= 0 || http2->doomed)
        return;
    http2->host->counts.n_floods++;
    http2_doom_connection(http2, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void http2_earn_frames(struct http2_connection *http2) {
    http2->credit =
        http2->credit + CREDIT_FRAME < CREDIT_MAX ? http2->credit + CREDIT_FRAME : CREDIT_MAX;
}

/* No stream behind those that came is served, and the connection ends with the last of them. */
static void http2_name_last_stream(struct http2_connection *http2) {
    http2->drain = HTTP2_LAST;
    http2->failed |= nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
                                           nghttp2_session_get_last_proc_stream_id(http2->session),
                                           NGHTTP2_NO_ERROR, NULL, 0) != 0;
    connection_kick(http2->connection);
}

/* --- what nghttp2 tells us ----------------------------------------------------------------- */

static int http2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
                                  void *user) {
    struct http2_connection *http2 = user;
    http2->head_ns = loop_now_ns(http2->host->loop);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct http2_stream *stream = http2_stream_add(http2, frame->hd.stream_id);
    if (!stream || nghttp2_session_set_stream_user_data(session, stream->id, stream) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return 0;
}

/* Trailers of a request are counted and dropped, as in HTTP/1.1: merging them into the head is how
 * they are abused. */
static int http2_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                           const uint8_t *name, size_t n_name, const uint8_t *value, size_t n_value,
                           uint8_t flags, void *user) {
    struct http2_connection *http2 = user;
    struct http2_stream *stream = http2_stream_find(http2, frame->hd.stream_id);
    (void)session;
    (void)flags;
    if (!stream || http2->doomed)
        return 0;
    if (stream->state == HTTP2_HEAD)
        http2_request_field(stream, (const char *)name, n_name, (const char *)value, n_value);
    else
        stream->head_bytes += n_name + n_value + 32;
    heads_count(&http2->host->heads, &http2->heads, n_name + n_value + 32);
    if (stream->head_bytes > HEAD_TIMES * http2->host->config.limits.head_bytes)
        http2_doom_connection(http2, NGHTTP2_ENHANCE_YOUR_CALM);
    return http2->heads.rests && !http2->doomed ? NGHTTP2_ERR_PAUSE : 0;
}

/* nghttp2 would pass over such a field; HTTP/1.1 refuses the request. */
static int http2_on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                                   const uint8_t *name, size_t n_name, const uint8_t *value,
                                   size_t n_value, uint8_t flags, void *user) {
    struct http2_stream *stream = http2_stream_find(user, frame->hd.stream_id);
    (void)session;
    (void)name;
    (void)n_name;
    (void)value;
    (void)n_value;
    (void)flags;
    if (stream && stream->state == HTTP2_HEAD)
        http2_request_bad(stream, 400, "a header field's name or value contains a forbidden byte");
    return 0;
}

static int http2_on_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                          size_t n, void *user) {
    struct http2_connection *http2 = user;
    struct http2_stream *stream = http2_stream_find(http2, id);
    (void)session;
    (void)flags;
    if (stream && !http2->doomed)
        http2_request_body(stream, (const char *)bytes, n);
    return 0;
}

static void http2_end_request(struct http2_stream *stream) {
    stream->whole = true;
    http2_request_end(stream);
}

/* "Send it again": nothing was looked at, and nothing is kept. */
static void http2_turn_request_away(struct http2_stream *stream) {
    http2_request_forget(stream);
    http2_reset(stream, NGHTTP2_REFUSED_STREAM);
}

/* One that was answered at once is forgotten at once: the heads of all that come within a turn of
 * the loop, on all connections, would be much. */
static void http2_take_request(struct http2_stream *stream) {
    if (!http2_request_head(stream)) {
        http2_turn_request_away(stream);
        return;
    }
    if (stream->whole)
        http2_end_request(stream);
    if (stream->state == HTTP2_ENDED)
        http2_request_forget(stream);
}

/* The answers of its connection wait for the client: so do its next questions, where they came
 * whole. One with a body goes on to the gate: nothing of it is kept without leave. */
static void http2_park_request(struct http2_stream *stream) {
    struct http2_connection *http2 = stream->http2;
    stream->state = HTTP2_PARKED;
    http2->n_parked++;
}

/* What comes behind the last stream that was named is not looked at: the client may send it
 * elsewhere. */
static void http2_begin_request(struct http2_stream *stream, bool whole) {
    struct http2_connection *http2 = stream->http2;
    bool parks = whole && !http2_has_room(http2);
    heads_count(&http2->host->heads, &http2->heads, REQUEST_BYTES);
    size_t kept_max = parks ? PARKED_BYTES : KEPT_BYTES;
    bool is_too_much = http2->kept_bytes + stream->text.n > kept_max;
    if (is_too_much)
        http2_spend_frame(http2);
    stream->whole = whole;
    stream->n_kept = stream->text.n;
    http2->kept_bytes += stream->n_kept;
    if (http2->drain == HTTP2_LAST || is_too_much)
        http2_turn_request_away(stream);
    else if (parks)
        http2_park_request(stream);
    else
        http2_take_request(stream);
}

/* Requests that wait are taken in the order in which they came, as long as there is room. */
static void http2_take_parked_requests(struct http2_connection *http2) {
    list_each_entry(stream, &http2->streams, struct http2_stream, link) {
        if (http2->n_parked == 0 || !http2_has_room(http2))
            return;
        if (stream->state != HTTP2_PARKED)
            continue;
        http2_stream_unpark(stream);
        http2_take_request(stream);
    }
}

static int http2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct http2_connection *http2 = user;
    struct http2_stream *stream =
        frame->hd.stream_id ? http2_stream_find(http2, frame->hd.stream_id) : NULL;
    bool whole = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    (void)session;
    if (http2->doomed)
        return 0;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        http2->head_ns = 0;
        if (stream && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            http2_begin_request(stream, whole);
        else if (stream && whole)
            http2_end_request(stream);
        return 0;
    case NGHTTP2_DATA:
        if (frame->hd.length == frame->data.padlen && !whole)
            http2_spend_frame(http2);
        if (stream && whole)
            http2_end_request(stream);
        return 0;
    case NGHTTP2_SETTINGS:
        http2->settled = true;
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
            http2_spend_frame(http2);
        return 0;
    case NGHTTP2_PING:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
            http2_spend_frame(http2);
        else if (http2->drain == HTTP2_NOTICED &&
                 memcmp(frame->ping.opaque_data, ping_drain, 8) == 0)
            http2_name_last_stream(http2);
        return 0;
    default: /* priorities, window updates, resets, GOAWAY */
        http2_spend_frame(http2);
        return 0;
    }
}

/* Frames that nghttp2 has refused, among them streams beyond the limit. */
static int http2_on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                                  void *user) {
    (void)session;
    (void)frame;
    (void)error;
    http2_spend_frame(user);
    return 0;
}

/* A client that still sends a body to what is answered is told to stop (RFC 9113, 8.1). */
static int http2_on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct http2_connection *http2 = user;
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    http2_earn_frames(http2);
    struct http2_stream *stream = last ? http2_stream_find(http2, frame->hd.stream_id) : NULL;
    if (stream && !stream->whole &&
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR) != 0)
        http2->failed = true;
    return 0;
}

static int http2_on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
    struct http2_connection *http2 = user;
    struct http2_stream *stream = http2_stream_find(http2, id);
    (void)session;
    (void)code;
    if (stream)
        http2_stream_bury(stream);
    return 0;
}

/* --- the session --------------------------------------------------------------------------- */

static nghttp2_session_callbacks *http2_new_callbacks(void) {
    nghttp2_session_callbacks *calls;
    if (nghttp2_session_callbacks_new(&calls) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(calls, http2_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(calls, http2_on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(calls, http2_on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, http2_on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, http2_on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, http2_on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(calls, http2_on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, http2_on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(calls, http2_send_data);
    return calls;
}

static enum status http2_new_session(struct http2_connection *http2) {
    nghttp2_session_callbacks *calls = http2_new_callbacks();
    nghttp2_option *option = NULL;
    int failed = !calls || nghttp2_option_new(&option) != 0;
    if (!failed) {
        nghttp2_option_set_no_closed_streams(option, 1);
        failed = nghttp2_session_server_new2(&http2->session, calls, http2, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(calls);
    return failed ? STATUS_NOMEM : STATUS_OK;
}

/* Who does not read is not read: our answers to its frames would pile up. */
static bool http2_conn_is_read(const struct http2_connection *http2) {
    return stream_pending(http2->connection->stream) <= PAUSE_BYTES;
}

/* Up to where it rests; answers how much that was. */
static size_t http2_read_frames(struct http2_connection *http2, const char *bytes, size_t n) {
    http2->heads.rests = false;
    ssize_t used = nghttp2_session_mem_recv(http2->session, (const uint8_t *)bytes, n);
    if (used < 0) /* a broken preface, a flood that nghttp2 stops, no memory */
        http2->failed = true;
    if (http2->heads.rests)
        heads_rest(&http2->host->heads, &http2->heads);
    connection_kick(http2->connection);
    return used < 0 ? n : (size_t)used;
}

static void http2_conn_data(struct connection *connection, const char *bytes, size_t n) {
    struct http2_connection *http2 = connection->state;
    http2->heard_ns = loop_now_ns(http2->host->loop);
    http2->pinged_ns = 0;
    if (http2->doomed || http2->failed)
        return;
    size_t used = 0;
    if (!http2->heads.rests && heads_may(&http2->host->heads, &http2->heads)) {
        used = http2_read_frames(http2, bytes, n);
    } else {
        http2->heads.rests = true;
        heads_rest(&http2->host->heads, &http2->heads);
        connection_kick(connection);
    }
    if (used < n)
        buf_append(&http2->input, bytes + used, n - used);
    if (buf_status(&http2->input) != STATUS_OK)
        http2->failed = true;
}

/* Asks nghttp2 for what can be sent. It stops where the socket has enough, see http2_send_data(). */
static void http2_collect_output(struct http2_connection *http2) {
    while (!http2->failed) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(http2->session, &bytes);
        if (n < 0)
            http2->failed = true;
        if (n <= 0)
            return;
        connection_send(http2->connection, bytes, (size_t)n);
    }
}

/* Their replies stream: no caller sees the requests any more. */
static void http2_forget_requests(struct http2_connection *http2) {
    list_each_entry(stream, &http2->streams, struct http2_stream, link) {
        if (!stream->forget)
            continue;
        stream->forget = false;
        http2->n_forget--;
        http2_request_forget(stream);
    }
}

/* Those who were refused a write, and whose output was taken since, go on. */
static void http2_tell_drained(struct http2_connection *http2) {
    list_each_entry(stream, &http2->streams, struct http2_stream, link) {
        if (!stream->refused || http2_stream_pending(stream) > 0)
            continue;
        stream->refused = false;
        http2->n_refused--;
        if (stream->exchange.id != 0 && stream->exchange.drained)
            stream->exchange.drained(&stream->exchange);
    }
}

/* Nothing is answered any more. */
static void http2_lose_exchanges(struct http2_connection *http2) {
    list_each(link, &http2->streams) {
        http2_stream_lose(list_entry(link, struct http2_stream, link));
    }
}

static void http2_conn_turn(struct connection *connection) {
    struct http2_connection *http2 = connection->state;
    if (http2->n_forget > 0)
        http2_forget_requests(http2);
    http2_collect_output(http2);
    if (http2->n_refused > 0)
        http2_tell_drained(http2);
    if (http2->n_parked > 0)
        http2_take_parked_requests(http2);
    http2_free_dead(http2);
    if (http2->failed) {
        connection_close(connection);
    } else if (!nghttp2_session_want_read(http2->session) &&
               !nghttp2_session_want_write(http2->session)) {
        http2_lose_exchanges(http2);
        http2_drop_output(http2);
        heads_client_fini(&http2->heads);
        connection_linger(connection);
    } else {
        stream_pause(connection->stream, http2->heads.rests || !http2_conn_is_read(http2));
        if (http2->heads.rests && http2_conn_is_read(http2))
            heads_rest(&http2->host->heads, &http2->heads);
    }
    connection_account(connection);
}

/* It has rested. Who is not read now rests until that is over, see http2_conn_turn(). */
static void http2_read_on(struct heads_client *heads) {
    struct http2_connection *http2 = list_entry(heads, struct http2_connection, heads);
    if (http2->doomed || http2->failed || !http2_conn_is_read(http2))
        return;
    bool has_input = http2->input.n > 0; /* else nghttp2 has the end of a head to look at */
    size_t used = http2_read_frames(http2, has_input ? http2->input.data : "", http2->input.n);
    buf_consume(&http2->input, used);
    if (http2->input.n == 0)
        buf_fini(&http2->input);
    /* Now, for what was read has put off the kick that asks for it. */
    http2_conn_turn(http2->connection);
}

static enum status http2_conn_open(struct connection *connection) {
    struct http2_connection *http2 = connection->state;
    const struct listener_config *config = &connection->host->config;
    http2->connection = connection;
    http2->host = connection->host;
    list_init(&http2->streams);
    list_init(&http2->dead);
    heads_client_init(&http2->heads, http2_read_on);
    http2->since_ns = http2->heard_ns = http2->credit_ns = loop_now_ns(connection->host->loop);
    http2->credit = config->useless_frames_max;
    TRY(http2_new_session(http2));
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, config->n_streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_STREAM},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)config->limits.head_bytes},
    };
    if (nghttp2_submit_settings(http2->session, NGHTTP2_FLAG_NONE, settings, 3) != 0 ||
        nghttp2_session_set_local_window_size(http2->session, NGHTTP2_FLAG_NONE, 0,
                                              WINDOW_CONNECTION) != 0)
        return STATUS_NOMEM;
    connection->host->counts.n_http2++;
    connection_kick(connection);
    return STATUS_OK;
}

/* --- times --------------------------------------------------------------------------------- */

static void http2_check_stream(struct http2_stream *stream, uint64_t now_ns) {
    struct connection_host *host = stream->http2->host;
    if (stream->state == HTTP2_BODY &&
        host_body_is_late(host, now_ns, stream->began_ns, stream->since_ns, stream->body_seen)) {
        host->counts.n_timeouts++;
        http2_refuse(stream, 408, "the request did not arrive in time");
    } else if (http2_stream_pending(stream) > 0 &&
               host_passed(now_ns, stream->progress_ns, host_stall_ns(host))) {
        host->counts.n_timeouts++; /* its window stays shut */
        http2_reset(stream, NGHTTP2_CANCEL);
    }
}

/* A client that is silent while it waits for us is asked whether it is there. */
static void http2_check_silence(struct http2_connection *http2, uint64_t now_ns) {
    uint64_t ping_ns = http2->host->config.ping_ns;
    if (ping_ns == 0 || http2->n_streams == 0 || !host_passed(now_ns, http2->heard_ns, ping_ns))
        return;
    if (http2->pinged_ns == 0) {
        http2->pinged_ns = now_ns;
        if (nghttp2_submit_ping(http2->session, NGHTTP2_FLAG_NONE, ping_alive) != 0)
            http2->failed = true;
        connection_kick(http2->connection);
    } else if (host_passed(now_ns, http2->pinged_ns, ping_ns)) {
        http2->host->counts.n_timeouts++;
        connection_close(http2->connection);
    }
}

static void http2_conn_check_time(struct connection *connection, uint64_t now_ns) {
    struct http2_connection *http2 = connection->state;
    const struct listener_config *config = &http2->host->config;
    list_each(link, &http2->streams) {
        http2_check_stream(list_entry(link, struct http2_stream, link), now_ns);
    }
    bool late = http2->head_ns > 0 && host_passed(now_ns, http2->head_ns, config->head_ns);
    if (late || (!http2->settled && host_passed(now_ns, http2->since_ns, config->head_ns))) {
        http2->host->counts.n_timeouts += !http2->doomed;
        http2_doom_connection(http2, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    if (http2->drain == HTTP2_NOTICED && host_passed(now_ns, http2->since_ns, config->head_ns))
        http2_name_last_stream(http2);
    if (http2->drain == HTTP2_SERVES && http2->n_streams == 0 &&
        host_passed(now_ns, http2->since_ns, config->idle_ns))
        http2_name_last_stream(http2);
    http2_check_silence(http2, now_ns);
}

static bool http2_conn_is_idle(const struct connection *connection) {
    const struct http2_connection *http2 = connection->state;
    return http2->n_streams == 0;
}

static size_t http2_conn_pending(const struct connection *connection) {
    const struct http2_connection *http2 = connection->state;
    return http2->out_bytes;
}

/* In two steps, so that no request is lost that is on its way: "no more, soon", while each that still
 * comes is served, and once the client has read that (it answers our ping), which stream was the
 * last (RFC 9113, 6.8). Refusing those that come between would lose calls: clients of gRPC send a
 * refused one again once, and where the second meets the same notice the call has failed. */
static void http2_conn_drain(struct connection *connection) {
    struct http2_connection *http2 = connection->state;
    if (http2->drain != HTTP2_SERVES || http2->doomed)
        return;
    http2->drain = HTTP2_NOTICED;
    http2->since_ns = loop_now_ns(http2->host->loop);
    http2->failed |= nghttp2_submit_shutdown_notice(http2->session) != 0 ||
                     nghttp2_submit_ping(http2->session, NGHTTP2_FLAG_NONE, ping_drain) != 0;
    connection_kick(connection);
}

static void http2_conn_close(struct connection *connection) {
    struct http2_connection *http2 = connection->state;
    heads_client_fini(&http2->heads);
    http2_lose_exchanges(http2);
}

static void http2_conn_fini(struct connection *connection) {
    struct http2_connection *http2 = connection->state;
    nghttp2_session_del(http2->session);
    buf_fini(&http2->input);
    list_each(link, &http2->streams) {
        list_remove(link);
        list_push_back(&http2->dead, link);
    }
    http2_free_dead(http2);
}

const struct protocol http2_protocol = {
    .state_size = sizeof(struct http2_connection),
    .open = http2_conn_open,
    .data = http2_conn_data,
    .drained = connection_kick,
    .turn = http2_conn_turn,
    .check_time = http2_conn_check_time,
    .is_idle = http2_conn_is_idle,
    .pending = http2_conn_pending,
    .drain = http2_conn_drain,
    .close = http2_conn_close,
    .fini = http2_conn_fini,
};
