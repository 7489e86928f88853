#include "router/serve/picture.h"

#include "base/clock.h"
#include "base/net/address.h"
#include "router/api/json_put.h"
#include "router/call/serving.h"
#include "router/core/router.h"
#include "router/serve/link.h"
#include "router/serve/server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void picture_put_router(const struct server *server, struct buf *out) {
    struct router_stats stats;
    router_stats(server->serving.core, &stats);
    buf_putc(out, '{');
    json_put_member(out, "name", server->name);
    json_put_number(out, "pid", (uint64_t)getpid());
    json_put_number(out, "uptime_s", (clock_now_ns() - server->started_ns) / NS_PER_S);
    json_put_member(out, "version", TANDEM_VERSION);
    json_put_member(out, "model", server->serving.model);
    json_put_member(out, "announce", link_endpoint(server->link));
    buf_printf(out, "\"draining\":%s,\"ready\":%s,\"requests\":{",
               server->serving.draining ? "true" : "false",
               serving_ready(&server->serving) ? "true" : "false");
    json_put_number(out, "queued", stats.n_queued);
    json_put_number(out, "running", stats.n_running);
    json_put_number(out, "completed", stats.n_completed);
    json_put_number(out, "failed", stats.n_failed);
    json_put_number(out, "cancelled", stats.n_cancelled);
    json_put_number(out, "refused", stats.n_refused);
    json_put_number(out, "admitted", stats.n_admitted);
    json_put_close(out, '}');
    buf_puts(out, ",\"core\":{");
    json_put_number(out, "replays", stats.n_replays);
    json_put_number(out, "inexact", stats.n_inexact);
    json_put_number(out, "stale_dropped", stats.n_stale_dropped);
    json_put_number(out, "fenced", stats.n_fenced);
    json_put_number(out, "poisoned", stats.n_poisoned);
    json_put_number(out, "put_aside", stats.n_put_aside);
    json_put_number(out, "pairs_failed", stats.n_pairs_failed);
    json_put_number(out, "resends", stats.n_resends);
    json_put_number(out, "handoffs", stats.n_handoffs);
    json_put_number(out, "local", stats.n_local);
    json_put_number(out, "tokens", stats.n_tokens);
    json_put_close(out, '}');
    buf_putc(out, '}');
}

/* The host of an endpoint, tcp://ADDRESS:PORT; "" where it has none. */
static void picture_put_address(const char *endpoint, struct buf *out) {
    struct address at = {.host = ""};
    if (strncmp(endpoint, "tcp://", 6) == 0)
        (void)address_split(endpoint + 6, &at);
    json_put_string(out, at.host, strlen(at.host));
}

/* Where it runs, and whether /admin/kill would end it. A socket in the file system is of this host, which our unit's
 * ProcSubset= keeps the boot id of from us. */
static void picture_put_place(const struct server *server, const struct worker_view *view,
                              struct buf *out) {
    bool is_here = view->welcome.host == server->host;
    json_put_number(out, "pid", view->welcome.pid);
    buf_puts(out, "\"host\":");
    if (is_here || strncmp(view->endpoint, "ipc://", 6) == 0)
        json_put_string(out, server->host_name, strlen(server->host_name));
    else
        picture_put_address(view->endpoint, out);
    buf_printf(out, ",\"child\":%s,", is_here && server->has_siblings ? "true" : "false");
}

static void picture_put_load(const struct load *load, struct buf *out) {
    buf_puts(out, "\"blocks\":{");
    json_put_number(out, "total", load->blocks_total);
    json_put_number(out, "free", load->blocks_free);
    json_put_number(out, "used", load->blocks_used);
    json_put_number(out, "reserved", load->blocks_reserved);
    json_put_number(out, "quarantined", load->blocks_quarantined);
    json_put_number(out, "cached", load->blocks_cached);
    json_put_close(out, '}');
    buf_puts(out, ",\"sequences\":{");
    json_put_number(out, "running", load->n_running);
    json_put_number(out, "waiting", load->n_waiting);
    json_put_close(out, '}');
    buf_puts(out, ",\"handoffs\":{");
    json_put_number(out, "in", load->n_handoffs_in);
    json_put_number(out, "out", load->n_handoffs_out);
    json_put_number(out, "bytes", load->handoff_bytes);
    json_put_close(out, '}');
    buf_putc(out, ',');
    json_put_number(out, "preemptions", load->n_preemptions);
    json_put_number(out, "tokens_per_s", load->tokens_per_s);
    json_put_number(out, "steps", load->n_steps);
    json_put_number(out, "tokens", load->n_tokens);
    json_put_number(out, "prompt_tokens", load->n_prompt_tokens);
    json_put_number(out, "step_us_typical", load->step_us_typical);
}

static void picture_put_worker(const struct server *server, const struct worker_view *view,
                               struct buf *out) {
    const struct welcome *welcome = &view->welcome;
    const char *role = worker_role_name(welcome->role);
    uint64_t now_ns = clock_now_ns();
    char incarnation[24];
    snprintf(incarnation, sizeof incarnation, "%016llx", (unsigned long long)welcome->incarnation);
    buf_putc(out, '{');
    json_put_member(out, "name", welcome->name);
    json_put_member(out, "role", role ? role : worker_role_name(ROLE_MIXED));
    json_put_member(out, "state", router_worker_state(view));
    if (router_worker_reason(view))
        json_put_member(out, "reason", router_worker_reason(view));
    if (view->aside_ns > 0)
        json_put_number(out, "aside_ms", view->aside_ns / NS_PER_MS);
    if (view->state == SLOT_LOADING)
        json_put_number(out, "percent", view->loading);
    picture_put_place(server, view, out);
    json_put_member(out, "incarnation", incarnation);
    json_put_member(out, "model", welcome->model);
    json_put_number(out, "tp", welcome->kv.tp);
    json_put_member(out, "backend", welcome->backend);
    if (welcome->sums[0])
        json_put_member(out, "sums", welcome->sums);
    json_put_number(out, "context", welcome->context);
    json_put_number(out, "assigned", view->n_assigned);
    json_put_number(
        out, "heard_ms_ago",
        view->heard_ns != 0 && now_ns > view->heard_ns ? (now_ns - view->heard_ns) / NS_PER_MS : 0);
    picture_put_load(&view->load, out);
    json_put_close(out, '}');
}

void picture_put(const struct server *server, struct buf *out) {
    buf_putc(out, '{');
    json_put_number(out, "time_ms", clock_unix_ns() / NS_PER_MS);
    buf_puts(out, "\"routers\":[");
    picture_put_router(server, out);
    buf_puts(out, "],\"workers\":[");
    struct worker_view view;
    for (uint32_t slot = 0; router_next_worker(server->serving.core, &slot, &view); slot++) {
        picture_put_worker(server, &view, out);
        buf_putc(out, ',');
    }
    json_put_close(out, ']');
    buf_putc(out, '}');
}
