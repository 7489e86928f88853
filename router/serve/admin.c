/* What `tandem status`, `tandem drain` and `tandem kill` use; guard.h says who may. */
#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/json/json_get.h"
#include "base/log/log.h"
#include "router/api/about.h"
#include "router/api/openai.h"
#include "router/call/serving.h"
#include "router/core/router.h"
#include "router/serve/endpoint.h"
#include "router/serve/picture.h"
#include "router/serve/server.h"
#include "router/serve/siblings.h"

#include <string.h>

static void admin_answer_status(struct server *server, const struct endpoint_request *request) {
    struct buf body;
    buf_init(&body, 0);
    picture_put(server, &body);
    endpoint_reply(server, request, 200, "application/json", &body);
}

/* {"worker": NAME, "exit": true}; small enough to be read here and now (GUARD_ADMIN_BODY_MAX). */
struct order {
    char worker[MESSAGE_NAME_MAX];
    bool exits;
};

static enum status admin_read_order(const struct exchange *exchange, struct order *order,
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

static void admin_answer_order(struct server *server, const struct endpoint_request *request,
                               enum status status, const struct order *order,
                               struct api_error *error, const char *json) {
    if (status == STATUS_NOT_FOUND)
        error_field(&error->error, status, "worker", "There is no worker `%s`", order->worker);
    error->status = status;
    if (status == STATUS_OK)
        endpoint_text(server, request, 200, json);
    else
        endpoint_error(server, request, error);
}

static void admin_answer_drain(struct server *server, const struct endpoint_request *request) {
    struct api_error error = {0};
    struct order order = {0};
    enum status status = admin_read_order(request->exchange, &order, &error.error);
    if (status == STATUS_OK)
        status =
            router_drain_worker(server->serving.core, clock_now_ns(), order.worker, order.exits);
    admin_answer_order(server, request, status, &order, &error, "{\"status\":\"draining\"}");
}

static void admin_answer_resume(struct server *server, const struct endpoint_request *request) {
    struct api_error error = {0};
    struct order order = {0};
    enum status status = admin_read_order(request->exchange, &order, &error.error);
    if (status == STATUS_OK)
        status = router_resume_worker(server->serving.core, clock_now_ns(), order.worker);
    admin_answer_order(server, request, status, &order, &error, "{\"status\":\"resumed\"}");
}

/* Its process on this host, when it may be a child of our parent. */
static enum status admin_find_sibling(const struct server *server, const char *name, uint32_t *pid,
                                      struct error *error) {
    struct worker_view view;
    for (uint32_t slot = 0; router_next_worker(server->serving.core, &slot, &view); slot++) {
        if (strcmp(view.welcome.name, name) != 0)
            continue;
        *pid = view.welcome.pid;
        if (server->has_siblings && view.welcome.host == server->host && *pid > 0)
            return STATUS_OK;
        return error_field(error, STATUS_DENIED, "worker",
                           "`%s` was not started by the `tandem up` of this router: stop it on its "
                           "own host (process %u there)",
                           name, *pid);
    }
    return STATUS_NOT_FOUND;
}

static void admin_answer_kill(struct server *server, const struct endpoint_request *request) {
    struct api_error error = {0};
    struct order order = {0};
    uint32_t pid = 0;
    char shown[MESSAGE_NAME_MAX + 8];
    enum status status = admin_read_order(request->exchange, &order, &error.error);
    if (status == STATUS_OK)
        status = admin_find_sibling(server, order.worker, &pid, &error.error);
    if (status == STATUS_OK)
        status = siblings_kill(pid, &error.error);
    if (status == STATUS_DENIED)
        error.code = "forbidden";
    if (status == STATUS_OK)
        log_warn("a worker is killed as asked", "name=%s pid=%u",
                 log_text(shown, sizeof shown, order.worker), pid);
    admin_answer_order(server, request, status, &order, &error, "{\"status\":\"killed\"}");
}

static const struct dialect_member order_members[] = {
    {"worker", .schema = SCHEMA({"type" : "string", "minLength" : 1, "maxLength" : 63}),
     .says = "its name"},
    {"exit", .schema = SCHEMA({"type" : "boolean"}),
     .says = "of a drain: its process ends once it is empty"},
    {.name = NULL},
};

#define ORDER(says)                                                                                \
    {                                                                                              \
        .summary = (says), .members = order_members, .needs = SCHEMA(["worker"]),                  \
        .answer = SCHEMA({                                                                         \
            "type" : "object",                                                                     \
            "required" : ["status"],                                                               \
            "properties" : {"status" : {"type" : "string"}}                                        \
        })                                                                                         \
    }

static const struct dialect_about about_drain = ORDER("No new work for a worker");
static const struct dialect_about about_resume = ORDER("A drained worker takes work again");
static const struct dialect_about about_kill = ORDER("Kills a worker of `tandem up` on this host");
static const struct dialect_about about_status = {.summary = "The cluster's picture",
                                                  .answer = PICTURE_SCHEMA};

const struct dialect dialect_status =
    DIALECT_ANSWER("status", "GET", "/admin/status", openai_form, admin_answer_status,
                   .is_admin = true, .about = &about_status);
const struct dialect dialect_drain =
    DIALECT_ANSWER("drain", "POST", "/admin/drain", openai_form, admin_answer_drain,
                   .is_admin = true, .body_max = GUARD_ADMIN_BODY_MAX, .about = &about_drain);
const struct dialect dialect_kill =
    DIALECT_ANSWER("kill", "POST", "/admin/kill", openai_form, admin_answer_kill, .is_admin = true,
                   .body_max = GUARD_ADMIN_BODY_MAX, .about = &about_kill);
const struct dialect dialect_resume =
    DIALECT_ANSWER("resume", "POST", "/admin/resume", openai_form, admin_answer_resume,
                   .is_admin = true, .body_max = GUARD_ADMIN_BODY_MAX, .about = &about_resume);
