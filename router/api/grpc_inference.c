/* tandem.v1.Inference: what generates or tokenizes. Each call is read as its HTTP twin is. */
#include "router/api/grpc.h"
#include "router/api/json_put.h"
#include "router/api/tool_reader.h"

#include <stdlib.h>
#include <string.h>
#include <tandem_inference.pb-c.h>

typedef Tandem__V1__GenerateRequest request;
typedef Tandem__V1__GenerateResponse response;

/* HTTP's chats ask for logprobs by a switch and a number. */
static void grpc_inference_put_chat_logprobs(const request *from, struct buf *json) {
    buf_truncate(json, json->n - 1);
    buf_printf(json, ",\"logprobs\":true,\"top_logprobs\":%u}", from->logprobs);
}

static enum status grpc_inference_request_json(request *from, struct buf *json,
                                               struct error *error) {
    bool is_chat = from->input_case == TANDEM__V1__GENERATE_REQUEST__INPUT_CHAT;
    bool has_logprobs = from->_logprobs_case == TANDEM__V1__GENERATE_REQUEST___LOGPROBS_LOGPROBS;
    if (is_chat && has_logprobs)
        from->_logprobs_case = TANDEM__V1__GENERATE_REQUEST___LOGPROBS__NOT_SET;
    TRY(grpc_put_json(&from->base, json, error));
    if (is_chat && has_logprobs)
        grpc_inference_put_chat_logprobs(from, json);
    return STATUS_OK;
}

/* Reads the message of a body as JSON; *is_chat tells which HTTP dialect it belongs to. */
static enum status grpc_inference_read_body(const struct span *body, const struct ask *ask,
                                            const ProtobufCMessageDescriptor *type,
                                            struct buf *json, bool *is_chat,
                                            struct api_error *error) {
    struct arena arena;
    ProtobufCMessage *message = NULL;
    arena_init(&arena, GRPC_ARENA_BYTES);
    enum status status = grpc_unpack(body, ask->encoding, type, &arena, &message, error);
    bool is_request = type == &tandem__v1__generate_request__descriptor;
    if (status == STATUS_OK && is_request) {
        *is_chat = ((request *)message)->input_case == TANDEM__V1__GENERATE_REQUEST__INPUT_CHAT;
        status = grpc_inference_request_json((request *)message, json, &error->error);
    } else if (status == STATUS_OK) {
        status = grpc_put_json(message, json, &error->error);
    }
    arena_fini(&arena);
    return status;
}

/* Reads the body as the twin reads JSON; without a twin, as a chat or a completion. */
static enum status grpc_inference_parse_as(const struct dialect *twin,
                                           const ProtobufCMessageDescriptor *type,
                                           const struct span *body, const struct ask_limits *limits,
                                           struct ask *ask, struct api_error *error) {
    struct buf json;
    bool is_chat = false;
    buf_init(&json, 0);
    enum status status = grpc_inference_read_body(body, ask, type, &json, &is_chat, error);
    if (status == STATUS_OK) {
        const struct span bytes = {json.data, json.n};
        if (!twin)
            twin = is_chat ? &dialect_chat : &dialect_completions;
        status = twin->parse(&bytes, limits, ask, error);
        ask->calls = false; /* a reply has the text as it is, with the calls in it */
    }
    buf_fini(&json);
    return status;
}

static enum status grpc_inference_parse_generate(const struct span *body,
                                                 const struct ask_limits *limits, struct ask *ask,
                                                 struct api_error *error) {
    TRY(grpc_inference_parse_as(NULL, &tandem__v1__generate_request__descriptor, body, limits, ask,
                                error));
    ask->stream = true;
    return STATUS_OK;
}

static enum status grpc_inference_parse_complete(const struct span *body,
                                                 const struct ask_limits *limits, struct ask *ask,
                                                 struct api_error *error) {
    return grpc_inference_parse_as(NULL, &tandem__v1__generate_request__descriptor, body, limits,
                                   ask, error);
}

static enum status grpc_inference_parse_tokenize(const struct span *body,
                                                 const struct ask_limits *limits, struct ask *ask,
                                                 struct api_error *error) {
    return grpc_inference_parse_as(&dialect_tokenize, &tandem__v1__generate_request__descriptor,
                                   body, limits, ask, error);
}

static enum status grpc_inference_parse_detokenize(const struct span *body,
                                                   const struct ask_limits *limits, struct ask *ask,
                                                   struct api_error *error) {
    return grpc_inference_parse_as(&dialect_detokenize, &tandem__v1__detokenize_request__descriptor,
                                   body, limits, ask, error);
}

/* Messages that point into a reply while it is packed. */
struct packing {
    Tandem__V1__Logprobs logprobs;
    Tandem__V1__TopLogprobs *tops; /* owned (n_tokens) */
    Tandem__V1__TopLogprobs **at;  /* owned (n_tokens) */
    float *values;                 /* owned (n_tokens) */
    float *best;                   /* owned (n_tokens, MESSAGE_TOP_MAX) */
    struct buf text, thought;      /* owned: of an answer that has parts */
};

static void grpc_inference_packing_fini(struct packing *packing) {
    free(packing->tops);
    free(packing->at);
    free(packing->values);
    free(packing->best);
    buf_fini(&packing->text);
    buf_fini(&packing->thought);
}

/* As HTTP shows it: JSON has no infinities. */
static float grpc_inference_shown(float logprob) {
    return logprob < JSON_PUT_LOGPROB_MIN ? JSON_PUT_LOGPROB_MIN : logprob;
}

static void grpc_inference_fill_top(const struct ask *ask, const struct token_logprobs *from,
                                    float *best, Tandem__V1__TopLogprobs *to) {
    *to = (Tandem__V1__TopLogprobs)TANDEM__V1__TOP_LOGPROBS__INIT;
    uint32_t n = ask->sampling.n_top < from->n_top ? ask->sampling.n_top : from->n_top;
    for (uint32_t i = 0; i < n; i++)
        best[i] = grpc_inference_shown(from->top_logprobs[i]);
    to->n_token_ids = to->n_logprobs = n;
    to->token_ids = (uint32_t *)(uintptr_t)from->top_ids;
    to->logprobs = best;
}

/* False: no memory. */
static bool grpc_inference_fill_logprobs(const struct ask *ask, const struct reply_choice *choice,
                                         struct packing *packing) {
    uint32_t n = choice->n_tokens;
    packing->logprobs = (Tandem__V1__Logprobs)TANDEM__V1__LOGPROBS__INIT;
    packing->tops = calloc(n, sizeof *packing->tops);
    packing->at = calloc(n, sizeof *packing->at);
    packing->values = calloc(n, sizeof *packing->values);
    packing->best = calloc(n, sizeof(float[MESSAGE_TOP_MAX]));
    if (!packing->tops || !packing->at || !packing->values || !packing->best)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        packing->values[i] = grpc_inference_shown(choice->logprobs[i].logprob);
        packing->at[i] = &packing->tops[i];
        grpc_inference_fill_top(ask, &choice->logprobs[i],
                                packing->best + (size_t)i * MESSAGE_TOP_MAX, &packing->tops[i]);
    }
    packing->logprobs.n_token_logprobs = n;
    packing->logprobs.token_logprobs = packing->values;
    packing->logprobs.n_top = ask->sampling.n_top > 0 ? n : 0;
    packing->logprobs.top = packing->at;
    return true;
}

static void grpc_inference_fill_end(const struct reply_choice *choice, response *to) {
    if (!choice->has_ended)
        return;
    to->_finish_reason_case = TANDEM__V1__GENERATE_RESPONSE___FINISH_REASON_FINISH_REASON;
    to->finish_reason = grpc_text(reply_finish_name(choice->finish));
    if (choice->stopped_by_id) {
        to->_stop_token_id_case = TANDEM__V1__GENERATE_RESPONSE___STOP_TOKEN_ID_STOP_TOKEN_ID;
        to->stop_token_id = choice->stop_id;
    } else if (choice->stop_string.n > 0) {
        to->_stop_reason_case = TANDEM__V1__GENERATE_RESPONSE___STOP_REASON_STOP_REASON;
        to->stop_reason = grpc_bytes(choice->stop_string);
    }
}

/* Of pieces what belongs together. */
static bool grpc_inference_fill_parts(const struct tool_reader *reader, response *to,
                                      struct packing *packing) {
    uint32_t n;
    const struct tool_piece *pieces = tool_reader_pieces(reader, &n);
    buf_init(&packing->text, 0);
    buf_init(&packing->thought, 0);
    for (uint32_t i = 0; i < n; i++) {
        bool is_thought = pieces[i].kind == TOOL_PIECE_REASONING;
        struct span text = tool_reader_text(reader, &pieces[i]);
        buf_append(is_thought ? &packing->thought : &packing->text, text.bytes, text.n);
    }
    to->text = grpc_bytes((struct span){packing->text.data, packing->text.n});
    to->reasoning_content = grpc_bytes((struct span){packing->thought.data, packing->thought.n});
    return buf_status(&packing->text) == STATUS_OK && buf_status(&packing->thought) == STATUS_OK;
}

static bool grpc_inference_fill_choice(const struct reply *reply, const struct reply_choice *choice,
                                       response *to, struct packing *packing) {
    tandem__v1__generate_response__init(to);
    to->index = choice->index;
    to->text = grpc_bytes(choice->text);
    to->n_token_ids = choice->n_tokens;
    to->token_ids = (uint32_t *)(uintptr_t)choice->tokens;
    if (choice->is_first) {
        to->id = grpc_text(reply->id);
        to->n_prompt_token_ids = reply->ask->return_token_ids ? choice->n_prompt : 0;
        to->prompt_token_ids = (uint32_t *)(uintptr_t)choice->prompt;
    }
    if (choice->reader && !grpc_inference_fill_parts(choice->reader, to, packing))
        return false;
    grpc_inference_fill_end(choice, to);
    if (!reply->ask->sampling.want_logprobs || !choice->logprobs || choice->n_tokens == 0)
        return true;
    to->logprobs = &packing->logprobs;
    return grpc_inference_fill_logprobs(reply->ask, choice, packing);
}

static void grpc_inference_fill_usage(const struct reply *reply, Tandem__V1__Usage *usage) {
    *usage = (Tandem__V1__Usage)TANDEM__V1__USAGE__INIT;
    usage->prompt_tokens = reply->n_prompt_tokens;
    usage->completion_tokens = reply->n_completion_tokens;
    usage->cached_tokens = reply->n_cached_tokens;
}

static void grpc_inference_put_chunk(const struct reply *reply, const struct reply_choice *choice,
                                     struct buf *out) {
    response chunk;
    struct packing packing = {.tops = NULL};
    if (grpc_inference_fill_choice(reply, choice, &chunk, &packing))
        grpc_put(&chunk.base, out);
    else
        out->failed = true;
    grpc_inference_packing_fini(&packing);
}

static void grpc_inference_put_end(const struct reply *reply, struct buf *out) {
    response last;
    Tandem__V1__Usage usage;
    tandem__v1__generate_response__init(&last);
    grpc_inference_fill_usage(reply, &usage);
    last.usage = &usage;
    grpc_put(&last.base, out);
}

static void grpc_inference_put_whole(const struct reply *reply, const struct reply_choice *choices,
                                     uint32_t n, struct buf *out) {
    Tandem__V1__CompleteResponse whole = TANDEM__V1__COMPLETE_RESPONSE__INIT;
    Tandem__V1__Usage usage;
    response *messages = calloc(n, sizeof *messages), **at = calloc(n, sizeof *at);
    struct packing *packings = calloc(n, sizeof *packings);
    bool is_full = messages && at && packings;
    for (uint32_t i = 0; is_full && i < n; i++) {
        at[i] = &messages[i];
        is_full = grpc_inference_fill_choice(reply, &choices[i], &messages[i], &packings[i]);
    }
    if (is_full) {
        grpc_inference_fill_usage(reply, &usage);
        whole.id = grpc_text(reply->id);
        whole.model = grpc_text(reply->model);
        whole.created = reply->created;
        whole.system_fingerprint = grpc_text(reply->fingerprint);
        whole.n_choices = n;
        whole.choices = at;
        whole.usage = &usage;
        grpc_put(&whole.base, out);
    } else {
        out->failed = true;
    }
    for (uint32_t i = 0; packings && i < n; i++)
        grpc_inference_packing_fini(&packings[i]);
    free(messages);
    free(at);
    free(packings);
}

static void grpc_inference_put_tokens(const struct reply *reply, struct buf *out) {
    const struct ids *ids = &reply->ask->prompts[0].ids;
    Tandem__V1__TokenizeResponse answer = TANDEM__V1__TOKENIZE_RESPONSE__INIT;
    answer.n_token_ids = ids->n;
    answer.token_ids = ids->at;
    answer.max_model_len = reply->context;
    grpc_put(&answer.base, out);
}

static void grpc_inference_put_text(const struct reply *reply, struct buf *out) {
    Tandem__V1__DetokenizeResponse answer = TANDEM__V1__DETOKENIZE_RESPONSE__INIT;
    struct buf text;
    buf_init(&text, 0);
    if (reply_spell(reply, &text) == STATUS_OK) {
        answer.text = grpc_bytes((struct span){text.data, text.n});
        grpc_put(&answer.base, out);
    } else {
        out->failed = true; /* the caller answers for the lack of memory */
    }
    buf_fini(&text);
}

static const struct dialect_writer writer = {
    .id_prefix = "gen-",
    .shows_ids = true,
    .splits_thoughts = true,
    .chunk = grpc_inference_put_chunk,
    .end = grpc_inference_put_end,
    .whole = grpc_inference_put_whole,
};

#define INFERENCE(label, call, reads, writes)                                                      \
    DIALECT_ASK(label, "/tandem.v1.Inference/" call, grpc_form, reads,                             \
                .headers = grpc_read_headers, writes)

const struct dialect dialect_grpc_generate =
    INFERENCE("grpc_generate", "Generate", grpc_inference_parse_generate, .writer = &writer);
const struct dialect dialect_grpc_complete =
    INFERENCE("grpc_complete", "Complete", grpc_inference_parse_complete, .writer = &writer);
const struct dialect dialect_grpc_tokenize = INFERENCE(
    "grpc_tokenize", "Tokenize", grpc_inference_parse_tokenize, .reply = grpc_inference_put_tokens);
const struct dialect dialect_grpc_detokenize =
    INFERENCE("grpc_detokenize", "Detokenize", grpc_inference_parse_detokenize,
              .reply = grpc_inference_put_text);
