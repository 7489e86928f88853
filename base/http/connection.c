#include "base/http/connection.h"

#include "base/buf.h"
#include "base/net/stream.h"

#include <stdlib.h>

#define DISCARD_MAX  65536u /* beyond a whole body, from a client that was refused */
#define LINGER_TIMES 5u     /* linger_ns, in all */

void connection_account(struct connection *connection) {
    size_t n = connection_pending(connection);
    exchanges_account_output(connection->host->exchanges, connection->n_output, n);
    connection->n_output = n;
}

void connection_send(struct connection *connection, const void *bytes, size_t n) {
    if (stream_write(connection->stream, bytes, n) == STATUS_OK)
        connection->host->counts.bytes_out += n;
    connection_account(connection);
    /* Else the stream has reported its end, or will: memory that is out ends it as a stall. */
}

void connection_send_buf(struct connection *connection, struct buf *bytes) {
    size_t n = bytes->n;
    if (stream_write_buf(connection->stream, bytes) == STATUS_OK)
        connection->host->counts.bytes_out += n;
    connection_account(connection);
}

void connection_kick(struct connection *connection) {
    loop_kick_add(connection->host->loop, &connection->kick);
}

void connection_linger(struct connection *connection) {
    connection->end = CONNECTION_LINGER;
    connection->n_discarded = 0;
    connection->lingers_ns = connection->discarded_ns = loop_now_ns(connection->host->loop);
    stream_pause(connection->stream, false);
    stream_shutdown(connection->stream);
}

static void connection_discard(struct connection *connection, size_t n) {
    connection->discarded_ns = loop_now_ns(connection->host->loop);
    connection->n_discarded += n;
    if (connection->n_discarded > connection->host->config.limits.body_bytes + DISCARD_MAX)
        connection_close(connection);
}

static void connection_on_data(void *user, const char *bytes, size_t n) {
    struct connection *connection = user;
    connection->host->counts.bytes_in += n;
    if (connection->end == CONNECTION_OPEN)
        connection->protocol->data(connection, bytes, n);
    else if (connection->end == CONNECTION_LINGER)
        connection_discard(connection, n);
}

static void connection_on_drained(void *user) {
    struct connection *connection = user;
    if (connection->end == CONNECTION_OPEN)
        connection->protocol->drained(connection);
}

static void connection_on_gone(void *user, enum status status) {
    (void)status;
    struct connection *connection = user;
    if (connection->end == CONNECTION_OPEN && connection->protocol->gone)
        connection->protocol->gone(connection);
    connection_close(connection);
}

static void connection_on_sent(void *user) {
    connection_account(user);
}

static const struct stream_events events = {connection_on_data, connection_on_drained,
                                            connection_on_gone, connection_on_sent};

static void connection_free_state(struct connection *connection) {
    if (connection->state)
        connection->protocol->fini(connection);
    free(connection->state);
    connection->state = NULL;
}

static void connection_on_kick(void *user) {
    struct connection *connection = user;
    if (connection->end == CONNECTION_OPEN) {
        connection->protocol->turn(connection);
    } else if (connection->end == CONNECTION_CLOSED) {
        connection_free_state(connection);
        connection->host->release(connection->host, connection);
    }
}

static enum status connection_speak(struct connection *connection,
                                    const struct protocol *protocol) {
    connection->state = calloc(1, protocol->state_size);
    if (!connection->state)
        return STATUS_NOMEM;
    connection->protocol = protocol;
    enum status status = protocol->open(connection);
    if (status != STATUS_OK)
        connection_free_state(connection);
    return status;
}

static enum status connection_open_stream(struct connection *connection, int fd) {
    struct loop *loop = connection->host->loop;
    const struct listener_config *config = &connection->host->config;
    connection->opened_ns = loop_now_ns(loop);
    if (!config->tls)
        return stream_new(loop, fd, &events, connection, &connection->stream);
    return config->tls_stream(loop, fd, config->tls, &events, connection, &connection->stream);
}

enum status connection_open(struct connection *connection, struct connection_host *host,
                            const struct protocol *protocol, int fd) {
    connection->host = host;
    loop_kick_init(&connection->kick, connection_on_kick, connection);
    TRY(connection_speak(connection, protocol));
    enum status status = connection_open_stream(connection, fd);
    if (status != STATUS_OK)
        connection_free_state(connection);
    return status;
}

enum status connection_become(struct connection *connection, const struct protocol *protocol) {
    connection_free_state(connection);
    enum status status = connection_speak(connection, protocol);
    if (status != STATUS_OK)
        connection_close(connection);
    else if (connection->host->draining)
        protocol->drain(connection);
    return status;
}

void connection_close(struct connection *connection) {
    if (connection->end == CONNECTION_CLOSED)
        return;
    connection->end = CONNECTION_CLOSED;
    stream_close(connection->stream);
    if (connection->state)
        connection->protocol->close(connection);
    connection_account(connection);
    connection_kick(connection);
}

void connection_drain(struct connection *connection) {
    if (connection_is_idle(connection))
        stream_read_now(connection->stream); /* it may speak another protocol after that */
    if (connection->end == CONNECTION_OPEN)
        connection->protocol->drain(connection);
}

bool connection_is_idle(const struct connection *connection) {
    return connection->end == CONNECTION_OPEN && stream_pending(connection->stream) == 0 &&
           connection->protocol->is_idle(connection);
}

size_t connection_pending(const struct connection *connection) {
    if (connection->end == CONNECTION_CLOSED)
        return 0;
    size_t n = stream_pending(connection->stream);
    if (connection->end == CONNECTION_OPEN && connection->protocol->pending)
        n += connection->protocol->pending(connection);
    return n;
}

void connection_check_time(struct connection *connection, uint64_t now_ns) {
    const struct listener_config *config = &connection->host->config;
    if (connection->end == CONNECTION_CLOSED)
        return;
    bool queued = stream_pending(connection->stream) > 0;
    uint64_t stall_ns = host_stall_ns(connection->host);
    if (queued && host_passed(now_ns, stream_progress_ns(connection->stream), stall_ns)) {
        connection->host->counts.n_timeouts++;
        connection_close(connection);
    } else if (config->tls && !stream_protocol(connection->stream)) {
        bool drains = connection->host->draining;
        if (host_passed(now_ns, connection->opened_ns,
                        drains ? config->first_ns : config->head_ns)) {
            connection->host->counts.n_timeouts += !drains;
            connection_close(connection);
        }
    } else if (connection->end == CONNECTION_OPEN) {
        connection->protocol->check_time(connection, now_ns);
    } else if (!queued &&
               (host_passed(now_ns, connection->discarded_ns, config->linger_ns) ||
                host_passed(now_ns, connection->lingers_ns, LINGER_TIMES * config->linger_ns))) {
        connection_close(connection);
    }
}
