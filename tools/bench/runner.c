#include "tools/bench/runner.h"

#include "base/client/http_client.h"
#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NO_REQUEST   UINT32_MAX
#define SENDS_A_TURN 16

/* A connection and the request that it carries. */
struct bench_connection {
    struct runner *runner; /* borrowed */
    const struct wire *wire;
    struct wire_link *link; /* owned */
    uint32_t url;
    uint32_t request;   /* NO_REQUEST: free */
    uint32_t next_free; /* of the same URL */
};

struct runner {
    struct runner_spec spec;
    struct loop *loop;
    struct loop_timer *timer;    /* the level's next deadline */
    struct loop_timer *progress; /* a line for the user */
    struct loop_watch *signals[3];
    struct loop_kick kick;
    struct bench_connection **connections; /* owned (n_connections), each owned */
    uint32_t n_connections;
    uint32_t size;
    uint32_t *free_connections; /* owned (n_urls): heads of the lists of free connections */
    uint32_t *connection_of;    /* owned (n_connection_of): the connection of a level's request */
    uint32_t n_connection_of;
    uint32_t next_url;
    struct buf body;
    struct level *level; /* borrowed, while one runs */
    enum status status;  /* of the level, when it cannot go on */
    struct error *error; /* borrowed, while a level runs */
    struct error first_error;
    bool is_stopped;
};

static void runner_fail(struct runner *runner, enum status status, const char *what) {
    if (runner->status == STATUS_OK)
        runner->status = error_set(runner->error, status, "%s", what);
    loop_stop(runner->loop);
}

static void bench_runner_release_connection(struct runner *runner,
                                            struct bench_connection *connection, uint32_t index) {
    connection->request = NO_REQUEST;
    connection->next_free = runner->free_connections[connection->url];
    runner->free_connections[connection->url] = index;
}

/* Keeps what the first failure said. It may quote bytes of an answer: those that are no plain text
 * become '?', or a terminal would obey them. */
static void bench_runner_note_error(struct runner *runner, const struct error *error) {
    if (runner->first_error.text[0])
        return;
    runner->first_error = *error;
    for (char *at = runner->first_error.text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

static void bench_runner_on_event(void *user, const struct event *told, const struct error *error) {
    struct bench_connection *connection = user;
    struct runner *runner = connection->runner;
    struct event event = *told;
    if (connection->request == NO_REQUEST || !runner->level)
        return;
    event.request = connection->request;
    if (event.kind == EVENT_END) {
        if (error)
            bench_runner_note_error(runner, error);
        bench_runner_release_connection(runner, connection,
                                        runner->connection_of[connection->request]);
        loop_kick_add(runner->loop, &runner->kick);
    }
    if (level_event(runner->level, &event) != STATUS_OK)
        runner_fail(runner, STATUS_NOMEM, "out of memory for what came");
}

static enum status bench_runner_add_connection(struct runner *runner, uint32_t url,
                                               uint32_t *index) {
    if (runner->n_connections == runner->size) {
        uint32_t size = runner->size ? 2 * runner->size : 64;
        struct bench_connection **grown =
            realloc(runner->connections, size * sizeof(struct bench_connection *));
        if (!grown)
            return error_set(runner->error, STATUS_NOMEM, "out of memory for connections");
        runner->connections = grown;
        runner->size = size;
    }
    struct bench_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return error_set(runner->error, STATUS_NOMEM, "out of memory for connections");
    struct wire_target target = {.text = runner->spec.targets[url],
                                 .url = &runner->spec.urls[url],
                                 .api_key = runner->spec.api_key,
                                 .form = &runner->spec.form};
    *connection =
        (struct bench_connection){.runner = runner, .url = url, .wire = wire_find(target.text)};
    enum status status = connection->wire->open(runner->loop, &target, bench_runner_on_event,
                                                connection, &connection->link, runner->error);
    if (status != STATUS_OK) {
        free(connection);
        return status;
    }
    runner->connections[runner->n_connections] = connection;
    *index = runner->n_connections;
    bench_runner_release_connection(runner, connection, runner->n_connections++);
    return STATUS_OK;
}

static enum status bench_runner_find_connection(struct runner *runner, uint32_t request,
                                                uint32_t *index) {
    if (request >= runner->n_connection_of) {
        uint32_t n = request + 1024 + request / 2;
        uint32_t *grown = realloc(runner->connection_of, n * sizeof *grown);
        if (!grown)
            return error_set(runner->error, STATUS_NOMEM, "out of memory for %u requests", n);
        runner->connection_of = grown;
        runner->n_connection_of = n;
    }
    uint32_t url = runner->next_url++ % runner->spec.n_urls;
    *index = runner->free_connections[url];
    return *index == NO_REQUEST ? bench_runner_add_connection(runner, url, index) : STATUS_OK;
}

static enum status bench_runner_send_request(struct runner *runner, uint32_t request) {
    uint32_t index;
    TRY(bench_runner_find_connection(runner, request, &index));
    struct bench_connection *connection = runner->connections[index];
    runner->free_connections[connection->url] = connection->next_free;
    runner->connection_of[request] = index;
    connection->request = request;
    buf_clear(&runner->body);
    workload_body(runner->spec.workload, &runner->spec.form, &runner->level->records[request].ask,
                  &runner->body);
    struct event sent = {.kind = EVENT_SENT, .request = request, .at_ns = clock_now_ns()};
    if (buf_status(&runner->body) != STATUS_OK || level_event(runner->level, &sent) != STATUS_OK)
        return error_set(runner->error, STATUS_NOMEM, "out of memory for a request");
    connection->wire->send(connection->link, runner->body.data, runner->body.n);
    return STATUS_OK;
}

static void bench_runner_cancel_request(struct runner *runner, uint32_t request) {
    uint32_t index = runner->connection_of[request];
    struct bench_connection *connection = runner->connections[index];
    const struct record *record = &runner->level->records[request];
    if (record->fault && !runner->first_error.text[0])
        (void)error_set(&runner->first_error, STATUS_TIMEOUT, "%s: request %u was given up",
                        fault_name(record->fault), request);
    connection->wire->cancel(connection->link);
    bench_runner_release_connection(runner, connection, index);
}

/* Does what the level wants done now; after SENDS_A_TURN answers are read before it goes on. */
static void bench_runner_send_due(void *user) {
    struct runner *runner = user;
    unsigned n_sent = 0;
    while (runner->level && runner->status == STATUS_OK) {
        struct action action;
        if (level_next(runner->level, clock_now_ns(), &action) != STATUS_OK) {
            runner_fail(runner, STATUS_NOMEM, "out of memory for requests");
            return;
        }
        switch (action.kind) {
        case ACTION_SEND:
            if (bench_runner_send_request(runner, action.request) != STATUS_OK) {
                runner->status = STATUS_NOMEM;
                loop_stop(runner->loop);
            }
            if (++n_sent == SENDS_A_TURN) {
                loop_kick_add(runner->loop, &runner->kick);
                return;
            }
            break;
        case ACTION_CANCEL:
            bench_runner_cancel_request(runner, action.request);
            break;
        case ACTION_WAIT:
            loop_timer_at(runner->timer, action.at_ns);
            return;
        case ACTION_OVER:
            loop_stop(runner->loop);
            return;
        }
    }
}

static void bench_runner_on_timer(void *user) {
    struct runner *runner = user;
    uint64_t now_ns = clock_now_ns();
    struct loop_turn_max turn = loop_turn_max(runner->loop, now_ns);
    if (runner->level) {
        struct event tick = {.kind = EVENT_TICK, .at_ns = now_ns, .loop_late_ns = turn.wall_ns};
        if (level_event(runner->level, &tick) != STATUS_OK)
            runner_fail(runner, STATUS_NOMEM, "out of memory for a tick");
    }
    bench_runner_send_due(runner);
}

static void bench_runner_on_signal(void *user, unsigned signal) {
    struct runner *runner = user;
    (void)signal;
    runner->is_stopped = true;
    if (runner->level) {
        runner->level->spec.drain_ns = 0;
        level_stop(runner->level, clock_now_ns());
        loop_kick_add(runner->loop, &runner->kick);
    }
}

static void bench_runner_on_progress(void *user) {
    struct runner *runner = user;
    const struct level *level = runner->level;
    bool terminal = isatty(STDERR_FILENO);
    loop_timer_after(runner->progress, terminal ? NS_PER_S / 2 : 5 * NS_PER_S);
    if (!level)
        return;
    double seconds = (double)(clock_now_ns() - level->begin_ns) / (double)NS_PER_S;
    double limit_s = (double)level->spec.schedule.duration_ns / (double)NS_PER_S;
    uint32_t n_done = level->n_records - level->n_running;
    double share = limit_s > 0 ? seconds / limit_s
                   : level->spec.schedule.n_requests
                       ? n_done / (double)level->spec.schedule.n_requests
                       : 0;
    char bar[21];
    for (unsigned i = 0; i < 20; i++)
        bar[i] = i < share * 20 ? '#' : '.';
    bar[20] = 0;
    fprintf(stderr,
            "%s%s [%s] %u done, %u failed, %u running, %.1f requests/s, %.0f tokens/s, "
            "gap p50 %.1f p99 %.1f ms%s",
            terminal ? "\r" : "", level->spec.label, bar, n_done, level->n_failed, level->n_running,
            n_done / (seconds > 0 ? seconds : 1),
            (double)level->n_texts / (seconds > 0 ? seconds : 1),
            (double)histogram_percentile(level->gaps, 50) / 1e6,
            (double)histogram_percentile(level->gaps, 99) / 1e6, terminal ? "\033[K" : "\n");
}

enum status runner_level(struct runner *runner, const struct level_spec *spec, struct level *level,
                         struct error *error) {
    runner->status = STATUS_OK;
    runner->error = error;
    if (level_begin(level, spec, clock_now_ns()) != STATUS_OK) {
        level_fini(level);
        return error_set(error, STATUS_NOMEM, "out of memory for level %s", spec->label);
    }
    runner->level = level;
    if (!runner->spec.is_quiet)
        loop_timer_after(runner->progress, NS_PER_S / 2);
    loop_kick_add(runner->loop, &runner->kick);
    loop_run(runner->loop);
    loop_timer_stop(runner->timer);
    loop_timer_stop(runner->progress);
    runner->level = NULL;
    if (!runner->spec.is_quiet && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    if (runner->status != STATUS_OK)
        level_fini(level);
    return runner->status;
}

bool runner_is_stopped(const struct runner *runner) {
    return runner->is_stopped;
}

const char *runner_first_error(const struct runner *runner) {
    return runner->first_error.text;
}

void runner_free(struct runner *runner) {
    if (!runner)
        return;
    for (uint32_t i = 0; i < runner->n_connections; i++) {
        runner->connections[i]->wire->close(runner->connections[i]->link);
        free(runner->connections[i]);
    }
    loop_kick_remove(&runner->kick);
    loop_timer_free(runner->timer);
    loop_timer_free(runner->progress);
    for (unsigned i = 0; i < sizeof runner->signals / sizeof *runner->signals; i++)
        loop_watch_free(runner->signals[i]);
    loop_free(runner->loop);
    free(runner->connections);
    free(runner->free_connections);
    free(runner->connection_of);
    buf_fini(&runner->body);
    free(runner);
}

static enum status bench_runner_open_loop(struct runner *runner) {
    TRY(loop_new(&runner->loop));
    TRY(loop_timer_new(runner->loop, bench_runner_on_timer, runner, &runner->timer));
    TRY(loop_timer_new(runner->loop, bench_runner_on_progress, runner, &runner->progress));
    TRY(loop_signal_new(runner->loop, SIGINT, bench_runner_on_signal, runner, &runner->signals[0]));
    TRY(loop_signal_new(runner->loop, SIGTERM, bench_runner_on_signal, runner,
                        &runner->signals[1]));
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
        return STATUS_OK; /* nohup: it runs on */
    return loop_signal_new(runner->loop, SIGHUP, bench_runner_on_signal, runner,
                           &runner->signals[2]);
}

enum status runner_new(const struct runner_spec *spec, struct runner **runner,
                       struct error *error) {
    for (uint32_t i = 0; i < spec->n_urls; i++)
        if (!wire_find(spec->targets[i]))
            return error_set(error, STATUS_INVALID,
                             "--target: \"%s\" has a scheme that is not spoken", spec->targets[i]);
    struct runner *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "out of memory");
    made->spec = *spec;
    buf_init(&made->body, 0);
    loop_kick_init(&made->kick, bench_runner_send_due, made);
    made->free_connections = malloc(spec->n_urls * sizeof *made->free_connections);
    enum status status = made->free_connections ? bench_runner_open_loop(made) : STATUS_NOMEM;
    if (status != STATUS_OK) {
        runner_free(made);
        return error_set(error, status, "no event loop");
    }
    for (uint32_t i = 0; i < spec->n_urls; i++)
        made->free_connections[i] = NO_REQUEST;
    *runner = made;
    return STATUS_OK;
}
