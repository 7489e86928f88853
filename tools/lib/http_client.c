#include "tools/lib/http_client.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX  (64u << 10)
#define READ_SIZE (64u << 10)

enum phase { PHASE_IDLE, PHASE_CONNECTING, PHASE_HEAD, PHASE_BODY };
enum framing { FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE };

struct http_client {
    struct loop *loop; /* borrowed */
    struct http_url url;
    int fd;
    struct loop_watch *watch; /* owned; NULL without a connection */
    enum phase phase;
    enum framing framing;
    struct buf out; /* request bytes, sent up to out_sent */
    size_t out_sent;
    struct buf in;      /* received, not yet understood */
    uint64_t body_left; /* of the body, or of the chunk */
    bool in_chunk;
    bool keep; /* the connection may be used again */
    bool reused;
    bool got_bytes;
    int http_status;
    uint64_t sent_ns;
    uint64_t serial; /* of the request: a callback may have started the next one */
    struct http_events events;
};

enum status http_url_parse(const char *text, struct http_url *url, struct error *error) {
    const char *at = text;
    if (strncmp(at, "http://", 7) == 0)
        at += 7;
    else if (strstr(at, "://"))
        return error_set(error, STATUS_INVALID, "%s: only http:// is spoken here", text);
    const char *slash = strchr(at, '/');
    const char *end = slash ? slash : at + strlen(at);
    const char *host_end = end;
    const char *port = "80";
    size_t n_port = 2;
    const char *host = at;
    if (*at == '[') {
        host = at + 1;
        host_end = memchr(at, ']', (size_t)(end - at));
        if (!host_end)
            return error_set(error, STATUS_INVALID, "%s: '[' without ']'", text);
        at = host_end + 1;
    }
    const char *colon = memchr(at, ':', (size_t)(end - at));
    if (colon) {
        if (*host != '[' && host_end == end)
            host_end = colon;
        port = colon + 1;
        n_port = (size_t)(end - port);
    }
    size_t n_host = (size_t)(host_end - host);
    size_t n_base = slash ? strlen(slash) : 0;
    while (n_base > 0 && slash[n_base - 1] == '/')
        n_base--;
    if (n_host == 0 || n_host >= sizeof url->host || n_port == 0 || n_port >= sizeof url->port ||
        n_base >= sizeof url->base)
        return error_set(error, STATUS_INVALID, "%s: not of the form http://HOST:PORT", text);
    *url = (struct http_url){0};
    memcpy(url->host, host, n_host);
    memcpy(url->port, port, n_port);
    if (n_base > 0)
        memcpy(url->base, slash, n_base);
    return STATUS_OK;
}

enum status http_client_new(struct loop *loop, const struct http_url *url,
                            struct http_client **client) {
    struct http_client *made = calloc(1, sizeof *made);
    if (!made)
        return STATUS_NOMEM;
    made->loop = loop;
    made->url = *url;
    made->fd = -1;
    buf_init(&made->out, 0);
    buf_init(&made->in, 0);
    *client = made;
    return STATUS_OK;
}

static void disconnect(struct http_client *client) {
    loop_watch_free(client->watch);
    client->watch = NULL;
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    buf_clear(&client->in);
}

void http_client_free(struct http_client *client) {
    if (!client)
        return;
    disconnect(client);
    buf_fini(&client->out);
    buf_fini(&client->in);
    free(client);
}

void http_client_abort(struct http_client *client) {
    disconnect(client);
    client->phase = PHASE_IDLE;
    client->serial++;
}

uint64_t http_client_sent_ns(const struct http_client *client) {
    return client->sent_ns;
}

static void finish(struct http_client *client, enum status status, const struct error *error) {
    if (status != STATUS_OK || !client->keep)
        disconnect(client);
    client->phase = PHASE_IDLE;
    client->serial++;
    struct http_events events = client->events;
    events.on_end(events.user, status, client->http_status, error);
}

static void fail(struct http_client *client, enum status status, const char *what) {
    struct error error;
    error_set(&error, status, "%s:%s: %s", client->url.host, client->url.port, what);
    finish(client, status, &error);
}

static void begin_connect(struct http_client *client);

/* A kept connection may have been closed by the server while idle: one silent second try. */
static void lost(struct http_client *client, const char *what) {
    if (client->reused && !client->got_bytes) {
        disconnect(client);
        begin_connect(client);
        return;
    }
    fail(client, STATUS_CLOSED, what);
}

static bool head_line_is(const char *line, const char *name, const char **value) {
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    *value = line + n + 1 + strspn(line + n + 1, " \t");
    return true;
}

/* The head is complete in client->in[0..n), which is NUL-terminated at n. */
static bool read_head(struct http_client *client, char *head) {
    int minor = 0;
    if (sscanf(head, "HTTP/1.%d %d", &minor, &client->http_status) != 2)
        return false;
    client->keep = minor >= 1;
    client->framing = FRAMING_CLOSE;
    client->body_left = 0;
    client->in_chunk = false;
    char *save = NULL;
    for (char *line = strtok_r(head, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        const char *value;
        if (head_line_is(line, "content-length", &value)) {
            client->framing = FRAMING_LENGTH;
            client->body_left = strtoull(value, NULL, 10);
        } else if (head_line_is(line, "transfer-encoding", &value)) {
            client->framing = FRAMING_CHUNKED;
        } else if (head_line_is(line, "connection", &value) && strcasecmp(value, "close") == 0) {
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

/* Hands out body bytes; false when the callback ended this request. */
static bool give(struct http_client *client, size_t n) {
    uint64_t serial = client->serial;
    if (n > 0)
        client->events.on_body(client->events.user, client->in.data, n);
    if (client->serial != serial)
        return false;
    buf_consume(&client->in, n);
    return true;
}

/* One chunk-size line or chunk end. Answers false when more bytes are needed or the
 * request ended. */
static bool chunk_frame(struct http_client *client) {
    char *eol = client->in.n ? memchr(client->in.data, '\n', client->in.n) : NULL;
    if (!eol) {
        if (client->in.n > 4096)
            fail(client, STATUS_CORRUPT, "broken chunked answer");
        return false;
    }
    size_t n_line = (size_t)(eol - client->in.data) + 1;
    if (client->in_chunk) { /* the CRLF behind a chunk */
        client->in_chunk = false;
        buf_consume(&client->in, n_line);
        return true;
    }
    char *end;
    uint64_t size = strtoull(client->in.data, &end, 16);
    if (end == client->in.data) {
        fail(client, STATUS_CORRUPT, "broken chunked answer");
        return false;
    }
    if (size == 0) {
        if (client->in.n < n_line + 2)
            return false;
        buf_consume(&client->in, n_line + 2); /* trailers are not used by any server we talk to */
        finish(client, STATUS_OK, NULL);
        return false;
    }
    buf_consume(&client->in, n_line);
    client->body_left = size;
    client->in_chunk = true;
    return true;
}

static void read_body(struct http_client *client) {
    for (;;) {
        size_t n = client->in.n;
        if (client->framing == FRAMING_CHUNKED && client->body_left == 0) {
            if (!chunk_frame(client))
                return;
            continue;
        }
        if (client->framing == FRAMING_LENGTH && client->body_left == 0) {
            finish(client, STATUS_OK, NULL);
            return;
        }
        if (n == 0)
            return;
        if (client->framing != FRAMING_CLOSE && n > client->body_left)
            n = (size_t)client->body_left;
        if (client->framing != FRAMING_CLOSE)
            client->body_left -= n;
        if (!give(client, n))
            return;
    }
}

static void take_input(struct http_client *client) {
    client->got_bytes = true;
    if (client->phase == PHASE_HEAD) {
        char *end = client->in.n ? strstr(client->in.data, "\r\n\r\n") : NULL;
        if (!end) {
            if (client->in.n > HEAD_MAX)
                fail(client, STATUS_CORRUPT, "answer without end of headers");
            return;
        }
        end[2] = 0;
        if (!read_head(client, client->in.data)) {
            fail(client, STATUS_CORRUPT, "answer is not HTTP/1.x");
            return;
        }
        buf_consume(&client->in, (size_t)(end - client->in.data) + 4);
        if (client->http_status == 100)
            return;
        client->phase = PHASE_BODY;
    }
    if (client->phase == PHASE_BODY)
        read_body(client);
}

static void on_readable(struct http_client *client) {
    char bytes[READ_SIZE];
    ssize_t n = read(client->fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && client->phase != PHASE_IDLE) {
        buf_append(&client->in, bytes, (size_t)n);
        take_input(client);
        return;
    }
    if (client->phase == PHASE_IDLE) { /* closed while idle, or bytes nobody asked for */
        disconnect(client);
        return;
    }
    if (n == 0 && client->phase == PHASE_BODY && client->framing == FRAMING_CLOSE)
        finish(client, STATUS_OK, NULL);
    else
        lost(client, n == 0 ? "connection closed before the answer's end" : strerror(errno));
}

static void on_writable(struct http_client *client) {
    if (client->phase == PHASE_CONNECTING) {
        int problem = 0;
        socklen_t size = sizeof problem;
        getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &problem, &size);
        if (problem != 0) {
            fail(client, STATUS_CLOSED, strerror(problem));
            return;
        }
        client->phase = PHASE_HEAD;
    }
    if (client->sent_ns == 0)
        client->sent_ns = clock_now_ns();
    ssize_t n = send(client->fd, client->out.data + client->out_sent,
                     client->out.n - client->out_sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        lost(client, strerror(errno));
        return;
    }
    client->out_sent += n > 0 ? (size_t)n : 0;
    unsigned events = LOOP_READ | (client->out_sent < client->out.n ? LOOP_WRITE : 0);
    if (loop_watch_set(client->watch, events) != STATUS_OK)
        fail(client, STATUS_IO, "cannot watch the connection");
}

static void on_event(void *user, unsigned events) {
    struct http_client *client = user;
    uint64_t serial = client->serial;
    if ((events & LOOP_WRITE) && client->phase != PHASE_IDLE)
        on_writable(client);
    if ((events & LOOP_READ) && client->serial == serial && client->fd >= 0)
        on_readable(client);
}

static void begin_connect(struct http_client *client) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(client->url.host, client->url.port, &hints, &found);
    client->phase = PHASE_CONNECTING;
    client->reused = false;
    client->out_sent = 0;
    if (problem != 0) {
        fail(client, STATUS_IO, gai_strerror(problem));
        return;
    }
    client->fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int result = -1;
    if (client->fd >= 0) {
        int one = 1;
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        result = connect(client->fd, found->ai_addr, found->ai_addrlen);
    }
    freeaddrinfo(found);
    if (client->fd < 0 || (result < 0 && errno != EINPROGRESS)) {
        fail(client, STATUS_CLOSED, strerror(errno));
        return;
    }
    if (loop_watch_new(client->loop, client->fd, on_event, client, &client->watch) != STATUS_OK ||
        loop_watch_set(client->watch, LOOP_WRITE) != STATUS_OK)
        fail(client, STATUS_IO, "cannot watch the connection");
}

void http_client_start(struct http_client *client, const char *method, const char *path,
                       const char *headers, const char *body, size_t n_body,
                       const struct http_events *events) {
    ASSERT(client->phase == PHASE_IDLE);
    client->events = *events;
    client->http_status = 0;
    client->sent_ns = 0;
    client->got_bytes = false;
    client->out_sent = 0;
    buf_clear(&client->out);
    buf_clear(&client->in);
    buf_printf(&client->out, "%s %s%s HTTP/1.1\r\nHost: %s:%s\r\n%s", method, client->url.base,
               path, client->url.host, client->url.port, headers ? headers : "");
    if (body)
        buf_printf(&client->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                   n_body);
    buf_puts(&client->out, "\r\n");
    if (body)
        buf_append(&client->out, body, n_body);
    if (client->fd < 0) {
        begin_connect(client);
        return;
    }
    client->phase = PHASE_HEAD;
    client->reused = true;
    on_writable(client);
}
