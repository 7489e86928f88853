#include "tests/unit/base/http/rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct loop *loop;
struct listener *listener;
struct exchanges *exchanges;
struct listener_config config;
uint64_t held[64];
unsigned n_held, n_gone, n_drained, n_handled, n_heads;
uint64_t gone_tag;
struct buf taken;

static void on_gone(struct exchange *exchange) {
    n_gone++;
    gone_tag = (uintptr_t)exchange->user;
    /* The id is dead already: late calls find nothing, and nothing happens. */
    ck_assert_int_eq(exchange_end(exchanges, exchange->id, NULL, 0), STATUS_NOT_FOUND);
    ck_assert_int_eq(exchange_abort(exchanges, exchange->id), STATUS_NOT_FOUND);
}

static void on_drained(struct exchange *exchange) {
    (void)exchange;
    n_drained++;
}

/* /talk: each piece comes back as it came. */
static void on_piece(struct exchange *exchange, const char *bytes, size_t n, bool end) {
    if (exchange_write(exchanges, exchange->id, bytes, n) != STATUS_OK)
        ck_assert_int_eq(exchange_abort(exchanges, exchange->id), STATUS_OK);
    else if (end)
        ck_assert_int_eq(exchange_end(exchanges, exchange->id, NULL, 0), STATUS_OK);
}

/* Refuses what asks for it, and bounds what /small takes. */
static void gate(void *user, struct exchange *exchange) {
    (void)user;
    ck_assert_uint_eq(exchange->n_body, 0);
    n_heads++;
    if (strcmp(exchange->path, "/no") == 0) {
        struct exchange_reply reply = {.status = 401, .body = "no", .n_body = 2};
        ck_assert_int_eq(exchange_reply(exchanges, exchange->id, &reply), STATUS_OK);
    } else if (strcmp(exchange->path, "/small") == 0) {
        exchange->body_max = 10;
    } else if (strcmp(exchange->path, "/talk") == 0) {
        exchange->body_piece = on_piece;
    } else if (strcmp(exchange->path, "/probe") == 0) {
        exchange->is_probe = true;
    }
}

static void handle(void *user, struct exchange *exchange) {
    (void)user;
    n_handled++;
    exchange->gone = on_gone;
    exchange->drained = on_drained;
    exchange->user = (void *)(uintptr_t)n_handled;
    if (strcmp(exchange->path, "/wait") == 0 || strcmp(exchange->path, "/stream") == 0) {
        held[n_held++ % 64] = exchange->id;
    } else if (strcmp(exchange->path, "/take") == 0) {
        buf_fini(&taken);
        exchange_take_body(exchange, &taken);
        ck_assert_uint_eq(exchange->n_body, 0);
    } else if (strcmp(exchange->path, "/talk") == 0) {
        struct exchange_reply head = {.status = 200};
        ck_assert_uint_eq(exchange->n_body, 0);
        ck_assert_int_eq(exchange_begin_stream(exchanges, exchange->id, &head), STATUS_OK);
    } else if (strcmp(exchange->path, "/abort") == 0) {
        ck_assert_int_eq(exchange_abort(exchanges, exchange->id), STATUS_OK);
    } else if (strncmp(exchange->path, "/watch", 6) == 0) {
        uint32_t n_kept = (uint32_t)strtoul(exchange->path + 6, NULL, 10);
        enum status status = exchanges_watch(exchanges, exchange, n_kept);
        struct exchange_reply reply = {.status = status == STATUS_OK ? 200 : 429};
        if (status == STATUS_OK)
            ck_assert_int_eq(exchange_begin_stream(exchanges, exchange->id, &reply), STATUS_OK);
        else
            ck_assert_int_eq(exchange_reply(exchanges, exchange->id, &reply), STATUS_OK);
    } else if (strcmp(exchange->path, "/page") == 0) {
        static char page[PAGE_BYTES];
        struct exchange_reply reply = {.status = 200, .body = page, .n_body = sizeof page};
        ck_assert_int_eq(exchange_reply(exchanges, exchange->id, &reply), STATUS_OK);
    } else if (strcmp(exchange->path, "/big") == 0) {
        char *big = malloc(8 << 20);
        memset(big, 'b', 8 << 20);
        struct exchange_reply reply = {.status = 200, .body = big, .n_body = 8 << 20};
        ck_assert_int_eq(exchange_reply(exchanges, exchange->id, &reply), STATUS_OK);
        free(big);
    } else {
        struct header extra = {"x-method", exchange->method};
        struct exchange_reply reply = {.status = 200,
                                       .content_type = "text/plain",
                                       .headers = &extra,
                                       .n_headers = 1,
                                       .body = exchange->n_body ? exchange->body : exchange->path};
        reply.n_body = exchange->n_body ? exchange->n_body : strlen(exchange->path);
        uint64_t id = exchange->id;
        ck_assert_int_eq(exchange_reply(exchanges, id, &reply), STATUS_OK);
        ck_assert_int_eq(exchange_reply(exchanges, id, &reply), STATUS_NOT_FOUND);
    }
}

void rig_start(void) {
    const struct listener_calls calls = {.gate = gate, .handler = handle};
    struct error error = {0};
    ck_assert_msg(listener_new(loop, "127.0.0.1:0", &config, &calls, &listener, &error) ==
                      STATUS_OK,
                  "%s", error.text);
    exchanges = listener_exchanges(listener);
}

void rig_pass(uint64_t ns) {
    for (unsigned i = 0; i < 5; i++)
        loop_turn(loop, false);
    test_clock_pass(ns);
}

void rig_setup(void) {
    test_clock_run();
    n_held = n_gone = n_drained = n_handled = n_heads = 0;
    listener = NULL;
    config = listener_config_default;
    config.n_connections_max = 16;
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
}

void rig_teardown(void) {
    listener_free(listener);
    loop_free(loop);
    buf_fini(&taken);
    buf_fini(&got);
}

int dial_with(int receive_bytes) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(listener_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

int dial(const char *text) {
    int fd = dial_with(0);
    ck_assert_int_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

int dial_until_read(const char *text) {
    struct listener_counts before = listener_counts(listener);
    int fd = dial(text);
    while (listener_counts(listener).n_accepted == before.n_accepted ||
           listener_counts(listener).bytes_in < before.bytes_in + strlen(text))
        loop_turn(loop, true);
    return fd;
}

struct buf got;
bool ended;

void read_until(int fd, size_t n) {
    static char piece[65536];
    buf_fini(&got);
    buf_puts(&got, "");
    ended = false;
    for (bool wait = true; got.n < n && !ended;) {
        loop_turn(loop, wait);
        ssize_t more = recv(fd, piece, sizeof piece, 0);
        if (more > 0)
            buf_append(&got, piece, (size_t)more);
        ended = more == 0 || (more < 0 && errno != EAGAIN);
        wait = more < 0; /* there may be more for the client while the server has nothing to do */
    }
}

void read_until_text(int fd, const char *text) {
    static char piece[65536];
    buf_fini(&got);
    buf_puts(&got, "");
    ended = false;
    while (!strstr(got.data, text)) {
        ck_assert_msg(!ended, "closed after: %s", got.data);
        loop_turn(loop, true);
        ssize_t more = recv(fd, piece, sizeof piece, 0);
        if (more > 0)
            buf_append(&got, piece, (size_t)more);
        ended = more == 0;
    }
}

void turn_until(const unsigned *counter, unsigned n) {
    while (*counter < n)
        loop_turn(loop, true);
}
