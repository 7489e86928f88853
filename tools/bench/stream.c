#include "tools/bench/stream.h"

#include "base/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Content of a chunk without a JSON tree: a non-empty "content", "text" or "reasoning" string. */
static bool has_content(const char *data) {
    static const char *const keys[] = {"\"content\":\"",   "\"text\":\"",
                                       "\"reasoning\":\"", "\"reasoning_content\":\"",
                                       "\"content\": \"",  "\"text\": \""};
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *at = strstr(data, keys[i]);
        if (at && at[strlen(keys[i])] != '"')
            return true;
    }
    return false;
}

static void read_usage(struct stream_result *result, const char *data, size_t n) {
    json_t *root = json_loadb(data, n, 0, NULL);
    json_t *usage = json_object_get(root, "usage");
    if (json_is_object(usage)) {
        result->n_prompt = (uint32_t)json_integer_value(json_object_get(usage, "prompt_tokens"));
        result->n_tokens =
            (uint32_t)json_integer_value(json_object_get(usage, "completion_tokens"));
    }
    json_decref(root);
}

static void on_event(void *user, const char *data, size_t n) {
    struct stream *stream = user;
    struct stream_result *result = &stream->result;
    if (strcmp(data, "[DONE]") == 0) {
        result->done_mark = true;
        return;
    }
    if (strstr(data, "\"error\"") && !strstr(data, "\"choices\"")) {
        result->status = error_set(&result->error, STATUS_IO, "error event: %.300s", data);
        return;
    }
    if (has_content(data)) {
        result->last_ns = clock_now_ns();
        if (result->first_ns == 0)
            result->first_ns = result->last_ns;
        result->n_chunks++;
    }
    if (strstr(data, "\"usage\"") && !strstr(data, "\"usage\":null"))
        read_usage(result, data, n);
}

static void on_body(void *user, const char *bytes, size_t n) {
    struct stream *stream = user;
    sse_client_feed(&stream->sse, bytes, n);
}

static void on_http_end(void *user, enum status status, int http_status,
                        const struct error *error) {
    struct stream *stream = user;
    struct stream_result *result = &stream->result;
    result->end_ns = clock_now_ns();
    result->sent_ns = http_client_sent_ns(stream->client);
    result->http_status = http_status;
    if (status != STATUS_OK) {
        result->status = status;
        result->error = *error;
    } else if (http_status != 200) {
        result->status = error_set(&result->error, STATUS_IO, "HTTP status %d", http_status);
    } else if (result->status == STATUS_OK && !result->done_mark) {
        result->status = error_set(&result->error, STATUS_CORRUPT, "stream ended without [DONE]");
    }
    if (result->n_tokens == 0)
        result->n_tokens = result->n_chunks;
    stream->busy = false;
    stream->on_end(stream);
}

enum status stream_init(struct stream *stream, struct loop *loop, const struct http_url *url,
                        void (*on_end)(struct stream *stream), void *owner) {
    *stream = (struct stream){.on_end = on_end, .owner = owner};
    sse_client_init(&stream->sse, on_event, stream);
    return http_client_new(loop, url, &stream->client);
}

void stream_fini(struct stream *stream) {
    http_client_free(stream->client);
    sse_client_fini(&stream->sse);
}

void stream_start(struct stream *stream, uint64_t due_ns, const char *api_key, const char *body,
                  size_t n_body) {
    char headers[512] = "Accept: text/event-stream\r\n";
    if (api_key)
        snprintf(headers, sizeof headers,
                 "Accept: text/event-stream\r\nAuthorization: Bearer %.400s\r\n", api_key);
    stream->busy = true;
    stream->result = (struct stream_result){.due_ns = due_ns};
    sse_client_reset(&stream->sse);
    struct http_events events = {on_body, on_http_end, stream};
    http_client_start(stream->client, "POST", "/v1/chat/completions", headers, body, n_body,
                      &events);
}
