/* vllm.grpc.engine.VllmEngine/Generate: a request becomes tandem.v1.Inference's, with vLLM's defaults,
 * and is read as that; answers are token ids alone. */
#include "router/api/grpc.h"

#include <stdlib.h>
#include <string.h>
#include <tandem_inference.pb-c.h>
#include <vllm_engine.pb-c.h>

typedef Vllm__Grpc__Engine__GenerateRequest request;
typedef Vllm__Grpc__Engine__GenerateResponse response;
typedef Vllm__Grpc__Engine__SamplingParams params;
typedef Tandem__V1__GenerateRequest ours;

/* --- reading ----------------------------------------------------------------------------------- */

/* What the service has beyond our .proto, by number: for the words of a refusal. */
static const struct foreign {
    const ProtobufCMessageDescriptor *of;
    uint32_t number;
    const char *name;
} foreign[] = {
    {&vllm__grpc__engine__generate_request__descriptor, 6, "kv_transfer_params"},
    {&vllm__grpc__engine__generate_request__descriptor, 7, "mm_inputs"},
    {&vllm__grpc__engine__generate_request__descriptor, 8, "kv_transfer_params_json"},
    {&vllm__grpc__engine__generate_request__descriptor, 10, "media_refs"},
    {&vllm__grpc__engine__generate_request__descriptor, 11, "extra_mm_inputs"},
    {&vllm__grpc__engine__sampling_params__descriptor, 19, "structural_tag"},
    {&vllm__grpc__engine__sampling_params__descriptor, 23, "prompt_logprobs"},
};

/* A field that is not served changes what is asked for: it is refused, never passed over. */
static enum status grpc_vllm_refuse_foreign(const ProtobufCMessage *message, struct error *error) {
    if (message->n_unknown_fields == 0)
        return STATUS_OK;
    uint32_t number = message->unknown_fields[0].tag;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].of == message->descriptor && foreign[i].number == number)
            return error_field(error, STATUS_UNSUPPORTED, foreign[i].name, "%s: is not served",
                               foreign[i].name);
    return error_set(error, STATUS_UNSUPPORTED, "%s: field %u is not served",
                     message->descriptor->short_name, number);
}

/* Entries of the two maps differ in the sign of their key alone; a negative one is out of bounds. */
_Static_assert(sizeof(Vllm__Grpc__Engine__SamplingParams__LogitBiasEntry) ==
                       sizeof(Tandem__V1__GenerateRequest__LogitBiasEntry) &&
                   offsetof(Vllm__Grpc__Engine__SamplingParams__LogitBiasEntry, key) ==
                       offsetof(Tandem__V1__GenerateRequest__LogitBiasEntry, key) &&
                   offsetof(Vllm__Grpc__Engine__SamplingParams__LogitBiasEntry, value) ==
                       offsetof(Tandem__V1__GenerateRequest__LogitBiasEntry, value),
               "entries of logit_bias are the same bytes");

#define SET(to, Name, name, value)                                                                 \
    ((to)->_##name##_case = TANDEM__V1__GENERATE_REQUEST___##Name##_##Name, (to)->name = (value))

static void grpc_vllm_take_drawing(const params *from, ours *to) {
    SET(to, TEMPERATURE, temperature, from->_temperature_case ? from->temperature : 1);
    SET(to, TOP_P, top_p, from->top_p != 0 ? from->top_p : 1);
    SET(to, TOP_K, top_k, from->top_k <= INT32_MAX ? (int32_t)from->top_k : INT32_MAX);
    SET(to, MIN_P, min_p, from->min_p);
    SET(to, FREQUENCY_PENALTY, frequency_penalty, from->frequency_penalty);
    SET(to, PRESENCE_PENALTY, presence_penalty, from->presence_penalty);
    SET(to, REPETITION_PENALTY, repetition_penalty,
        from->repetition_penalty != 0 ? from->repetition_penalty : 1);
    to->n_logit_bias = from->n_logit_bias;
    to->logit_bias = (void *)from->logit_bias;
    if (from->_seed_case)
        SET(to, SEED, seed, from->seed);
}

/* The answer's form. */
static void grpc_vllm_take_constraint(const params *from, ours *to) {
    static const char any_object[] = "{\"type\":\"json_object\"}";
    const ProtobufCBinaryData object = {sizeof any_object - 1, (uint8_t *)(uintptr_t)any_object};
    switch (from->constraint_case) {
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_JSON_SCHEMA:
        SET(to, JSON_SCHEMA, json_schema, from->json_schema);
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_REGEX:
        SET(to, REGEX, regex, from->regex);
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_GRAMMAR:
        SET(to, GRAMMAR, grammar, from->grammar);
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_JSON_OBJECT:
        if (from->json_object)
            SET(to, RESPONSE_FORMAT_JSON, response_format_json, object);
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_CHOICE:
        to->n_guided_choice = from->choice->n_choices;
        to->guided_choice = from->choice->choices;
        break;
    default:
        break;
    }
}

static void grpc_vllm_take_params(const params *from, ours *to) {
    grpc_vllm_take_drawing(from, to);
    grpc_vllm_take_constraint(from, to);
    if (from->_max_tokens_case)
        SET(to, MAX_TOKENS, max_tokens, from->max_tokens);
    SET(to, MIN_TOKENS, min_tokens, from->min_tokens);
    SET(to, N, n, from->n > 0 ? from->n : 1);
    SET(to, IGNORE_EOS, ignore_eos, from->ignore_eos);
    SET(to, SKIP_SPECIAL_TOKENS, skip_special_tokens, from->skip_special_tokens);
    SET(to, INCLUDE_STOP_STR_IN_OUTPUT, include_stop_str_in_output,
        from->include_stop_str_in_output);
    to->n_stop = from->n_stop;
    to->stop = from->stop;
    to->n_stop_token_ids = from->n_stop_token_ids;
    to->stop_token_ids = from->stop_token_ids;
    if (from->_logprobs_case)
        SET(to, LOGPROBS, logprobs, (uint32_t)from->logprobs); /* -1, all of them, is too many */
    if (from->_truncate_prompt_tokens_case && from->truncate_prompt_tokens >= 0)
        SET(to, TRUNCATE_PROMPT_TOKENS, truncate_prompt_tokens,
            (uint32_t)from->truncate_prompt_tokens);
}

/* The request as JSON of /v1/completions. */
static enum status grpc_vllm_put_request(const request *from, struct buf *json,
                                         struct error *error) {
    static const params none = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__INIT;
    const params *how = from->sampling_params ? from->sampling_params : &none;
    Tandem__V1__TokenIds ids = TANDEM__V1__TOKEN_IDS__INIT;
    ours to = TANDEM__V1__GENERATE_REQUEST__INIT;
    TRY(grpc_vllm_refuse_foreign(&from->base, error));
    TRY(grpc_vllm_refuse_foreign(&how->base, error));
    if (from->input_case == VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED) {
        ids.n_ids = from->tokenized->n_input_ids;
        ids.ids = from->tokenized->input_ids;
        to.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_TOKEN_IDS;
        to.token_ids = &ids;
    } else if (from->input_case == VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TEXT) {
        to.input_case = TANDEM__V1__GENERATE_REQUEST__INPUT_TEXT;
        to.text = from->text;
    }
    if (from->request_id.len > 0)
        SET(&to, REQUEST_ID, request_id, from->request_id);
    grpc_vllm_take_params(how, &to);
    return grpc_put_json(&to.base, json, error);
}

static enum status grpc_vllm_parse(const struct span *body, const struct ask_limits *limits,
                                   struct ask *ask, struct api_error *error) {
    struct arena arena;
    struct buf json;
    ProtobufCMessage *message = NULL;
    arena_init(&arena, GRPC_ARENA_BYTES);
    buf_init(&json, 0);
    enum status status =
        grpc_unpack(body, ask->encoding, &vllm__grpc__engine__generate_request__descriptor, &arena,
                    &message, error);
    const request *from = (const request *)message;
    if (status == STATUS_OK)
        status = grpc_vllm_put_request(from, &json, &error->error);
    if (status == STATUS_OK) {
        const struct span bytes = {json.data, json.n};
        struct ask_limits wide = *limits;
        wide.max_new = UINT32_MAX; /* a silent request has the rest of the context */
        status = dialect_completions.parse(&bytes, &wide, ask, error);
    }
    if (status == STATUS_OK)
        ask->stream = from->stream;
    buf_fini(&json);
    arena_fini(&arena);
    return status;
}

/* --- writing ----------------------------------------------------------------------------------- */

/* Messages that point into a reply while it is packed. */
struct grpc_vllm_packing {
    Vllm__Grpc__Engine__OutputLogProbs logprobs;
    Vllm__Grpc__Engine__TopLogProbs *tops; /* owned (n_tokens) */
    Vllm__Grpc__Engine__TopLogProbs **at;  /* owned (n_tokens) */
    float *values;                         /* owned (n_tokens) */
};

static void grpc_vllm_packing_fini(struct grpc_vllm_packing *packing) {
    free(packing->tops);
    free(packing->at);
    free(packing->values);
}

/* The choice's log-probabilities, or NULL where none are asked for. False: no memory. */
static bool grpc_vllm_fill_logprobs(const struct ask *ask, const struct reply_choice *choice,
                                    struct grpc_vllm_packing *packing,
                                    Vllm__Grpc__Engine__OutputLogProbs **to) {
    uint32_t n = choice->n_tokens, n_top = ask->sampling.n_top;
    *to = NULL;
    if (!ask->sampling.want_logprobs || !choice->logprobs || n == 0)
        return true;
    packing->logprobs =
        (Vllm__Grpc__Engine__OutputLogProbs)VLLM__GRPC__ENGINE__OUTPUT_LOG_PROBS__INIT;
    packing->tops = calloc(n, sizeof *packing->tops);
    packing->at = calloc(n, sizeof *packing->at);
    packing->values = calloc(n, sizeof *packing->values);
    if (!packing->tops || !packing->at || !packing->values)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct token_logprobs *from = &choice->logprobs[i];
        Vllm__Grpc__Engine__TopLogProbs *top = packing->at[i] = &packing->tops[i];
        vllm__grpc__engine__top_log_probs__init(top);
        top->n_values = top->n_token_ids = n_top < from->n_top ? n_top : from->n_top;
        top->values = (float *)(uintptr_t)from->top_logprobs;
        top->token_ids = (uint32_t *)(uintptr_t)from->top_ids;
        packing->values[i] = from->logprob;
    }
    packing->logprobs.n_token_logprobs = packing->logprobs.n_token_ids = n;
    packing->logprobs.token_logprobs = packing->values;
    packing->logprobs.token_ids = (uint32_t *)(uintptr_t)choice->tokens;
    packing->logprobs.n_top_logprobs = n_top > 0 ? n : 0;
    packing->logprobs.top_logprobs = packing->at;
    *to = &packing->logprobs;
    return true;
}

static void grpc_vllm_put_step(const struct reply *reply, const struct reply_choice *choice,
                               Vllm__Grpc__Engine__OutputLogProbs *logprobs, struct buf *out) {
    Vllm__Grpc__Engine__GenerateStreamChunk chunk = VLLM__GRPC__ENGINE__GENERATE_STREAM_CHUNK__INIT;
    response said = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__INIT;
    chunk.n_token_ids = chunk.completion_tokens = choice->n_tokens;
    chunk.token_ids = (uint32_t *)(uintptr_t)choice->tokens;
    chunk.prompt_tokens = choice->n_prompt;
    chunk.cached_tokens = reply->n_cached_tokens;
    chunk.output_logprobs = logprobs;
    chunk.index = choice->index;
    said.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_CHUNK;
    said.chunk = &chunk;
    grpc_put(&said.base, out);
}

static void grpc_vllm_put_complete(const struct reply *reply, const struct reply_choice *choice,
                                   Vllm__Grpc__Engine__OutputLogProbs *logprobs, struct buf *out) {
    Vllm__Grpc__Engine__GenerateComplete end = VLLM__GRPC__ENGINE__GENERATE_COMPLETE__INIT;
    response said = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__INIT;
    end.n_output_ids = end.completion_tokens = choice->n_tokens;
    end.output_ids = (uint32_t *)(uintptr_t)choice->tokens;
    end.finish_reason = grpc_text(reply_finish_name(choice->finish));
    end.prompt_tokens = choice->n_prompt;
    end.cached_tokens = reply->n_cached_tokens;
    end.output_logprobs = logprobs;
    end.index = choice->index;
    if (choice->stopped_by_id) {
        end.matched_stop_case =
            VLLM__GRPC__ENGINE__GENERATE_COMPLETE__MATCHED_STOP_MATCHED_TOKEN_ID;
        end.matched_token_id = choice->stop_id;
    } else if (choice->stop_string.n > 0) {
        end.matched_stop_case =
            VLLM__GRPC__ENGINE__GENERATE_COMPLETE__MATCHED_STOP_MATCHED_STOP_STR;
        end.matched_stop_str = grpc_bytes(choice->stop_string);
    }
    said.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_COMPLETE;
    said.complete = &end;
    grpc_put(&said.base, out);
}

static void grpc_vllm_put_chunk(const struct reply *reply, const struct reply_choice *choice,
                                struct buf *out) {
    struct grpc_vllm_packing packing = {.tops = NULL};
    Vllm__Grpc__Engine__OutputLogProbs *logprobs;
    if (!grpc_vllm_fill_logprobs(reply->ask, choice, &packing, &logprobs)) {
        out->failed = true;
    } else {
        if (choice->n_tokens > 0)
            grpc_vllm_put_step(reply, choice, logprobs, out);
        if (choice->has_ended)
            grpc_vllm_put_complete(reply, choice, logprobs, out);
    }
    grpc_vllm_packing_fini(&packing);
}

static void grpc_vllm_put_whole(const struct reply *reply, const struct reply_choice *choices,
                                uint32_t n, struct buf *out) {
    for (uint32_t i = 0; i < n; i++) {
        struct grpc_vllm_packing packing = {.tops = NULL};
        Vllm__Grpc__Engine__OutputLogProbs *logprobs;
        if (grpc_vllm_fill_logprobs(reply->ask, &choices[i], &packing, &logprobs))
            grpc_vllm_put_complete(reply, &choices[i], logprobs, out);
        else
            out->failed = true;
        grpc_vllm_packing_fini(&packing);
    }
}

static const struct dialect_writer writer = {
    .id_prefix = "vllm-",
    .shows_ids = true,
    .chunk = grpc_vllm_put_chunk,
    .whole = grpc_vllm_put_whole,
};

const struct dialect dialect_vllm_generate =
    DIALECT_ASK("vllm_generate", "/vllm.grpc.engine.VllmEngine/Generate", grpc_form,
                grpc_vllm_parse, .headers = grpc_read_headers, .writer = &writer);
