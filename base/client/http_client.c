#include "base/client/http_client.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/client/http_dial.h"
#include "base/clock.h"
#include "base/hex.h"
#include "base/net/address.h"
#include "base/net/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_MAX (64u << 10)

enum phase { PHASE_IDLE, PHASE_CONNECTING, PHASE_HEAD, PHASE_BODY };
enum framing { FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE };

struct http_client {
    struct loop *loop; /* borrowed */
    struct http_url url;
    struct http_dial *dial; /* owned: while it connects */
    struct stream *stream;  /* owned; NULL without a connection */
    enum phase phase;
    enum framing framing;
    struct buf out;     /* the request, for a second try */
    struct buf in;      /* received, not yet understood */
    uint64_t body_left; /* of the body, or of the chunk */
    bool in_chunk;
    bool keep; /* the connection may be used again */
    bool reused;
    bool got_bytes;
    int http_status;
    uint32_t retry_after_s;
    uint64_t sent_ns;
    uint64_t serial; /* of the request: a callback may have started the next one */
    struct http_events events;
};

enum status http_client_new(struct loop *loop, const struct http_url *url,
                            struct http_client **client) {
    struct http_client *made = calloc(1, sizeof *made);
    if (!made)
        return STATUS_NOMEM;
    made->loop = loop;
    made->url = *url;
    buf_init(&made->out, 0);
    buf_init(&made->in, 0);
    *client = made;
    return STATUS_OK;
}

static void http_client_disconnect(struct http_client *client) {
    stream_close(client->stream);
    client->stream = NULL;
    http_dial_abort(&client->dial);
    buf_clear(&client->in);
}

void http_client_free(struct http_client *client) {
    if (!client)
        return;
    http_client_disconnect(client);
    buf_fini(&client->out);
    buf_fini(&client->in);
    free(client);
}

void http_client_abort(struct http_client *client) {
    http_client_disconnect(client);
    client->phase = PHASE_IDLE;
    client->serial++;
}

int http_client_status(const struct http_client *client) {
    return client->http_status;
}

uint32_t http_client_retry_after_s(const struct http_client *client) {
    return client->retry_after_s;
}

uint64_t http_client_sent_ns(const struct http_client *client) {
    return client->sent_ns;
}

static void http_client_finish(struct http_client *client, enum status status,
                               const struct error *error) {
    if (status != STATUS_OK || !client->keep)
        http_client_disconnect(client);
    client->phase = PHASE_IDLE;
    client->serial++;
    struct http_events calls = client->events;
    calls.on_end(calls.user, status, client->http_status, error);
}

static void http_client_fail(struct http_client *client, enum status status, const char *what) {
    struct error error;
    char pair[ADDRESS_TEXT_MAX];
    error_set(&error, status, "%s: %s", address_join(client->url.host, client->url.port, pair),
              what);
    http_client_finish(client, status, &error);
}

static void http_client_begin_connect(struct http_client *client);

/* A kept connection may have been closed by the server while idle: one silent second try. */
static void http_client_lost(struct http_client *client, enum status status, const char *what) {
    if (client->reused && !client->got_bytes) {
        http_client_disconnect(client);
        http_client_begin_connect(client);
        return;
    }
    http_client_fail(client, status, what);
}

static bool http_client_head_line_is(const char *line, const char *name, const char **value) {
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    *value = line + n + 1 + strspn(line + n + 1, " \t");
    return true;
}

/* Whole seconds; anything else is 0. */
static uint32_t http_client_read_seconds(const char *value) {
    size_t n = strspn(value, "0123456789");
    return n > 0 && n < 10 && value[n] == 0 ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

/* The head is complete in client->in[0..n), which is NUL-terminated at n. */
static bool http_client_read_head(struct http_client *client, char *head) {
    int minor = 0;
    if (sscanf(head, "HTTP/1.%d %d", &minor, &client->http_status) != 2 ||
        client->http_status < 100 || client->http_status > 999)
        return false;
    client->keep = minor >= 1;
    client->framing = FRAMING_CLOSE;
    client->body_left = 0;
    client->in_chunk = false;
    char *save = NULL;
    for (char *line = strtok_r(head, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        const char *value;
        if (http_client_head_line_is(line, "content-length", &value)) {
            client->framing = FRAMING_LENGTH;
            client->body_left = strtoull(value, NULL, 10);
        } else if (http_client_head_line_is(line, "transfer-encoding", &value)) {
            client->framing = FRAMING_CHUNKED;
        } else if (http_client_head_line_is(line, "retry-after", &value)) {
            client->retry_after_s = http_client_read_seconds(value);
        } else if (http_client_head_line_is(line, "connection", &value) &&
                   strcasecmp(value, "close") == 0) {
            client->keep = false;
        }
    }
    if (client->http_status == 204 || client->http_status == 304) {
        client->framing = FRAMING_LENGTH;
        client->body_left = 0;
    }
    if (client->framing == FRAMING_CLOSE)
        client->keep = false;
    return true;
}

/* What is left of the bytes that came: they are walked through, not moved. */
struct cursor {
    const char *at;
    size_t n;
};

static void http_client_pass_body(struct cursor *cursor, size_t n) {
    cursor->at += n;
    cursor->n -= n;
}

/* The hexadecimal number in front of a chunk, which may have an extension behind it; false: none, or
 * one that does not fit. */
static bool http_client_read_size(const char *line, size_t n, uint64_t *size) {
    uint64_t value = 0;
    size_t i = 0;
    for (; i < n; i++) {
        int digit = hex_value(line[i]);
        if (digit < 0)
            break;
        if (value >> 60)
            return false;
        value = value << 4 | (unsigned)digit;
    }
    *size = value;
    return i > 0;
}

/* One chunk-size line or chunk end. Answers false when more bytes are needed or the
 * request ended. */
static bool http_client_chunk_frame(struct http_client *client, struct cursor *cursor) {
    const char *eol = cursor->n ? memchr(cursor->at, '\n', cursor->n) : NULL;
    uint64_t size;
    if (!eol) {
        if (cursor->n > 4096)
            http_client_fail(client, STATUS_CORRUPT, "broken chunked answer");
        return false;
    }
    size_t n_line = (size_t)(eol - cursor->at) + 1;
    if (client->in_chunk) { /* the CRLF behind a chunk */
        client->in_chunk = false;
        http_client_pass_body(cursor, n_line);
        return true;
    }
    if (!http_client_read_size(cursor->at, n_line, &size)) {
        http_client_fail(client, STATUS_CORRUPT, "broken chunked answer");
        return false;
    }
    if (size == 0) {
        if (cursor->n >= n_line + 2)
            http_client_finish(client, STATUS_OK,
                               NULL); /* trailers are not used by any server we talk to */
        return false;
    }
    http_client_pass_body(cursor, n_line);
    client->body_left = size;
    client->in_chunk = true;
    return true;
}

/* Hands out what came of the body, and leaves in `cursor` what needs more bytes to be understood.
 * False when the request ended, by the answer's end or by a callback. */
static bool http_client_read_body(struct http_client *client, struct cursor *cursor) {
    uint64_t serial = client->serial;
    for (;;) {
        if (client->framing == FRAMING_CHUNKED && client->body_left == 0) {
            if (!http_client_chunk_frame(client, cursor))
                return client->serial == serial;
            continue;
        }
        if (client->framing == FRAMING_LENGTH && client->body_left == 0) {
            http_client_finish(client, STATUS_OK, NULL);
            return false;
        }
        size_t n = cursor->n;
        if (n == 0)
            return true;
        if (client->framing != FRAMING_CLOSE && n > client->body_left)
            n = (size_t)client->body_left;
        if (client->framing != FRAMING_CLOSE)
            client->body_left -= n;
        client->events.on_body(client->events.user, cursor->at, n);
        if (client->serial != serial)
            return false;
        http_client_pass_body(cursor, n);
    }
}

/* Takes the head of the answer; those of interim ones (1xx) in front of it are passed over. False: more
 * bytes are needed, or the request ended. */
static bool http_client_take_head(struct http_client *client) {
    do {
        char *end = client->in.n ? strstr(client->in.data, "\r\n\r\n") : NULL;
        if (!end) {
            if (client->in.n > HEAD_MAX)
                http_client_fail(client, STATUS_CORRUPT, "answer without end of headers");
            return false;
        }
        end[2] = 0;
        if (!http_client_read_head(client, client->in.data)) {
            http_client_fail(client, STATUS_CORRUPT, "answer is not HTTP/1.x");
            return false;
        }
        buf_consume(&client->in, (size_t)(end - client->in.data) + 4);
    } while (client->http_status / 100 == 1);
    client->phase = PHASE_BODY;
    return true;
}

/* Looks at client->in, which something was added to. */
static void http_client_take_input(struct http_client *client) {
    if (client->phase == PHASE_HEAD && !http_client_take_head(client))
        return;
    struct cursor cursor = {client->in.data, client->in.n};
    if (http_client_read_body(client, &cursor))
        buf_consume(&client->in, client->in.n - cursor.n);
}

/* The stream takes a copy: `out` stays for a second try. */
static void http_client_send_request(struct http_client *client) {
    client->sent_ns = clock_now_ns();
    if (stream_write(client->stream, client->out.data, client->out.n) == STATUS_NOMEM)
        http_client_fail(client, STATUS_NOMEM, "no memory for the request");
}

static void http_client_on_data(void *user, const char *bytes, size_t n) {
    struct http_client *client = user;
    if (client->phase == PHASE_IDLE) { /* bytes that were not asked for */
        http_client_disconnect(client);
        return;
    }
    client->got_bytes = true;
    struct cursor cursor = {bytes, n};
    if (client->phase != PHASE_BODY || client->in.n > 0) {
        buf_append(&client->in, bytes, n);
        http_client_take_input(client);
    } else if (http_client_read_body(client,
                                     &cursor)) { /* most often all of it, and nothing is kept */
        buf_append(&client->in, cursor.at, cursor.n);
    }
}

static void http_client_on_gone(void *user, enum status status) {
    struct http_client *client = user;
    char problem[200]; /* the stream's text goes with it */
    snprintf(problem, sizeof problem, "%s", stream_problem(client->stream));
    if (client->phase == PHASE_IDLE)
        http_client_disconnect(client);
    else if (problem[0] && !stream_protocol(client->stream)) /* no handshake, no second try */
        http_client_fail(client, STATUS_IO, problem);
    else if (status == STATUS_CLOSED && client->phase == PHASE_BODY &&
             client->framing == FRAMING_CLOSE)
        http_client_finish(client, STATUS_OK, NULL);
    else
        http_client_lost(client, problem[0] ? STATUS_IO : STATUS_CLOSED,
                         status == STATUS_CLOSED ? "connection closed before the answer's end"
                         : problem[0]            ? problem
                                                 : "the connection broke off");
}

static const struct stream_events events = {.data = http_client_on_data,
                                            .gone = http_client_on_gone};

static void http_client_on_dialed(void *user, struct stream *stream, enum status status,
                                  const char *problem) {
    struct http_client *client = user;
    if (!stream) {
        http_client_fail(client, status, problem);
        return;
    }
    client->stream = stream;
    client->phase = PHASE_HEAD;
    http_client_send_request(client);
}

static void http_client_begin_connect(struct http_client *client) {
    client->phase = PHASE_CONNECTING;
    client->reused = false;
    http_dial(client->loop, &client->url, client->url.is_tls ? client->url.tls : NULL, &events,
              http_client_on_dialed, client, &client->dial);
}

void http_client_start(struct http_client *client, const struct http_ask *ask,
                       const struct http_events *calls) {
    ASSERT(client->phase == PHASE_IDLE);
    client->events = *calls;
    client->http_status = 0;
    client->retry_after_s = 0;
    client->sent_ns = 0;
    client->got_bytes = false;
    buf_clear(&client->out);
    buf_clear(&client->in);
    size_t n_body = ask->body && !ask->n_body ? strlen(ask->body) : ask->n_body;
    char pair[ADDRESS_TEXT_MAX];
    buf_printf(&client->out, "%s %s%s HTTP/1.1\r\nHost: %s\r\n", ask->method, client->url.base,
               ask->path, address_join_outside(client->url.host, client->url.port, pair));
    if (ask->accept)
        buf_printf(&client->out, "Accept: %s\r\n", ask->accept);
    if (ask->api_key && ask->api_key[0])
        buf_printf(&client->out, "Authorization: Bearer %s\r\n", ask->api_key);
    if (ask->header)
        buf_printf(&client->out, "%s\r\n", ask->header);
    if (ask->body)
        buf_printf(&client->out, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                   ask->content_type ? ask->content_type : "application/json", n_body);
    buf_puts(&client->out, "\r\n");
    if (ask->body)
        buf_append(&client->out, ask->body, n_body);
    if (!client->stream) {
        http_client_begin_connect(client);
        return;
    }
    client->phase = PHASE_HEAD;
    client->reused = true;
    http_client_send_request(client);
}
