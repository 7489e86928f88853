#include "tests/unit/base/http/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer peer;
struct buf out;
int fd;
bool closed;

void wire_start(void) {
    rig_start();
    peer_init(&peer);
    fd = dial_with(0);
    closed = false;
    buf_fini(&out);
}

void wire_stop(void) {
    close(fd);
    peer_fini(&peer);
    buf_fini(&out);
}

void wire_begin(void) {
    wire_start();
    peer_begin(&out);
}

/* Sends at most `piece` bytes of what is written, turns, reads. */
void wire_turn(size_t piece) {
    static char bytes[65536];
    size_t n_out = out.n < piece ? out.n : piece;
    ssize_t n = n_out > 0 ? send(fd, out.data, n_out, MSG_NOSIGNAL) : 0;
    if (n > 0)
        buf_consume(&out, (size_t)n);
    else if (n < 0 && errno != EAGAIN)
        buf_clear(&out);
    loop_turn(loop, false);
    n = recv(fd, bytes, sizeof bytes, 0);
    if (n > 0)
        peer_read(&peer, bytes, (size_t)n);
    closed |= n == 0 || (n < 0 && errno != EAGAIN);
}

void wire_let_out(void) {
    uint64_t n = listener_counts(listener).bytes_in + out.n;
    while (listener_counts(listener).bytes_in < n)
        wire_turn(SIZE_MAX);
}

void wire_await_reply(uint32_t id) {
    while (!peer_stream(&peer, id)->ended) {
        ck_assert(!closed && !peer_stream(&peer, id)->reset);
        wire_turn(SIZE_MAX);
    }
}

void wire_await_close(void) {
    while (!closed)
        wire_turn(SIZE_MAX);
}

void wire_get(uint32_t id, const char *path) {
    peer_request(&out, id, "GET", path, NULL, true);
}
