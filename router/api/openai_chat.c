/* OpenAI's chat completions: messages in, one assistant message per choice out. */
#include "router/api/api.h"
#include "router/api/fields.h"
#include "router/api/json_put.h"

#include <stdio.h>
#include <string.h>

/* Content parts are joined by newlines, as vLLM does for templates that take strings. */
static enum status join_parts(const struct json_get *get, const json_t *parts, struct ask *ask,
                              struct span *content) {
    size_t n_bytes = 0;
    size_t n = json_array_size(parts);
    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_array_get(parts, i);
        if (!json_is_object(part))
            return json_get_fail(get, STATUS_INVALID, "content",
                                 "must be a string or a list of parts; part %zu is no object", i);
        struct json_get inner = {part, get->prefix, get->error};
        struct span type = {0}, text = {0};
        TRY(json_get_text(&inner, "type", 64, &type));
        if (!span_is(type, "text"))
            return json_get_fail(get, STATUS_UNSUPPORTED, "content",
                                 "has a part of type `%.*s`; only `text` is served",
                                 span_shown(type), type.bytes ? type.bytes : "");
        TRY(json_get_text(&inner, "text", TOKENIZER_TEXT_MAX, &text));
        if (!text.bytes)
            return json_get_fail(get, STATUS_INVALID, "content", "has a text part without text");
        if (n == 1) {
            *content = text;
            return STATUS_OK;
        }
        n_bytes += text.n + 1;
    }
    char *joined = arena_alloc(&ask->body_arena, n_bytes + 1);
    if (!joined)
        return json_get_fail(get, STATUS_NOMEM, "content", "is too large");
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        if (i > 0)
            joined[at++] = '\n';
        memcpy(joined + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    *content = (struct span){joined, at};
    return STATUS_OK;
}

static enum status read_content(const struct json_get *get, bool may_lack, struct ask *ask,
                                struct span *content) {
    const json_t *member = json_get_member(get, "content");
    *content = SPAN("");
    if (!member && may_lack)
        return STATUS_OK;
    if (!member)
        return json_get_fail(get, STATUS_INVALID, "content", "is missing");
    if (json_is_array(member))
        return join_parts(get, member, ask, content);
    if (!json_is_string(member))
        return json_get_fail(get, STATUS_INVALID, "content",
                             "must be a string or a list of text parts");
    return json_get_text(get, "content", TOKENIZER_TEXT_MAX, content);
}

static enum status read_message(const json_t *object, size_t index, struct ask *ask,
                                struct error *error) {
    char prefix[48];
    snprintf(prefix, sizeof prefix, "messages[%zu].", index);
    struct json_get get = {object, prefix, error};
    if (!json_is_object(object))
        return error_field(error, STATUS_INVALID, "messages", "`messages[%zu]` must be an object",
                           index);
    struct template_message *message = &ask->messages[index];
    struct span role = {0};
    TRY(json_get_text(&get, "role", 64, &role));
    if (!role.bytes)
        return json_get_fail(&get, STATUS_INVALID, "role", "is missing");
    if (template_role_parse(role, &message->role) != STATUS_OK)
        return json_get_fail(&get, STATUS_INVALID, "role",
                             "must be system, developer, user, assistant or tool");
    TRY(json_get_text(&get, "name", ASK_NAME_BYTES_MAX, &message->name));
    const json_t *calls = NULL;
    TRY(json_get_array(&get, "tool_calls", 1024, &calls));
    bool may_lack = message->role == TEMPLATE_ASSISTANT && calls;
    return read_content(&get, may_lack, ask, &message->content);
}

static enum status read_messages(const struct json_get *get, struct ask *ask) {
    const json_t *list = NULL;
    TRY(json_get_array(get, "messages", TEMPLATE_MESSAGES_MAX, &list));
    size_t n = list ? json_array_size(list) : 0;
    if (n == 0)
        return json_get_fail(get, STATUS_INVALID, "messages", "must have at least one entry");
    ask->messages = arena_alloc(&ask->body_arena, n * sizeof *ask->messages);
    if (!ask->messages || ask_set_prompts(ask, 1) != STATUS_OK)
        return json_get_fail(get, STATUS_NOMEM, "messages", "have too many entries");
    for (size_t i = 0; i < n; i++)
        TRY(read_message(json_array_get(list, i), i, ask, get->error));
    ask->n_messages = (uint32_t)n;
    return STATUS_OK;
}

/* Tools are refused unless the client says itself that none may be called. */
static enum status read_tools(const struct json_get *get) {
    const json_t *tools = NULL;
    TRY(json_get_array(get, "tools", 1024, &tools));
    const json_t *choice = json_get_member(get, "tool_choice");
    bool is_none =
        choice && json_is_string(choice) && strcmp(json_string_value(choice), "none") == 0;
    bool is_auto =
        choice && json_is_string(choice) && strcmp(json_string_value(choice), "auto") == 0;
    if (choice && !is_none && !is_auto)
        return json_get_fail(get, STATUS_UNSUPPORTED, "tool_choice",
                             "is not served; only `none` is");
    if (tools && json_array_size(tools) > 0 && !is_none)
        return json_get_fail(get, STATUS_UNSUPPORTED, "tools",
                             "are not served; leave them out or set `tool_choice` to `none`");
    return STATUS_OK;
}

static enum status read_max_new(const struct json_get *get, struct ask *ask) {
    const char *name =
        json_get_member(get, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
    int64_t max_new = 0;
    TRY(json_get_int(get, "max_tokens", 1, INT32_MAX, &max_new));
    TRY(json_get_int(get, name, 1, INT32_MAX, &max_new));
    ask->has_max_new = max_new > 0;
    ask->sampling.max_new = (uint32_t)max_new;
    return STATUS_OK;
}

static enum status read_logprobs(const struct json_get *get, struct ask *ask) {
    TRY(json_get_bool(get, "logprobs", &ask->sampling.want_logprobs));
    int64_t top = 0;
    TRY(json_get_int(get, "top_logprobs", 0, ASK_TOP_CHAT_MAX, &top));
    if (top > 0 && !ask->sampling.want_logprobs)
        return json_get_fail(get, STATUS_INVALID, "top_logprobs", "needs `logprobs`: true");
    ask->sampling.n_top = (uint32_t)top;
    return STATUS_OK;
}

static const char *const own_fields[] = {"messages",
                                         "max_tokens",
                                         "max_completion_tokens",
                                         "logprobs",
                                         "top_logprobs",
                                         "tools",
                                         "tool_choice",
                                         "parallel_tool_calls",
                                         "reasoning_effort",
                                         "modalities",
                                         "verbosity",
                                         "add_generation_prompt",
                                         "continue_final_message",
                                         "chat_template_kwargs",
                                         "echo",
                                         NULL};

static enum status parse_chat(const json_t *root, const struct ask_limits *limits, struct ask *ask,
                              struct api_error *error) {
    struct json_get get = {root, "", &error->error};
    ask->is_chat = true;
    enum status status = fields_model(&get, limits);
    if (status != STATUS_OK) {
        error->code = status == STATUS_NOT_FOUND ? "model_not_found" : NULL;
        return status;
    }
    TRY(read_messages(&get, ask));
    TRY(read_tools(&get));
    TRY(read_max_new(&get, ask));
    TRY(read_logprobs(&get, ask));
    TRY(json_get_bool(&get, "add_generation_prompt", &ask->add_generation_prompt));
    TRY(json_get_bool(&get, "continue_final_message", &ask->continue_final_message));
    if (ask->continue_final_message && ask->add_generation_prompt)
        return json_get_fail(&get, STATUS_INVALID, "continue_final_message",
                             "needs `add_generation_prompt`: false");
    if (ask->continue_final_message)
        return json_get_fail(&get, STATUS_UNSUPPORTED, "continue_final_message",
                             "is not served here; leave it out");
    bool echo = false;
    TRY(json_get_bool(&get, "echo", &echo));
    if (echo)
        return json_get_fail(&get, STATUS_UNSUPPORTED, "echo", "is not served for chats");
    const json_t *vars = NULL;
    TRY(json_get_object(&get, "chat_template_kwargs", &vars)); /* today's templates read none */
    TRY(fields_read(&get, limits, ask));
    fields_note_unknown(&get, own_fields, ask);
    return STATUS_OK;
}

static void put_logprob_of(const struct reply *reply, uint32_t id, float logprob, struct buf *out) {
    struct span bytes = reply_token_bytes(reply, id);
    buf_puts(out, "{\"token\":");
    reply_put_token(reply, id, out);
    buf_puts(out, ",\"logprob\":");
    json_put_logprob(out, logprob);
    buf_puts(out, ",\"bytes\":");
    json_put_bytes(out, bytes.bytes, bytes.n);
}

/* As many as were asked for, best first; the sampled token is always among them and takes the last
 * place where it is not one of the best. */
static void put_top(const struct reply *reply, uint32_t sampled, const struct token_logprobs *from,
                    struct buf *out) {
    uint32_t n =
        reply->ask->sampling.n_top < from->n_top ? reply->ask->sampling.n_top : from->n_top;
    bool is_there = false;
    for (uint32_t i = 0; i < n; i++)
        is_there |= from->top_ids[i] == sampled;
    buf_puts(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < n; i++) {
        bool swap = !is_there && i == n - 1;
        if (i > 0)
            buf_putc(out, ',');
        put_logprob_of(reply, swap ? sampled : from->top_ids[i],
                       swap ? from->logprob : from->top_logprobs[i], out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void put_logprobs(const struct reply *reply, const struct reply_choice *choice,
                         struct buf *out) {
    buf_puts(out, ",\"logprobs\":");
    if (!reply->ask->sampling.want_logprobs || !choice->logprobs || choice->n_tokens == 0) {
        buf_puts(out, "null");
        return;
    }
    buf_puts(out, "{\"content\":[");
    for (uint32_t i = 0; i < choice->n_tokens; i++) {
        if (i > 0)
            buf_putc(out, ',');
        put_logprob_of(reply, choice->tokens[i], choice->logprobs[i].logprob, out);
        put_top(reply, choice->tokens[i], &choice->logprobs[i], out);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}");
}

/* vLLM puts a chat's prompt ids beside `choices`; ours are in each choice as well. */
static void put_prompt_ids(const struct reply *reply, const struct reply_choice *choice,
                           struct buf *out) {
    if (!reply->ask->return_token_ids || !choice->is_first)
        return;
    buf_puts(out, ",\"prompt_token_ids\":");
    json_put_ids(out, choice->prompt, choice->n_prompt);
}

static void put_chunk(const struct reply *reply, const struct reply_choice *choice,
                      struct buf *out) {
    buf_puts(out, "data: {");
    reply_put_head(reply, "chat.completion.chunk", out);
    buf_puts(out, "\"choices\":[{\"index\":");
    json_put_int(out, choice->index);
    buf_puts(out, ",\"delta\":{");
    if (choice->is_first)
        buf_puts(out, "\"role\":\"assistant\",");
    if (choice->is_first || choice->text.n > 0 || !choice->has_ended) {
        buf_puts(out, "\"content\":");
        json_put_string(out, choice->text.bytes, choice->text.n);
    }
    buf_putc(out, '}');
    put_logprobs(reply, choice, out);
    buf_putc(out, ',');
    reply_put_finish(choice, out);
    reply_put_ids(reply, choice, out);
    buf_puts(out, "}]");
    put_prompt_ids(reply, choice, out);
    if (reply->ask->continuous_usage)
        reply_put_usage(reply, false, out);
    buf_puts(out, "}\n\n");
}

static void put_usage(const struct reply *reply, struct buf *out) {
    reply_put_usage_event(reply, "chat.completion.chunk", out);
}

static void put_whole(const struct reply *reply, const struct reply_choice *choices, uint32_t n,
                      struct buf *out) {
    buf_putc(out, '{');
    reply_put_head(reply, "chat.completion", out);
    buf_puts(out, "\"choices\":[");
    for (uint32_t i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? ",{\"index\":" : "{\"index\":");
        json_put_int(out, choices[i].index);
        buf_puts(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
        json_put_string(out, choices[i].text.bytes, choices[i].text.n);
        buf_putc(out, '}');
        put_logprobs(reply, &choices[i], out);
        buf_putc(out, ',');
        reply_put_finish(&choices[i], out);
        reply_put_ids(reply, &choices[i], out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    reply_put_usage(reply, true, out);
    buf_puts(out, ",\"system_fingerprint\":null");
    put_prompt_ids(reply, &choices[0], out);
    buf_putc(out, '}');
}

static const struct dialect_writer writer = {
    .id_prefix = "chatcmpl-",
    .splits_end = true,
    .chunk = put_chunk,
    .usage = put_usage,
    .whole = put_whole,
};

const struct dialect dialect_chat = {
    .name = "chat",
    .method = "POST",
    .path = "/v1/chat/completions",
    .parse = parse_chat,
    .writer = &writer,
};
