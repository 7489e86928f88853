/* tests/support/known_server.c: an OpenAI-style server of known timing, to measure clients with.
 *
 *     known_server PORT TTFT_MS ITL_MS
 *
 * Answers GET with a list of one model, POST with a streamed chat of `max_tokens` tokens: the first
 * TTFT_MS after the request was read, each later one ITL_MS after the one before, by absolute
 * deadlines; then the usage, which counts a token for each word of the prompt. Prints "ready" when it
 * listens. At its end (SIGTERM) it prints what it really did, times in milliseconds: the number of
 * tokens, by how much they were late on average and at most, and the true TTFT: from when the kernel
 * had a request's last byte, by its own stamp, to when the first token was given to it. That is the
 * truth to hold a client's TTFT against, however late this server was. One thread. */
#include "base/histogram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 20000
#define REQUEST_MAX     65536
#define ACCEPTS_A_TURN  64
#define BIN_NS          250000u /* what is due in it is sent at its end: so late at most */
#define BINS            262144u /* of the wheel: the longest wait is 65 s */

struct connection {
    char *in; /* owned (REQUEST_MAX); what came of a request */
    size_t n_in;
    int next; /* in its bin of the wheel; -1: the last */
    uint64_t due_ns;
    uint64_t came_ns; /* the request, by the kernel's wall clock */
    unsigned n_left;  /* tokens */
    unsigned n_tokens;
    unsigned n_prompt;
    bool answers;
    bool is_queued; /* stands in a bin */
    bool is_gone;   /* its client left while it did: closed when the bin is looked at */
};

static struct connection connections[CONNECTIONS_MAX];
static int bins[BINS];
static int epoll;
static uint64_t ttft_ns, itl_ns, n_sent, late_sum_ns, late_max_ns;
static struct histogram ttfts; /* as they truly were */
static volatile sig_atomic_t is_stopped;

static void on_signal(int signal) {
    (void)signal;
    is_stopped = 1;
}

static uint64_t to_ns(struct timespec time) {
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t now_by(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return to_ns(now);
}

static uint64_t now_ns(void) {
    return now_by(CLOCK_MONOTONIC);
}

static void put(int fd, const char *bytes, size_t n) {
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        connections[fd].answers = false; /* a client that does not read is not waited for */
}

static void wait_until(int fd, uint64_t due_ns) {
    unsigned bin = (unsigned)(due_ns / BIN_NS % BINS);
    connections[fd].due_ns = due_ns;
    connections[fd].is_queued = true;
    connections[fd].next = bins[bin];
    bins[bin] = fd;
}

#define CHUNK(choices)                                                                             \
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"   \
    "\"known\",\"choices\":[" choices "]"

static void put_end(int fd) {
    static const char finish[] =
        CHUNK("{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}") "}\n\n";
    struct connection *c = &connections[fd];
    char usage[300], out[1024];
    int n = snprintf(usage, sizeof usage,
                     CHUNK("") ",\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
                               "\"total_tokens\":%u}}\n\n",
                     c->n_prompt, c->n_tokens, c->n_prompt + c->n_tokens);
    n = snprintf(out, sizeof out, "%zx\r\n%s\r\n%x\r\n%s\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
                 sizeof finish - 1, finish, (unsigned)n, usage);
    put(fd, out, (size_t)n);
    c->answers = false;
}

static void put_token(int fd, uint64_t at_ns) {
    static const char token[] =
        CHUNK("{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}") "}\n\n";
    static char out[sizeof token + 16];
    static size_t n_out;
    struct connection *c = &connections[fd];
    uint64_t late_ns = at_ns - c->due_ns;
    late_sum_ns += late_ns;
    late_max_ns = late_ns > late_max_ns ? late_ns : late_max_ns;
    n_sent++;
    if (n_out == 0)
        n_out = (size_t)snprintf(out, sizeof out, "%zx\r\n%s\r\n", sizeof token - 1, token);
    if (c->n_left == c->n_tokens)
        histogram_record(&ttfts, now_by(CLOCK_REALTIME) - c->came_ns);
    put(fd, out, n_out);
    if (--c->n_left == 0)
        put_end(fd);
    else
        wait_until(fd, c->due_ns + itl_ns);
}

/* The number behind a member of the request's JSON; 0: not there. */
static unsigned number_of(const char *body, const char *member) {
    const char *at = strstr(body, member);
    at = at ? strchr(at, ':') : NULL;
    return at ? (unsigned)strtoul(at + 1, NULL, 10) : 0;
}

static void answer_models(int fd) {
    const char *body = "{\"object\":\"list\",\"data\":[{\"id\":\"known\",\"object\":\"model\"}]}";
    char out[400];
    int n =
        snprintf(out, sizeof out,
                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n"
                 "%s",
                 strlen(body), body);
    put(fd, out, (size_t)n);
}

static void answer_chat(int fd, const char *body) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    struct connection *c = &connections[fd];
    c->n_tokens = number_of(body, "\"max_tokens\"");
    if (c->n_tokens == 0)
        c->n_tokens = number_of(body, "\"max_completion_tokens\"");
    c->n_tokens += c->n_tokens == 0;
    c->n_left = c->n_tokens;
    c->n_prompt = 1;
    const char *content = strstr(body, "\"content\"");
    for (const char *at = content ? strchr(content, ':') + 2 : ""; *at && *at != '"'; at++)
        c->n_prompt += *at == ' ';
    c->answers = true;
    put(fd, head, sizeof head - 1);
    wait_until(fd, now_ns() + ttft_ns);
}

/* One whole request; bodies that ask for no stream get an empty object. */
static void answer(int fd, const char *body) {
    const char *path = strchr(connections[fd].in, ' ');
    if (strncmp(connections[fd].in, "GET", 3) == 0)
        answer_models(fd);
    else if (!path || strncmp(path, " /v1/chat/completions ", 22) != 0)
        put(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 45);
    else if (strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true"))
        answer_chat(fd, body);
    else
        put(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 47);
}

static void drop(int fd) {
    connections[fd].answers = false;
    connections[fd].n_in = 0;
    connections[fd].is_gone = connections[fd].is_queued;
    if (connections[fd].is_gone)
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    else
        close(fd);
}

/* As recv(); *came_ns: when the kernel got the last of the bytes. */
static ssize_t receive(int fd, char *bytes, size_t n, uint64_t *came_ns) {
    union {
        struct cmsghdr first;
        char bytes[256];
    } control;
    struct iovec part = {bytes, n};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, 0);
    *came_ns = now_by(CLOCK_REALTIME);
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); got > 0 && at;
         at = CMSG_NXTHDR(&message, at)) {
        struct timespec stamp;
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&stamp, CMSG_DATA(at), sizeof stamp);
        *came_ns = to_ns(stamp);
    }
    return got;
}

static void on_readable(int fd) {
    struct connection *c = &connections[fd];
    ssize_t n = receive(fd, c->in + c->n_in, REQUEST_MAX - 1 - c->n_in, &c->came_ns);
    if (n <= 0) {
        drop(fd);
        return;
    }
    c->n_in += (size_t)n;
    c->in[c->n_in] = 0;
    const char *end = strstr(c->in, "\r\n\r\n");
    const char *length = strcasestr(c->in, "\r\ncontent-length:");
    size_t n_body = end && length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    if (c->n_in == REQUEST_MAX - 1)
        drop(fd); /* larger than any prompt that is measured here */
    else if (end && c->n_in >= (size_t)(end + 4 - c->in) + n_body) {
        answer(fd, end + 4);
        c->n_in = 0;
    }
}

/* False: nobody waits to be let in. */
static bool let_in(int listener) {
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd < CONNECTIONS_MAX && !connections[fd].in)
        connections[fd].in = malloc(REQUEST_MAX);
    if (fd >= CONNECTIONS_MAX || !connections[fd].in) {
        close(fd);
        return true;
    }
    connections[fd].n_in = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* the cheapest: no pacing */
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    return true;
}

static void on_connections(int listener) {
    for (unsigned i = 0; i < ACCEPTS_A_TURN && let_in(listener);)
        i++;
}

/* Sends what was due in the bins that have ended, from the first one that was not looked at. */
static void send_due(uint64_t *looked) {
    for (uint64_t ended = now_ns() / BIN_NS; *looked < ended; ++*looked) {
        int fd = bins[*looked % BINS];
        bins[*looked % BINS] = -1;
        while (fd >= 0) {
            int next = connections[fd].next;
            connections[fd].is_queued = false;
            if (connections[fd].is_gone) {
                connections[fd].is_gone = false;
                close(fd);
            } else if (connections[fd].answers) {
                put_token(fd, now_ns());
            }
            fd = next;
        }
    }
}

static int listen_at(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 4096) != 0) {
        fprintf(stderr, "error: port %d: %s\n", port, strerror(errno));
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: known_server PORT TTFT_MS ITL_MS\n");
        return 78;
    }
    ttft_ns = (uint64_t)(strtod(argv[2], NULL) * 1e6);
    itl_ns = (uint64_t)(strtod(argv[3], NULL) * 1e6);
    memset(bins, 0xff, sizeof bins);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    int listener = listen_at((int)strtol(argv[1], NULL, 10));
    epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    uint64_t looked = now_ns() / BIN_NS;
    printf("ready\n");
    fflush(stdout);
    while (!is_stopped) {
        uint64_t left_ns = BIN_NS - now_ns() % BIN_NS;
        int n =
            epoll_pwait2(epoll, events, 256, &(struct timespec){.tv_nsec = (long)left_ns}, NULL);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                on_connections(listener);
            else
                on_readable(events[i].data.fd);
        }
        send_due(&looked);
    }
    printf("tokens %llu late_mean_ms %.3f late_max_ms %.3f ttft_mean_ms %.3f ttft_p50_ms %.3f "
           "ttft_p99_ms %.3f\n",
           (unsigned long long)n_sent, n_sent ? (double)late_sum_ns / 1e6 / (double)n_sent : 0,
           (double)late_max_ns / 1e6, ttfts.n ? (double)ttfts.sum / 1e6 / (double)ttfts.n : 0,
           (double)histogram_percentile(&ttfts, 50) / 1e6,
           (double)histogram_percentile(&ttfts, 99) / 1e6);
    return 0;
}
