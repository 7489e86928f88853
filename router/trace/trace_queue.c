#include "router/trace/trace_queue.h"

#include "base/assert.h"
#include "base/buf.h"
#include "router/trace/trace_span.h"

#include "otlp.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace_queued {
    struct list link;
    size_t n;
    uint8_t bytes[]; /* (n) a message Span */
};

void trace_queue_init(struct trace_queue *queue) {
    *queue = (struct trace_queue){.n = 0};
    list_init(&queue->spans);
}

static void trace_queue_drop(struct trace_queue *queue, struct trace_queued *queued) {
    list_remove(&queued->link);
    queue->n--;
    queue->n_bytes -= queued->n;
    free(queued);
}

void trace_queue_fini(struct trace_queue *queue) {
    while (queue->n > 0)
        trace_queue_drop(queue, list_entry(list_first(&queue->spans), struct trace_queued, link));
}

enum status trace_queue_add(struct trace_queue *queue, const struct trace_span *span) {
    struct buf bytes;
    if (queue->n >= TRACE_QUEUE_SPANS)
        return STATUS_BUSY; /* before it costs anything */
    buf_init(&bytes, 0);
    enum status status = trace_span_pack(span, &bytes);
    if (status == STATUS_OK && queue->n_bytes + bytes.n > TRACE_QUEUE_BYTES)
        status = STATUS_BUSY;
    if (status == STATUS_OK) {
        struct trace_queued *queued = malloc(sizeof *queued + bytes.n);
        status = queued ? STATUS_OK : STATUS_NOMEM;
        if (queued) {
            queued->n = bytes.n;
            memcpy(queued->bytes, bytes.data, bytes.n);
            list_init(&queued->link);
            list_push_back(&queue->spans, &queued->link);
            queue->n++;
            queue->n_bytes += bytes.n;
        }
    }
    buf_fini(&bytes);
    return status;
}

/* protobuf-c reads through pointers that are not const. */
static ProtobufCBinaryData trace_queue_text(const char *text) {
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

#define RESOURCE_ATTRIBUTES 4

/* What of the resource is not "", in memory of the caller's. */
static void trace_queue_put_resource(const struct trace_resource *from, Otlp__Resource *to,
                                     Otlp__KeyValue pairs[RESOURCE_ATTRIBUTES],
                                     Otlp__AnyValue values[RESOURCE_ATTRIBUTES],
                                     Otlp__KeyValue *list[RESOURCE_ATTRIBUTES]) {
    const struct {
        const char *key, *text;
    } rows[RESOURCE_ATTRIBUTES] = {{"service.name", from->service},
                                   {"service.version", from->version},
                                   {"service.instance.id", from->instance},
                                   {"host.name", from->host}};
    otlp__resource__init(to);
    to->attributes = list;
    for (unsigned i = 0; i < RESOURCE_ATTRIBUTES; i++) {
        if (!rows[i].text[0])
            continue;
        size_t n = to->n_attributes++;
        otlp__any_value__init(&values[n]);
        values[n].value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
        values[n].string_value = trace_queue_text(rows[i].text);
        otlp__key_value__init(&pairs[n]);
        pairs[n].key = trace_queue_text(rows[i].key);
        pairs[n].value = &values[n];
        list[n] = &pairs[n];
    }
}

static enum status trace_queue_pack(const struct trace_resource *from, ProtobufCBinaryData *spans,
                                    uint32_t n_spans, struct buf *out) {
    Otlp__Resource resource;
    Otlp__KeyValue pairs[RESOURCE_ATTRIBUTES], *list[RESOURCE_ATTRIBUTES];
    Otlp__AnyValue values[RESOURCE_ATTRIBUTES];
    Otlp__InstrumentationScope scope = OTLP__INSTRUMENTATION_SCOPE__INIT;
    Otlp__ScopeSpans of_scope = OTLP__SCOPE_SPANS__INIT, *scopes[] = {&of_scope};
    Otlp__ResourceSpans of_resource = OTLP__RESOURCE_SPANS__INIT, *resources[] = {&of_resource};
    Otlp__ExportTraceServiceRequest request = OTLP__EXPORT_TRACE_SERVICE_REQUEST__INIT;
    trace_queue_put_resource(from, &resource, pairs, values, list);
    scope.name = trace_queue_text(from->service);
    scope.version = trace_queue_text(from->version);
    of_scope.scope = &scope;
    of_scope.spans = spans;
    of_scope.n_spans = n_spans;
    of_resource.resource = &resource;
    of_resource.scope_spans = scopes;
    of_resource.n_scope_spans = 1;
    request.resource_spans = resources;
    request.n_resource_spans = 1;
    size_t n = otlp__export_trace_service_request__get_packed_size(&request);
    uint8_t *bytes = malloc(n);
    if (!bytes)
        return STATUS_NOMEM;
    otlp__export_trace_service_request__pack(&request, bytes);
    buf_append(out, bytes, n);
    free(bytes);
    return buf_status(out);
}

enum status trace_queue_take(struct trace_queue *queue, const struct trace_resource *resource,
                             struct buf *out, uint32_t *n_spans) {
    ProtobufCBinaryData spans[TRACE_BATCH_SPANS];
    size_t n_bytes = 0;
    uint32_t n = 0;
    ASSERT(queue->n > 0);
    list_each_entry(queued, &queue->spans, struct trace_queued, link) {
        if (n == TRACE_BATCH_SPANS || (n > 0 && n_bytes + queued->n > TRACE_BATCH_BYTES))
            break;
        n_bytes += queued->n;
        spans[n++] = (ProtobufCBinaryData){.len = queued->n, .data = queued->bytes};
    }
    enum status status = trace_queue_pack(resource, spans, n, out);
    for (uint32_t i = 0; i < n; i++)
        trace_queue_drop(queue, list_entry(list_first(&queue->spans), struct trace_queued, link));
    *n_spans = n;
    return status;
}

uint64_t trace_queue_read_answer(const void *bytes, size_t n, char *why, size_t size) {
    Otlp__ExportTraceServiceResponse *answer =
        otlp__export_trace_service_response__unpack(NULL, n, bytes);
    uint64_t n_rejected = 0;
    why[0] = 0;
    if (answer && answer->partial_success) {
        const Otlp__ExportTracePartialSuccess *part = answer->partial_success;
        n_rejected = part->rejected_spans > 0 ? (uint64_t)part->rejected_spans : 0;
        snprintf(why, size, "%.*s",
                 (int)(part->error_message.len < size ? part->error_message.len : size - 1),
                 part->error_message.len > 0 ? (const char *)part->error_message.data : "");
    }
    if (answer)
        otlp__export_trace_service_response__free_unpacked(answer, NULL);
    return n_rejected;
}
