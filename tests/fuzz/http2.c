/* HTTP/2 on a connection: any bytes behind the preface, cut in any pieces, end in nothing worse than
 * a closed connection, and every exchange is given back. */
#include "base/assert.h"
#include "base/http/connection.h"
#include "base/net/loop.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static struct connection_host host;
static bool released;

static void release(struct connection_host *of, struct connection *connection) {
    (void)of;
    (void)connection;
    released = true;
}

static void on_piece(struct exchange *exchange, const char *bytes, size_t n, bool end) {
    struct header trailer = {"t", "1"};
    (void)!exchange_write(host.exchanges, exchange->id, bytes, n);
    if (end)
        exchange_end(host.exchanges, exchange->id, &trailer, 1);
}

static void gate(void *user, struct exchange *exchange) {
    (void)user;
    ASSERT(exchange->path[0] == '/' || strcmp(exchange->path, "*") == 0);
    if (exchange->path[1] == 't')
        exchange->body_piece = on_piece;
    else if (exchange->path[1] == 'n')
        exchange_reply(host.exchanges, exchange->id, &(struct exchange_reply){.status = 401});
}

static void handle(void *user, struct exchange *exchange) {
    (void)user;
    uint64_t id = exchange->id;
    struct exchange_reply reply = {
        .status = 200, .body = exchange->body, .n_body = exchange->n_body};
    ASSERT(exchange->n_body <= host.config.limits.body_bytes);
    for (unsigned i = 0; i < exchange->n_headers; i++)
        ASSERT(!strpbrk(exchange->headers[i].value, "\r\n") && exchange->headers[i].name[0] != ':');
    if (exchange->path[1] == 'w') /* waits for ever */
        return;
    if (exchange->path[1] == 'a') {
        exchange_abort(host.exchanges, id);
    } else if (exchange->path[1] == 's' || exchange->body_piece) {
        exchange_begin_stream(host.exchanges, id, &reply);
        (void)!exchange_write(host.exchanges, id, "stream", 6);
    } else {
        exchange_reply(host.exchanges, id, &reply);
    }
}

static void set_up(void) {
    if (host.loop)
        return;
    host.config = listener_config_default;
    host.config.limits.head_bytes = host.config.limits.line_bytes = 1024;
    host.config.limits.body_bytes = 1024;
    host.config.output_bytes_max = 256;
    host.config.n_streams_max = 8;
    host.calls = (struct listener_calls){.gate = gate, .handler = handle};
    host.release = release;
    const struct exchanges_bounds bounds = {
        .n_max = 6, .n_probes_max = 2, .body_bytes_max = 65536, .output_bytes_max = 1u << 20};
    if (loop_new(&host.loop) != STATUS_OK || exchanges_new(&bounds, &host.exchanges) != STATUS_OK)
        abort();
    heads_init(&host.heads, host.loop, 4096,
               8192); /* little: what waits is read on in another turn */
}

static void swallow(int fd) {
    static char bytes[65536];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct connection connection;
    int fds[2];
    if (size < 1)
        return 0;
    set_up();
    memset(&connection, 0, sizeof connection);
    list_init(&connection.link);
    released = false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0 ||
        connection_open(&connection, &host, &http1_protocol, fds[0]) != STATUS_OK ||
        send(fds[1], preface, sizeof preface - 1, 0) < 0)
        abort();
    size_t step = data[0] ? data[0] : size;
    for (size_t at = 1; at < size && !released;) {
        size_t n = size - at < step ? size - at : step;
        ssize_t sent = send(fds[1], data + at, n, MSG_NOSIGNAL);
        if (sent < 0)
            break;
        at += (size_t)sent;
        loop_turn(host.loop, false);
        swallow(fds[1]);
    }
    loop_turn(host.loop, false);
    loop_turn(host.loop, false);
    close(fds[1]);
    while (!released)
        loop_turn(host.loop, false);
    ASSERT(exchanges_count(host.exchanges) == 0 && exchanges_body_bytes(host.exchanges) == 0);
    return 0;
}
