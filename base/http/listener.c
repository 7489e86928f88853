#include "base/http/listener.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/http/connection.h"
#include "base/net/loop.h"
#include "base/net/tcp.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct listener_config listener_config_default = {
    .limits = HTTP1_LIMITS_DEFAULT,
    .n_connections_max = 16384,
    .n_exchanges_max = 16384,
    .n_probes_max = 64,
    .n_watches_max = 1024,
    .n_watches_of_each = 32,
    .idle_ns = 120 * NS_PER_S,
    .first_ns = 2 * NS_PER_S,
    .head_ns = 10 * NS_PER_S,
    .body_ns = 30 * NS_PER_S,
    .body_total_ns = 120 * NS_PER_S,
    .body_grace_ns = 10 * NS_PER_S,
    .body_rate = 1024,
    .body_memory = 256u << 20,
    .stall_ns = 30 * NS_PER_S,
    .linger_ns = 2 * NS_PER_S,
    .output_memory = 256u << 20,
    .reply_bytes_share = 8 * 1024,
    .output_bytes_max = 256 * 1024,
    .pipeline_bytes_max = 16 * 1024,
    .n_streams_max = 100,
    .turn_heads_share = 64 * 1024,
    .turn_heads = 1024 * 1024,
    .useless_frames_max = 100,
    .useless_frame_rate = 33,
};

struct listener {
    struct connection_host host; /* first: listener_release_slot() casts back */
    struct tcp_listener *tcp;    /* owned */
    struct loop_timer *sweep;    /* owned */
    uint64_t sweep_ns;
    struct connection *pool; /* owned (n_connections_max) */
    struct list idle;        /* free slots that were used before, last used first */
    uint32_t n_used;         /* slots below it were used at least once: the others are untouched */
    struct list live;        /* oldest first */
};

/* A slot that was never used costs no memory but its address: low ones are used first. */
static struct connection *listener_take_slot(struct listener *listener) {
    struct list *link = list_first(&listener->idle);
    if (link) {
        list_remove(link);
        return list_entry(link, struct connection, link);
    }
    if (listener->n_used == listener->host.config.n_connections_max)
        return NULL;
    return &listener->pool[listener->n_used++];
}

static bool listener_has_slot(const struct listener *listener) {
    return !list_empty(&listener->idle) ||
           listener->n_used < listener->host.config.n_connections_max;
}

static void listener_release_slot(struct connection_host *host, struct connection *connection) {
    struct listener *listener = (struct listener *)host;
    list_remove(&connection->link);
    /* Poison: a late use of a freed connection must not look like a live one. */
    memset(connection, 0xdb, sizeof *connection);
    list_init(&connection->link);
    list_push_front(&listener->idle, &connection->link);
    host->counts.n_open--;
    if (!host->draining)
        tcp_listener_pause(listener->tcp, false);
}

/* Closes the oldest connection that waits for nothing; false: there is none. While all drains each
 * may be one whose request has come and is not read yet. */
static bool listener_evict(struct listener *listener) {
    if (listener->host.draining)
        return false;
    list_each_entry(connection, &listener->live, struct connection, link) {
        if (connection_is_idle(connection)) {
            listener->host.counts.n_evicted++;
            connection_close(connection);
            return true;
        }
    }
    return false;
}

/* When the pool is full, a client that waits for nothing makes room; if there is none, new clients wait in the
 * kernel's queue. */
static void listener_make_room(struct listener *listener) {
    tcp_listener_pause(listener->tcp, true);
    listener_evict(listener);
}

/* The process is out of descriptors. */
static bool listener_on_exhausted(void *user) {
    return listener_evict(user);
}

static void listener_on_accept(void *user, int fd) {
    struct listener *listener = user;
    struct connection *connection = listener_take_slot(listener);
    ASSERT(connection); /* accepting is paused while there is none */
    memset(connection, 0, sizeof *connection);
    list_init(&connection->link);
    if (connection_open(connection, &listener->host, &http1_protocol, fd) != STATUS_OK) {
        close(fd);
        list_push_front(&listener->idle, &connection->link);
        return;
    }
    listener->host.counts.n_open++;
    listener->host.counts.n_accepted++;
    if (!listener_has_slot(listener))
        listener_make_room(listener);
    list_push_back(&listener->live, &connection->link);
}

static void listener_on_sweep(void *user) {
    struct listener *listener = user;
    uint64_t now_ns = loop_now_ns(listener->host.loop);
    list_each(link, &listener->live) {
        connection_check_time(list_entry(link, struct connection, link), now_ns);
    }
    loop_timer_after(listener->sweep, listener->sweep_ns);
}

/* Each connection is looked at this often, so its times are kept to a quarter of the shortest. */
static uint64_t listener_sweep_interval(const struct listener_config *config) {
    uint64_t least = NS_PER_S * 4;
    const uint64_t times[] = {
        config->idle_ns,       config->first_ns,
        config->head_ns,       config->body_ns,
        config->body_total_ns, config->stall_ns,
        config->linger_ns,     config->ping_ns ? config->ping_ns : UINT64_MAX};
    for (unsigned i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] < least)
            least = times[i];
    return least / 4 > 5 * NS_PER_MS ? least / 4 : 5 * NS_PER_MS;
}

enum status listener_new(struct loop *loop, const char *address,
                         const struct listener_config *config, const struct listener_calls *calls,
                         struct listener **out, struct error *error) {
    ASSERT(!config->tls || config->tls_stream);
    ASSERT(config->n_connections_max > 0 && config->n_exchanges_max > 0 &&
           config->limits.body_bytes > 0 && config->n_streams_max > 0 && calls->handler);
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return error_set(error, STATUS_NOMEM, "out of memory");
    listener->host = (struct connection_host){.loop = loop,
                                              .config = *config,
                                              .calls = *calls,
                                              .release = listener_release_slot,
                                              .random = {random_seed()}};
    heads_init(&listener->host.heads, loop, config->turn_heads_share, config->turn_heads);
    list_init(&listener->idle);
    list_init(&listener->live);
    listener->sweep_ns = listener_sweep_interval(config);
    listener->pool = calloc(config->n_connections_max, sizeof *listener->pool);
    enum status status = STATUS_NOMEM;
    error_set(error, STATUS_NOMEM, "out of memory");
    const struct exchanges_bounds bounds = {.n_max = config->n_exchanges_max,
                                            .n_probes_max = config->n_probes_max,
                                            .n_watches_max = config->n_watches_max,
                                            .n_watches_of_each = config->n_watches_of_each,
                                            .body_bytes_max = config->body_memory,
                                            .output_bytes_max = config->output_memory};
    if (listener->pool && exchanges_new(&bounds, &listener->host.exchanges) == STATUS_OK &&
        loop_timer_new(loop, listener_on_sweep, listener, &listener->sweep) == STATUS_OK)
        status = tcp_listen(loop, address, listener_on_accept, listener, &listener->tcp, error);
    if (status != STATUS_OK) {
        listener_free(listener);
        return status;
    }
    tcp_listener_tell_exhausted(listener->tcp, listener_on_exhausted);
    loop_timer_after(listener->sweep, listener->sweep_ns);
    *out = listener;
    return STATUS_OK;
}

void listener_free(struct listener *listener) {
    if (!listener)
        return;
    listener->host.draining = true;
    list_each_entry(connection, &listener->live, struct connection, link) {
        connection_close(connection);
        loop_kick_remove(&connection->kick);
        connection->kick.fn(connection->kick.user); /* frees it now: no callback is running */
    }
    ASSERT(list_empty(&listener->live));
    tcp_listener_free(listener->tcp);
    loop_timer_free(listener->sweep);
    heads_fini(&listener->host.heads);
    exchanges_free(listener->host.exchanges);
    buf_fini(&listener->host.scratch);
    free(listener->pool);
    free(listener);
}

uint16_t listener_port(const struct listener *listener) {
    return tcp_listener_port(listener->tcp);
}

bool listener_is_loopback(const struct listener *listener) {
    return tcp_listener_is_loopback(listener->tcp);
}

struct exchanges *listener_exchanges(struct listener *listener) {
    return listener->host.exchanges;
}

struct listener_counts listener_counts(const struct listener *listener) {
    return listener->host.counts;
}

size_t listener_output_bytes(const struct listener *listener) {
    return exchanges_output_bytes(listener->host.exchanges);
}

void listener_hold(struct listener *listener, bool held) {
    ASSERT(listener->host.counts.n_open == 0);
    tcp_listener_pause(listener->tcp, held);
}

void listener_drain(struct listener *listener) {
    listener->host.draining = true;
    tcp_listener_finish(listener->tcp);
    list_each(link, &listener->live) {
        connection_drain(list_entry(link, struct connection, link));
    }
}
