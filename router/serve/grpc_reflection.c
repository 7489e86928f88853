/* grpc.reflection: which services there are, and their .proto files. Each question of a call is
 * answered when it has come; the files are those that protoc compiled at build. */
#include "base/http/exchange.h"
#include "base/http/grpc.h"
#include "proto/grpc_files.h"
#include "router/api/grpc.h"
#include "router/serve/endpoint.h"
#include "router/serve/server.h"
#include "router/serve/watches.h"

#include <grpc/reflection/v1/reflection.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Grpc__Reflection__V1__ServerReflectionRequest request;
typedef Grpc__Reflection__V1__ServerReflectionResponse response;

#define QUESTIONS_BYTES 262144u
#define ANSWERS_BYTES   (8u << 20) /* to what came in one piece */
#define SERVICES_MAX    16

/* --- the wire of descriptors: google/protobuf/descriptor.proto, by field numbers --------------- */

enum { SET_FILE = 1, FILE_NAME = 1, FILE_PACKAGE = 2, FILE_MESSAGE = 4, FILE_SERVICE = 6 };
enum { ANY_NAME = 1, SERVICE_METHOD = 2 };

static uint64_t grpc_reflection_read_varint(struct span *bytes) {
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
static bool grpc_reflection_next_field(struct span *message, unsigned number, struct span *value) {
    while (message->n > 0) {
        uint64_t key = grpc_reflection_read_varint(message);
        uint64_t n = grpc_reflection_read_varint(message); /* a length, or the value of a number */
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

static struct span grpc_reflection_first_field(struct span message, unsigned number) {
    struct span value = {0};
    return grpc_reflection_next_field(&message, number, &value) ? value : (struct span){"", 0};
}

static struct span grpc_reflection_all_files(void) {
    return (struct span){(const char *)grpc_files, grpc_files_n};
}

/* Takes "name." or a final "name" off the front of a symbol. */
static bool grpc_reflection_take_name(struct span *symbol, struct span name) {
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
static bool grpc_reflection_has_symbol(struct span file, struct span symbol) {
    struct span one;
    if (!grpc_reflection_take_name(&symbol, grpc_reflection_first_field(file, FILE_PACKAGE)) ||
        symbol.n == 0)
        return false;
    for (struct span rest = file; grpc_reflection_next_field(&rest, FILE_MESSAGE, &one);)
        if (span_equal(grpc_reflection_first_field(one, ANY_NAME), symbol))
            return true;
    for (struct span rest = file; grpc_reflection_next_field(&rest, FILE_SERVICE, &one);) {
        struct span left = symbol, method;
        if (!grpc_reflection_take_name(&left, grpc_reflection_first_field(one, ANY_NAME)))
            continue;
        if (left.n == 0)
            return true;
        for (struct span methods = one;
             grpc_reflection_next_field(&methods, SERVICE_METHOD, &method);)
            if (span_equal(grpc_reflection_first_field(method, ANY_NAME), left))
                return true;
    }
    return false;
}

/* --- questions and answers ---------------------------------------------------------------------- */

static void grpc_reflection_put_error(response *answer, int code, const char *text,
                                      struct buf *out) {
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = code;
    error.error_message = grpc_text(text);
    answer->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    answer->error_response = &error;
    grpc_put(&answer->base, out);
    answer->error_response = NULL;
}

static void grpc_reflection_put_file(response *answer, struct span file, struct buf *out) {
    Grpc__Reflection__V1__FileDescriptorResponse found =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes = grpc_bytes(file);
    found.n_file_descriptor_proto = 1;
    found.file_descriptor_proto = &bytes;
    answer->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    answer->file_descriptor_response = &found;
    grpc_put(&answer->base, out);
    answer->file_descriptor_response = NULL;
}

static void grpc_reflection_put_services(response *answer, struct buf *out) {
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse services[SERVICES_MAX], *at[SERVICES_MAX];
    char names[SERVICES_MAX][128];
    struct span file, service;
    for (struct span files = grpc_reflection_all_files();
         grpc_reflection_next_field(&files, SET_FILE, &file);)
        for (struct span rest = file; grpc_reflection_next_field(&rest, FILE_SERVICE, &service);) {
            size_t i = list.n_service;
            if (i == SERVICES_MAX)
                break;
            struct span package = grpc_reflection_first_field(file, FILE_PACKAGE);
            struct span name = grpc_reflection_first_field(service, ANY_NAME);
            int n = snprintf(names[i], sizeof names[i], "%.*s.%.*s", (int)package.n, package.bytes,
                             (int)name.n, name.bytes);
            grpc__reflection__v1__service_response__init(&services[i]);
            services[i].name = grpc_bytes((struct span){names[i], (size_t)n});
            at[i] = &services[i];
            list.n_service++;
        }
    list.service = at;
    answer->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    answer->list_services_response = &list;
    grpc_put(&answer->base, out);
    answer->list_services_response = NULL;
}

static void grpc_reflection_put_answer(request *question, struct buf *out) {
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
        grpc_reflection_put_services(&answer, out);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        for (struct span files = grpc_reflection_all_files();
             grpc_reflection_next_field(&files, SET_FILE, &file);) {
            struct span wanted =
                grpc_span(by_name ? question->file_by_filename : question->file_containing_symbol);
            if (by_name ? span_equal(grpc_reflection_first_field(file, FILE_NAME), wanted)
                        : grpc_reflection_has_symbol(file, wanted)) {
                grpc_reflection_put_file(&answer, file, out);
                return;
            }
        }
        grpc_reflection_put_error(&answer, 5, "no such file or symbol", out);
        return;
    default:
        grpc_reflection_put_error(&answer, 12, "this question is not answered here", out);
    }
}

/* A call in progress: clients ask in turns on one stream. */
struct talk {
    struct exchanges *exchanges; /* borrowed */
    uint64_t id;                 /* the exchange's */
    char encoding[16];           /* grpc-encoding, as in struct ask */
    struct buf input;            /* a question that is not complete, at most QUESTIONS_BYTES */
    struct quota *quota;         /* of the client's key; or NULL */
};

static void grpc_reflection_free_talk(struct exchange *exchange) {
    struct talk *talk = exchange->user;
    exchange->user = NULL;
    watches_leave(talk->quota);
    buf_fini(&talk->input);
    free(talk);
}

/* Ends the stream, with the failure's status in its trailers or a good one. */
static void grpc_reflection_end_talk(struct exchange *exchange, const struct api_error *error) {
    const struct talk *talk = exchange->user;
    struct exchanges *all = talk->exchanges;
    uint64_t id = talk->id;
    struct dialect_refusal refusal = {0};
    exchange->gone = NULL;
    grpc_reflection_free_talk(exchange);
    if (error) {
        grpc_form.refuse(error, &refusal);
        exchange_end(all, id, refusal.headers, refusal.n_headers);
    } else {
        exchange_end(all, id, grpc_form.trailers, grpc_form.n_trailers);
    }
}

/* The answer to one whole question, in its frame. */
static enum status grpc_reflection_answer_one(const struct talk *talk, const struct span *question,
                                              struct buf *out, struct api_error *error) {
    struct arena arena;
    ProtobufCMessage *message = NULL;
    arena_init(&arena, QUESTIONS_BYTES * 16);
    error->status = grpc_unpack(question, talk->encoding,
                                &grpc__reflection__v1__server_reflection_request__descriptor,
                                &arena, &message, error);
    if (error->status == STATUS_OK)
        grpc_reflection_put_answer((request *)message, out);
    arena_fini(&arena);
    return error->status;
}

static enum status grpc_reflection_too_large(struct api_error *error) {
    error->code = "body_too_large";
    return error_set(&error->error, STATUS_LIMIT, "a question has more than %u bytes",
                     QUESTIONS_BYTES);
}

/* What came with all that is complete in it, answered. A client that asks faster than it reads is
 * refused when the answers that wait have reached their bound. */
static enum status grpc_reflection_answer_all(struct talk *talk, struct api_error *error) {
    struct span left = {talk->input.data ? talk->input.data : "", talk->input.n};
    struct buf out;
    buf_init(&out, ANSWERS_BYTES);
    while (error->status == STATUS_OK && left.n >= GRPC_PREFIX_BYTES) {
        struct span one = {left.bytes, grpc_length(left) + GRPC_PREFIX_BYTES};
        if (one.n > QUESTIONS_BYTES)
            error->status = grpc_reflection_too_large(error);
        else if (one.n > left.n)
            break;
        else
            grpc_reflection_answer_one(talk, &one, &out, error);
        left.bytes += one.n;
        left.n -= one.n;
    }
    if (error->status == STATUS_OK &&
        (buf_status(&out) != STATUS_OK ||
         exchange_write(talk->exchanges, talk->id, out.data, out.n) == STATUS_BUSY))
        error->status =
            error_set(&error->error, STATUS_BUSY, "answers wait that the client does not read");
    buf_fini(&out);
    if (error->status == STATUS_OK)
        buf_consume(&talk->input, talk->input.n - left.n);
    return error->status;
}

static void grpc_reflection_take_piece(struct exchange *exchange, const char *bytes, size_t n,
                                       bool end) {
    struct talk *talk = exchange->user;
    struct api_error error = {0};
    buf_append(&talk->input, bytes, n);
    if (buf_status(&talk->input) != STATUS_OK)
        error.status = grpc_reflection_too_large(&error);
    if (error.status == STATUS_OK)
        (void)!grpc_reflection_answer_all(talk, &error);
    if (error.status == STATUS_OK && end && talk->input.n > 0)
        error.status = error_set(&error.error, STATUS_INVALID, "the body ends within its message");
    if (error.status != STATUS_OK || end)
        grpc_reflection_end_talk(exchange, error.status != STATUS_OK ? &error : NULL);
}

/* The questions come in pieces behind the head, which is answered at once. */
static void grpc_reflection_answer(struct server *server, const struct endpoint_request *asked) {
    struct exchange *exchange = asked->exchange;
    const char *encoding = exchange_header(exchange, "grpc-encoding");
    struct talk *talk = calloc(1, sizeof *talk);
    struct api_error error = {0};
    struct quota *quota = NULL;
    struct exchange_reply head = {.status = 200,
                                  .content_type = grpc_form.stream_type,
                                  .headers = grpc_form.stream_headers,
                                  .n_headers = grpc_form.n_stream_headers};
    if (!talk)
        error.status = error_set(&error.error, STATUS_NOMEM, "no memory for the call");
    if (error.status != STATUS_OK ||
        watches_admit(server, exchange, false, &quota, &error) != STATUS_OK) {
        free(talk);
        endpoint_error(server, asked, &error);
        return;
    }
    *talk =
        (struct talk){.exchanges = server->serving.exchanges, .id = exchange->id, .quota = quota};
    snprintf(talk->encoding, sizeof talk->encoding, "%s", encoding ? encoding : "");
    buf_init(&talk->input, 2 * QUESTIONS_BYTES);
    exchange->user = talk;
    exchange->gone = grpc_reflection_free_talk;
    exchange_begin_stream(talk->exchanges, talk->id, &head);
}

const struct dialect dialect_grpc_reflection = DIALECT_ANSWER(
    "grpc_reflection", "POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    grpc_form, grpc_reflection_answer, .piece = grpc_reflection_take_piece);
const struct dialect dialect_grpc_reflection_alpha =
    DIALECT_ANSWER("grpc_reflection_alpha", "POST",
                   "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", grpc_form,
                   grpc_reflection_answer, .piece = grpc_reflection_take_piece);
