#include "router/api/field_table.h"

#include "router/api/ask.h"
#include "router/api/field_schemas.h"

#include <stdlib.h>
#include <string.h>

#define CHAT     FIELD_CHAT
#define TEXT     FIELD_COMPLETIONS
#define TOKENIZE FIELD_TOKENIZE
#define BOTH     (FIELD_CHAT | FIELD_COMPLETIONS)

#define AT(member) .at = offsetof(struct ask, member)

/* In order of names, as strcmp() has it. The refused and idle ones are words of OpenAI, vLLM,
 * SGLang, TGI, llama.cpp and front ends of these. A number beside a switch (`mirostat_tau`,
 * `dry_base`) asks nothing as long as the switch is off. */
static const struct field_row rows[] = {
    {"adapter_id", .refused = BOTH},
    {"add_generation_prompt", .served = CHAT, .refused = TEXT, .type = FIELD_BOOL,
     .says = "end the prompt with the opening of an answer",
     .otherwise = "true, or false with `continue_final_message`"},
    {"add_special_tokens", .served = BOTH, .type = FIELD_BOOL, AT(add_special),
     .says = "put the tokens around the prompt that the model wants (BOS; ChatGLM's `[gMASK] sop`)",
     .otherwise = "completions: true; chat: false"},
    {"allowed_token_ids", .served = BOTH, .type = FIELD_IDS, AT(sampling.allowed_ids),
     .n_at = offsetof(struct ask, sampling.n_allowed), .max = MESSAGE_ALLOWED_MAX, .has_text = true,
     .says = "one that does not end the answer, while `min_tokens` is above 0"},
    {"audio", .refused = BOTH},
    {"bad_words", .refused = BOTH},
    {"ban_eos_token", .refused = BOTH},
    {"banned_strings", .refused = BOTH},
    {"best_of", .served = BOTH, .type = FIELD_INT, .min = 1, .max = ASK_CHOICES_MAX,
     .says = "must equal `n`"},
    {"cache_prompt", .idle = BOTH},
    {"cache_salt", .served = BOTH, .type = FIELD_STRING, AT(cache_salt), .max = ASK_NAME_BYTES_MAX,
     .says = "tenants of other salts share no cached prefix"},
    {"chat_template", .refused = BOTH},
    {"chat_template_kwargs", .served = CHAT, .refused = TEXT, .type = FIELD_OBJECT,
     .schema = SCHEMA({"type" : "object", "maxProperties" : TEMPLATE_KWARGS_MAX}), .neutral = "{}",
     .says = "64 variables of the template, none that has a field of its own"},
    {"continue_final_message", .served = CHAT, .refused = TEXT, .type = FIELD_BOOL,
     .says = "the answer goes on in the last message", .otherwise = "false"},
    {"custom_logit_processor", .refused = BOTH},
    {"custom_params", .idle = BOTH},
    {"custom_token_bans", .refused = BOTH},
    {"decoder_input_details", .refused = BOTH},
    {"do_sample", .refused = BOTH, .neutral = "true"},
    {"documents", .served = CHAT, .refused = TEXT, .type = FIELD_LIST,
     .schema = SCHEMA_OBJECTS(TEMPLATE_TOOLS_MAX), .says = "1,024 objects, for the template"},
    {"dry_allowed_length", .idle = BOTH},
    {"dry_base", .idle = BOTH},
    {"dry_multiplier", .refused = BOTH, .neutral = "0"},
    {"dry_penalty_last_n", .idle = BOTH},
    {"dry_sequence_breakers", .idle = BOTH},
    {"dynatemp_exponent", .idle = BOTH},
    {"dynatemp_range", .refused = BOTH, .neutral = "0"},
    {"early_stopping", .idle = BOTH},
    {"ebnf", .served = BOTH, .type = FIELD_ANY, .schema = SCHEMA_GRAMMAR, .says = "as `grammar`"},
    {"echo", .served = TEXT, .refused = CHAT, .type = FIELD_BOOL,
     .says = "begin the text with the prompt; not with `logprobs`", .otherwise = "false"},
    {"enable_thinking", .served = CHAT, .refused = TEXT, .type = FIELD_BOOL,
     .says = "a variable of the template"},
    {"encoder_repetition_penalty", .refused = BOTH, .neutral = "1"},
    {"epsilon_cutoff", .refused = BOTH, .neutral = "0"},
    {"eta_cutoff", .refused = BOTH, .neutral = "0"},
    {"format", .refused = BOTH},
    {"frequency_penalty", .served = BOTH, .type = FIELD_REAL, AT(sampling.frequency), .min = -2,
     .max = 2, .otherwise = "0"},
    {"function_call", .refused = BOTH, .neutral = "none"},
    {"functions", .refused = BOTH},
    {"grammar", .served = BOTH, .type = FIELD_ANY, .schema = SCHEMA_GRAMMAR,
     .says = "the answer is a text of it: GBNF, or Lark where it has no `::=`: docs/structured.md"},
    {"grammar_lazy", .refused = BOTH},
    {"grammar_triggers", .refused = BOTH},
    {"guidance_scale", .refused = BOTH, .neutral = "1"},
    {"guided_choice", .served = BOTH, .type = FIELD_LIST,
     .schema = SCHEMA({
         "type" : "array",
         "minItems" : 1,
         "maxItems" : 4096,
         "items" : {"type" : "string", "minLength" : 1}
     }),
     .says = "the answer is one of these: 4,096 texts, together 64 KiB"},
    {"guided_decoding_backend", .idle = BOTH},
    {"guided_grammar", .served = BOTH, .type = FIELD_ANY, .schema = SCHEMA_GRAMMAR,
     .says = "as `grammar`"},
    {"guided_json", .served = BOTH, .type = FIELD_ANY, .schema = SCHEMA_JSON_SCHEMA,
     .says = "as `response_format` with this JSON schema"},
    {"guided_regex", .served = BOTH, .type = FIELD_ANY, .schema = SCHEMA_REGEX,
     .says = "the answer matches it from end to end: 64 KiB, docs/structured.md"},
    {"guided_whitespace_pattern", .idle = BOTH},
    {"guideline", .refused = BOTH},
    {"id_slot", .idle = BOTH},
    {"ignore_eos", .served = BOTH, .type = FIELD_BOOL, AT(sampling.ignore_eos),
     .otherwise = "false"},
    {"include_reasoning", .served = CHAT, .idle = TEXT, .type = FIELD_BOOL,
     .says = "false: what the model thinks is left out of the answer", .otherwise = "true"},
    {"include_stop_str_in_output", .served = BOTH, .type = FIELD_BOOL, AT(include_stop),
     .otherwise = "false"},
    {"json_schema", .served = BOTH, .type = FIELD_ANY, .schema = SCHEMA_JSON_SCHEMA,
     .says = "as `response_format` with this JSON schema"},
    {"keep_alive", .idle = BOTH},
    {"kv_transfer_params", .refused = BOTH},
    {"length_penalty", .refused = BOTH, .neutral = "1"},
    {"logit_bias", .served = BOTH, .type = FIELD_OBJECT,
     .schema = SCHEMA({
         "type" : "object",
         "maxProperties" : MESSAGE_BIAS_MAX,
         "propertyNames" : {"pattern" : "^[0-9]+$"},
         "additionalProperties" : {"type" : "number", "minimum" : -100, "maximum" : 100}
     }),
     .says = "1,024 ids with text, -100 to 100"},
    {"logits_processors", .refused = BOTH},
    {"logprob_token_ids", .refused = BOTH},
    {"logprobs", .served = BOTH, .type = FIELD_ANY,
     .schema = SCHEMA({"type" : [ "boolean", "integer" ]}),
     .says = "chat: true or false; completions: 0 to 20"},
    {"lora", .refused = BOTH},
    {"lora_path", .refused = BOTH},
    {"max_completion_tokens", .served = BOTH, .type = FIELD_INT, .min = 1, .max = INT32_MAX,
     .says = "wins over `max_tokens`"},
    {"max_tokens", .served = BOTH, .type = FIELD_INT, .min = 1, .max = INT32_MAX,
     .says = "0 too with `echo`; the answer ends with the context at the latest (`length`)",
     .otherwise = "16; chat: the rest of the context"},
    {"media_io_kwargs", .refused = BOTH},
    {"messages", .served = CHAT, .refused = TEXT, .type = FIELD_LIST, .schema = SCHEMA_MESSAGES,
     .says = "1 to 4,096 of at most 64 members; `content` is text or 1,024 text parts; "
             "`tool_calls` 1,024 objects; `name`, `tool_call_id` 256 bytes"},
    {"metadata", .idle = BOTH},
    {"min_keep", .refused = BOTH, .neutral = "0"},
    {"min_p", .served = BOTH, .type = FIELD_REAL, AT(sampling.min_p), .min = 0, .max = 1,
     .otherwise = "0"},
    {"min_tokens", .served = BOTH, .type = FIELD_INT, AT(sampling.min_new), .min = 0,
     .max = INT32_MAX, .says = "at most `max_tokens`", .otherwise = "0"},
    {"mirostat", .refused = BOTH, .neutral = "0"},
    {"mirostat_eta", .idle = BOTH},
    {"mirostat_tau", .idle = BOTH},
    {"mm_processor_kwargs", .refused = BOTH},
    {"modalities", .refused = BOTH, .neutral = "text"},
    {"model", .served = BOTH, .type = FIELD_STRING, .max = ASK_NAME_BYTES_MAX,
     .says = "the served model's id, or empty", .otherwise = "the served model"},
    {"multimodal_data", .refused = BOTH},
    {"n", .served = BOTH, .type = FIELD_INT, AT(n_choices), .min = 1, .max = ASK_CHOICES_MAX,
     .says = "times prompts at most 1,024", .otherwise = "1"},
    {"n_predict", .refused = BOTH},
    {"n_probs", .refused = BOTH, .neutral = "0"},
    {"negative_prompt", .refused = BOTH},
    {"no_repeat_ngram_size", .refused = BOTH, .neutral = "0"},
    {"no_stop_trim", .refused = BOTH},
    {"nsigma", .refused = BOTH, .neutral = "0"},
    {"options", .refused = BOTH},
    {"parallel_tool_calls", .served = CHAT, .idle = TEXT, .type = FIELD_BOOL,
     .says = "false: at most one call in an answer", .otherwise = "true"},
    {"parse_special", .served = TEXT, .refused = CHAT, .type = FIELD_BOOL, AT(parse_special),
     .says = "texts of special tokens in the prompt are those tokens; messages are always text",
     .otherwise = "true"},
    {"parse_tool_calls", .idle = BOTH},
    {"penalty_alpha", .refused = BOTH, .neutral = "0"},
    {"prediction", .idle = BOTH},
    {"presence_penalty", .served = BOTH, .type = FIELD_REAL, AT(sampling.presence), .min = -2,
     .max = 2, .otherwise = "0"},
    {"priority", .served = BOTH, .type = FIELD_INT, AT(priority), .min = INT32_MIN,
     .max = INT32_MAX, .says = "lower runs first", .otherwise = "0"},
    {"prompt", .served = TEXT, .refused = CHAT, .type = FIELD_ANY, .schema = SCHEMA_PROMPT,
     .says =
         "a text, a list of texts, a list of ids or of lists of ids: 1,024 prompts, none empty"},
    {"prompt_cache_key", .idle = BOTH},
    {"prompt_cache_retention", .idle = BOTH},
    {"prompt_embeds", .refused = BOTH},
    {"prompt_logprobs", .refused = BOTH},
    {"reasoning_effort", .served = CHAT, .refused = TEXT, .type = FIELD_STRING,
     .says = "256 bytes; a variable of the template"},
    {"reasoning_format", .idle = BOTH},
    {"regex", .served = BOTH, .type = FIELD_ANY, .schema = SCHEMA_REGEX,
     .says = "as `guided_regex`"},
    {"repeat_last_n", .idle = BOTH},
    {"repeat_penalty", .refused = BOTH, .neutral = "1"},
    {"repetition_detection", .refused = BOTH},
    {"repetition_penalty", .served = BOTH, .type = FIELD_REAL, AT(sampling.repetition), .min = 0,
     .max = 100, .is_above = true, .otherwise = "1"},
    {"request_id", .served = BOTH, .type = FIELD_STRING, AT(request_name),
     .max = ASK_NAME_BYTES_MAX, .says = "for the log"},
    {"response_format", .served = BOTH, .type = FIELD_OBJECT,
     .schema = SCHEMA({
         "type" : "object",
         "properties" : {
             "type" : {"enum" : [ "text", "json_object", "json_schema", null ]},
             "json_schema" : {"type" : [ "object", "null" ]}
         }
     }),
     .says =
         "of type `text`, `json_object` or `json_schema`: docs/structured.md; of all fields that "
         "say the answer's form one at most",
     .otherwise = "`text`"},
    {"return_full_text", .refused = BOTH},
    {"return_hidden_states", .refused = BOTH},
    {"return_progress", .idle = BOTH},
    {"return_token_ids", .served = BOTH, .type = FIELD_BOOL, AT(return_token_ids),
     .otherwise = "false"},
    {"return_token_strs", .served = TOKENIZE, .type = FIELD_BOOL, AT(return_strings),
     .says = "`/tokenize` alone", .otherwise = "false"},
    {"return_tokens_as_token_ids", .served = BOTH, .type = FIELD_BOOL, AT(tokens_as_ids),
     .otherwise = "false"},
    {"rid", .idle = BOTH},
    {"safety_identifier", .idle = BOTH},
    {"sampler_priority", .refused = BOTH},
    {"samplers", .refused = BOTH},
    {"seed", .served = BOTH, .type = FIELD_INT64, AT(sampling.seed), .otherwise = "drawn"},
    {"separate_reasoning", .served = CHAT, .idle = TEXT, .type = FIELD_BOOL,
     .says = "false: what the model thinks stays in `content`, with its marks",
     .otherwise = "true"},
    {"service_tier", .idle = BOTH},
    {"session_id", .idle = BOTH},
    {"session_params", .refused = BOTH},
    {"skip_special_tokens", .served = BOTH, .type = FIELD_BOOL, AT(skip_special),
     .otherwise = "true"},
    {"smoothing_curve", .idle = BOTH},
    {"smoothing_factor", .refused = BOTH, .neutral = "0"},
    {"spaces_between_special_tokens", .idle = BOTH},
    {"stop", .served = BOTH, .type = FIELD_ANY,
     .schema = SCHEMA({
         "type" : [ "string", "array" ],
         "minLength" : 1,
         "maxLength" : ASK_STOP_BYTES_MAX,
         "maxItems" : ASK_STOPS_MAX,
         "items" : {"type" : "string", "minLength" : 1, "maxLength" : ASK_STOP_BYTES_MAX}
     }),
     .says = "a string, or 64 strings, of 1 to 256 bytes"},
    {"stop_regex", .refused = BOTH},
    {"stop_token_ids", .served = BOTH, .type = FIELD_IDS, AT(sampling.stop_ids),
     .n_at = offsetof(struct ask, sampling.n_stop_ids), .max = MESSAGE_STOP_IDS_MAX},
    {"store", .idle = BOTH},
    {"stream", .served = BOTH, .type = FIELD_BOOL, AT(stream), .otherwise = "false"},
    {"stream_interval", .served = BOTH, .type = FIELD_INT, .min = 1, .max = INT32_MAX,
     .says = "must be 1", .otherwise = "1"},
    {"stream_options", .served = BOTH, .type = FIELD_OBJECT,
     .schema = SCHEMA({
         "type" : "object",
         "properties" : {
             "include_usage" : {"type" : [ "boolean", "null" ]},
             "continuous_usage_stats" : {"type" : [ "boolean", "null" ]}
         }
     }),
     .says = "`include_usage`, `continuous_usage_stats`; needs `stream`"},
    {"stream_reasoning", .idle = BOTH},
    {"structural_tag", .refused = BOTH},
    {"structured_outputs", .served = BOTH, .type = FIELD_OBJECT,
     .schema = SCHEMA({
         "type" : "object",
         "properties" : {
             "json" : {"type" : [ "object", "boolean", "string", "null" ]},
             "regex" : {"type" : [ "string", "null" ], "minLength" : 1},
             "choice" : {
                 "type" : [ "array", "null" ],
                 "items" : {"type" : "string", "minLength" : 1},
                 "minItems" : 1,
                 "maxItems" : 4096
             },
             "grammar" : {"type" : [ "string", "null" ]},
             "json_object" : {"type" : [ "boolean", "null" ]}
         }
     }),
     .says = "`json`, `regex`, `choice`, `grammar` or `json_object`"},
    {"suffix", .refused = BOTH},
    {"t_max_predict_ms", .refused = BOTH, .neutral = "0"},
    {"temperature", .served = BOTH, .type = FIELD_REAL, AT(sampling.temperature), .min = 0,
     .max = ASK_TEMPERATURE_MAX, .says = "0 is greedy", .otherwise = "1"},
    {"temperature_last", .idle = BOTH},
    {"tfs_z", .refused = BOTH, .neutral = "1"},
    {"thinking", .refused = BOTH},
    {"thinking_token_budget", .refused = BOTH},
    {"timeout", .served = BOTH, .type = FIELD_REAL, AT(timeout_s), .min = 0,
     .max = ASK_TIMEOUT_S_MAX,
     .says = "seconds for the whole call, then it ends with 504; the smallest of this, the header "
             "`x-request-timeout` and `--deadline` applies",
     .otherwise = "0: none"},
    {"timings_per_token", .idle = BOTH},
    {"tool_choice", .served = CHAT, .refused = TEXT, .type = FIELD_ANY,
     .schema =
         SCHEMA({"anyOf" : [ {"enum" : [ "none", "auto", "required" ]}, {"type" : "object"} ]}),
     .neutral = "none", .says = "`none`, `auto`, `required`, a tool or `allowed_tools`",
     .otherwise = "`auto`"},
    {"tool_prompt", .refused = BOTH},
    {"tools", .served = CHAT, .refused = TEXT, .type = FIELD_LIST,
     .schema = SCHEMA_OBJECTS(TEMPLATE_TOOLS_MAX),
     .says = "1,024 functions and custom tools with different names, for the template, and to be "
             "called"},
    {"top_a", .refused = BOTH, .neutral = "0"},
    {"top_k", .served = BOTH, .type = FIELD_INT, AT(sampling.top_k), .min = -1, .max = INT32_MAX,
     .says = "0 and -1 are off", .otherwise = "0"},
    {"top_logprobs", .served = CHAT, .refused = TEXT, .type = FIELD_INT, .min = 0,
     .max = ASK_TOP_CHAT_MAX, .neutral = "0", .says = "needs `logprobs`", .otherwise = "0"},
    {"top_n_sigma", .refused = BOTH, .neutral = "-1"},
    {"top_n_tokens", .refused = BOTH, .neutral = "0"},
    {"top_p", .served = BOTH, .type = FIELD_REAL, AT(sampling.top_p), .min = 0, .max = 1,
     .says = "0 is greedy", .otherwise = "1"},
    {"truncate", .refused = BOTH},
    {"truncate_prompt_tokens", .served = BOTH, .type = FIELD_INT, AT(truncate), .min = 1,
     .max = INT32_MAX,
     .says = "at most the context; keeps the end of a prompt of up to 1,048,576 tokens",
     .otherwise = "all"},
    {"typical", .refused = BOTH, .neutral = "1"},
    {"typical_p", .refused = BOTH, .neutral = "1"},
    {"use_beam_search", .refused = BOTH},
    {"user", .idle = BOTH},
    {"verbosity", .idle = BOTH}, /* a hint, of models that know it */
    {"vllm_xargs", .refused = BOTH},
    {"watermark", .refused = BOTH},
    {"web_search_options", .refused = BOTH},
    {"xtc_probability", .refused = BOTH, .neutral = "0"},
    {"xtc_threshold", .idle = BOTH},
};

#define N_ROWS (sizeof rows / sizeof *rows)

static int field_row_compare(const void *name, const void *row) {
    return strcmp(name, ((const struct field_row *)row)->name);
}

const struct field_row *field_find(const char *name) {
    return bsearch(name, rows, N_ROWS, sizeof *rows, field_row_compare);
}

const struct field_row *field_nth(size_t n) {
    return n < N_ROWS ? &rows[n] : NULL;
}

/* Is it written as the whole text? */
static bool field_is_number(const char *text, double value) {
    char *end;
    double number = strtod(text, &end);
    return *text && *end == 0 && number == value;
}

bool field_is_neutral(const struct field_row *row, const json_t *value) {
    const char *neutral = row->neutral ? row->neutral : "";
    switch (json_typeof(value)) {
    case JSON_NULL:
        return true;
    case JSON_TRUE:
        return strcmp(neutral, "true") == 0;
    case JSON_FALSE:
        return strcmp(neutral, "true") != 0;
    case JSON_STRING:
        return json_string_length(value) == 0 || strcmp(json_string_value(value), neutral) == 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return field_is_number(neutral, json_number_value(value));
    case JSON_OBJECT:
        return json_object_size(value) == 0 && strcmp(neutral, "{}") == 0;
    case JSON_ARRAY:
        break;
    }
    const json_t *only = json_array_get(value, 0);
    return !only || (json_array_size(value) == 1 && json_is_string(only) && neutral[0] &&
                     strcmp(json_string_value(only), neutral) == 0);
}
