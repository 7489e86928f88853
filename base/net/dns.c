#include "base/net/dns.h"

#include "base/assert.h"
#include "base/clock.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TRY_MS 1000 /* a server gets this long, and then once more twice as long */
#define TRIES  2

enum family { FAMILY_4, FAMILY_6, FAMILIES };

/* What one kind of address of one name is known to be. The asking thread's own. */
struct dns_part {
    int family; /* AF_INET or AF_INET6 */
    int code;   /* of the last question: ARES_... */
    uint32_t n; /* addresses of the last one that was answered */
    char addresses[DNS_ADDRESSES_MAX][DNS_ADDRESS_BYTES];
};

struct dns_name {
    char *text; /* owned */
    struct dns_part parts[FAMILIES];
    /* Under the mutex: */
    struct dns_answer answer;
    bool is_new;
};

struct dns {
    uint32_t n;
    struct dns_name *names; /* owned (n) */
    char *server;           /* owned; "" */
    int end_fd;             /* owned: readable once the thread has to end; -1 */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t mutex;
};

/* A channel reads resolv.conf, hosts and nsswitch.conf when it is made. */
static enum status dns_open_channel(const char *server, ares_channel *channel,
                                    struct error *error) {
    struct ares_options options = {.timeout = TRY_MS, .tries = TRIES};
    int code = ares_init_options(channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);
    if (code != ARES_SUCCESS)
        return error_set(error, STATUS_NOMEM, "the resolver does not start: %s",
                         ares_strerror(code));
    if (!server[0])
        return STATUS_OK;
    code = ares_set_servers_ports_csv(*channel, server);
    if (code == ARES_SUCCESS)
        return STATUS_OK;
    ares_destroy(*channel);
    return error_set(error, STATUS_INVALID, "\"%s\" is not ADDRESS or ADDRESS:PORT", server);
}

static int dns_compare_addresses(const void *a, const void *b) {
    return strcmp(a, b);
}

static void dns_keep_address(struct dns_part *part, const struct ares_addrinfo_node *nodes) {
    part->n = 0;
    for (const struct ares_addrinfo_node *node = nodes; node; node = node->ai_next) {
        const void *bytes = node->ai_family == AF_INET6
                                ? (const void *)&((struct sockaddr_in6 *)node->ai_addr)->sin6_addr
                                : (const void *)&((struct sockaddr_in *)node->ai_addr)->sin_addr;
        if (part->n < DNS_ADDRESSES_MAX && node->ai_family == part->family &&
            inet_ntop(node->ai_family, bytes, part->addresses[part->n], DNS_ADDRESS_BYTES))
            part->n++;
    }
}

static void dns_on_answer(void *user, int code, int n_timeouts, struct ares_addrinfo *result) {
    struct dns_part *part = user;
    (void)n_timeouts;
    part->code = code == ARES_SUCCESS && (!result || !result->nodes) ? ARES_ENODATA : code;
    if (part->code == ARES_SUCCESS)
        dns_keep_address(part, result->nodes);
    if (result)
        ares_freeaddrinfo(result);
}

/* The name has no address of this kind: an answer, and no failure to get one. */
static bool dns_is_none(const struct dns_part *part) {
    return part->code == ARES_ENODATA || part->code == ARES_ENOTFOUND;
}

/* Both kinds put together. With neither answered, or an answer that there is none at all, what was known stays. */
static void dns_combine_answers(struct dns_name *name, struct dns_answer *answer) {
    const struct dns_part *parts = name->parts;
    bool is_answered = parts[FAMILY_4].code == ARES_SUCCESS || parts[FAMILY_6].code == ARES_SUCCESS;
    if (!is_answered) {
        const struct dns_part *worst = &parts[dns_is_none(&parts[FAMILY_4]) ? FAMILY_6 : FAMILY_4];
        snprintf(answer->why, sizeof answer->why, "%s", ares_strerror(worst->code));
        return;
    }
    answer->n = 0;
    answer->why[0] = 0;
    for (unsigned i = 0; i < FAMILIES; i++)
        for (uint32_t at = 0; at < parts[i].n && !dns_is_none(&parts[i]); at++)
            if (answer->n < DNS_ADDRESSES_MAX)
                memcpy(answer->addresses[answer->n++], parts[i].addresses[at], DNS_ADDRESS_BYTES);
    qsort(answer->addresses, answer->n, sizeof answer->addresses[0], dns_compare_addresses);
    uint32_t n = 0;
    for (uint32_t i = 0; i < answer->n; i++)
        if (n == 0 || strcmp(answer->addresses[i], answer->addresses[n - 1]) != 0)
            memmove(answer->addresses[n++], answer->addresses[i], DNS_ADDRESS_BYTES);
    answer->n = n;
}

static bool dns_same_addresses(const struct dns_answer *a, const struct dns_answer *b) {
    if (a->n != b->n || strcmp(a->why, b->why) != 0)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (strcmp(a->addresses[i], b->addresses[i]) != 0)
            return false;
    return true;
}

/* Only the asking thread writes answers, so it may read them without the mutex. */
static void dns_publish_answer(struct dns *dns, struct dns_name *name) {
    struct dns_answer fresh = name->answer;
    dns_combine_answers(name, &fresh);
    if (dns_same_addresses(&fresh, &name->answer))
        return;
    pthread_mutex_lock(&dns->mutex);
    name->answer = fresh;
    name->is_new = true;
    pthread_mutex_unlock(&dns->mutex);
}

/* Sleeps on the channel's sockets. False: the thread has to end. */
static bool dns_wait_for_sockets(struct dns *dns, ares_channel channel) {
    ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
    struct pollfd fds[ARES_GETSOCK_MAXNUM + 1] = {{.fd = dns->end_fd, .events = POLLIN}};
    int bits = ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM);
    nfds_t n = 1;
    for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        bool reads = ARES_GETSOCK_READABLE(bits, i), writes = ARES_GETSOCK_WRITABLE(bits, i);
        if (reads || writes)
            fds[n++] = (struct pollfd){
                .fd = sockets[i], .events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0))};
    }
    struct timeval room, most = {.tv_usec = 500000};
    const struct timeval *wait = ares_timeout(channel, &most, &room);
    poll(fds, n, (int)(wait->tv_sec * 1000 + wait->tv_usec / 1000) + 1);
    if (fds[0].revents)
        return false;
    for (nfds_t i = 1; i < n; i++)
        if (fds[i].revents)
            ares_process_fd(channel, fds[i].revents & ~POLLOUT ? fds[i].fd : ARES_SOCKET_BAD,
                            fds[i].revents & POLLOUT ? fds[i].fd : ARES_SOCKET_BAD);
    ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); /* what is late */
    return true;
}

/* Has every question of the round its answer? */
static bool dns_is_done(const struct dns *dns) {
    for (uint32_t i = 0; i < dns->n; i++)
        for (unsigned f = 0; f < FAMILIES; f++)
            if (dns->names[i].parts[f].code < 0)
                return false;
    return true;
}

/* An address as a name has no address of the other kind, and no server is asked. */
static bool dns_is_other_kind(const char *text, int family) {
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(family == AF_INET ? AF_INET6 : AF_INET, text, bytes) == 1;
}

/* Asks for all names, once. False: the thread has to end. */
static bool dns_ask_for_names(struct dns *dns) {
    ares_channel channel;
    struct error error;
    if (dns_open_channel(dns->server, &channel, &error) != STATUS_OK)
        return true; /* out of memory or files: the next round */
    uint64_t until_ns = clock_now_ns() + DNS_LIMIT_NS;
    bool goes_on = true;
    for (uint32_t i = 0; i < dns->n; i++)
        for (unsigned f = 0; f < FAMILIES; f++) {
            struct dns_part *part = &dns->names[i].parts[f];
            struct ares_addrinfo_hints hints = {.ai_family = part->family,
                                                .ai_flags = ARES_AI_NOSORT};
            part->code = dns_is_other_kind(dns->names[i].text, part->family) ? ARES_ENODATA : -1;
            if (part->code >= 0)
                continue;
            ares_getaddrinfo(channel, dns->names[i].text, NULL, &hints, dns_on_answer, part);
        }
    while (goes_on && !dns_is_done(dns)) {
        goes_on = dns_wait_for_sockets(dns, channel);
        if (clock_now_ns() >= until_ns)
            ares_cancel(channel);
    }
    if (goes_on)
        for (uint32_t i = 0; i < dns->n; i++)
            dns_publish_answer(dns, &dns->names[i]);
    ares_destroy(channel);
    return goes_on;
}

static void *dns_run(void *user) {
    struct dns *dns = user;
    struct pollfd end = {.fd = dns->end_fd, .events = POLLIN};
    while (dns_ask_for_names(dns) && poll(&end, 1, (int)(DNS_EVERY_NS / NS_PER_MS)) <= 0)
        continue;
    return NULL;
}

static enum status dns_start_thread(struct dns *dns, const char *const *names,
                                    struct error *error) {
    ares_channel channel;
    TRY(dns_open_channel(dns->server, &channel, error));
    ares_destroy(channel);
    for (uint32_t i = 0; i < dns->n; i++) {
        struct dns_name *name = &dns->names[i];
        name->text = strdup(names[i]);
        if (!name->text)
            return error_set(error, STATUS_NOMEM, "no memory for names");
        name->parts[FAMILY_4] = (struct dns_part){.family = AF_INET};
        name->parts[FAMILY_6] = (struct dns_part){.family = AF_INET6};
    }
    dns->end_fd = eventfd(0, EFD_CLOEXEC);
    if (dns->end_fd < 0 || pthread_create(&dns->thread, NULL, dns_run, dns) != 0)
        return error_set(error, STATUS_LIMIT, "cannot start a thread: %s", strerror(errno));
    dns->has_thread = true;
    return STATUS_OK;
}

enum status dns_new(const char *const *names, uint32_t n, const char *server, struct dns **dns,
                    struct error *error) {
    ASSERT(n > 0 && n <= DNS_NAMES_MAX);
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
        return error_set(error, STATUS_NOMEM, "the resolver does not start");
    struct dns *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for names");
    *made = (struct dns){.n = n, .end_fd = -1};
    pthread_mutex_init(&made->mutex, NULL);
    made->names = calloc(n, sizeof *made->names);
    made->server = strdup(server);
    enum status status = made->names && made->server
                             ? dns_start_thread(made, names, error)
                             : error_set(error, STATUS_NOMEM, "no memory for names");
    if (status != STATUS_OK)
        dns_free(made);
    else
        *dns = made;
    return status;
}

void dns_free(struct dns *dns) {
    if (!dns)
        return;
    if (dns->has_thread) {
        eventfd_write(dns->end_fd, 1);
        pthread_join(dns->thread, NULL);
    }
    if (dns->end_fd >= 0)
        close(dns->end_fd);
    for (uint32_t i = 0; dns->names && i < dns->n; i++)
        free(dns->names[i].text);
    free(dns->names);
    free(dns->server);
    pthread_mutex_destroy(&dns->mutex);
    free(dns);
}

bool dns_take(struct dns *dns, uint32_t at, struct dns_answer *answer) {
    ASSERT(at < dns->n);
    struct dns_name *name = &dns->names[at];
    pthread_mutex_lock(&dns->mutex);
    bool is_new = name->is_new;
    if (is_new)
        *answer = name->answer;
    name->is_new = false;
    pthread_mutex_unlock(&dns->mutex);
    return is_new;
}
