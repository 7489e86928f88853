/* What `tandem status` and `tandem drain` use; guard.h says who may. */
#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/json/json_get.h"
#include "router/api/openai.h"
#include "router/call/serving.h"
#include "router/core/router.h"
#include "router/serve/picture.h"
#include "router/serve/routes.h"
#include "router/serve/server.h"

#include <string.h>

static void answer_status(struct server *server, struct exchange *exchange, const char *rest) {
    struct buf body;
    (void)rest;
    buf_init(&body, 0);
    picture_put(server, &body);
    routes_reply(server, exchange, 200, "application/json", &body);
}

/* {"worker": NAME, "exit": true}; small enough to be read here and now (GUARD_ADMIN_BODY_MAX). */
struct order {
    char worker[MESSAGE_NAME_MAX];
    bool exits;
};

static enum status read_order(const struct exchange *exchange, struct order *order,
                              struct error *error) {
    json_t *root = NULL;
    TRY(json_get_parse(exchange->body, exchange->n_body, &root, error));
    struct json_get get = {.object = root, .error = error};
    struct span worker = {0};
    enum status status = json_get_text(&get, "worker", MESSAGE_NAME_MAX - 1, &worker);
    if (status == STATUS_OK && worker.n == 0)
        status = json_get_fail(&get, STATUS_INVALID, "worker", "must name a worker");
    if (status == STATUS_OK)
        status = json_get_bool(&get, "exit", &order->exits);
    if (status == STATUS_OK)
        memcpy(order->worker, worker.bytes, worker.n);
    json_decref(root);
    return status;
}

static void answer_order(struct server *server, struct exchange *exchange, enum status status,
                         const struct order *order, struct api_error *error, const char *json) {
    if (status == STATUS_NOT_FOUND)
        error_field(&error->error, status, "worker", "There is no worker `%s`", order->worker);
    error->status = status;
    if (status == STATUS_OK)
        routes_text(server, exchange, 200, json);
    else
        routes_error(server, exchange, error);
}

static void answer_drain(struct server *server, struct exchange *exchange, const char *rest) {
    struct api_error error = {0};
    struct order order = {0};
    (void)rest;
    enum status status = read_order(exchange, &order, &error.error);
    if (status == STATUS_OK)
        status =
            router_drain_worker(server->serving.core, clock_now_ns(), order.worker, order.exits);
    answer_order(server, exchange, status, &order, &error, "{\"status\":\"draining\"}");
}

static void answer_resume(struct server *server, struct exchange *exchange, const char *rest) {
    struct api_error error = {0};
    struct order order = {0};
    (void)rest;
    enum status status = read_order(exchange, &order, &error.error);
    if (status == STATUS_OK)
        status = router_resume_worker(server->serving.core, clock_now_ns(), order.worker);
    answer_order(server, exchange, status, &order, &error, "{\"status\":\"resumed\"}");
}

const struct dialect dialect_status =
    DIALECT_ANSWER("status", "GET", "/admin/status", openai_form, answer_status, .is_admin = true);
const struct dialect dialect_drain =
    DIALECT_ANSWER("drain", "POST", "/admin/drain", openai_form, answer_drain, .is_admin = true,
                   .body_max = GUARD_ADMIN_BODY_MAX);
const struct dialect dialect_resume =
    DIALECT_ANSWER("resume", "POST", "/admin/resume", openai_form, answer_resume, .is_admin = true,
                   .body_max = GUARD_ADMIN_BODY_MAX);
