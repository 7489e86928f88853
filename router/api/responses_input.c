#include "router/api/responses_input.h"

#include "model/text/template/template_request.h"
#include "router/api/chat_said.h"
#include "router/api/json_put.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PARTS_MAX 1024u

/* A conversation on its way. */
struct responses_talk {
    struct buf *out;       /* borrowed: messages, each with a comma before it */
    struct chat_said said; /* by the assistant in the items so far, and not yet written */
    bool is_saying;        /* it said something, even if that is empty */
};

/* What the assistant has said becomes a message. */
static void responses_end_turn(struct responses_talk *talk) {
    if (!talk->is_saying)
        return;
    buf_putc(talk->out, ',');
    chat_said_put(&talk->said, talk->out);
    chat_said_clear(&talk->said);
    talk->is_saying = false;
}

/* --- texts and parts ------------------------------------------------------------------------ */

/* How a text is appended: as a part of a chat's message, or its escaped bytes. */
typedef void put_part_fn(struct span text, struct buf *out);

static void responses_put_part(struct span text, struct buf *out) {
    buf_puts(out, out->data[out->n - 1] == '[' ? "{\"type\":\"text\",\"text\":"
                                               : ",{\"type\":\"text\",\"text\":");
    json_put_string(out, text.bytes, text.n);
    buf_putc(out, '}');
}

static void responses_put_bytes(struct span text, struct buf *out) {
    json_put_text(out, text.bytes, text.n);
}

static bool responses_is_one_of(struct span type, const char *const *types, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (span_is(type, types[i]))
            return true;
    return false;
}

/* Every part of a list; `name` is the member that has it. */
static enum status responses_put_parts(const struct json_get *at, const char *name,
                                       const json_t *list, put_part_fn *put, struct buf *out) {
    static const char *const texts[] = {"input_text", "output_text", "text", "reasoning_text",
                                        "summary_text"};
    if (json_array_size(list) > PARTS_MAX)
        return json_get_fail(at, STATUS_INVALID, name, "must have at most %u parts", PARTS_MAX);
    for (size_t i = 0; i < json_array_size(list) && buf_status(out) == STATUS_OK; i++) {
        char parent[96];
        struct span type = {0}, text = {0};
        snprintf(parent, sizeof parent, "%s.%s[%zu]", at->parent, name, i);
        const struct json_get part = {
            .object = json_array_get(list, i), .error = at->error, .parent = parent};
        if (!json_is_object(part.object))
            return json_get_fail(at, STATUS_INVALID, name, "has a part (number %zu) that is none",
                                 i);
        TRY(json_need_text(&part, "type", &type));
        bool is_refusal = span_is(type, "refusal");
        if (!is_refusal && !responses_is_one_of(type, texts, sizeof texts / sizeof *texts))
            return json_get_fail(&part, STATUS_UNSUPPORTED, "type",
                                 "is `%.*s`, which is not served here: the model reads text",
                                 span_shown(type), type.bytes);
        TRY(json_need_text(&part, is_refusal ? "refusal" : "text", &text));
        put(text, out);
    }
    return STATUS_OK;
}

static enum status responses_need_parts(const struct json_get *at, const char *name,
                                        const json_t **value) {
    *value = json_get_member(at, name);
    if (!*value)
        return json_get_fail(at, STATUS_INVALID, name, "is missing");
    if (!json_is_string(*value) && !json_is_array(*value))
        return json_get_fail(at, STATUS_INVALID, name, "must be a string or a list of parts");
    return STATUS_OK;
}

/* A string or parts as a chat's content, which ends its message. */
static enum status responses_close_message(const struct json_get *at, const char *name,
                                           struct buf *out) {
    const json_t *value;
    TRY(responses_need_parts(at, name, &value));
    json_put_key(out, "content");
    if (json_is_string(value)) {
        json_put_string(out, json_string_value(value), json_string_length(value));
    } else {
        buf_putc(out, '[');
        TRY(responses_put_parts(at, name, value, responses_put_part, out));
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
    return STATUS_OK;
}

/* The same as one escaped text. */
static enum status responses_say_content(const struct json_get *at, const char *name,
                                         struct buf *to) {
    const json_t *value;
    TRY(responses_need_parts(at, name, &value));
    if (json_is_array(value))
        return responses_put_parts(at, name, value, responses_put_bytes, to);
    json_put_text(to, json_string_value(value), json_string_length(value));
    return STATUS_OK;
}

/* A message of one text. */
static void responses_put_text_message(const char *role, const char *bytes, size_t n,
                                       struct buf *out) {
    buf_printf(out, ",{\"role\":\"%s\",\"content\":", role);
    json_put_string(out, bytes, n);
    buf_putc(out, '}');
}

/* --- items ---------------------------------------------------------------------------------- */

/* A second text is a message of its own, and so is what stands behind calls. */
static enum status responses_say_text(const struct json_get *at, struct responses_talk *talk) {
    if (talk->said.text.n > 0 || talk->said.calls.n > 0)
        responses_end_turn(talk);
    talk->is_saying = true;
    return responses_say_content(at, "content", &talk->said.text);
}

static enum status responses_put_message(const struct json_get *at, struct responses_talk *talk) {
    static const char *const roles[] = {"user", "system", "developer"};
    struct span role = {0};
    TRY(json_need_text(at, "role", &role));
    if (span_is(role, "assistant"))
        return responses_say_text(at, talk);
    if (!responses_is_one_of(role, roles, sizeof roles / sizeof *roles))
        return json_get_fail(at, STATUS_INVALID, "role",
                             "must be `user`, `assistant`, `system` or `developer`");
    responses_end_turn(talk);
    buf_puts(talk->out, ",{\"role\":");
    json_put_string(talk->out, role.bytes, role.n);
    return responses_close_message(at, "content", talk->out);
}

/* The thought itself, as it was or as our own replies seal it; another server may have left but its summary. */
static enum status responses_say_thought(const struct json_get *at, struct buf *to) {
    const size_t n_mark = strlen(RESPONSES_THOUGHT_MARK);
    const json_t *content = NULL, *summary = NULL;
    struct span sealed = {0};
    TRY(json_get_array(at, "content", PARTS_MAX, &content));
    TRY(json_get_array(at, "summary", PARTS_MAX, &summary));
    TRY(json_get_text(at, "encrypted_content", SIZE_MAX, &sealed));
    if (json_array_size(content) > 0)
        return responses_put_parts(at, "content", content, responses_put_bytes, to);
    if (sealed.n >= n_mark && memcmp(sealed.bytes, RESPONSES_THOUGHT_MARK, n_mark) == 0) {
        json_put_text(to, sealed.bytes + n_mark, sealed.n - n_mark);
        return STATUS_OK;
    }
    return responses_put_parts(at, "summary", summary, responses_put_bytes, to);
}

static enum status responses_put_thought(const struct json_get *at, struct responses_talk *talk) {
    if (talk->said.text.n > 0 || talk->said.calls.n > 0)
        responses_end_turn(talk);
    talk->is_saying = true;
    return responses_say_thought(at, &talk->said.thoughts);
}

static enum status responses_put_call(const struct json_get *at, struct responses_talk *talk,
                                      const char *type, const char *member) {
    struct buf *to = &talk->said.calls;
    struct span id = {0}, name = {0}, text = {0};
    TRY(json_need_text(at, "call_id", &id));
    TRY(json_need_text(at, "name", &name));
    TRY(json_need_text(at, member, &text));
    talk->is_saying = true;
    buf_puts(to, to->n > 0 ? ",{\"id\":" : "{\"id\":");
    json_put_string(to, id.bytes, id.n);
    buf_printf(to, ",\"type\":\"%s\",\"%s\":{\"name\":", type, type);
    json_put_string(to, name.bytes, name.n);
    buf_printf(to, ",\"%s\":", member);
    json_put_string(to, text.bytes, text.n);
    buf_puts(to, "}}");
    return STATUS_OK;
}

static enum status responses_put_output(const struct json_get *at, struct responses_talk *talk) {
    struct span id = {0};
    TRY(json_need_text(at, "call_id", &id));
    responses_end_turn(talk);
    buf_puts(talk->out, ",{\"role\":\"tool\",\"tool_call_id\":");
    json_put_string(talk->out, id.bytes, id.n);
    return responses_close_message(at, "output", talk->out);
}

static enum status responses_put_item(const struct json_get *at, struct responses_talk *talk) {
    struct span type = SPAN("message"); /* which alone may leave it out */
    TRY(json_get_text(at, "type", TEMPLATE_NAME_MAX, &type));
    if (span_is(type, "message"))
        return responses_put_message(at, talk);
    if (span_is(type, "reasoning"))
        return responses_put_thought(at, talk);
    if (span_is(type, "function_call"))
        return responses_put_call(at, talk, "function", "arguments");
    if (span_is(type, "custom_tool_call"))
        return responses_put_call(at, talk, "custom", "input");
    if (span_is(type, "function_call_output") || span_is(type, "custom_tool_call_output"))
        return responses_put_output(at, talk);
    return json_get_fail(at, STATUS_UNSUPPORTED, "type",
                         span_is(type, "item_reference")
                             ? "is `%.*s`, and nothing is stored here: send the item itself"
                             : "is `%.*s`, which is not served here",
                         span_shown(type), type.bytes);
}

static enum status responses_put_input(const struct json_get *get, struct responses_talk *talk) {
    const json_t *input = json_get_member(get, "input"), *list = NULL;
    if (!input)
        return json_get_fail(get, STATUS_INVALID, "input", "is missing");
    if (json_is_string(input)) {
        responses_put_text_message("user", json_string_value(input), json_string_length(input),
                                   talk->out);
        return STATUS_OK;
    }
    if (!json_is_array(input))
        return json_get_fail(get, STATUS_INVALID, "input", "must be a string or a list of items");
    TRY(json_get_array(get, "input", TEMPLATE_MESSAGES_MAX, &list));
    if (json_array_size(list) == 0)
        return json_get_fail(get, STATUS_INVALID, "input", "must have at least one item");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char parent[48];
        snprintf(parent, sizeof parent, "input[%zu]", i);
        const struct json_get at = {
            .object = json_array_get(list, i), .error = get->error, .parent = parent};
        if (!json_is_object(at.object))
            return error_field(get->error, STATUS_INVALID, parent, "`%s` must be an object",
                               parent);
        TRY(responses_put_item(&at, talk));
    }
    responses_end_turn(talk);
    return STATUS_OK;
}

static enum status responses_put_instructions(const struct json_get *get,
                                              struct responses_talk *talk) {
    struct span text = {0};
    if (!json_get_member(get, "instructions"))
        return STATUS_OK;
    TRY(json_need_text(get, "instructions", &text));
    if (text.n > 0)
        responses_put_text_message("system", text.bytes, text.n, talk->out);
    return STATUS_OK;
}

enum status responses_put_messages(const struct json_get *get, struct buf *out) {
    struct responses_talk talk = {.out = out};
    size_t begin = out->n;
    chat_said_init(&talk.said);
    enum status status = responses_put_instructions(get, &talk);
    if (status == STATUS_OK)
        status = responses_put_input(get, &talk);
    chat_said_fini(&talk.said);
    if (status == STATUS_OK && !out->failed)
        out->data[begin] = '['; /* the first comma */
    buf_putc(out, ']');
    return status;
}
