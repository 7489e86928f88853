/* OpenAI's Responses API: a chat in other words (responses_read.h), and its answer as items: what was thought, text, and
 * calls. A whole reply is what a stream's last event has. */
#include "base/http/sse.h"
#include "router/api/form.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "router/api/responses_about.h"
#include "router/api/responses_output.h"
#include "router/api/responses_read.h"

#include <stdio.h>
#include <string.h>

/* A form's errors that come later name it as this API does. */
static void responses_rename_format(struct ask *ask) {
    static const char chat[] = "response_format.json_schema.";
    char name[sizeof ask->format_field];
    if (strncmp(ask->format_field, chat, sizeof chat - 1) != 0)
        return;
    snprintf(name, sizeof name, "text.format.%s", ask->format_field + sizeof chat - 1);
    memcpy(ask->format_field, name, sizeof name);
}

static enum status responses_parse_as_chat(struct responses_request *request,
                                           const struct ask_limits *limits, struct ask *ask,
                                           struct api_error *error) {
    const struct span text = {request->chat.data, request->chat.n};
    TRY(dialect_chat.parse(&text, limits, ask, error));
    responses_rename_format(ask);
    ask->seals_thoughts = request->seals_thoughts;
    if (form_keep(ask, &request->repeated, &ask->repeated) != STATUS_OK)
        return errors_no_memory(&error->error);
    return STATUS_OK;
}

static enum status responses_parse(const struct span *body, const struct ask_limits *limits,
                                   struct ask *ask, struct api_error *error) {
    struct responses_request request;
    TRY(ask_read_json(body, ask, error));
    enum status status = responses_read(ask->body, &request, &error->error);
    ask_drop_body(ask);
    if (status == STATUS_OK)
        status = responses_parse_as_chat(&request, limits, ask, error);
    responses_request_fini(&request);
    return status;
}

/* --- the response --------------------------------------------------------------------------- */

static void responses_put_usage(const struct reply *reply, struct buf *out) {
    uint32_t n_thought =
        reply->counts_thoughts && !reply->misses_thoughts ? reply->n_thought_tokens : 0;
    buf_puts(out, "{");
    json_put_number(out, "input_tokens", reply->n_prompt_tokens);
    buf_printf(out, "\"input_tokens_details\":{\"cached_tokens\":%u,\"cache_write_tokens\":0},",
               reply->n_cached_tokens);
    json_put_number(out, "output_tokens", reply->n_completion_tokens);
    buf_printf(out, "\"output_tokens_details\":{\"reasoning_tokens\":%u},", n_thought);
    json_put_number(out, "total_tokens",
                    (uint64_t)reply->n_prompt_tokens + reply->n_completion_tokens);
    json_put_close(out, '}');
}

/* An error that ends a stream, in the few codes that a response may have. */
static void responses_put_error(const struct api_error *error, struct buf *out) {
    int http = errors_http(error);
    buf_puts(out, "{");
    json_put_member(out, "code",
                    http == 429   ? "rate_limit_exceeded"
                    : http >= 500 ? "server_error"
                                  : "invalid_prompt");
    json_put_member(out, "message", error->error.text);
    json_put_close(out, '}');
}

/* The object; `status`: "in_progress", "completed", "incomplete", or "failed" with its error. */
static void responses_put_response(const struct responses_writing *to, const char *status,
                                   const struct api_error *error, struct buf *out) {
    const struct reply *reply = to->reply;
    const struct sampling *sampling = &reply->ask->sampling;
    bool has_ended = !error && strcmp(status, "in_progress") != 0;
    buf_putc(out, '{');
    json_put_member(out, "id", reply->id);
    buf_puts(out, "\"object\":\"response\",");
    json_put_number(out, "created_at", (uint64_t)reply->created);
    json_put_member(out, "status", status);
    buf_puts(out, "\"background\":false,\"previous_response_id\":null,\"error\":");
    if (error)
        responses_put_error(error, out);
    else
        buf_puts(out, "null");
    buf_printf(out, ",\"incomplete_details\":%s,",
               has_ended && to->output->is_cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    json_put_member(out, "model", reply->model);
    buf_puts(out, "\"output\":");
    responses_output_put(to->output, out);
    buf_printf(out, ",\"temperature\":%.7g,\"top_p\":%.7g,", (double)sampling->temperature,
               (double)sampling->top_p);
    buf_append(out, reply->ask->repeated.bytes, reply->ask->repeated.n);
    buf_puts(out, "\"usage\":");
    if (has_ended)
        responses_put_usage(reply, out);
    else
        buf_puts(out, "null");
    buf_putc(out, '}');
}

static void responses_put_response_event(const struct responses_writing *to, const char *status,
                                         const struct api_error *error, const char *name) {
    responses_begin_event(to, name);
    buf_puts(to->events, ",\"response\":");
    responses_put_response(to, status, error, to->events);
    responses_end_event(to);
}

static const char *responses_end_status(const struct responses_output *output) {
    return output->is_cut ? "incomplete" : "completed";
}

static void responses_put_begin(const struct reply *reply, struct buf *out) {
    const struct responses_writing to = {reply, reply->state, out};
    responses_put_response_event(&to, "in_progress", NULL, "response.created");
    responses_put_response_event(&to, "in_progress", NULL, "response.in_progress");
}

static void responses_put_chunk(const struct reply *reply, const struct reply_choice *choice,
                                struct buf *out) {
    const struct responses_writing to = {reply, reply->state, out};
    responses_output_read(&to, choice);
}

static void responses_drop(void *state) {
    responses_output_fini(state);
}

static void responses_put_end(const struct reply *reply, struct buf *out) {
    const struct responses_writing to = {reply, reply->state, out};
    const char *status = responses_end_status(to.output);
    responses_put_response_event(&to, status, NULL,
                                 to.output->is_cut ? "response.incomplete" : "response.completed");
}

static void responses_put_whole(const struct reply *reply, const struct reply_choice *choices,
                                uint32_t n, struct buf *out) {
    struct responses_output output = {0};
    const struct responses_writing to = {reply, &output, NULL};
    (void)n; /* one */
    responses_output_read(&to, &choices[0]);
    responses_put_response(&to, responses_end_status(&output), NULL, out);
    responses_output_fini(&output);
}

/* Clients look at either event; the response is the last one, as of a stream that ends well. */
static void responses_put_failure(const struct reply *reply, const struct api_error *error,
                                  struct buf *out) {
    const struct responses_writing to = {reply, reply->state, out};
    const char *field = error->error.field;
    if (!reply->has_begun)
        responses_put_begin(reply, out);
    responses_begin_event(&to, "error");
    buf_puts(out, ",\"code\":");
    json_put_string_or_null(out, errors_code(error));
    buf_puts(out, ",\"message\":");
    json_put_string(out, error->error.text, strlen(error->error.text));
    buf_puts(out, ",\"param\":");
    json_put_string_or_null(out, field[0] ? field : NULL);
    responses_end_event(&to);
    responses_put_response_event(&to, "failed", error, "response.failed");
}

static bool responses_takes(const char *content_type, bool is_strict) {
    return openai_form.takes(content_type, is_strict);
}

static void responses_refuse(const struct api_error *error, struct dialect_refusal *refusal) {
    openai_form.refuse(error, refusal);
}

static const struct dialect_form form = {
    .content_type = "application/json",
    .stream_type = SSE_CONTENT_TYPE,
    .stream_headers = openai_stream_headers,
    .n_stream_headers = OPENAI_STREAM_HEADERS,
    .error_name = OPENAI_ERROR_NAME,
    .error = openai_error,
    .takes = responses_takes,
    .refuse = responses_refuse,
    .ping = sse_ping,
};

static const struct dialect_writer writer = {
    .id_prefix = "resp_",
    .splits_thoughts = true,
    .state_size = sizeof(struct responses_output),
    .begin = responses_put_begin,
    .chunk = responses_put_chunk,
    .end = responses_put_end,
    .failed = responses_put_failure,
    .whole = responses_put_whole,
    .drop = responses_drop,
};

const struct dialect dialect_responses =
    DIALECT_ASK("responses", "/v1/responses", form, responses_parse, .writer = &writer,
                .about = &responses_about);
