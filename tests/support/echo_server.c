/* tests/support/echo_server.c: HTTP with nothing behind it, for load tests and for hands.
 *
 * echo_server ADDRESS           serves until SIGTERM: /stream sends "data: tick" each second and
 *                               never ends, /wait never answers, anything else is echoed
 * echo_server --many N [LIMIT]  starts itself, opens N streams to it, prints what each costs;
 *                               fails when a stream takes more than LIMIT bytes of memory */
#include "base/clock.h"
#include "base/http/listener.h"
#include "base/http/sse.h"
#include "base/net/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_STREAMS_MAX = 60000 };

static struct loop *loop;
static struct listener *listener;
static struct exchanges *exchanges;
static uint64_t streams[N_STREAMS_MAX];
static unsigned n_streams;
static struct loop_timer *ticker;

static void handle(void *user, struct exchange *exchange) {
    (void)user;
    struct exchange_reply reply = {.status = 200, .content_type = "text/plain"};
    if (strcmp(exchange->path, "/wait") == 0)
        return;
    if (strcmp(exchange->path, "/stream") == 0 && n_streams < N_STREAMS_MAX) {
        reply.content_type = SSE_CONTENT_TYPE;
        streams[n_streams++] = exchange->id;
        exchange_begin_stream(exchanges, exchange->id, &reply);
        return;
    }
    reply.body = exchange->n_body ? exchange->body : exchange->path;
    reply.n_body = exchange->n_body ? exchange->n_body : strlen(exchange->path);
    exchange_reply(exchanges, exchange->id, &reply);
}

static void tick(void *user) {
    (void)user;
    unsigned kept = 0;
    for (unsigned i = 0; i < n_streams; i++)
        if (exchange_write(exchanges, streams[i], "data: tick\n\n", 12) != STATUS_NOT_FOUND)
            streams[kept++] = streams[i];
    n_streams = kept;
    loop_timer_after(ticker, NS_PER_S);
}

static void stop(void *user, unsigned signal) {
    (void)user;
    (void)signal;
    loop_stop(loop);
}

/* Serves; writes the port to `report` once it listens (-1: to nobody). */
static int serve(const char *address, int report) {
    struct listener_config config = listener_config_default;
    const struct listener_calls calls = {.handler = handle};
    struct loop_watch *term = NULL;
    struct error error = {0};
    if (loop_new(&loop) != STATUS_OK ||
        loop_signal_new(loop, SIGTERM, stop, NULL, &term) != STATUS_OK ||
        loop_timer_new(loop, tick, NULL, &ticker) != STATUS_OK)
        return 1;
    if (listener_new(loop, address, &config, &calls, &listener, &error) != STATUS_OK) {
        fprintf(stderr, "error: %s\n", error.text);
        return 1;
    }
    exchanges = listener_exchanges(listener);
    uint16_t port = listener_port(listener);
    if (report >= 0 && write(report, &port, sizeof port) != sizeof port)
        return 1;
    loop_timer_after(ticker, NS_PER_S);
    loop_run(loop);
    listener_free(listener);
    loop_timer_free(ticker);
    loop_watch_free(term);
    loop_free(loop);
    return 0;
}

/* Pages of the process that are in memory, in bytes. */
static size_t resident_bytes(pid_t pid) {
    char path[64];
    unsigned long size = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Reads until `text` has come. False at the end of the connection. */
static bool expect(int fd, const char *text) {
    char got[2048] = "";
    size_t n = 0;
    while (!strstr(got, text)) {
        ssize_t more = n + 1 < sizeof got ? recv(fd, got + n, sizeof got - 1 - n, 0) : 0;
        if (more <= 0)
            return false;
        n += (size_t)more;
        got[n] = 0;
    }
    return true;
}

static int open_stream(uint16_t port) {
    static const char request[] = "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n";
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        send(fd, request, sizeof request - 1, 0) != (ssize_t)sizeof request - 1)
        return -1;
    return fd;
}

static int measure(pid_t server, uint16_t port, unsigned n_wanted, size_t bytes_max) {
    int *fds = calloc(n_wanted, sizeof *fds);
    if (!fds)
        return 1;
    size_t before = resident_bytes(server);
    uint64_t start_ns = clock_now_ns();
    for (unsigned i = 0; i < n_wanted; i++) {
        fds[i] = open_stream(port);
        if (fds[i] < 0 || !expect(fds[i], "\r\n\r\n")) {
            fprintf(stderr, "error: stream %u did not open\n", i);
            return 1;
        }
    }
    uint64_t open_ns = clock_now_ns() - start_ns;
    for (unsigned i = 0; i < n_wanted; i++) /* each has an event: all buffers were used once */
        if (!expect(fds[i], "data: tick"))
            return 1;
    size_t bytes = (resident_bytes(server) - before) / n_wanted;
    printf("streams %u  idle server %zu KiB  bytes per stream %zu  opened in %.0f ms\n", n_wanted,
           before / 1024, bytes, (double)open_ns / 1e6);
    for (unsigned i = 0; i < n_wanted; i++)
        close(fds[i]);
    free(fds);
    bool passed = bytes_max == 0 || bytes <= bytes_max;
    printf("%d passed, %d failed\n", passed, !passed);
    return passed ? 0 : 1;
}

static int many(unsigned n_wanted, size_t bytes_max) {
    struct rlimit files;
    int report[2];
    uint16_t port = 0;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (n_wanted > files.rlim_cur - 64) {
        n_wanted = (unsigned)files.rlim_cur - 64;
        printf("only %u streams: the limit of descriptors is %llu\n", n_wanted,
               (unsigned long long)files.rlim_cur);
    }
    if (n_wanted == 0 || pipe(report) != 0)
        return 1;
    pid_t server = fork();
    if (server == 0)
        _exit(serve("127.0.0.1:0", report[1]));
    int rc = 1;
    if (server > 0 && read(report[0], &port, sizeof port) == sizeof port)
        rc = measure(server, port, n_wanted, bytes_max);
    int status = 1;
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, &status, 0);
    }
    return rc || status;
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--many") == 0)
        return many((unsigned)strtoul(argv[2], NULL, 10),
                    argc > 3 ? (size_t)strtoul(argv[3], NULL, 10) : 0);
    if (argc == 2)
        return serve(argv[1], -1);
    fprintf(stderr, "usage: echo_server ADDRESS | --many N [BYTES]\n");
    return 2;
}
