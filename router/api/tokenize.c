/* /tokenize and /detokenize, in vLLM's shapes. */
#include "router/api/about.h"
#include "router/api/field_table.h"
#include "router/api/fields.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"

static enum status api_parse_tokenize(const struct span *body, const struct ask_limits *limits,
                                      struct ask *ask, struct api_error *error) {
    TRY(ask_read_json(body, ask, error));
    const json_t *root = ask->body;
    struct json_get get = {.object = root, .error = &error->error};
    bool has_messages = json_get_member(&get, "messages") != NULL;
    if (has_messages && json_get_member(&get, "prompt"))
        return json_get_fail(&get, STATUS_INVALID, "prompt", "and `messages` exclude each other");
    ask->only_tokens = true;
    if (has_messages)
        return openai_read_chat(root, limits, ask, error);
    TRY(openai_read_completion(root, limits, ask, error));
    if (ask->n_prompts != 1)
        return json_get_fail(&get, STATUS_INVALID, "prompt", "must be one prompt");
    return STATUS_OK;
}

static void api_put_tokenized(const struct reply *reply, struct buf *out) {
    const struct ids *ids = &reply->ask->prompts[0].ids;
    buf_puts(out, "{\"count\":");
    json_put_int(out, (int64_t)ids->n);
    buf_puts(out, ",\"max_model_len\":");
    json_put_int(out, reply->context);
    buf_puts(out, ",\"tokens\":");
    json_put_ids(out, ids->at, ids->n);
    buf_puts(out, ",\"token_strs\":");
    if (!reply->ask->return_strings) {
        buf_puts(out, "null}");
        return;
    }
    buf_putc(out, '[');
    for (size_t i = 0; i < ids->n; i++) {
        if (i > 0)
            buf_putc(out, ',');
        reply_put_token(reply, ids->at[i], out);
    }
    buf_puts(out, "]}");
}

static enum status api_parse_detokenize(const struct span *body, const struct ask_limits *limits,
                                        struct ask *ask, struct api_error *error) {
    TRY(ask_read_json(body, ask, error));
    struct json_get get = {.object = ask->body, .error = &error->error};
    TRY(fields_model(&get, limits, error));
    const json_t *tokens = NULL;
    TRY(json_get_array(&get, "tokens", MESSAGE_TOKENS_MAX, &tokens));
    if (!tokens)
        return json_get_fail(&get, STATUS_INVALID, "tokens", "is missing");
    if (ask_set_prompts(ask, 1) != STATUS_OK)
        return error_set(&error->error, STATUS_NOMEM, "no memory for the tokens");
    ask->prompts[0].is_ids = true;
    ids_init(&ask->prompts[0].ids, MESSAGE_TOKENS_MAX);
    return fields_ids(&get, "tokens", tokens, limits->n_tokens, &ask->prompts[0].ids);
}

static void api_put_detokenized(const struct reply *reply, struct buf *out) {
    struct buf text;
    buf_init(&text, 0);
    if (reply_spell(reply, &text) == STATUS_OK) {
        buf_puts(out, "{\"prompt\":");
        json_put_string(out, text.n > 0 ? text.data : "", text.n);
        buf_putc(out, '}');
    } else {
        out->failed = true; /* the caller answers for the lack of memory */
    }
    buf_fini(&text);
}

/* What a chat and a completion have in two ways, and what asks nothing where nothing is generated. */
static const struct dialect_member tokenize_members[] = {
    {"logprobs", .schema = SCHEMA({"type" : [ "boolean", "integer" ]})},
    {"max_tokens", .schema = SCHEMA({"type" : "integer", "minimum" : 0, "maximum" : 2147483647})},
    {.name = "tool_choice"},
    {.name = NULL},
};

static const struct dialect_about about_tokenize = {
    .summary = "The ids of a prompt, of a chat's `messages` or a completion's `prompt`",
    .fields = FIELD_CHAT | FIELD_COMPLETIONS | FIELD_TOKENIZE,
    .members = tokenize_members,
    .either = SCHEMA({"anyOf" : [ {"required" : ["messages"]}, {"required" : ["prompt"]} ]}),
    .answer = SCHEMA({
        "type" : "object",
        "required" : [ "count", "max_model_len", "tokens", "token_strs" ],
        "properties" : {
            "count" : {"type" : "integer", "minimum" : 0},
            "max_model_len" : {"type" : "integer", "minimum" : 1},
            "tokens" : {"type" : "array", "items" : {"type" : "integer", "minimum" : 0}},
            "token_strs" : {"type" : [ "array", "null" ], "items" : {"type" : "string"}}
        }
    }),
};

static const struct dialect_member detokenize_members[] = {
    {"model", .as = "model"},
    {"tokens", .schema = SCHEMA({
                   "type" : "array",
                   "maxItems" : MESSAGE_TOKENS_MAX,
                   "items" : {"type" : "integer", "minimum" : 0}
               })},
    {.name = NULL},
};

static const struct dialect_about about_detokenize = {
    .summary = "The text of ids",
    .members = detokenize_members,
    .needs = SCHEMA(["tokens"]),
    .answer = SCHEMA({
        "type" : "object",
        "required" : ["prompt"],
        "properties" : {"prompt" : {"type" : "string"}}
    }),
};

const struct dialect dialect_tokenize =
    DIALECT_ASK("tokenize", "/tokenize", openai_form, api_parse_tokenize,
                .reply = api_put_tokenized, .about = &about_tokenize);
const struct dialect dialect_detokenize =
    DIALECT_ASK("detokenize", "/detokenize", openai_form, api_parse_detokenize,
                .reply = api_put_detokenized, .about = &about_detokenize);
