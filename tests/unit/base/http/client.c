#include "tests/unit/base/http/client.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *next_line(const char *at, const char *stop) {
    const char *end = memmem(at, (size_t)(stop - at), "\r\n", 2);
    return end ? end + 2 : NULL;
}

/* --- HTTP/1.1 ------------------------------------------------------------------------------ */

static void http1_begin(struct client *client) {
    (void)client;
}

static void http1_request(struct client *client, unsigned number, const char *method,
                          const char *path, const char *lines, size_t n_body, bool whole) {
    (void)number;
    buf_printf(&client->out, "%s %s HTTP/1.1\r\nhost: h\r\n", method, path);
    for (const char *at = lines; at && *at; at++) {
        if (*at == '\n')
            buf_putc(&client->out, '\r');
        buf_putc(&client->out, *at);
    }
    if (!whole && n_body == SIZE_MAX)
        buf_puts(&client->out, "transfer-encoding: chunked\r\n");
    else if (!whole)
        buf_printf(&client->out, "content-length: %zu\r\n", n_body);
    buf_puts(&client->out, "\r\n");
}

static void http1_body(struct client *client, unsigned number, const char *bytes, size_t n,
                       bool end) {
    (void)number;
    (void)end;
    buf_append(&client->out, bytes, n);
}

static void http1_leave(struct client *client, unsigned number) {
    (void)number;
    shutdown(client->fd, SHUT_RDWR);
}

static void http1_take(struct client *client, const char *bytes, size_t n) {
    buf_append(&client->in, bytes, n);
}

/* Reads one reply at `at`; NULL: it is not complete. */
static const char *http1_parse(struct client *client, const char *at, bool head_only,
                               struct reply *reply) {
    const char *stop = client->in.data + client->in.n;
    const char *end = memmem(at, (size_t)(stop - at), "\r\n\r\n", 4);
    bool chunked = false;
    size_t length = 0;
    *reply = (struct reply){0};
    buf_clear(&client->head);
    buf_clear(&client->body);
    if (!end)
        return NULL;
    reply->status = (unsigned)strtoul(at + strlen("HTTP/1.1 "), NULL, 10);
    for (at = next_line(at, stop); at < end + 2; at = next_line(at, stop)) {
        const char *colon = strchr(at, ':'), *line_end = next_line(at, stop) - 2;
        for (const char *c = at; c < line_end; c++)
            buf_putc(&client->head, c < colon ? (char)tolower(*c) : *c);
        buf_putc(&client->head, '\n');
        chunked |= strncasecmp(at, "transfer-encoding: chunked", 26) == 0;
        if (strncasecmp(at, "content-length: ", 16) == 0)
            length = strtoul(at + 16, NULL, 10);
    }
    at = end + 4;
    if (reply->status == 100)
        return http1_parse(client, at, head_only, reply);
    if (head_only)
        length = 0;
    while (chunked) {
        const char *line = next_line(at, stop);
        size_t n = line ? strtoul(at, NULL, 16) : 0;
        if (!line || (size_t)(stop - line) < n + 2)
            return NULL;
        buf_append(&client->body, line, n);
        at = line + n + 2;
        if (n == 0)
            return at;
    }
    size_t n = (size_t)(stop - at) < length ? (size_t)(stop - at) : length;
    if (n == length || client->closed) /* not with each piece again */
        buf_append(&client->body, at, n);
    return n == length ? at + n : NULL;
}

static void http1_reply(struct client *client, unsigned number, struct reply *reply) {
    const char *at = client->in.data;
    *reply = (struct reply){.status = 0};
    for (unsigned i = 1; at && i <= number; i++)
        at = http1_parse(client, at, false, reply);
    reply->complete = at != NULL;
    reply->broken = !at && client->closed;
}

/* --- HTTP/2 -------------------------------------------------------------------------------- */

static uint32_t id_of(unsigned number) {
    return 2 * number - 1;
}

static void http2_begin(struct client *client) {
    peer_init(&client->peer);
    peer_begin(&client->out);
}

static void http2_request(struct client *client, unsigned number, const char *method,
                          const char *path, const char *lines, size_t n_body, bool whole) {
    struct buf all = {0};
    buf_puts(&all, lines ? lines : "");
    if (!whole && n_body != SIZE_MAX)
        buf_printf(&all, "content-length: %zu\n", n_body);
    peer_request(&client->out, id_of(number), method, path, all.data, whole);
    buf_fini(&all);
}

static void http2_body(struct client *client, unsigned number, const char *bytes, size_t n,
                       bool end) {
    do {
        size_t piece = n < 16384 ? n : 16384;
        peer_frame(&client->out, PEER_DATA, end && piece == n ? PEER_END_STREAM : 0, id_of(number),
                   bytes, piece);
        bytes += piece;
        n -= piece;
    } while (n > 0);
}

static void http2_leave(struct client *client, unsigned number) {
    peer_frame_u32(&client->out, PEER_RST_STREAM, 0, id_of(number), 8);
}

/* Its windows are opened as bytes come. */
static void http2_take(struct client *client, const char *bytes, size_t n) {
    size_t before[REQUESTS_MAX + 1], all = 0;
    for (unsigned i = 1; i <= client->n_sent; i++)
        before[i] = peer_stream(&client->peer, id_of(i))->body.n;
    peer_read(&client->peer, bytes, n);
    for (unsigned i = 1; i <= client->n_sent; i++) {
        const struct peer_stream *stream = peer_stream(&client->peer, id_of(i));
        size_t more = stream->body.n - before[i];
        all += more;
        if (more > 0 && !stream->ended)
            peer_frame_u32(&client->out, PEER_WINDOW_UPDATE, 0, id_of(i), (uint32_t)more);
    }
    if (all > 0)
        peer_frame_u32(&client->out, PEER_WINDOW_UPDATE, 0, 0, (uint32_t)all);
}

static void http2_reply(struct client *client, unsigned number, struct reply *reply) {
    const struct peer_stream *stream = peer_stream(&client->peer, id_of(number));
    buf_clear(&client->head);
    buf_clear(&client->body);
    buf_append(&client->head, stream->head.data, stream->head.n);
    buf_append(&client->body, stream->body.data, stream->body.n);
    *reply = (struct reply){.status = stream->status,
                            .complete = stream->ended,
                            .broken = !stream->ended && (stream->reset || client->closed)};
}

const struct client_protocol client_protocols[] = {
    {"http1", false, false, http1_begin, http1_request, http1_body, http1_leave, http1_take,
     http1_reply},
    {"http2", true, true, http2_begin, http2_request, http2_body, http2_leave, http2_take,
     http2_reply},
};

/* --- both ---------------------------------------------------------------------------------- */

void client_open(struct client *client, const struct client_protocol *protocol, int receive_bytes) {
    *client = (struct client){.protocol = protocol, .fd = dial_with(receive_bytes)};
    protocol->begin(client);
}

void client_close(struct client *client) {
    close(client->fd);
    buf_fini(&client->out);
    buf_fini(&client->in);
    buf_fini(&client->head);
    buf_fini(&client->body);
    if (client->peer.inflater)
        peer_fini(&client->peer);
}

static void push(struct client *client) {
    if (client->out.n == 0)
        return;
    ssize_t n = send(client->fd, client->out.data, client->out.n, MSG_NOSIGNAL);
    if (n > 0)
        buf_consume(&client->out, (size_t)n);
    else if (n < 0 && errno != EAGAIN)
        buf_clear(&client->out); /* the server has gone: what it said is still read */
}

unsigned client_ask(struct client *client, const char *method, const char *path, const char *lines,
                    size_t n_body, bool whole) {
    ck_assert_uint_lt(client->n_sent, REQUESTS_MAX);
    client->protocol->request(client, ++client->n_sent, method, path, lines, n_body, whole);
    push(client);
    return client->n_sent;
}

unsigned client_get(struct client *client, const char *path) {
    return client_ask(client, "GET", path, NULL, 0, true);
}

void client_body(struct client *client, unsigned number, const char *bytes, size_t n, bool end) {
    client->protocol->body(client, number, bytes, n, end);
    push(client);
}

void client_turn_blind(struct client *client) {
    push(client);
    loop_turn(loop, false);
}

void client_turn(struct client *client) {
    static char bytes[65536];
    client_turn_blind(client);
    ssize_t n = recv(client->fd, bytes, sizeof bytes, 0);
    if (n > 0)
        client->protocol->take(client, bytes, (size_t)n);
    else if (n == 0 || errno != EAGAIN)
        client->closed = true;
}

struct reply client_look(struct client *client, unsigned number) {
    struct reply reply;
    client->protocol->reply(client, number, &reply);
    reply.head = client->head.data ? client->head.data : "";
    reply.body = client->body.data ? client->body.data : "";
    reply.n_body = client->body.n;
    return reply;
}

struct reply client_await(struct client *client, unsigned number) {
    for (;;) {
        struct reply reply = client_look(client, number);
        if (reply.complete || reply.broken)
            return reply;
        client_turn(client);
    }
}

void client_await_text(struct client *client, unsigned number, const char *text) {
    for (;;) {
        struct reply reply = client_look(client, number);
        if (strstr(reply.body, text))
            return;
        ck_assert_msg(!reply.broken, "closed after: %s", reply.body);
        client_turn(client);
    }
}
