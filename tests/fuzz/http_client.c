/* The client of HTTP/1.1: whatever a server answers and wherever it breaks off, the request ends once, with
 * no more of a body than came. */
#include "base/client/http_client.h"

#include "base/assert.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static struct loop *loop;
static struct http_url url;
static int listener = -1;

struct seen {
    size_t n_body;
    unsigned n_ends;
};

static void on_body(void *user, const char *bytes, size_t n) {
    struct seen *seen = user;
    ASSERT(bytes && n > 0 && seen->n_ends == 0);
    seen->n_body += n;
}

static void on_end(void *user, enum status status, int http_status, const struct error *error) {
    struct seen *seen = user;
    ASSERT((status == STATUS_OK) == !error && (status != STATUS_OK || http_status != 0));
    seen->n_ends++;
}

static void open_once(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener >= 0)
        return;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    ASSERT(listen(listener, 4) == 0);
    ASSERT(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    snprintf(url.host, sizeof url.host, "127.0.0.1");
    snprintf(url.port, sizeof url.port, "%u", ntohs(address.sin_port));
    ASSERT(loop_new(&loop) == STATUS_OK);
}

/* Takes the connection and the request's first bytes. */
static int accept_request(void) {
    char request[4096];
    int fd = -1;
    while (fd < 0) {
        loop_turn(loop, false);
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    while (recv(fd, request, sizeof request, 0) <= 0)
        loop_turn(loop, false);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    struct seen seen = {.n_body = 0};
    const struct http_events events = {on_body, on_end, &seen};
    struct http_client *client;
    open_once();
    ASSERT(http_client_new(loop, &url, &client) == STATUS_OK);
    http_client_start(client, &(struct http_ask){.method = "POST", .path = "/", .body = "{}"},
                      &events);
    int fd = accept_request();
    for (size_t at = 0; at < n_bytes && seen.n_ends == 0;) {
        ssize_t n = send(fd, bytes + at, n_bytes - at, MSG_NOSIGNAL);
        at += n > 0 ? (size_t)n : 0;
        loop_turn(loop, false);
    }
    shutdown(fd, SHUT_WR);
    while (seen.n_ends == 0)
        loop_turn(loop, true);
    ASSERT(seen.n_ends == 1 && seen.n_body <= n_bytes);
    ASSERT(http_client_retry_after_s(client) < 1000000000u);
    http_client_free(client);
    loop_turn(loop, false); /* closes its socket */
    close(fd);
    ASSERT(seen.n_ends == 1);
    return 0;
}
