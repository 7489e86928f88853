/* grpc.reflection: which services there are, and their .proto files. The questions of a call are
 * answered once all have come; the files are those that protoc compiled at build. */
#include "base/http/exchange.h"
#include "base/http/grpc.h"
#include "proto/grpc_files.h"
#include "router/api/grpc.h"
#include "router/serve/api.h"
#include "router/serve/routes.h"

#include <grpc/reflection/v1/reflection.pb-c.h>
#include <stdio.h>
#include <string.h>

typedef Grpc__Reflection__V1__ServerReflectionRequest request;
typedef Grpc__Reflection__V1__ServerReflectionResponse response;

#define QUESTIONS_BYTES 262144u
#define SERVICES_MAX    16

/* --- the wire of descriptors: google/protobuf/descriptor.proto, by field numbers --------------- */

enum { SET_FILE = 1, FILE_NAME = 1, FILE_PACKAGE = 2, FILE_MESSAGE = 4, FILE_SERVICE = 6 };
enum { ANY_NAME = 1, SERVICE_METHOD = 2 };

static uint64_t read_varint(struct span *bytes) {
    uint64_t value = 0;
    for (unsigned shift = 0; bytes->n > 0 && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*bytes->bytes++;
        bytes->n--;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return value;
}

/* The next field of that number among those with a length; false: there is no more. The bytes are our
 * own build's. */
static bool next_field(struct span *message, unsigned number, struct span *value) {
    while (message->n > 0) {
        uint64_t key = read_varint(message);
        uint64_t n = read_varint(message); /* a length, or the value of a number */
        if ((key & 7) != 2)
            continue;
        *value = (struct span){message->bytes, n};
        message->bytes += n;
        message->n -= n;
        if (key >> 3 == number)
            return true;
    }
    return false;
}

static struct span first_field(struct span message, unsigned number) {
    struct span value = {0};
    return next_field(&message, number, &value) ? value : (struct span){"", 0};
}

static struct span all_files(void) {
    return (struct span){(const char *)grpc_files, grpc_files_n};
}

static bool spans_equal(struct span a, struct span b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.bytes, b.bytes, a.n) == 0);
}

/* Takes "name." or a final "name" off the front of a symbol. */
static bool take_name(struct span *symbol, struct span name) {
    if (symbol->n < name.n || memcmp(symbol->bytes, name.bytes, name.n) != 0)
        return false;
    if (symbol->n > name.n && symbol->bytes[name.n] != '.')
        return false;
    size_t n = symbol->n > name.n ? name.n + 1 : name.n;
    symbol->bytes += n;
    symbol->n -= n;
    return true;
}

/* Has the file the symbol: a message, a service or a service's method, by its full name? */
static bool has_symbol(struct span file, struct span symbol) {
    struct span one;
    if (!take_name(&symbol, first_field(file, FILE_PACKAGE)) || symbol.n == 0)
        return false;
    for (struct span rest = file; next_field(&rest, FILE_MESSAGE, &one);)
        if (spans_equal(first_field(one, ANY_NAME), symbol))
            return true;
    for (struct span rest = file; next_field(&rest, FILE_SERVICE, &one);) {
        struct span left = symbol, method;
        if (!take_name(&left, first_field(one, ANY_NAME)))
            continue;
        if (left.n == 0)
            return true;
        for (struct span methods = one; next_field(&methods, SERVICE_METHOD, &method);)
            if (spans_equal(first_field(method, ANY_NAME), left))
                return true;
    }
    return false;
}

/* --- questions and answers ---------------------------------------------------------------------- */

static struct span span_of(ProtobufCBinaryData data) {
    return (struct span){data.len > 0 ? (const char *)data.data : "", data.len};
}

static ProtobufCBinaryData data_of(struct span span) {
    return (ProtobufCBinaryData){span.n, (uint8_t *)(uintptr_t)span.bytes};
}

static void put_error(response *answer, int code, const char *text, struct buf *out) {
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = code;
    error.error_message = data_of((struct span){text, strlen(text)});
    answer->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    answer->error_response = &error;
    grpc_put(&answer->base, out);
}

static void put_file(response *answer, struct span file, struct buf *out) {
    Grpc__Reflection__V1__FileDescriptorResponse found =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes = data_of(file);
    found.n_file_descriptor_proto = 1;
    found.file_descriptor_proto = &bytes;
    answer->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    answer->file_descriptor_response = &found;
    grpc_put(&answer->base, out);
}

static void put_services(response *answer, struct buf *out) {
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse services[SERVICES_MAX], *at[SERVICES_MAX];
    char names[SERVICES_MAX][128];
    struct span file, service;
    for (struct span files = all_files(); next_field(&files, SET_FILE, &file);)
        for (struct span rest = file; next_field(&rest, FILE_SERVICE, &service);) {
            size_t i = list.n_service;
            if (i == SERVICES_MAX)
                break;
            struct span package = first_field(file, FILE_PACKAGE);
            struct span name = first_field(service, ANY_NAME);
            int n = snprintf(names[i], sizeof names[i], "%.*s.%.*s", (int)package.n, package.bytes,
                             (int)name.n, name.bytes);
            grpc__reflection__v1__service_response__init(&services[i]);
            services[i].name = data_of((struct span){names[i], (size_t)n});
            at[i] = &services[i];
            list.n_service++;
        }
    list.service = at;
    answer->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    answer->list_services_response = &list;
    grpc_put(&answer->base, out);
}

static void put_answer(request *question, struct buf *out) {
    response answer;
    struct span file;
    grpc__reflection__v1__server_reflection_response__init(&answer);
    answer.valid_host = question->host;
    answer.original_request = question;
    bool by_name =
        question->message_request_case ==
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME;
    switch ((int)question->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        put_services(&answer, out);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        for (struct span files = all_files(); next_field(&files, SET_FILE, &file);) {
            struct span wanted =
                span_of(by_name ? question->file_by_filename : question->file_containing_symbol);
            if (by_name ? spans_equal(first_field(file, FILE_NAME), wanted)
                        : has_symbol(file, wanted)) {
                put_file(&answer, file, out);
                return;
            }
        }
        put_error(&answer, 5, "there is no such file or symbol here", out);
        return;
    default:
        put_error(&answer, 12, "this question is not answered here", out);
    }
}

static void answer_reflection(struct server *server, struct exchange *exchange, const char *rest) {
    const char *encoding = exchange_header(exchange, "grpc-encoding");
    struct span left = {exchange->body, exchange->n_body};
    struct api_error error = {0};
    struct buf out;
    (void)rest;
    buf_init(&out, 8u << 20);
    while (left.n > 0 && error.status == STATUS_OK) {
        struct arena arena;
        struct span one = left;
        ProtobufCMessage *message = NULL;
        arena_init(&arena, QUESTIONS_BYTES * 16);
        if (left.n >= GRPC_PREFIX_BYTES) { /* each question is a body of its own to grpc_unpack() */
            size_t n = grpc_length(left);
            one.n = n < left.n - GRPC_PREFIX_BYTES ? n + GRPC_PREFIX_BYTES : left.n;
        }
        error.status = grpc_unpack(&one, encoding,
                                   &grpc__reflection__v1__server_reflection_request__descriptor,
                                   &arena, &message, &error);
        if (error.status == STATUS_OK)
            put_answer((request *)message, &out);
        left.bytes += one.n;
        left.n -= one.n;
        arena_fini(&arena);
    }
    if (error.status == STATUS_OK)
        routes_reply(server, exchange, 200, grpc_form.content_type, &out);
    else
        routes_error(server, exchange, &error);
    buf_fini(&out);
}

const struct dialect dialect_grpc_reflection = {
    .name = "grpc_reflection",
    .method = "POST",
    .path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    .form = &grpc_form,
    .body_max = QUESTIONS_BYTES,
    .answer = answer_reflection,
};

const struct dialect dialect_grpc_reflection_alpha = {
    .name = "grpc_reflection_alpha",
    .method = "POST",
    .path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    .form = &grpc_form,
    .body_max = QUESTIONS_BYTES,
    .answer = answer_reflection,
};
