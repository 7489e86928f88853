/* GET /admin/requests: the calls that live now and where each of their sequences is. */
#include "base/clock.h"
#include "base/log/note.h"
#include "router/api/about.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "router/call/call.h"
#include "router/call/serving.h"
#include "router/serve/endpoint.h"
#include "router/serve/server.h"

#define SHOWN_MAX 2000u /* sequences: a few milliseconds of the loop's time */

static void requests_put_ms(struct buf *out, const char *name, uint64_t since_ns, uint64_t now_ns) {
    json_put_number(out, name, now_ns > since_ns ? (now_ns - since_ns) / NS_PER_MS : 0);
}

/* One that the core has. */
static void requests_put_running(const struct request_view *view, uint64_t now_ns,
                                 struct buf *out) {
    const struct attempt_id *attempt = &view->attempt;
    char id[NOTE_ID_MAX];
    note_id_text(id, (struct note_id){attempt->req.hi, attempt->req.lo, attempt->attempt});
    json_put_member(out, "request", id);
    json_put_member(out, "stage", stage_name(view->stage));
    if (view->waits)
        json_put_member(out, "waits", view->waits);
    if (view->prefill_worker[0])
        json_put_member(out, "prefill", view->prefill_worker);
    if (view->decode_worker[0])
        json_put_member(out, "decode", view->decode_worker);
    json_put_number(out, "attempts", attempt->attempt);
    json_put_number(out, "replays", view->n_replays);
    requests_put_ms(out, "age_ms", view->admitted_ns, now_ns);
}

static void requests_put_sequence(const struct router *core, const struct sequence *sequence,
                                  uint64_t now_ns, struct buf *out) {
    struct request_view view;
    buf_putc(out, '{');
    if (sequence->alive && router_view_request(core, sequence->request, &view) == STATUS_OK)
        requests_put_running(&view, now_ns, out);
    else
        json_put_member(out, "stage", "finish");
    json_put_number(out, "prompt_tokens", sequence->n_prompt);
    json_put_number(out, "tokens", sequence->n_emitted);
    json_put_close(out, '}');
    buf_putc(out, ',');
}

static void requests_put_call(const struct router *core, const struct call *call, uint64_t now_ns,
                              struct buf *out) {
    buf_putc(out, '{');
    json_put_member(out, "id", call->reply.id);
    json_put_member(out, "request_id", call->request_id);
    json_put_member(out, "dialect", call->dialect->name);
    json_put_member(out, "stage", stage_name(call->stage));
    requests_put_ms(out, "age_ms", call->received_ns, now_ns);
    buf_printf(out, "\"slow_client\":%s,\"sequences\":[",
               call->client.state == CLIENT_BLOCKED ? "true" : "false");
    for (uint32_t i = 0; i < call->n_sequences; i++)
        requests_put_sequence(core, &call->sequences[i], now_ns, out);
    json_put_close(out, ']');
    buf_puts(out, "},");
}

static void requests_answer(struct server *server, const struct endpoint_request *request) {
    const struct serving *serving = &server->serving;
    uint64_t now_ns = clock_now_ns();
    uint32_t n_shown = 0, n_left = 0;
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, "{\"requests\":[");
    list_each_entry(call, &serving->calls->every, const struct call, every) {
        n_shown += call->n_sequences + 1;
        if (n_shown > SHOWN_MAX)
            n_left++;
        else
            requests_put_call(serving->core, call, now_ns, &body);
    }
    json_put_close(&body, ']');
    buf_putc(&body, ',');
    json_put_number(&body, "left_out", n_left);
    json_put_close(&body, '}');
    endpoint_reply(server, request, 200, "application/json", &body);
}

static const struct dialect_about about = {
    .summary = "The calls that live now, and where each of their sequences is",
    .answer = SCHEMA({
        "type" : "object",
        "required" : [ "requests", "left_out" ],
        "properties" : {
            "requests" : {
                "type" : "array",
                "items" : {
                    "type" : "object",
                    "required" : [
                        "id", "request_id", "dialect", "stage", "age_ms", "slow_client", "sequences"
                    ],
                    "properties" : {
                        "id" : {"type" : "string"},
                        "request_id" : {"type" : "string"},
                        "dialect" : {"type" : "string"},
                        "stage" : {"type" : "string"},
                        "age_ms" : {"type" : "integer", "minimum" : 0},
                        "slow_client" : {"type" : "boolean"},
                        "sequences" : {
                            "type" : "array",
                            "items" : {
                                "type" : "object",
                                "required" : [ "stage", "prompt_tokens", "tokens" ]
                            }
                        }
                    }
                }
            },
            "left_out" : {"type" : "integer", "minimum" : 0}
        }
    }),
};

const struct dialect dialect_requests =
    DIALECT_ANSWER("requests", "GET", "/admin/requests", openai_form, requests_answer,
                   .is_admin = true, .about = &about);
