#include "router/api/messages_read.h"

#include "base/json/json_get.h"
#include "model/text/template/template_request.h"
#include "router/api/chat_said.h"
#include "router/api/json_put.h"
#include "router/api/messages_about.h"

#include <stdio.h>
#include <string.h>

static void anthropic_put_text_of(const json_t *text, struct buf *out) {
    json_put_string(out, json_string_value(text), json_string_length(text));
}

/* --- blocks -------------------------------------------------------------------------------- */

static bool block_is_type(const json_t *block, const char *type) {
    const json_t *own = json_object_get(block, "type");
    return json_is_string(own) && strcmp(json_string_value(own), type) == 0;
}

static enum status anthropic_refuse_block(const struct json_get *at, const json_t *block,
                                          size_t i) {
    const char *type = json_string_value(json_object_get(block, "type"));
    return json_get_fail(at, type ? STATUS_UNSUPPORTED : STATUS_INVALID, "content",
                         "has a block (number %zu) of type `%.40s`, which is not served here", i,
                         type ? type : "");
}

static enum status anthropic_need_text(const struct json_get *at, const json_t *block,
                                       const char *name, size_t i) {
    if (json_is_string(json_object_get(block, name)))
        return STATUS_OK;
    return json_get_fail(at, STATUS_INVALID, "content",
                         "has a block (number %zu) whose `%s` is not a string", i, name);
}

/* Content that is a string or blocks of text, as one value of a chat. */
static enum status anthropic_put_texts(const struct json_get *at, const char *name,
                                       const json_t *content, struct buf *out) {
    const json_t *block;
    size_t i;
    if (!content || json_is_null(content)) {
        buf_puts(out, "\"\"");
        return STATUS_OK;
    }
    if (json_is_string(content)) {
        anthropic_put_text_of(content, out);
        return STATUS_OK;
    }
    if (!json_is_array(content) || json_array_size(content) > MESSAGES_BLOCKS_MAX)
        return json_get_fail(at, STATUS_INVALID, name, "must be a string or a list of blocks");
    buf_putc(out, '[');
    for (i = 0; i < json_array_size(content); i++) {
        block = json_array_get(content, i);
        if (!block_is_type(block, "text"))
            return anthropic_refuse_block(at, block, i);
        TRY(anthropic_need_text(at, block, "text", i));
        buf_puts(out, i > 0 ? ",{\"type\":\"text\",\"text\":" : "{\"type\":\"text\",\"text\":");
        anthropic_put_text_of(json_object_get(block, "text"), out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    return STATUS_OK;
}

/* The results of tools are messages of their own, before the text. */
static enum status anthropic_put_results(const struct json_get *at, const json_t *content,
                                         struct buf *out) {
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (!block_is_type(block, "tool_result"))
            continue;
        TRY(anthropic_need_text(at, block, "tool_use_id", i));
        buf_puts(out, ",{\"role\":\"tool\",\"tool_call_id\":");
        anthropic_put_text_of(json_object_get(block, "tool_use_id"), out);
        buf_puts(out, ",\"content\":");
        TRY(anthropic_put_texts(at, "content", json_object_get(block, "content"), out));
        buf_putc(out, '}');
    }
    return STATUS_OK;
}

static enum status anthropic_put_user(const struct json_get *at, const char *role,
                                      const json_t *content, struct buf *out) {
    bool any = false;
    TRY(anthropic_put_results(at, content, out));
    if (!json_is_array(content)) {
        buf_printf(out, ",{\"role\":\"%s\",\"content\":", role);
        TRY(anthropic_put_texts(at, "content", content, out));
        buf_putc(out, '}');
        return STATUS_OK;
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (block_is_type(block, "tool_result"))
            continue;
        if (!block_is_type(block, "text"))
            return anthropic_refuse_block(at, block, i);
        TRY(anthropic_need_text(at, block, "text", i));
        if (any)
            buf_putc(out, ',');
        else
            buf_printf(out, ",{\"role\":\"%s\",\"content\":[", role);
        any = true;
        buf_puts(out, "{\"type\":\"text\",\"text\":");
        anthropic_put_text_of(json_object_get(block, "text"), out);
        buf_putc(out, '}');
    }
    if (any)
        buf_puts(out, "]}");
    return STATUS_OK;
}

static enum status anthropic_say_text(const struct json_get *at, const json_t *block,
                                      const char *name, size_t i, struct buf *to) {
    TRY(anthropic_need_text(at, block, name, i));
    const json_t *text = json_object_get(block, name);
    json_put_text(to, json_string_value(text), json_string_length(text));
    return STATUS_OK;
}

static enum status anthropic_say_call(const struct json_get *at, const json_t *block, size_t i,
                                      struct buf *to) {
    const json_t *input = json_object_get(block, "input");
    TRY(anthropic_need_text(at, block, "id", i));
    TRY(anthropic_need_text(at, block, "name", i));
    buf_puts(to, to->n > 0 ? ",{\"id\":" : "{\"id\":");
    anthropic_put_text_of(json_object_get(block, "id"), to);
    buf_puts(to, ",\"type\":\"function\",\"function\":{\"name\":");
    anthropic_put_text_of(json_object_get(block, "name"), to);
    buf_puts(to, ",\"arguments\":");
    if (input)
        json_put_value(to, input);
    else
        buf_puts(to, "{}");
    buf_puts(to, "}}");
    return STATUS_OK;
}

static enum status anthropic_say_all(const struct json_get *at, const json_t *content,
                                     struct chat_said *said) {
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (block_is_type(block, "text"))
            TRY(anthropic_say_text(at, block, "text", i, &said->text));
        else if (block_is_type(block, "thinking"))
            TRY(anthropic_say_text(at, block, "thinking", i, &said->thoughts));
        else if (block_is_type(block, "tool_use"))
            TRY(anthropic_say_call(at, block, i, &said->calls));
        else if (!block_is_type(block, "redacted_thinking"))
            return anthropic_refuse_block(at, block, i);
    }
    return STATUS_OK;
}

static enum status anthropic_put_assistant(const struct json_get *at, const json_t *content,
                                           struct buf *out) {
    struct chat_said said;
    if (!json_is_array(content)) {
        buf_puts(out, ",{\"role\":\"assistant\",\"content\":");
        TRY(anthropic_put_texts(at, "content", content, out));
        buf_putc(out, '}');
        return STATUS_OK;
    }
    chat_said_init(&said);
    enum status status = anthropic_say_all(at, content, &said);
    buf_putc(out, ',');
    chat_said_put(&said, out);
    chat_said_fini(&said);
    return status;
}

static enum status anthropic_put_message(const struct json_get *at, struct buf *out,
                                         bool *is_answer) {
    struct span role = {0};
    const json_t *content = json_get_member(at, "content");
    TRY(json_get_text(at, "role", TEMPLATE_NAME_MAX, &role));
    if (json_array_size(content) > MESSAGES_BLOCKS_MAX)
        return json_get_fail(at, STATUS_INVALID, "content", "must have at most %u blocks",
                             MESSAGES_BLOCKS_MAX);
    if (!content)
        return json_get_fail(at, STATUS_INVALID, "content", "is missing");
    *is_answer = span_is(role, "assistant");
    if (*is_answer)
        return anthropic_put_assistant(at, content, out);
    if (span_is(role, "user") || span_is(role, "system"))
        return anthropic_put_user(at, span_is(role, "user") ? "user" : "system", content, out);
    return json_get_fail(at, STATUS_INVALID, "role", "must be `user` or `assistant`");
}

static enum status anthropic_put_messages(const struct json_get *get, struct buf *out) {
    const json_t *list = NULL, *system = json_get_member(get, "system");
    bool is_answer = false;
    size_t begin = out->n;
    TRY(json_get_array(get, "messages", TEMPLATE_MESSAGES_MAX, &list));
    if (json_array_size(list) == 0)
        return json_get_fail(get, STATUS_INVALID, "messages", "must have at least one entry");
    if (system) {
        buf_puts(out, ",{\"role\":\"system\",\"content\":");
        TRY(anthropic_put_texts(get, "system", system, out));
        buf_putc(out, '}');
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        char parent[48];
        snprintf(parent, sizeof parent, "messages[%zu]", i);
        const struct json_get at = {
            .object = json_array_get(list, i), .error = get->error, .parent = parent};
        if (!json_is_object(at.object))
            return error_field(get->error, STATUS_INVALID, "messages",
                               "`messages[%zu]` must be an object", i);
        TRY(anthropic_put_message(&at, out, &is_answer));
    }
    if (out->n == begin)
        return json_get_fail(get, STATUS_INVALID, "messages", "say nothing");
    if (!out->failed)
        out->data[begin] = '['; /* the first comma */
    buf_putc(out, ']');
    if (is_answer) /* which is gone on with */
        buf_puts(out, ",\"continue_final_message\":true,\"add_generation_prompt\":false");
    return STATUS_OK;
}

/* --- all else ------------------------------------------------------------------------------ */

static enum status anthropic_put_tools(const struct json_get *get, struct buf *out) {
    const json_t *list = NULL;
    TRY(json_get_array(get, "tools", TEMPLATE_TOOLS_MAX, &list));
    if (json_array_size(list) == 0)
        return STATUS_OK;
    json_put_key(out, "tools");
    for (size_t i = 0; i < json_array_size(list); i++) {
        static const struct json_put_copy members[] = {{.name = "name"},
                                                       {.name = "description"},
                                                       {"input_schema", "parameters"},
                                                       {.name = "strict"}};
        const json_t *tool = json_array_get(list, i), *type = json_object_get(tool, "type");
        bool is_custom = !type || json_is_null(type) || block_is_type(tool, "custom");
        if (!json_is_object(tool))
            return json_get_fail(get, STATUS_INVALID, "tools",
                                 "must hold objects; entry %zu is something else", i);
        buf_puts(out, i > 0 ? ",{\"type\":" : "[{\"type\":");
        if (is_custom)
            buf_puts(out, "\"function\"");
        else
            json_put_value(out, type); /* refused by its name */
        buf_puts(out, ",\"function\":{");
        json_put_members(out, tool, members, sizeof members / sizeof *members);
        buf_puts(out, "}}");
    }
    buf_putc(out, ']');
    return STATUS_OK;
}

static enum status anthropic_put_choice(const struct json_get *get, struct buf *out) {
    struct json_get choice;
    struct span type = {0}, name = {0};
    bool alone = false;
    TRY(json_get_object(get, "tool_choice", &choice));
    if (!choice.object)
        return STATUS_OK;
    TRY(json_get_text(&choice, "type", 64, &type));
    TRY(json_get_text(&choice, "name", ASK_NAME_BYTES_MAX, &name));
    TRY(json_get_bool(&choice, "disable_parallel_tool_use", &alone));
    json_put_key(out, "tool_choice");
    if (span_is(type, "tool") && name.bytes) {
        buf_puts(out, "{\"type\":\"function\",\"function\":{\"name\":");
        json_put_string(out, name.bytes, name.n);
        buf_puts(out, "}}");
    } else if (span_is(type, "auto") || span_is(type, "any") || span_is(type, "none")) {
        buf_puts(out, span_is(type, "any")    ? "\"required\""
                      : span_is(type, "auto") ? "\"auto\""
                                              : "\"none\"");
    } else {
        return json_get_fail(&choice, STATUS_INVALID, "type",
                             "must be `auto`, `any`, `none`, or `tool` with a `name`");
    }
    if (alone)
        buf_puts(out, ",\"parallel_tool_calls\":false");
    return STATUS_OK;
}

/* `output_config.format`, or the older `output_format`. */
static enum status anthropic_put_format(const struct json_get *get, struct buf *out) {
    struct json_get config, format, older;
    struct span type = {0};
    TRY(json_get_object(get, "output_config", &config));
    TRY(json_get_object(&config, "format", &format));
    TRY(json_get_object(get, "output_format", &older));
    if (!format.object)
        format = older;
    if (!format.object)
        return STATUS_OK;
    TRY(json_get_text(&format, "type", 64, &type));
    if (!span_is(type, "json_schema"))
        return json_get_fail(&format, STATUS_UNSUPPORTED, "type", "must be `json_schema`");
    json_put_key(out, "response_format");
    buf_puts(out, "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"output\",\"schema\":");
    const json_t *schema = json_get_member(&format, "schema");
    if (!schema)
        return json_get_fail(&format, STATUS_INVALID, "schema", "is missing");
    json_put_value(out, schema);
    buf_puts(out, "}}");
    return STATUS_OK;
}

/* Members that a chat has by another name, or the same; their types are the chat's to check. */
static void anthropic_put_others(const struct json_get *get, struct buf *out) {
    for (const struct dialect_member *member = messages_members; member->name; member++) {
        const json_t *value = member->as ? json_get_member(get, member->name) : NULL;
        if (!value)
            continue;
        json_put_key(out, member->as);
        json_put_value(out, value);
    }
}

/* Whether the model thinks is its template's to say, unless the request forbids it. */
static enum status anthropic_put_thinking(const struct json_get *get, struct buf *out) {
    struct json_get thinking;
    struct span type = {0};
    TRY(json_get_object(get, "thinking", &thinking));
    if (!thinking.object)
        return STATUS_OK;
    TRY(json_get_text(&thinking, "type", 64, &type));
    if (span_is(type, "disabled"))
        buf_puts(out, ",\"enable_thinking\":false");
    return STATUS_OK;
}

static enum status anthropic_check(const struct json_get *get, bool counts) {
    static const char *const unserved[] = {"container", "mcp_servers"};
    int64_t max_tokens = 0;
    for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++)
        if (json_get_member(get, unserved[i]))
            return json_get_fail(get, STATUS_UNSUPPORTED, unserved[i], "is not served here");
    TRY(json_get_int(get, "max_tokens", 1, INT32_MAX, &max_tokens));
    if (max_tokens == 0 && !counts)
        return json_get_fail(get, STATUS_INVALID, "max_tokens", "is missing");
    return STATUS_OK;
}

enum status messages_read(const json_t *root, bool counts, struct buf *chat, struct error *error) {
    const struct json_get get = {.object = root, .error = error};
    TRY(anthropic_check(&get, counts));
    buf_puts(chat, "{\"messages\":");
    TRY(anthropic_put_messages(&get, chat));
    TRY(anthropic_put_tools(&get, chat));
    TRY(anthropic_put_choice(&get, chat));
    TRY(anthropic_put_format(&get, chat));
    TRY(anthropic_put_thinking(&get, chat));
    anthropic_put_others(&get, chat);
    buf_putc(chat, '}');
    return buf_status(chat) == STATUS_OK
               ? STATUS_OK
               : error_set(error, STATUS_NOMEM, "no memory for the messages");
}
