/* What the model and its tokenizer are for clients that prepare prompts: /tokenizer_info in vLLM's shape, /props in that of
 * llama-server. */
#include "model/model.h"
#include "router/api/about.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "router/call/serving.h"
#include "router/call/text.h"
#include "router/serve/endpoint.h"
#include "router/serve/server.h"

static void tokenizer_info_put_token_text(const struct tokenizer *tokenizer, uint32_t id,
                                          struct buf *out) {
    if (id == TOKEN_NONE) {
        buf_puts(out, "null");
        return;
    }
    struct span text = tokenizer_bytes(tokenizer, id);
    json_put_string(out, text.bytes, text.n);
}

static void tokenizer_info_put_bool(bool value, struct buf *out) {
    buf_puts(out, value ? "true" : "false");
}

static void tokenizer_info_put_template(const struct model *model, struct buf *out) {
    struct span chat = model->template_source;
    if (chat.n > 0)
        json_put_string(out, chat.bytes, chat.n);
    else
        buf_puts(out, "null");
}

/* What transformers' tokenizer_config.json says, for clients that render and count by themselves
 * (lm-eval's remote tokenizer). Sequences are not padded here: there is no token for it. */
static void tokenizer_info_answer_info(struct server *server,
                                       const struct endpoint_request *request) {
    const struct model *model = text_model(server->serving.text);
    const struct tokenizer *tokenizer = model->tokenizer;
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"bos_token\":");
    tokenizer_info_put_token_text(tokenizer, tokenizer->bos_id, &body);
    buf_puts(&body, ",\"eos_token\":");
    tokenizer_info_put_token_text(tokenizer, tokenizer->eos_id, &body);
    buf_puts(&body, ",\"pad_token\":null,\"add_bos_token\":");
    tokenizer_info_put_bool(tokenizer_adds_bos(tokenizer), &body);
    buf_puts(&body, ",\"add_eos_token\":");
    tokenizer_info_put_bool(tokenizer_adds_eos(tokenizer), &body);
    buf_puts(&body, ",\"vocab_size\":");
    json_put_int(&body, tokenizer_n_tokens(tokenizer));
    buf_puts(&body, ",\"model_max_length\":");
    json_put_int(&body, serving_context(&server->serving));
    buf_puts(&body, ",\"chat_template\":");
    tokenizer_info_put_template(model, &body);
    buf_putc(&body, '}');
    endpoint_reply(server, request, 200, "application/json", &body);
}

static void tokenizer_info_answer_props(struct server *server,
                                        const struct endpoint_request *request) {
    const struct model *model = text_model(server->serving.text);
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, "{\"default_generation_settings\":{\"n_ctx\":");
    json_put_int(&body, serving_context(&server->serving));
    buf_puts(&body, "},");
    json_put_member(&body, "model_alias", server->serving.model);
    buf_puts(&body, "\"chat_template\":");
    tokenizer_info_put_template(model, &body);
    buf_puts(&body, ",\"bos_token\":");
    tokenizer_info_put_token_text(model->tokenizer, model->tokenizer->bos_id, &body);
    buf_puts(&body, ",\"eos_token\":");
    tokenizer_info_put_token_text(model->tokenizer, model->tokenizer->eos_id, &body);
    buf_puts(&body, ",\"modalities\":{\"vision\":false,\"audio\":false},"
                    "\"build_info\":\"tandem " TANDEM_VERSION "\"}");
    endpoint_reply(server, request, 200, "application/json", &body);
}

static const struct dialect_about about = {
    .summary = "What the model's tokenizer_config.json says",
    .answer = SCHEMA({
        "type" : "object",
        "required" : [
            "tokenizer_class", "bos_token", "eos_token", "pad_token", "add_bos_token",
            "add_eos_token", "vocab_size", "model_max_length", "chat_template"
        ],
        "properties" : {
            "tokenizer_class" : {"type" : "string"},
            "bos_token" : {"type" : [ "string", "null" ]},
            "eos_token" : {"type" : [ "string", "null" ]},
            "pad_token" : {"type" : "null"},
            "add_bos_token" : {"type" : "boolean"},
            "add_eos_token" : {"type" : "boolean"},
            "vocab_size" : {"type" : "integer", "minimum" : 1},
            "model_max_length" : {"type" : "integer", "minimum" : 1},
            "chat_template" : {"type" : [ "string", "null" ]}
        }
    }),
};

const struct dialect dialect_tokenizer_info =
    DIALECT_ANSWER("tokenizer_info", "GET", "/tokenizer_info", openai_form,
                   tokenizer_info_answer_info, .about = &about);

static const struct dialect_about about_props = {
    .summary = "The model as llama-server tells of it",
    .answer = SCHEMA({
        "type" : "object",
        "required" : [
            "default_generation_settings", "model_alias", "chat_template", "bos_token", "eos_token",
            "modalities", "build_info"
        ],
        "properties" : {
            "default_generation_settings" : {
                "type" : "object",
                "required" : ["n_ctx"],
                "properties" : {"n_ctx" : {"type" : "integer", "minimum" : 1}}
            },
            "model_alias" : {"type" : "string"},
            "chat_template" : {"type" : [ "string", "null" ]},
            "bos_token" : {"type" : [ "string", "null" ]},
            "eos_token" : {"type" : [ "string", "null" ]},
            "modalities" : {"type" : "object"},
            "build_info" : {"type" : "string"}
        }
    }),
};

const struct dialect dialect_props = DIALECT_ANSWER(
    "props", "GET", "/props", openai_form, tokenizer_info_answer_props, .about = &about_props);
