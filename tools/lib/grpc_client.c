#include "tools/lib/grpc_client.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/client/http_dial.h"
#include "base/net/address.h"
#include "base/net/stream.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_BYTES 5
#define WINDOW_BYTES                                                                               \
    (8                                                                                             \
     << 20) /* of the connection and of a call: a client that measures never holds the server up */

struct grpc_client {
    struct loop *loop; /* borrowed */
    struct http_url url;
    struct http_dial *dial;   /* owned: while it connects */
    struct stream *stream;    /* owned; NULL without a connection */
    nghttp2_session *session; /* owned, with the stream */
    bool in_session;          /* within nghttp2: nothing is sent from there */
    int32_t id;               /* of the call's stream; 0: none */
    bool is_busy, is_sent;
    char path[128];
    char key[448];  /* "Bearer ..."; empty: none */
    struct buf out; /* the framed message */
    size_t n_given; /* of it, to nghttp2 */
    struct buf in;  /* received, not a whole message yet */
    int http_status, grpc_status;
    char text[256];
    struct grpc_events events;
};

enum status grpc_client_new(struct loop *loop, const struct http_url *url,
                            struct grpc_client **client) {
    struct grpc_client *made = calloc(1, sizeof *made);
    if (!made)
        return STATUS_NOMEM;
    made->loop = loop;
    made->url = *url;
    buf_init(&made->out, 0);
    buf_init(&made->in, GRPC_MESSAGE_MAX + PREFIX_BYTES);
    *client = made;
    return STATUS_OK;
}

/* Not from within nghttp2. */
static void grpc_client_disconnect(struct grpc_client *client) {
    http_dial_abort(&client->dial);
    stream_close(client->stream);
    client->stream = NULL;
    nghttp2_session_del(client->session);
    client->session = NULL;
    client->id = 0;
}

void grpc_client_free(struct grpc_client *client) {
    if (!client)
        return;
    grpc_client_disconnect(client);
    buf_fini(&client->out);
    buf_fini(&client->in);
    free(client);
}

bool grpc_client_is_sent(const struct grpc_client *client) {
    return client->is_sent;
}

static void grpc_client_finish(struct grpc_client *client, enum status status, const char *text) {
    if (!client->is_busy)
        return;
    const struct grpc_events events = client->events;
    const struct grpc_end end = {.status = status,
                                 .http_status = client->http_status,
                                 .grpc_status = client->grpc_status,
                                 .text = text};
    client->is_busy = false;
    client->id = 0;
    events.on_end(events.user, &end);
}

/* The connection cannot go on. */
static void grpc_client_fail(struct grpc_client *client, enum status status, const char *what) {
    char text[sizeof client->text], pair[ADDRESS_TEXT_MAX];
    snprintf(text, sizeof text, "%s: %s", address_join(client->url.host, client->url.port, pair),
             what);
    grpc_client_disconnect(client);
    grpc_client_finish(client, status, text);
}

/* --- what nghttp2 calls ------------------------------------------------------------------------- */

static void grpc_client_note_status(int *status, const uint8_t *value, size_t n) {
    char digits[8];
    snprintf(digits, sizeof digits, "%.*s", (int)n, (const char *)value);
    *status = (int)strtol(digits, NULL, 10);
}

static int grpc_client_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                                 const uint8_t *name, size_t n_name, const uint8_t *value,
                                 size_t n_value, uint8_t flags, void *user) {
    struct grpc_client *client = user;
    (void)session;
    (void)flags;
    if (frame->hd.stream_id != client->id)
        return 0;
    const char *key = (const char *)name;
    if (n_name == 7 && memcmp(key, ":status", 7) == 0)
        grpc_client_note_status(&client->http_status, value, n_value);
    else if (n_name == 11 && memcmp(key, "grpc-status", 11) == 0)
        grpc_client_note_status(&client->grpc_status, value, n_value);
    else if (n_name == 12 && memcmp(key, "grpc-message", 12) == 0)
        snprintf(client->text, sizeof client->text, "%.*s", (int)n_value, (const char *)value);
    return 0;
}

/* Hands on each message that is whole. False: what came is none. */
static bool grpc_client_take_messages(struct grpc_client *client) {
    while (client->id != 0 && client->in.n >= PREFIX_BYTES) {
        const uint8_t *at = (const uint8_t *)client->in.data;
        size_t n = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
        if (at[0] != 0 || n > GRPC_MESSAGE_MAX) /* nothing compressed was asked for */
            return false;
        if (client->in.n < PREFIX_BYTES + n)
            return true;
        int32_t id = client->id;
        client->events.on_message(client->events.user, at + PREFIX_BYTES, n);
        if (client->id != id) /* it was dropped, and another may have begun */
            return true;
        buf_consume(&client->in, PREFIX_BYTES + n);
    }
    return true;
}

static void grpc_client_reset(struct grpc_client *client, uint32_t code) {
    if (client->id != 0)
        (void)nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, client->id, code);
    client->id = 0;
}

static int grpc_client_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                               const uint8_t *bytes, size_t n, void *user) {
    struct grpc_client *client = user;
    (void)session;
    (void)flags;
    if (id != client->id)
        return 0;
    client->events.on_bytes(client->events.user);
    if (id != client->id)
        return 0;
    buf_append(&client->in, bytes, n);
    if (buf_status(&client->in) == STATUS_OK && grpc_client_take_messages(client))
        return 0;
    if (id != client->id)
        return 0;
    grpc_client_reset(client, NGHTTP2_CANCEL);
    grpc_client_finish(client, STATUS_CORRUPT, "the answer is not a message of gRPC");
    return 0;
}

static int grpc_client_on_stream_close(nghttp2_session *session, int32_t id, uint32_t code,
                                       void *user) {
    struct grpc_client *client = user;
    (void)session;
    if (id != client->id)
        return 0;
    if (client->grpc_status < 0 && client->http_status == 200) {
        snprintf(client->text, sizeof client->text,
                 "the stream ended without grpc-status (code %u)", code);
        grpc_client_finish(client, STATUS_CLOSED, client->text);
    } else if (client->http_status == 0) {
        snprintf(client->text, sizeof client->text, "the stream was reset (code %u)", code);
        grpc_client_finish(client, STATUS_CLOSED, client->text);
    } else if (client->in.n > 0) {
        grpc_client_finish(client, STATUS_CORRUPT, "the answer ends within a message");
    } else {
        grpc_client_finish(client, STATUS_OK, client->text);
    }
    return 0;
}

static ssize_t grpc_client_read_out(nghttp2_session *session, int32_t id, uint8_t *to, size_t most,
                                    uint32_t *flags, nghttp2_data_source *source, void *user) {
    struct grpc_client *client = source->ptr;
    (void)session;
    (void)user;
    if (id != client->id) { /* it was dropped meanwhile */
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return 0;
    }
    size_t n = client->out.n - client->n_given;
    n = n < most ? n : most;
    memcpy(to, client->out.data + client->n_given, n);
    client->n_given += n;
    if (client->n_given == client->out.n)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* --- the connection ------------------------------------------------------------------------------ */

static void grpc_client_flush(struct grpc_client *client) {
    const uint8_t *bytes;
    ssize_t n = 0;
    while (!client->in_session && client->session &&
           (n = nghttp2_session_mem_send(client->session, &bytes)) > 0)
        if (stream_write(client->stream, bytes, (size_t)n) == STATUS_NOMEM)
            n = -1;
    if (n < 0)
        grpc_client_fail(client, STATUS_NOMEM, "no memory for the request");
}

static void grpc_client_submit(struct grpc_client *client) {
    char authority[ADDRESS_TEXT_MAX];
    address_join_outside(client->url.host, client->url.port, authority);
    const struct {
        const char *name, *value;
    } rows[] = {{":method", "POST"},
                {":scheme", client->url.is_tls ? "https" : "http"},
                {":path", client->path},
                {":authority", authority},
                {"content-type", "application/grpc"},
                {"te", "trailers"},
                {"user-agent", "tandem-bench/" TANDEM_VERSION},
                {"authorization", client->key}};
    nghttp2_nv headers[sizeof rows / sizeof *rows];
    size_t n = sizeof rows / sizeof *rows - (client->key[0] == 0);
    for (size_t i = 0; i < n; i++)
        headers[i] =
            (nghttp2_nv){(uint8_t *)(uintptr_t)rows[i].name, (uint8_t *)(uintptr_t)rows[i].value,
                         strlen(rows[i].name), strlen(rows[i].value), NGHTTP2_NV_FLAG_NONE};
    const nghttp2_data_provider body = {.source = {.ptr = client},
                                        .read_callback = grpc_client_read_out};
    client->n_given = 0;
    int32_t id = nghttp2_submit_request(client->session, NULL, headers, n, &body, NULL);
    if (id < 0) {
        grpc_client_finish(client, STATUS_NOMEM, nghttp2_strerror(id));
        return;
    }
    client->id = id;
    client->is_sent = true;
    grpc_client_flush(client);
}

static void grpc_client_on_bytes(void *user, const char *bytes, size_t n) {
    struct grpc_client *client = user;
    client->in_session = true;
    ssize_t taken = nghttp2_session_mem_recv(client->session, (const uint8_t *)bytes, n);
    client->in_session = false;
    grpc_client_flush(client);
    bool is_over = taken < 0 || (client->session && !nghttp2_session_want_read(client->session) &&
                                 !nghttp2_session_want_write(client->session));
    if (is_over) /* a GOAWAY of ours: the server broke the protocol */
        grpc_client_fail(client, STATUS_CORRUPT, "the answer is not HTTP/2");
}

static void grpc_client_on_gone(void *user, enum status status) {
    struct grpc_client *client = user;
    char problem[200]; /* the stream's text goes with it */
    (void)status;
    snprintf(problem, sizeof problem, "%s", stream_problem(client->stream));
    grpc_client_fail(client, problem[0] ? STATUS_IO : STATUS_CLOSED,
                     problem[0] ? problem : "the connection broke off");
}

static const struct stream_events events = {.data = grpc_client_on_bytes,
                                            .gone = grpc_client_on_gone};

static enum status grpc_client_open_session(struct grpc_client *client) {
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES}};
    nghttp2_session_callbacks *calls = NULL;
    if (nghttp2_session_callbacks_new(&calls) != 0)
        return STATUS_NOMEM;
    nghttp2_session_callbacks_set_on_header_callback(calls, grpc_client_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, grpc_client_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, grpc_client_on_stream_close);
    int problem = nghttp2_session_client_new(&client->session, calls, client);
    nghttp2_session_callbacks_del(calls);
    if (problem == 0)
        problem = nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings,
                                          sizeof settings / sizeof *settings);
    if (problem == 0)
        problem = nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
                                                        WINDOW_BYTES);
    return problem == 0 ? STATUS_OK : STATUS_NOMEM;
}

static void grpc_client_on_dialed(void *user, struct stream *stream, enum status status,
                                  const char *problem) {
    struct grpc_client *client = user;
    client->stream = stream;
    if (!stream)
        grpc_client_fail(client, status, problem);
    else if (grpc_client_open_session(client) != STATUS_OK)
        grpc_client_fail(client, STATUS_NOMEM, "no memory for the connection");
    else
        grpc_client_submit(client);
}

void grpc_client_start(struct grpc_client *client, const char *path, const char *api_key,
                       const uint8_t *message, size_t n, const struct grpc_events *calls) {
    ASSERT(!client->is_busy);
    const uint8_t prefix[PREFIX_BYTES] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
                                          (uint8_t)(n >> 8), (uint8_t)n};
    client->events = *calls;
    client->is_busy = true;
    client->is_sent = false;
    client->http_status = 0;
    client->grpc_status = -1;
    client->text[0] = 0;
    snprintf(client->path, sizeof client->path, "%s", path);
    client->key[0] = 0;
    if (api_key)
        snprintf(client->key, sizeof client->key, "Bearer %.440s", api_key);
    buf_clear(&client->in);
    buf_clear(&client->out);
    buf_append(&client->out, prefix, sizeof prefix);
    buf_append(&client->out, message, n);
    if (buf_status(&client->out) != STATUS_OK) {
        grpc_client_finish(client, STATUS_NOMEM, "no memory for the request");
        return;
    }
    /* One that the server is closing (GOAWAY) takes no new call. */
    if (client->session && !client->in_session &&
        !nghttp2_session_check_request_allowed(client->session))
        grpc_client_disconnect(client);
    if (client->session)
        grpc_client_submit(client);
    else
        http_dial(client->loop, &client->url, client->url.is_tls ? client->url.tls_h2 : NULL,
                  &events, grpc_client_on_dialed, client, &client->dial);
}

void grpc_client_abort(struct grpc_client *client) {
    client->is_busy = false;
    if (!client->session) {
        grpc_client_disconnect(client);
        return;
    }
    grpc_client_reset(client, NGHTTP2_CANCEL);
    grpc_client_flush(client);
}
