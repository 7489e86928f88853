/* tools/bench/wire_grpc.c: the same requests as calls of tandem.v1.Inference: Generate where answers are
 * streamed, else Complete. */
#include "tools/bench/wire.h"

#include "base/clock.h"
#include "tools/lib/grpc_client.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <tandem_inference.pb-c.h>

typedef Tandem__V1__GenerateRequest request;
typedef Tandem__V1__GenerateResponse response;
typedef Tandem__V1__CompleteResponse whole;

struct wire_link {
    struct grpc_client *client; /* owned */
    struct wire_target target;
    uint32_t n_messages;
    enum fault fault; /* seen in the answer, told at its end */
    wire_event_fn *fn;
    void *user;
};

static void wire_grpc_tell(struct wire_link *link, struct event event) {
    event.at_ns = clock_now_ns();
    link->fn(link->user, &event, NULL);
}

/* --- what comes ---------------------------------------------------------------------------------- */

static void bench_grpc_on_bytes(void *user) {
    wire_grpc_tell(user, (struct event){.kind = EVENT_HEARD});
}

static enum finish bench_grpc_finish_of(const response *from) {
    if (!from->_finish_reason_case)
        return FINISH_NONE;
    const char *word = from->finish_reason.data ? (const char *)from->finish_reason.data : "";
    size_t n = from->finish_reason.len;
    return n == 6 && memcmp(word, "length", n) == 0 ? FINISH_LENGTH
           : n == 4 && memcmp(word, "stop", n) == 0 ? FINISH_STOP
                                                    : FINISH_OTHER;
}

static struct event bench_grpc_chunk_of(const response *from) {
    bool has_text = from->text.len > 0 || from->n_token_ids > 0;
    return (struct event){.kind = EVENT_CHUNK,
                          .chunk = has_text ? CHUNK_TEXT : CHUNK_BARE,
                          .finish = bench_grpc_finish_of(from)};
}

static struct event bench_grpc_usage_of(const Tandem__V1__Usage *from) {
    return (struct event){.kind = EVENT_USAGE,
                          .n_prompt = from->prompt_tokens,
                          .n_output = from->completion_tokens,
                          .n_cached = from->cached_tokens};
}

/* The usage goes on its own, as the last event of a stream over HTTP does. */
static void wire_grpc_take(struct wire_link *link, const struct event *chunk,
                           const Tandem__V1__Usage *usage) {
    struct event counted = {0};
    if (usage) /* before the chunk: telling it may end the call and what it lies in */
        counted = bench_grpc_usage_of(usage);
    uint32_t n = link->n_messages;
    if (chunk)
        wire_grpc_tell(link, *chunk);
    if (usage && link->n_messages == n)
        wire_grpc_tell(link, counted);
}

static void bench_grpc_on_message(void *user, const uint8_t *bytes, size_t n) {
    struct wire_link *link = user;
    bool streams = link->target.form->stream;
    ProtobufCMessage *message =
        protobuf_c_message_unpack(streams ? &tandem__v1__generate_response__descriptor
                                          : &tandem__v1__complete_response__descriptor,
                                  NULL, n, bytes);
    link->n_messages++;
    if (!message) {
        link->fault = FAULT_MALFORMED;
        return;
    }
    const response *one = (const response *)message;
    const Tandem__V1__Usage *usage = one->usage;
    if (!streams) {
        const whole *all = (const whole *)message;
        one = all->n_choices > 0 ? all->choices[0] : NULL;
        usage = all->usage;
    }
    struct event chunk = {0};
    if (one)
        chunk = bench_grpc_chunk_of(one);
    wire_grpc_take(link, one ? &chunk : NULL, usage);
    protobuf_c_message_free_unpacked(message, NULL);
}

static enum fault bench_grpc_judge(const struct wire_link *link, const struct grpc_end *end) {
    if (end->status == STATUS_CORRUPT)
        return FAULT_MALFORMED;
    if (end->status == STATUS_IO && link->target.url->is_tls)
        return FAULT_TLS;
    if (end->status != STATUS_OK)
        return grpc_client_is_sent(link->client) ? FAULT_CUT : FAULT_REFUSED;
    if (end->http_status != 200 || (end->grpc_status != 0 && link->n_messages == 0))
        return FAULT_STATUS;
    if (end->grpc_status != 0) /* it broke off where HTTP would send an error in the stream */
        return FAULT_EVENT;
    return link->fault;
}

static void bench_grpc_on_end(void *user, const struct grpc_end *end) {
    struct wire_link *link = user;
    struct event event = {.kind = EVENT_END,
                          .at_ns = clock_now_ns(),
                          .http_status = end->http_status,
                          .fault = bench_grpc_judge(link, end)};
    struct error said;
    (void)error_set(&said, STATUS_CORRUPT, "%s: HTTP status %d, grpc-status %d: %s",
                    fault_name(event.fault), end->http_status, end->grpc_status, end->text);
    link->fn(link->user, &event, event.fault ? &said : NULL);
}

/* --- what is asked -------------------------------------------------------------------------------- */

static ProtobufCBinaryData bench_grpc_text_of(const json_t *json) {
    return (ProtobufCBinaryData){json_string_length(json),
                                 (uint8_t *)(uintptr_t)json_string_value(json)};
}

#define SET(to, Name, name, value)                                                                 \
    ((to)->_##name##_case = TANDEM__V1__GENERATE_REQUEST___##Name##_##Name, (to)->name = (value))

/* What the workload's bodies may hold; the pieces lie beside it, borrowed by the packer. */
struct wire_grpc_packing {
    request request;
    Tandem__V1__Chat chat;
    Tandem__V1__Message message;
    Tandem__V1__Message *messages[1];
    Tandem__V1__TokenIds ids;
};

static bool bench_grpc_read_prompt(struct wire_grpc_packing *to, const json_t *root) {
    const json_t *prompt = json_object_get(root, "prompt");
    const json_t *message = json_array_get(json_object_get(root, "messages"), 0);
    if (json_is_string(prompt)) {
        to->request.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_TEXT;
        to->request.text = bench_grpc_text_of(prompt);
    } else if (prompt) {
        size_t n = json_array_size(prompt);
        to->ids.ids = malloc((n ? n : 1) * sizeof *to->ids.ids);
        if (!to->ids.ids)
            return false;
        for (size_t i = 0; i < n; i++)
            to->ids.ids[to->ids.n_ids++] = (uint32_t)json_integer_value(json_array_get(prompt, i));
        to->request.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_TOKEN_IDS;
        to->request.token_ids = &to->ids;
    } else {
        to->message.role = bench_grpc_text_of(json_object_get(message, "role"));
        to->message._content_case = TANDEM__V1__MESSAGE___CONTENT_CONTENT;
        to->message.content = bench_grpc_text_of(json_object_get(message, "content"));
        to->messages[0] = &to->message;
        to->chat.messages = to->messages;
        to->chat.n_messages = 1;
        to->request.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_CHAT;
        to->request.chat = &to->chat;
    }
    return true;
}

/* Packs the JSON that the workload makes for /v1/completions and /v1/chat/completions. */
static uint8_t *wire_grpc_pack(const char *body, size_t n, size_t *n_packed) {
    struct wire_grpc_packing to = {.messages = {NULL}};
    tandem__v1__generate_request__init(&to.request);
    tandem__v1__chat__init(&to.chat);
    tandem__v1__message__init(&to.message);
    tandem__v1__token_ids__init(&to.ids);
    json_t *root = json_loadb(body, n, 0, NULL);
    const json_t *temperature = json_object_get(root, "temperature");
    uint8_t *packed = NULL;
    if (root && bench_grpc_read_prompt(&to, root)) {
        to.request.model = bench_grpc_text_of(json_object_get(root, "model"));
        SET(&to.request, MAX_TOKENS, max_tokens,
            (uint32_t)json_integer_value(json_object_get(root, "max_tokens")));
        if (temperature)
            SET(&to.request, TEMPERATURE, temperature, (float)json_number_value(temperature));
        if (json_is_true(json_object_get(root, "ignore_eos")))
            SET(&to.request, IGNORE_EOS, ignore_eos, true);
        *n_packed = protobuf_c_message_get_packed_size(&to.request.base);
        packed = malloc(*n_packed ? *n_packed : 1);
        if (packed)
            (void)protobuf_c_message_pack(&to.request.base, packed);
    }
    free(to.ids.ids);
    json_decref(root);
    return packed;
}

/* --- the member ------------------------------------------------------------------------------------ */

static void bench_grpc_close(struct wire_link *link) {
    if (!link)
        return;
    grpc_client_free(link->client);
    free(link);
}

static enum status bench_grpc_open(struct loop *loop, const struct wire_target *target,
                                   wire_event_fn *fn, void *user, struct wire_link **link,
                                   struct error *error) {
    struct wire_link *made = calloc(1, sizeof *made);
    if (!made || grpc_client_new(loop, target->url, &made->client) != STATUS_OK) {
        bench_grpc_close(made);
        return error_set(error, STATUS_NOMEM, "out of memory for a connection");
    }
    made->target = *target;
    made->fn = fn;
    made->user = user;
    *link = made;
    return STATUS_OK;
}

static void bench_grpc_send(struct wire_link *link, const char *body, size_t n) {
    const struct grpc_events events = {bench_grpc_on_bytes, bench_grpc_on_message,
                                       bench_grpc_on_end, link};
    size_t n_packed = 0;
    uint8_t *packed = wire_grpc_pack(body, n, &n_packed);
    link->n_messages = 0;
    link->fault = FAULT_NONE;
    if (!packed) {
        const struct grpc_end end = {
            .status = STATUS_NOMEM, .grpc_status = -1, .text = "no memory"};
        bench_grpc_on_end(link, &end);
        return;
    }
    grpc_client_start(link->client,
                      link->target.form->stream ? "/tandem.v1.Inference/Generate"
                                                : "/tandem.v1.Inference/Complete",
                      link->target.api_key, packed, n_packed, &events);
    free(packed);
}

static void bench_grpc_cancel(struct wire_link *link) {
    link->n_messages++; /* a walk over one's events stops */
    grpc_client_abort(link->client);
}

const struct wire wire_grpc = {.open = bench_grpc_open,
                               .send = bench_grpc_send,
                               .cancel = bench_grpc_cancel,
                               .close = bench_grpc_close};
