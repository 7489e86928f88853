/* What probes and scrapers read: open to all, and cheap. */
#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/http/listener.h"
#include "base/metrics.h"
#include "base/net/loop.h"
#include "router/api/about.h"
#include "router/api/openai.h"
#include "router/call/calls.h"
#include "router/call/meter.h"
#include "router/call/serving.h"
#include "router/serve/endpoint.h"
#include "router/serve/link.h"
#include "router/serve/server.h"

#include <stdio.h>

/* Would a request be served now? */
static void serve_answer_health(struct server *server, const struct endpoint_request *request) {
    char text[64];
    snprintf(text, sizeof text, "{\"status\":\"ok\",\"workers\":%u}",
             serving_n_workers(&server->serving));
    if (serving_ready(&server->serving))
        endpoint_text(server, request, 200, text);
    else if (server->serving.draining)
        endpoint_text(server, request, 503, "{\"status\":\"draining\"}");
    else
        endpoint_text(server, request, 503, "{\"status\":\"no worker\"}");
}

/* This answer is the proof. */
static void serve_answer_livez(struct server *server, const struct endpoint_request *request) {
    endpoint_text(server, request, 200, "{\"status\":\"ok\"}");
}

static void serve_answer_version(struct server *server, const struct endpoint_request *request) {
    endpoint_text(server, request, 200, "{\"version\":\"" TANDEM_VERSION "\"}");
}

static void serve_answer_metrics(struct server *server, const struct endpoint_request *request) {
    struct buf body;
    buf_init(&body, 0);
    const struct serving *serving = &server->serving;
    const struct meter_now now = {
        .core = serving->core,
        .n_calls = calls_count(serving->calls),
        .http = listener_counts(server->listener),
        .tls = server->tls ? tls_context_counts(server->tls) : (struct tls_counts){0},
        .tls_ends_s = server->tls ? (uint64_t)tls_context_ends_s(server->tls) : 0,
        .formats = formats_counts(serving->formats),
        .body_bytes = exchanges_body_bytes(serving->exchanges),
        .output_bytes = listener_output_bytes(server->listener),
        .n_handshakes_failed = link_handshakes_failed(server->link),
        .turn = loop_turn_max(serving->loop, clock_now_ns()),
        .traces = tracer_counts(serving->tracer),
    };
    meter_refresh(serving->meter, &now);
    metrics_write(server->metrics, &body);
    endpoint_reply(server, request, 200, METRICS_CONTENT_TYPE, &body);
}

#define STATE                                                                                      \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["status"],                                                                   \
        "properties" :                                                                             \
            {"status" : {"type" : "string"}, "workers" : {"type" : "integer", "minimum" : 0}}      \
    })

static const struct dialect_about about_health = {
    .summary = "200: a request would be served now", .also = 503, .answer = STATE};
static const struct dialect_about about_livez = {.summary = "The router answers", .answer = STATE};
static const struct dialect_about about_version = {
    .summary = "The router's version",
    .answer = SCHEMA({
        "type" : "object",
        "required" : ["version"],
        "properties" : {"version" : {"type" : "string"}}
    }),
};
static const struct dialect_about about_metrics = {.summary = "Prometheus' text format",
                                                   .type = METRICS_CONTENT_TYPE};

const struct dialect dialect_health =
    DIALECT_ANSWER("health", "GET", "/health", openai_form, serve_answer_health, .is_open = true,
                   .is_probe = true, .about = &about_health);
/* As SageMaker and load balancers ask, by habit. */
const struct dialect dialect_ping =
    DIALECT_ANSWER("ping", "GET", "/ping", openai_form, serve_answer_health, .is_open = true,
                   .is_probe = true, .about = &about_health);
const struct dialect dialect_livez =
    DIALECT_ANSWER("livez", "GET", "/livez", openai_form, serve_answer_livez, .is_open = true,
                   .is_probe = true, .about = &about_livez);
const struct dialect dialect_readyz =
    DIALECT_ANSWER("readyz", "GET", "/readyz", openai_form, serve_answer_health, .is_open = true,
                   .is_probe = true, .about = &about_health);
const struct dialect dialect_version =
    DIALECT_ANSWER("version", "GET", "/version", openai_form, serve_answer_version, .is_open = true,
                   .about = &about_version);
const struct dialect dialect_metrics =
    DIALECT_ANSWER("metrics", "GET", "/metrics", openai_form, serve_answer_metrics, .is_open = true,
                   .about = &about_metrics);
