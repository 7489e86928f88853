#include "tools/cli/up/ready.h"

#include "tools/cli/up/screen.h"
#include "tools/cli/up/supervise.h"

#include "base/clock.h"
#include "base/exit.h"
#include "base/log/log_writer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBE_NS_MIN NS_PER_MS
#define PROBE_NS_MAX (32 * NS_PER_MS)
#define PUT_MS       20

const char *ready_foot(const struct ready *ready, char *text, size_t width) {
    char names[512];
    if (supervisor_ends(ready->supervisor))
        snprintf(text, width, "draining: running answers may end; Ctrl-C again ends at once");
    else if (!ready->printed)
        snprintf(text, width, "%s", "");
    else if (supervisor_waits(ready->supervisor, names, sizeof names))
        snprintf(text, width, "%s  not ready: %s  Ctrl-C drains and ends", ready->address, names);
    else
        snprintf(text, width, "%s  %u worker%s ready  Ctrl-C drains and ends", ready->address,
                 ready->n_workers, ready->n_workers == 1 ? "" : "s");
    return text;
}

static void up_say_what_to_try(const struct ready *ready) {
    const struct child *victim = supervisor_victim(ready->supervisor);
    if (ready->has_page)
        screen_say("a chat and the cluster's picture: open %s/ in a browser", ready->address);
    screen_say("OpenAI API at %s/v1", ready->address);
    screen_say("try: tandem chat --server %s \"What is a dog?\"", ready->address);
    if (!victim)
        return;
    screen_say("to see an answer go on without its worker: kill -9 %d", (int)victim->pid);
    screen_say("or: tandem kill --server %s %s", ready->address, victim->name);
}

/* The reader may be gone, or a terminal may be stopped: the cluster serves, and the line waits. */
static void up_print_ready(void *user) {
    struct ready *ready = user;
    ready->printed = true;
    char line[sizeof ready->address + 32];
    screen_status("");
    (void)log_writer_flush(PUT_MS); /* or the terminal would show it in the wrong place */
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) == 0) {
        loop_timer_after(ready->print, 100 * NS_PER_MS);
        return;
    }
    int n = snprintf(line, sizeof line, "ready %s\n", ready->address);
    if (write(STDOUT_FILENO, line, (size_t)n) < 0)
        screen_say("ready %s (standard output: %s)", ready->address, strerror(errno));
    up_say_what_to_try(ready);
    char foot[512];
    screen_status(
        ready_foot(ready, foot, screen_width() < sizeof foot ? screen_width() : sizeof foot));
}

/* Once a second until the ready line. */
static void up_look_at_wait(void *user) {
    struct ready *ready = user;
    char names[512];
    uint64_t now_ns = clock_now_ns();
    if (ready->printed)
        return;
    if (patience_turn(&ready->patience, now_ns, true) == PATIENCE_SAY) {
        if (supervisor_waits(ready->supervisor, names, sizeof names))
            screen_say("still waiting after %u s: not ready yet: %s",
                       patience_s(&ready->patience, now_ns), names);
        else
            screen_say("still waiting after %u s: all processes are ready, but the router has not "
                       "met %u workers (tandem status shows them; see its lines above)",
                       patience_s(&ready->patience, now_ns), ready->n_workers);
    }
    loop_timer_after(ready->look, NS_PER_S);
}

static void up_on_probe_body(void *user, const char *bytes, size_t n) {
    struct ready *ready = user;
    buf_append(&ready->answer, bytes, n);
}

/* {"status":"ok","workers":3} */
static bool up_met_all(const struct ready *ready) {
    const char *at = ready->answer.n ? strstr(ready->answer.data, "\"workers\":") : NULL;
    return at && strtoul(at + strlen("\"workers\":"), NULL, 10) >= ready->n_workers;
}

static void up_on_probe_end(void *user, enum status status, int http_status,
                            const struct error *error) {
    struct ready *ready = user;
    (void)error;
    /* A server that refuses us under TLS wants a certificate: what its own words were has to do. */
    bool is_shut = ready->url.is_tls && status == STATUS_IO;
    if (is_shut || (status == STATUS_OK && http_status == 200 && up_met_all(ready)))
        up_print_ready(ready);
    else
        loop_timer_after(ready->again, ready->probe_ns);
    /* At first workers are met within milliseconds of their readiness; later they are not counted. */
    ready->probe_ns = ready->probe_ns < PROBE_NS_MAX ? 2 * ready->probe_ns : ready->probe_ns;
}

static void up_probe(void *user) {
    struct ready *ready = user;
    struct http_events events = {up_on_probe_body, up_on_probe_end, ready};
    buf_clear(&ready->answer);
    http_client_start(ready->probe, &(struct http_ask){.method = "GET", .path = "/readyz"},
                      &events);
}

void ready_listens(struct ready *ready, const char *address) {
    bool has_scheme = strstr(address, "://") != NULL;
    snprintf(ready->address, sizeof ready->address, "%s%s", has_scheme ? "" : "http://", address);
}

void ready_all(struct ready *ready) {
    /* Our own child, told by its process id: its certificate names others than this address. */
    static const struct http_trust trust = {.insecure = true};
    struct error error;
    if (ready->probing || !ready->address[0])
        return;
    if (http_url_open(ready->address, &trust, &ready->url, &error) != STATUS_OK ||
        http_client_new(ready->loop, &ready->url, &ready->probe) != STATUS_OK ||
        loop_timer_new(ready->loop, up_probe, ready, &ready->again) != STATUS_OK ||
        loop_timer_new(ready->loop, up_print_ready, ready, &ready->print) != STATUS_OK) {
        exit_fail(1, "cannot ask the router whether it is ready");
        return;
    }
    ready->probing = true;
    ready->probe_ns = PROBE_NS_MIN;
    up_probe(ready);
}

enum status ready_begin(struct ready *ready, struct loop *loop, const struct supervisor *supervisor,
                        unsigned n_workers) {
    *ready = (struct ready){.loop = loop, .supervisor = supervisor, .n_workers = n_workers};
    TRY(loop_timer_new(loop, up_look_at_wait, ready, &ready->look));
    up_look_at_wait(ready);
    return STATUS_OK;
}

void ready_fini(struct ready *ready) {
    http_client_free(ready->probe);
    http_url_close(&ready->url);
    loop_timer_free(ready->again);
    loop_timer_free(ready->print);
    loop_timer_free(ready->look);
    buf_fini(&ready->answer);
}
