/* A protobuf message as JSON, by the descriptor that protobuf-c made of the .proto file. */
#include "base/utf8.h"
#include "router/api/errors.h"
#include "router/api/grpc.h"
#include "router/api/json_put.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Fields whose name in HTTP is another one; `always`: written even when empty, so that the reader
 * tells an empty prompt from none. */
static const struct special {
    const char *name;
    const char *as;
    bool always;
} specials[] = {
    {"text", "prompt", false},
    {"ids", "prompt", true},
    {"messages", "messages", true},
    {"tokens", "tokens", true},
    {"template_kwargs_json", "chat_template_kwargs_json", false},
};

static const struct special *grpc_json_special_of(const char *name) {
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (strcmp(specials[i].name, name) == 0)
            return &specials[i];
    return NULL;
}

static bool grpc_json_is_json(const char *name) {
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, "_json") == 0;
}

static const void *grpc_json_at(const ProtobufCMessage *message, unsigned offset) {
    return (const char *)message + offset;
}

/* Nothing but one bracketed value, as far as brackets and strings show; the parser sees the rest. */
static bool grpc_json_is_one_value(const char *bytes, size_t n) {
    size_t i = 0, depth = 0;
    while (i < n && strchr(" \t\r\n", bytes[i]) && bytes[i])
        i++;
    if (i == n || (bytes[i] != '[' && bytes[i] != '{'))
        return false;
    for (; i < n; i++) {
        if (bytes[i] == '"') {
            for (i++; i < n && bytes[i] != '"'; i++)
                i += bytes[i] == '\\';
        } else if (bytes[i] == '[' || bytes[i] == '{') {
            depth++;
        } else if (bytes[i] == ']' || bytes[i] == '}') {
            if (--depth == 0)
                break;
        }
    }
    for (i++; i < n; i++)
        if (!bytes[i] || !strchr(" \t\r\n", bytes[i]))
            return false;
    return depth == 0 && i == n;
}

static enum status grpc_json_put_text(const ProtobufCFieldDescriptor *field,
                                      const ProtobufCBinaryData *text, struct buf *json,
                                      struct error *error) {
    const char *bytes = text->len > 0 ? (const char *)text->data : "";
    if (!utf8_valid(bytes, text->len))
        return error_field(error, STATUS_INVALID, field->name, "%s: must be UTF-8", field->name);
    if (!grpc_json_is_json(field->name)) {
        json_put_string(json, bytes, text->len);
        return STATUS_OK;
    }
    if (!grpc_json_is_one_value(bytes, text->len))
        return error_field(error, STATUS_INVALID, field->name,
                           "%s: must be one JSON list or object", field->name);
    buf_append(json, bytes, text->len);
    return STATUS_OK;
}

static enum status grpc_json_put_real(const ProtobufCFieldDescriptor *field, float value,
                                      struct buf *json, struct error *error) {
    if (!isfinite(value))
        return error_field(error, STATUS_INVALID, field->name, "%s: must be a finite number",
                           field->name);
    buf_printf(json, "%.9g", (double)value); /* read back, it is the same float */
    return STATUS_OK;
}

static enum status grpc_json_put_members(const ProtobufCMessage *message, struct buf *json,
                                         struct error *error);

/* One value of a field with any label. */
static enum status grpc_json_put_value(const ProtobufCFieldDescriptor *field, const void *value,
                                       struct buf *json, struct error *error) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        buf_puts(json, *(const protobuf_c_boolean *)value ? "true" : "false");
        return STATUS_OK;
    case PROTOBUF_C_TYPE_UINT32:
        json_put_int(json, *(const uint32_t *)value);
        return STATUS_OK;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
        json_put_int(json, *(const int32_t *)value);
        return STATUS_OK;
    case PROTOBUF_C_TYPE_INT64:
        json_put_int(json, *(const int64_t *)value);
        return STATUS_OK;
    case PROTOBUF_C_TYPE_FLOAT:
        return grpc_json_put_real(field, *(const float *)value, json, error);
    case PROTOBUF_C_TYPE_BYTES:
        return grpc_json_put_text(field, value, json, error);
    case PROTOBUF_C_TYPE_MESSAGE:
        buf_putc(json, '{');
        TRY(grpc_json_put_members(*(ProtobufCMessage *const *)value, json, error));
        buf_putc(json, '}');
        return STATUS_OK;
    default:
        return error_field(error, STATUS_UNSUPPORTED, field->name, "%s: has a type of its own",
                           field->name);
    }
}

static size_t grpc_json_value_size(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_INT64:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    default:
        return sizeof(uint32_t);
    }
}

/* A map's entries are messages of a key and a value. */
static bool grpc_json_is_map(const ProtobufCFieldDescriptor *field) {
    const ProtobufCMessageDescriptor *type = field->descriptor;
    return field->label == PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_MESSAGE &&
           type->n_fields == 2 && strcmp(type->fields[0].name, "key") == 0;
}

/* The last of equal keys counts; JSON may not have a key twice. */
static enum status grpc_json_put_map(const ProtobufCFieldDescriptor *field,
                                     ProtobufCMessage *const *entries, size_t n, struct buf *json,
                                     struct error *error) {
    const ProtobufCMessageDescriptor *type = field->descriptor;
    if (n > MESSAGE_BIAS_MAX)
        return error_field(error, STATUS_INVALID, field->name, "%s: must have at most %d entries",
                           field->name, MESSAGE_BIAS_MAX);
    buf_putc(json, '{');
    bool has_any = false;
    for (size_t i = 0; i < n; i++) {
        uint32_t key = *(const uint32_t *)grpc_json_at(entries[i], type->fields[0].offset);
        bool is_last = true;
        for (size_t later = i + 1; later < n && is_last; later++)
            is_last =
                *(const uint32_t *)grpc_json_at(entries[later], type->fields[0].offset) != key;
        if (!is_last)
            continue;
        buf_printf(json, "%s\"%u\":", has_any ? "," : "", key);
        has_any = true;
        TRY(grpc_json_put_value(&type->fields[1], grpc_json_at(entries[i], type->fields[1].offset),
                                json, error));
    }
    buf_putc(json, '}');
    return STATUS_OK;
}

static enum status grpc_json_put_list(const ProtobufCFieldDescriptor *field, const void *values,
                                      size_t n, struct buf *json, struct error *error) {
    size_t size = grpc_json_value_size(field);
    if (grpc_json_is_map(field))
        return grpc_json_put_map(field, values, n, json, error);
    buf_putc(json, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(json, ',');
        TRY(grpc_json_put_value(field, (const char *)values + i * size, json, error));
    }
    buf_putc(json, ']');
    return STATUS_OK;
}

/* Is the field there? Numbers without presence do not occur in requests. */
static bool grpc_json_is_present(const ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *field) {
    const struct special *special = grpc_json_special_of(field->name);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)grpc_json_at(message, field->quantifier_offset) > 0 ||
               (special && special->always);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)grpc_json_at(message, field->quantifier_offset) == field->id;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)grpc_json_at(message, field->offset) != NULL;
    return field->type != PROTOBUF_C_TYPE_BYTES ||
           ((const ProtobufCBinaryData *)grpc_json_at(message, field->offset))->len > 0;
}

static enum status grpc_json_put_member(const ProtobufCMessage *message,
                                        const ProtobufCFieldDescriptor *field, struct buf *json,
                                        struct error *error) {
    const struct special *special = grpc_json_special_of(field->name);
    const char *name = special ? special->as : field->name;
    const void *value = grpc_json_at(message, field->offset);
    bool is_list = field->label == PROTOBUF_C_LABEL_REPEATED;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && !is_list) /* a prompt: part of the request */
        return grpc_json_put_members(*(ProtobufCMessage *const *)value, json, error);
    char last = json->n > 0 ? json->data[json->n - 1] : '{';
    int n = (int)(strlen(name) - (grpc_json_is_json(name) ? 5 : 0));
    buf_printf(json, "%s\"%.*s\":", last == '{' ? "" : ",", n, name);
    if (is_list)
        return grpc_json_put_list(field, *(const void *const *)value,
                                  *(const size_t *)grpc_json_at(message, field->quantifier_offset),
                                  json, error);
    return grpc_json_put_value(field, value, json, error);
}

static enum status grpc_json_put_members(const ProtobufCMessage *message, struct buf *json,
                                         struct error *error) {
    const ProtobufCMessageDescriptor *type = message->descriptor;
    for (unsigned i = 0; i < type->n_fields; i++)
        if (grpc_json_is_present(message, &type->fields[i]))
            TRY(grpc_json_put_member(message, &type->fields[i], json, error));
    return STATUS_OK;
}

enum status grpc_put_json(const ProtobufCMessage *message, struct buf *json, struct error *error) {
    buf_putc(json, '{');
    TRY(grpc_json_put_members(message, json, error));
    buf_putc(json, '}');
    return buf_status(json) == STATUS_OK ? STATUS_OK : errors_no_memory(error);
}
