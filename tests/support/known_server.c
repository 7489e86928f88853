/* tests/support/known_server.c: an OpenAI-style server of known timing, to measure clients with.
 *
 *     known_server PORT TTFT_MS ITL_MS
 *
 * Answers GET with a list of one model, POST with a streamed chat of `max_tokens` tokens: the first
 * TTFT_MS after the request was read, each later one ITL_MS after the one before, by absolute
 * deadlines; then the usage, which counts a token for each word of the prompt. Prints "ready" when it
 * listens. At its end (SIGTERM) it prints what it really did: the number of tokens, and the mean and
 * largest time in milliseconds by which it was late with one. One thread. */
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
#define BINS            65536 /* of a wheel of milliseconds: the longest wait */

struct connection {
    char *in; /* owned (REQUEST_MAX); what came of a request */
    size_t n_in;
    int next; /* in its bin of the wheel; -1: the last */
    uint64_t due_ns;
    unsigned n_left; /* tokens */
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
static volatile sig_atomic_t is_stopped;

static void on_signal(int signal) {
    (void)signal;
    is_stopped = 1;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void put(int fd, const char *bytes, size_t n) {
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        connections[fd].answers = false; /* a client that does not read is not waited for */
}

static void put_chunk(int fd, const char *data) {
    char out[1024];
    int n = snprintf(out, sizeof out, "%zx\r\ndata: %s\n\n\r\n", strlen(data) + 8, data);
    put(fd, out, (size_t)n);
}

static void wait_until(int fd, uint64_t due_ns) {
    unsigned bin = (unsigned)(due_ns / 1000000 % BINS);
    connections[fd].due_ns = due_ns;
    connections[fd].is_queued = true;
    connections[fd].next = bins[bin];
    bins[bin] = fd;
}

static void put_end(int fd) {
    struct connection *c = &connections[fd];
    char usage[300];
    put_chunk(fd,
              "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
              "\"known\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}");
    snprintf(usage, sizeof usage,
             "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
             "\"known\",\"choices\":[],\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
             "\"total_tokens\":%u}}",
             c->n_prompt, c->n_tokens, c->n_prompt + c->n_tokens);
    put_chunk(fd, usage);
    put(fd, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", 24);
    c->answers = false;
}

static void put_token(int fd, uint64_t at_ns) {
    struct connection *c = &connections[fd];
    uint64_t late_ns = at_ns - c->due_ns;
    late_sum_ns += late_ns;
    late_max_ns = late_ns > late_max_ns ? late_ns : late_max_ns;
    n_sent++;
    put_chunk(fd,
              "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
              "\"known\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},"
              "\"finish_reason\":null}]}");
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

static void on_readable(int fd) {
    struct connection *c = &connections[fd];
    ssize_t n = recv(fd, c->in + c->n_in, REQUEST_MAX - 1 - c->n_in, 0);
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

static void on_connection(int listener) {
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd < CONNECTIONS_MAX && !connections[fd].in)
        connections[fd].in = malloc(REQUEST_MAX);
    if (fd >= CONNECTIONS_MAX || !connections[fd].in) {
        close(fd);
        return;
    }
    connections[fd].n_in = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Sends what is due up to now, bin by bin from the last one looked at. */
static void send_due(uint64_t *looked_ms) {
    uint64_t until_ms = now_ns() / 1000000;
    for (; *looked_ms <= until_ms; ++*looked_ms) {
        int fd = bins[*looked_ms % BINS];
        bins[*looked_ms % BINS] = -1;
        while (fd >= 0) {
            int next = connections[fd].next;
            uint64_t at_ns = now_ns();
            connections[fd].is_queued = false;
            if (connections[fd].is_gone) {
                connections[fd].is_gone = false;
                close(fd);
            } else if (connections[fd].answers && connections[fd].due_ns > at_ns) {
                wait_until(fd, connections[fd].due_ns); /* later in this millisecond */
            } else if (connections[fd].answers) {
                put_token(fd, at_ns);
            }
            fd = next;
        }
        if (*looked_ms == until_ms)
            return; /* this bin again at the next turn */
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
    uint64_t looked_ms = now_ns() / 1000000;
    printf("ready\n");
    fflush(stdout);
    while (!is_stopped) {
        int n = epoll_wait(epoll, events, 256, 1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                on_connection(listener);
            else
                on_readable(events[i].data.fd);
        }
        send_due(&looked_ms);
    }
    printf("tokens %llu late_mean_ms %.3f late_max_ms %.3f\n", (unsigned long long)n_sent,
           n_sent ? (double)late_sum_ns / 1e6 / (double)n_sent : 0, (double)late_max_ns / 1e6);
    return 0;
}
