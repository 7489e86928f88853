/* What probes and scrapers read: open to all, and cheap. */
#include "base/metrics.h"
#include "router/api/api.h"
#include "router/api/dispatch.h"
#include "router/meter.h"
#include "router/serving.h"

#include <stdio.h>

static void answer_text(struct serving *serving, struct exchange *exchange, unsigned status,
                        const char *json) {
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, json);
    dispatch_reply(serving, exchange, status, "application/json", &body);
    buf_fini(&body);
}

/* Would a request be served now? */
static void answer_health(struct serving *serving, struct exchange *exchange, const char *rest) {
    (void)rest;
    char text[64];
    snprintf(text, sizeof text, "{\"status\":\"ok\",\"workers\":%u}", serving_n_workers(serving));
    if (serving_ready(serving))
        answer_text(serving, exchange, 200, text);
    else if (serving->draining)
        answer_text(serving, exchange, 503, "{\"status\":\"draining\"}");
    else
        answer_text(serving, exchange, 503, "{\"status\":\"no worker\"}");
}

/* This answer is the proof. */
static void answer_livez(struct serving *serving, struct exchange *exchange, const char *rest) {
    (void)rest;
    answer_text(serving, exchange, 200, "{\"status\":\"ok\"}");
}

static void answer_version(struct serving *serving, struct exchange *exchange, const char *rest) {
    (void)rest;
    answer_text(serving, exchange, 200, "{\"version\":\"" TANDEM_VERSION "\"}");
}

static void answer_metrics(struct serving *serving, struct exchange *exchange, const char *rest) {
    struct buf body;
    (void)rest;
    buf_init(&body, 0);
    meter_refresh(serving->meter, serving);
    metrics_write(serving->metrics, &body);
    dispatch_reply(serving, exchange, 200, METRICS_CONTENT_TYPE, &body);
    buf_fini(&body);
}

const struct dialect dialect_health = {
    .name = "health",
    .method = "GET",
    .path = "/health",
    .is_open = true,
    .answer = answer_health,
};

const struct dialect dialect_livez = {
    .name = "livez",
    .method = "GET",
    .path = "/livez",
    .is_open = true,
    .answer = answer_livez,
};

const struct dialect dialect_readyz = {
    .name = "readyz",
    .method = "GET",
    .path = "/readyz",
    .is_open = true,
    .answer = answer_health,
};

const struct dialect dialect_version = {
    .name = "version",
    .method = "GET",
    .path = "/version",
    .is_open = true,
    .answer = answer_version,
};

const struct dialect dialect_metrics = {
    .name = "metrics",
    .method = "GET",
    .path = "/metrics",
    .is_open = true,
    .answer = answer_metrics,
};
