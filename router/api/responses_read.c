#include "router/api/responses_read.h"

#include "base/json/json_get.h"
#include "model/text/template/template_request.h"
#include "model/text/template/template_tools.h"
#include "router/api/ask.h"
#include "router/api/field_table.h"
#include "router/api/json_put.h"
#include "router/api/responses_about.h"
#include "router/api/responses_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int responses_compare_member(const void *name, const void *member) {
    return strcmp(name, ((const struct dialect_member *)member)->name);
}

static void responses_put_field(const char *name, const json_t *value, struct buf *out) {
    json_put_key(out, name);
    json_put_value(out, value);
}

/* --- fields that the chat has too ------------------------------------------------------------ */

/* What this API does not name: a field that the chat serves would ask for what this reply has no place for. The rest is
 * the chat's to refuse, or to note by its name alone. */
static enum status responses_put_unnamed(const struct json_get *get, const char *name,
                                         const json_t *value, struct buf *out) {
    const struct field_row *field = field_find(name);
    if (field && (field->served & FIELD_CHAT))
        return json_get_fail(get, STATUS_UNSUPPORTED, name,
                             "is not a field of this route; leave it out");
    json_put_key(out, name);
    if (field)
        json_put_value(out, value);
    else
        buf_puts(out, "null");
    return STATUS_OK;
}

static enum status responses_put_fields(const struct json_get *get, struct buf *out) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)get->object, name, value) {
        const struct dialect_member *row = bsearch(name, responses_members, RESPONSES_MEMBERS,
                                                   sizeof *row, responses_compare_member);
        if (json_is_null(value))
            continue;
        if (!row)
            TRY(responses_put_unnamed(get, name, value, out));
        else if (row->as)
            responses_put_field(row->as, value, out);
        else if (responses_use(row) == RESPONSES_REFUSED && !json_is_false(value))
            return json_get_fail(get, STATUS_UNSUPPORTED, name, "%s", row->says);
    }
    return STATUS_OK;
}

/* --- fields in words of their own ------------------------------------------------------------ */

/* A function as a chat has it; every other tool is the same there. */
static enum status responses_put_tool(const struct json_get *at, struct buf *out) {
    static const struct json_put_copy members[] = {
        {.name = "name"}, {.name = "description"}, {.name = "parameters"}, {.name = "strict"}};
    if (template_tool_kind(at->object) != TEMPLATE_TOOL_FUNCTION) {
        json_put_value(out, at->object);
        return STATUS_OK;
    }
    if (!json_get_member(at, "name"))
        return json_get_fail(at, STATUS_INVALID, "name",
                             "is missing: here a function is written {\"type\": \"function\", "
                             "\"name\": ...}, with its members beside `type`");
    buf_puts(out, "{\"type\":\"function\",\"function\":{");
    json_put_members(out, at->object, members, sizeof members / sizeof *members);
    buf_puts(out, "}}");
    return STATUS_OK;
}

static enum status responses_put_tools(const struct json_get *get, struct buf *out) {
    const json_t *list = NULL;
    TRY(json_get_array(get, "tools", TEMPLATE_TOOLS_MAX, &list));
    if (json_array_size(list) == 0)
        return STATUS_OK;
    json_put_key(out, "tools");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char parent[32];
        snprintf(parent, sizeof parent, "tools[%zu]", i);
        const struct json_get at = {
            .object = json_array_get(list, i), .error = get->error, .parent = parent};
        buf_putc(out, i > 0 ? ',' : '[');
        TRY(responses_put_tool(&at, out));
    }
    buf_putc(out, ']');
    return STATUS_OK;
}

/* `text.format`, whose schema stands beside its type. */
static enum status responses_put_format(const struct json_get *get, struct buf *out) {
    static const struct json_put_copy members[] = {
        {.name = "name"}, {.name = "schema"}, {.name = "strict"}};
    struct json_get text, format;
    struct span type = SPAN("text"), verbosity = {0};
    TRY(json_get_object(get, "text", &text));
    TRY(json_get_text(&text, "verbosity", 64, &verbosity));
    TRY(json_get_object(&text, "format", &format));
    format.parent = "text.format";
    TRY(json_get_text(&format, "type", 64, &type));
    if (span_is(type, "text"))
        return STATUS_OK;
    if (!span_is(type, "json_schema") && !span_is(type, "json_object"))
        return json_get_fail(&format, STATUS_UNSUPPORTED, "type",
                             "must be `text`, `json_object` or `json_schema`");
    json_put_key(out, "response_format");
    if (span_is(type, "json_object")) {
        buf_puts(out, "{\"type\":\"json_object\"}");
        return STATUS_OK;
    }
    if (!json_get_member(&format, "schema"))
        return json_get_fail(&format, STATUS_INVALID, "schema", "is missing");
    buf_puts(out, "{\"type\":\"json_schema\",\"json_schema\":{");
    json_put_members(out, format.object, members, sizeof members / sizeof *members);
    buf_puts(out, "}}");
    return STATUS_OK;
}

static enum status responses_put_reasoning(const struct json_get *get, struct buf *out) {
    struct json_get reasoning;
    struct span effort = {0};
    TRY(json_get_object(get, "reasoning", &reasoning));
    TRY(json_get_text(&reasoning, "effort", ASK_NAME_BYTES_MAX, &effort));
    if (effort.n == 0)
        return STATUS_OK;
    json_put_key(out, "reasoning_effort");
    json_put_string(out, effort.bytes, effort.n);
    if (span_is(effort, "none") && !json_get_member(get, "enable_thinking"))
        buf_puts(out, ",\"enable_thinking\":false");
    return STATUS_OK;
}

/* `include` and `top_logprobs`: what stands beside texts and thoughts. */
static enum status responses_put_include(const struct json_get *get,
                                         struct responses_request *request) {
    const json_t *list = NULL, *entry;
    int64_t n_top = 0;
    size_t i;
    bool logprobs = false;
    TRY(json_get_array(get, "include", 64, &list));
    TRY(json_get_int(get, "top_logprobs", 0, ASK_TOP_CHAT_MAX, &n_top));
    json_array_foreach((json_t *)list, i, entry) {
        const char *word = json_string_value(entry);
        if (!word)
            return json_get_fail(get, STATUS_INVALID, "include", "must hold strings");
        logprobs |= strcmp(word, "message.output_text.logprobs") == 0;
        request->seals_thoughts |= strcmp(word, "reasoning.encrypted_content") == 0;
    }
    if (logprobs || n_top > 0)
        buf_printf(&request->chat, ",\"logprobs\":true,\"top_logprobs\":%lld", (long long)n_top);
    return STATUS_OK;
}

static enum status responses_check(const struct json_get *get) {
    struct span truncation = SPAN("disabled");
    struct json_get metadata;
    int64_t max_tokens = 0;
    TRY(json_get_object(get, "metadata", &metadata));
    TRY(json_get_int(get, "max_output_tokens", 1, INT32_MAX, &max_tokens)); /* by its name here */
    TRY(json_get_text(get, "truncation", 64, &truncation));
    if (!span_is(truncation, "disabled") && !span_is(truncation, "auto"))
        return json_get_fail(get, STATUS_INVALID, "truncation", "must be `auto` or `disabled`");
    return STATUS_OK;
}

/* --- what the reply repeats ------------------------------------------------------------------ */

static void responses_repeat_member(const struct json_get *get, const char *name,
                                    const char *otherwise, struct buf *out) {
    const json_t *value = json_get_member(get, name);
    buf_printf(out, "\"%s\":", name);
    if (value)
        json_put_value(out, value);
    else
        buf_puts(out, otherwise);
    buf_putc(out, ',');
}

/* Members of a reply's tools that may not be missing. */
static void responses_repeat_tool(const json_t *tool, struct buf *out) {
    static const char *const needed[][2] = {{"parameters", ",\"parameters\":null"},
                                            {"strict", ",\"strict\":false"}};
    json_put_value(out, tool);
    if (template_tool_kind(tool) != TEMPLATE_TOOL_FUNCTION || out->failed)
        return;
    buf_truncate(out, out->n - 1);
    for (size_t i = 0; i < 2; i++)
        if (!json_object_get(tool, needed[i][0]))
            buf_puts(out, needed[i][1]);
    buf_putc(out, '}');
}

static void responses_repeat_tools(const struct json_get *get, struct buf *out) {
    const json_t *list = json_get_member(get, "tools");
    buf_puts(out, "\"tools\":[");
    for (size_t i = 0; i < json_array_size(list); i++) {
        responses_repeat_tool(json_array_get(list, i), out);
        buf_putc(out, ',');
    }
    json_put_close(out, ']');
    buf_putc(out, ',');
}

/* `text`, with the format that holds. */
static void responses_repeat_text(const struct json_get *get, struct buf *out) {
    const json_t *text = json_get_member(get, "text"), *format = json_object_get(text, "format");
    const json_t *verbosity = json_object_get(text, "verbosity");
    buf_puts(out, "\"text\":{\"format\":");
    if (json_is_object(format))
        json_put_value(out, format);
    else
        buf_puts(out, "{\"type\":\"text\"}");
    if (verbosity)
        responses_put_field("verbosity", verbosity, out);
    buf_puts(out, "},");
}

static void responses_repeat_all(const struct json_get *get, struct buf *out) {
    static const char *const nullable[] = {"instructions",      "max_output_tokens",
                                           "max_tool_calls",    "prompt_cache_key",
                                           "safety_identifier", "user"};
    for (size_t i = 0; i < sizeof nullable / sizeof *nullable; i++)
        responses_repeat_member(get, nullable[i], "null", out);
    responses_repeat_member(get, "metadata", "{}", out);
    responses_repeat_member(get, "parallel_tool_calls", "true", out);
    responses_repeat_member(get, "reasoning", "{\"effort\":null,\"summary\":null}", out);
    responses_repeat_member(get, "tool_choice", "\"auto\"", out);
    responses_repeat_member(get, "top_logprobs", "0", out);
    responses_repeat_member(get, "truncation", "\"disabled\"", out);
    responses_repeat_text(get, out);
    responses_repeat_tools(get, out);
}

/* As far as there is room. */
static void responses_put_repeated(const struct json_get *get, struct buf *out) {
    const struct json_get nothing = {.error = get->error};
    responses_repeat_all(get, out);
    if (out->n <= RESPONSES_REPEATED_MAX)
        return;
    buf_truncate(out, 0);
    responses_repeat_all(&nothing, out);
}

enum status responses_read(const json_t *root, struct responses_request *request,
                           struct error *error) {
    const struct json_get get = {.object = root, .error = error};
    struct buf *chat = &request->chat;
    *request = (struct responses_request){0};
    buf_init(chat, 0);
    buf_init(&request->repeated, 0);
    TRY(responses_check(&get));
    buf_puts(chat, "{\"messages\":");
    TRY(responses_put_messages(&get, chat));
    TRY(responses_put_fields(&get, chat));
    TRY(responses_put_tools(&get, chat));
    TRY(responses_put_format(&get, chat));
    TRY(responses_put_reasoning(&get, chat));
    TRY(responses_put_include(&get, request));
    buf_putc(chat, '}');
    responses_put_repeated(&get, &request->repeated);
    return buf_status(chat) == STATUS_OK && buf_status(&request->repeated) == STATUS_OK
               ? STATUS_OK
               : error_set(error, STATUS_NOMEM, "no memory for the request");
}

void responses_request_fini(struct responses_request *request) {
    buf_fini(&request->chat);
    buf_fini(&request->repeated);
}
