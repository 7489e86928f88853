#include "router/trace/trace_span.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/utf8.h"

#include "otlp.pb-c.h"

#include <string.h>

#define SPAN_ARENA_BYTES (1u << 20)

#define KIND_SERVER  2
#define STATUS_ERROR 2
/* Of a span's flags (opentelemetry-proto, SpanFlags). */
#define FLAG_HAS_IS_REMOTE 0x100u
#define FLAG_IS_REMOTE     0x200u

static struct trace_attribute *trace_span_add(struct trace_span *span, const char *key) {
    ASSERT(span->n_attributes < TRACE_ATTRIBUTES_MAX);
    struct trace_attribute *attribute = &span->attributes[span->n_attributes++];
    *attribute = (struct trace_attribute){.key = key};
    return attribute;
}

void trace_span_text(struct trace_span *span, const char *key, const char *text) {
    if (!text || !text[0])
        return;
    struct trace_attribute *attribute = trace_span_add(span, key);
    attribute->kind = TRACE_TEXT;
    attribute->text = text;
}

void trace_span_number(struct trace_span *span, const char *key, int64_t number) {
    struct trace_attribute *attribute = trace_span_add(span, key);
    attribute->kind = TRACE_NUMBER;
    attribute->number = number;
}

void trace_span_real(struct trace_span *span, const char *key, double real) {
    struct trace_attribute *attribute = trace_span_add(span, key);
    attribute->kind = TRACE_REAL;
    attribute->real = real;
}

void trace_span_texts(struct trace_span *span, const char *key, const char *const *texts,
                      uint32_t n) {
    struct trace_attribute *attribute = trace_span_add(span, key);
    attribute->kind = TRACE_TEXTS;
    attribute->texts = texts;
    attribute->n_texts = n < TRACE_TEXTS_MAX ? n : TRACE_TEXTS_MAX;
}

void trace_span_event(struct trace_span *span, const char *name, uint64_t at_ns) {
    ASSERT(span->n_events < TRACE_EVENTS_MAX);
    span->events[span->n_events].name = name;
    span->events[span->n_events++].at_ns = at_ns < span->end_ns ? at_ns : span->end_ns;
}

/* --- packing: NULL is out of memory ---------------------------------------------------------- */

/* `text` as the wire has it: cut at a character's end, and without what is none. */
static bool trace_span_put_text(struct arena *arena, const char *text, ProtobufCBinaryData *to) {
    size_t n = strnlen(text, TRACE_TEXT_BYTES + 1);
    if (n > TRACE_TEXT_BYTES)
        n = TRACE_TEXT_BYTES - utf8_cut_tail(text, TRACE_TEXT_BYTES);
    char *copy = arena_alloc(arena, n + 1);
    if (!copy)
        return false;
    memcpy(copy, text, n);
    for (size_t good = 0; (good += utf8_valid_prefix(copy + good, n - good)) < n; good++)
        copy[good] = '?';
    to->data = (uint8_t *)copy;
    to->len = n;
    return true;
}

static Otlp__AnyValue *trace_span_new_text(struct arena *arena, const char *text) {
    Otlp__AnyValue *value = arena_alloc(arena, sizeof *value);
    if (!value)
        return NULL;
    otlp__any_value__init(value);
    value->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
    return trace_span_put_text(arena, text, &value->string_value) ? value : NULL;
}

static bool trace_span_put_texts(struct arena *arena, const struct trace_attribute *from,
                                 Otlp__AnyValue *to) {
    Otlp__ArrayValue *array = arena_alloc(arena, sizeof *array);
    Otlp__AnyValue **values = arena_alloc(arena, (from->n_texts + 1) * sizeof *values);
    if (!array || !values)
        return false;
    otlp__array_value__init(array);
    for (uint32_t i = 0; i < from->n_texts; i++)
        if (!(values[i] = trace_span_new_text(arena, from->texts[i])))
            return false;
    array->n_values = from->n_texts;
    array->values = values;
    to->value_case = OTLP__ANY_VALUE__VALUE_ARRAY_VALUE;
    to->array_value = array;
    return true;
}

static Otlp__AnyValue *trace_span_new_value(struct arena *arena,
                                            const struct trace_attribute *from) {
    if (from->kind == TRACE_TEXT)
        return trace_span_new_text(arena, from->text);
    Otlp__AnyValue *value = arena_alloc(arena, sizeof *value);
    if (!value)
        return NULL;
    otlp__any_value__init(value);
    if (from->kind == TRACE_NUMBER) {
        value->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
        value->int_value = from->number;
    } else if (from->kind == TRACE_REAL) {
        value->value_case = OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE;
        value->double_value = from->real;
    } else if (!trace_span_put_texts(arena, from, value)) {
        return NULL;
    }
    return value;
}

static bool trace_span_put_attributes(struct arena *arena, const struct trace_span *span,
                                      Otlp__Span *to) {
    Otlp__KeyValue **list = arena_alloc(arena, (span->n_attributes + 1) * sizeof *list);
    if (!list)
        return false;
    for (uint32_t i = 0; i < span->n_attributes; i++) {
        if (!(list[i] = arena_alloc(arena, sizeof **list)))
            return false;
        otlp__key_value__init(list[i]);
        list[i]->value = trace_span_new_value(arena, &span->attributes[i]);
        if (!list[i]->value || !trace_span_put_text(arena, span->attributes[i].key, &list[i]->key))
            return false;
    }
    to->n_attributes = span->n_attributes;
    to->attributes = list;
    return true;
}

static bool trace_span_put_events(struct arena *arena, const struct trace_span *span,
                                  Otlp__Span *to) {
    Otlp__Event **list = arena_alloc(arena, (span->n_events + 1) * sizeof *list);
    if (!list)
        return false;
    for (uint32_t i = 0; i < span->n_events; i++) {
        if (!(list[i] = arena_alloc(arena, sizeof **list)))
            return false;
        otlp__event__init(list[i]);
        list[i]->time_unix_nano = span->events[i].at_ns;
        if (!trace_span_put_text(arena, span->events[i].name, &list[i]->name))
            return false;
    }
    to->n_events = span->n_events;
    to->events = list;
    return true;
}

static bool trace_span_put_status(struct arena *arena, const struct trace_span *span,
                                  Otlp__Span *to) {
    if (!span->error)
        return true;
    Otlp__Status *status = arena_alloc(arena, sizeof *status);
    if (!status)
        return false;
    otlp__status__init(status);
    status->code = STATUS_ERROR;
    to->status = status;
    return trace_span_put_text(arena, span->error, &status->message);
}

/* protobuf-c reads through pointers that are not const. */
static ProtobufCBinaryData trace_span_id(const uint8_t *id, size_t n) {
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)id};
}

static bool trace_span_put(struct arena *arena, const struct trace_span *span, Otlp__Span *to) {
    uint32_t remote = span->has_parent ? FLAG_IS_REMOTE : 0;
    otlp__span__init(to);
    to->trace_id = trace_span_id(span->trace.trace_id, MESSAGE_TRACE_BYTES);
    to->span_id = trace_span_id(span->trace.span_id, MESSAGE_SPAN_BYTES);
    if (span->has_parent)
        to->parent_span_id = trace_span_id(span->parent_id, MESSAGE_SPAN_BYTES);
    to->flags = (span->trace.flags & 0xff) | FLAG_HAS_IS_REMOTE | remote;
    to->kind = KIND_SERVER;
    to->start_time_unix_nano = span->start_ns;
    to->end_time_unix_nano = span->end_ns;
    return trace_span_put_text(arena, span->name, &to->name) &&
           trace_span_put_text(arena, span->state ? span->state : "", &to->trace_state) &&
           trace_span_put_attributes(arena, span, to) && trace_span_put_events(arena, span, to) &&
           trace_span_put_status(arena, span, to);
}

enum status trace_span_pack(const struct trace_span *span, struct buf *out) {
    struct arena arena;
    Otlp__Span wire;
    enum status status = STATUS_NOMEM;
    arena_init(&arena, SPAN_ARENA_BYTES);
    if (trace_span_put(&arena, span, &wire)) {
        size_t n = otlp__span__get_packed_size(&wire);
        uint8_t *bytes = arena_alloc(&arena, n);
        if (bytes) {
            otlp__span__pack(&wire, bytes);
            buf_append(out, bytes, n);
            status = buf_status(out);
        }
    }
    arena_fini(&arena);
    return status;
}
