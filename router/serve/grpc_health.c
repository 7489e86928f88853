/* grpc.health.v1: whether the server serves, asked (Check) or watched (Watch). */
#include "router/serve/grpc_health.h"

#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/list.h"
#include "base/net/loop.h"
#include "router/api/grpc.h"
#include "router/serve/endpoint.h"
#include "router/serve/grpc_question.h"
#include "router/serve/server.h"
#include "router/serve/watches.h"

#include <grpc/health/v1/health.pb-c.h>
#include <stdlib.h>
#include <string.h>

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus state;
#define SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define UNKNOWN     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__UNKNOWN
#define NO_SERVICE  GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

/* What a service's health follows. */
enum follows {
    FOLLOWS_READINESS, /* it serves when a request would be served */
    FOLLOWS_LIFE,      /* it serves while there is an answer at all */
    FOLLOWS_NOTHING    /* nobody has the service */
};

/* The names that Kubernetes and gateways ask by, and each of our services that serves models. */
static enum follows grpc_health_find_service(ProtobufCBinaryData service) {
    static const char *const names[] = {"", "readiness", "tandem.v1.Inference",
                                        "vllm.grpc.engine.VllmEngine"};
    const struct span name = grpc_span(service);
    if (span_is(name, "liveness"))
        return FOLLOWS_LIFE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_is(name, names[i]))
            return FOLLOWS_READINESS;
    return FOLLOWS_NOTHING;
}

static state grpc_health_state_of(const struct server *server, enum follows follows) {
    if (follows == FOLLOWS_NOTHING)
        return NO_SERVICE;
    return follows == FOLLOWS_LIFE || serving_ready(&server->serving) ? SERVING : NOT_SERVING;
}

static enum follows grpc_health_read_service(const ProtobufCMessage *question) {
    return grpc_health_find_service(
        ((const Grpc__Health__V1__HealthCheckRequest *)question)->service);
}

GRPC_ANSWER(answer_check, grpc__health__v1__health_check_request__descriptor) {
    enum follows follows = grpc_health_read_service(question);
    if (follows == FOLLOWS_NOTHING) {
        struct api_error error = {.code = "service_not_found"};
        error.status = error_set(&error.error, STATUS_NOT_FOUND, "service: unknown");
        endpoint_error(server, request, &error);
        return;
    }
    Grpc__Health__V1__HealthCheckResponse answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    answer.status = grpc_health_state_of(server, follows);
    grpc_answer(server, request, &answer.base);
}

/* --- watching ---------------------------------------------------------------------------------- */

struct health_watches {
    struct server *server;    /* borrowed */
    struct list every;        /* of struct watch */
    struct loop_timer *timer; /* owned; runs while somebody watches */
};

struct watch {
    struct list link;
    struct health_watches *watches; /* borrowed */
    uint64_t id;                    /* the exchange's */
    enum follows follows;
    state told;          /* what the client knows; UNKNOWN: nothing yet */
    struct quota *quota; /* of the client's key; or NULL */
};

static void grpc_health_forget(struct watch *watch) {
    list_remove(&watch->link);
    if (list_empty(&watch->watches->every))
        loop_timer_stop(watch->watches->timer);
    watches_leave(watch->quota);
    free(watch);
}

static void grpc_health_on_gone(struct exchange *exchange) {
    grpc_health_forget(exchange->user);
}

/* Tells what the client does not know; one that reads too slowly is told the last state later. */
static void grpc_health_tell(struct watch *watch) {
    const struct server *server = watch->watches->server;
    state now = grpc_health_state_of(server, watch->follows);
    if (now == watch->told)
        return;
    Grpc__Health__V1__HealthCheckResponse answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct buf out;
    answer.status = now;
    buf_init(&out, 0);
    grpc_put(&answer.base, &out);
    if (buf_status(&out) == STATUS_OK &&
        exchange_write(server->serving.exchanges, watch->id, out.data, out.n) == STATUS_OK)
        watch->told = now;
    buf_fini(&out);
}

static void grpc_health_end(struct watch *watch) {
    struct exchanges *all = watch->watches->server->serving.exchanges;
    struct api_error error = {0};
    struct dialect_refusal refusal = {0};
    uint64_t id = watch->id;
    struct exchange *exchange = exchange_find(all, id);
    exchange->gone = NULL;
    exchange->user = NULL;
    grpc_health_forget(watch);
    error.status = error_set(&error.error, STATUS_CLOSED, "The router drains");
    grpc_form.refuse(&error, &refusal);
    exchange_end(all, id, refusal.headers, refusal.n_headers);
}

void health_watches_tell(struct health_watches *watches) {
    list_each_entry(watch, &watches->every, struct watch, link) {
        grpc_health_tell(watch);
        if (watches->server->serving.draining)
            grpc_health_end(watch);
    }
}

static void grpc_health_look(void *user) {
    struct health_watches *watches = user;
    health_watches_tell(watches);
    if (!list_empty(&watches->every))
        loop_timer_after(watches->timer, HEALTH_LOOK_MS * NS_PER_MS);
}

enum status health_watches_new(struct server *server, struct health_watches **out) {
    struct health_watches *watches = calloc(1, sizeof *watches);
    if (!watches)
        return STATUS_NOMEM;
    watches->server = server;
    list_init(&watches->every);
    if (loop_timer_new(server->serving.loop, grpc_health_look, watches, &watches->timer) !=
        STATUS_OK) {
        free(watches);
        return STATUS_NOMEM;
    }
    *out = watches;
    return STATUS_OK;
}

void health_watches_free(struct health_watches *watches) {
    if (!watches)
        return;
    loop_timer_free(watches->timer);
    free(watches);
}

/* The state is told at once, and after each change until the client leaves or the router drains. */
GRPC_ANSWER(answer_watch, grpc__health__v1__health_check_request__descriptor) {
    struct exchange *exchange = request->exchange;
    struct exchange_reply head = {.status = 200,
                                  .content_type = grpc_form.stream_type,
                                  .headers = grpc_form.stream_headers,
                                  .n_headers = grpc_form.n_stream_headers};
    struct api_error error = {0};
    struct quota *quota = NULL;
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        error.status = error_set(&error.error, STATUS_NOMEM, "No memory for the call");
    if (error.status != STATUS_OK ||
        watches_admit(server, exchange, false, &quota, &error) != STATUS_OK) {
        free(watch);
        endpoint_error(server, request, &error);
        return;
    }
    *watch = (struct watch){.watches = server->watches,
                            .id = exchange->id,
                            .follows = grpc_health_read_service(question),
                            .told = UNKNOWN,
                            .quota = quota};
    if (list_empty(&server->watches->every))
        loop_timer_after(server->watches->timer, HEALTH_LOOK_MS * NS_PER_MS);
    list_push_back(&server->watches->every, &watch->link);
    exchange->user = watch;
    exchange->gone = grpc_health_on_gone;
    exchange_begin_stream(server->serving.exchanges, watch->id, &head);
    grpc_health_tell(watch);
}

const struct dialect dialect_grpc_health =
    DIALECT_ANSWER("grpc_health", "POST", "/grpc.health.v1.Health/Check", grpc_form, answer_check,
                   .is_open = true, .is_probe = true, .body_max = GRPC_QUESTION_BYTES);
const struct dialect dialect_grpc_health_watch =
    DIALECT_ANSWER("grpc_health_watch", "POST", "/grpc.health.v1.Health/Watch", grpc_form,
                   answer_watch, .is_open = true, .body_max = GRPC_QUESTION_BYTES);
