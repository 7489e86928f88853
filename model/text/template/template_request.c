#include "model/text/template/template_request.h"

#include "base/json/json_get.h"
#include "model/text/template/template_absent.h"
#include "model/text/template/template_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `chat_template_kwargs` may not say again what has a field of its own, nor what the model's files
 * say: one of the two would be dropped in silence. */
static const char *const reserved[] = {
    "messages",      "tools",     "documents", "add_generation_prompt", "continue_final_message",
    "chat_template", "bos_token", "eos_token"};

static const char *const read_here[] = {"messages",
                                        "tools",
                                        "documents",
                                        "chat_template_kwargs",
                                        "add_generation_prompt",
                                        "continue_final_message",
                                        "enable_thinking",
                                        "reasoning_effort"};

bool template_request_reads(const char *name) {
    for (size_t i = 0; i < sizeof read_here / sizeof *read_here; i++)
        if (strcmp(read_here[i], name) == 0)
            return true;
    return false;
}

static enum status template_request_no_memory(const struct json_get *get) {
    return error_set(get->error, STATUS_NOMEM, "no memory for the messages");
}

static enum status template_request_read_part(const struct json_get *get, const json_t *part,
                                              size_t index, struct buf *text) {
    char parent[80];
    snprintf(parent, sizeof parent, "%s.content[%zu]", get->parent, index);
    struct json_get inner = {.object = part, .error = get->error, .parent = parent};
    struct span type = {0};
    struct span words = {0};
    if (!json_is_object(part))
        return json_get_fail(get, STATUS_INVALID, "content",
                             "must be a string or a list of parts; part %zu is not an object",
                             index);
    TRY(json_get_text(&inner, "type", TEMPLATE_NAME_MAX, &type));
    if (!span_is(type, "text"))
        return json_get_fail(get, STATUS_UNSUPPORTED, "content",
                             "has a part of type `%.*s`; only `text` is served", span_shown(type),
                             type.bytes ? type.bytes : "");
    TRY(json_get_text(&inner, "text", TEMPLATE_CONTENT_MAX, &words));
    if (!words.bytes)
        return json_get_fail(&inner, STATUS_INVALID, "text", "is missing");
    if (index > 0)
        buf_putc(text, '\n');
    buf_append(text, words.bytes, words.n);
    return STATUS_OK;
}

/* Parts as one text, with newlines between, as vLLM does for templates that take none. */
static enum status template_request_join_parts(const struct json_get *get, const json_t *parts,
                                               struct template_request *request,
                                               struct span *content) {
    enum status status = STATUS_OK;
    struct buf text;
    if (json_array_size(parts) > TEMPLATE_TOOLS_MAX)
        return json_get_fail(get, STATUS_INVALID, "content", "must have at most %u parts",
                             TEMPLATE_TOOLS_MAX);
    buf_init(&text, 0);
    for (size_t i = 0; i < json_array_size(parts) && status == STATUS_OK; i++)
        status = template_request_read_part(get, json_array_get(parts, i), i, &text);
    json_t *joined = NULL;
    if (status == STATUS_OK && buf_status(&text) == STATUS_OK)
        joined = json_stringn_nocheck(text.data ? text.data : "", text.n);
    if (status == STATUS_OK && json_array_append_new(request->made, joined) != 0)
        status = template_request_no_memory(get);
    buf_fini(&text);
    if (status == STATUS_OK)
        *content = (struct span){json_string_value(joined), json_string_length(joined)};
    return status;
}

static enum status template_request_read_content(const struct json_get *get, bool may_lack,
                                                 struct template_request *request,
                                                 struct span *content) {
    const json_t *member = json_get_member(get, "content");
    *content = SPAN("");
    if (!member && may_lack)
        return STATUS_OK;
    if (!member)
        return json_get_fail(get, STATUS_INVALID, "content", "is missing");
    if (json_is_array(member))
        return template_request_join_parts(get, member, request, content);
    if (!json_is_string(member))
        return json_get_fail(get, STATUS_INVALID, "content",
                             "must be a string or a list of text parts");
    return json_get_text(get, "content", TEMPLATE_CONTENT_MAX, content);
}

/* A list of objects, as templates expect of tools, documents and calls. */
static enum status template_request_read_objects(const struct json_get *get, const char *name,
                                                 const json_t **list) {
    TRY(json_get_array(get, name, TEMPLATE_TOOLS_MAX, list));
    for (size_t i = 0; i < json_array_size(*list); i++)
        if (!json_is_object(json_array_get(*list, i)))
            return json_get_fail(get, STATUS_INVALID, name,
                                 "must hold objects; entry %zu is something else", i);
    return STATUS_OK;
}

/* The list as templates see it, which the request owns where it differs. */
static enum status template_request_leave_out_absent(const struct json_get *get,
                                                     const json_t **list, bool of_messages,
                                                     struct template_request *request) {
    if (!*list)
        return STATUS_OK;
    json_t *fitting = template_leave_out_absent(*list, of_messages);
    if (!fitting || json_array_append_new(request->made, fitting) != 0)
        return template_request_no_memory(get);
    *list = fitting;
    return STATUS_OK;
}

/* Where all are left out, the template sees none. */
static enum status template_request_read_tools(const struct json_get *get,
                                               struct template_request *request) {
    const json_t **tools = &request->input.tools;
    TRY(template_request_read_objects(get, "tools", tools));
    TRY(template_request_leave_out_absent(get, tools, false, request));
    if (json_array_size(*tools) == 0)
        return STATUS_OK;
    json_t *fitting = template_fit_tools(*tools);
    if (!fitting || json_array_append_new(request->made, fitting) != 0)
        return template_request_no_memory(get);
    *tools = json_array_size(fitting) > 0 ? fitting : NULL;
    return STATUS_OK;
}

static enum status template_request_read_message(const struct json_get *get,
                                                 struct template_request *request,
                                                 struct template_message *message) {
    struct span role = {0};
    struct span ignored = {0};
    const json_t *calls = NULL;
    TRY(json_get_text(get, "role", TEMPLATE_NAME_MAX, &role));
    if (!role.bytes)
        return json_get_fail(get, STATUS_INVALID, "role", "is missing");
    if (template_role_parse(role, &message->role) != STATUS_OK)
        return json_get_fail(get, STATUS_INVALID, "role",
                             "must be system, developer, user, assistant or tool");
    TRY(json_get_text(get, "name", TEMPLATE_NAME_MAX, &message->name));
    TRY(json_get_text(get, "tool_call_id", TEMPLATE_NAME_MAX, &ignored));
    ignored = (struct span){0};
    TRY(json_get_text(get, "reasoning_content", TEMPLATE_CONTENT_MAX, &ignored));
    TRY(template_request_read_objects(get, "tool_calls", &calls));
    message->has_calls = json_array_size(calls) > 0;
    bool may_lack = message->role == TEMPLATE_ASSISTANT &&
                    (calls || ignored.bytes || json_is_string(json_get_member(get, "reasoning")));
    return template_request_read_content(get, may_lack, request, &message->content);
}

static enum status template_request_read_messages(const struct json_get *get,
                                                  struct template_request *request) {
    const json_t *list = NULL;
    TRY(json_get_array(get, "messages", TEMPLATE_MESSAGES_MAX, &list));
    size_t n = json_array_size(list);
    if (n == 0)
        return json_get_fail(get, STATUS_INVALID, "messages", "must have at least one entry");
    request->messages = calloc(n, sizeof *request->messages);
    request->made = json_array();
    if (!request->messages || !request->made)
        return template_request_no_memory(get);
    for (size_t i = 0; i < n; i++) {
        char parent[48];
        snprintf(parent, sizeof parent, "messages[%zu]", i);
        struct json_get inner = {
            .object = json_array_get(list, i), .error = get->error, .parent = parent};
        if (!json_is_object(inner.object))
            return error_field(get->error, STATUS_INVALID, "messages",
                               "`messages[%zu]` must be an object", i);
        if (json_object_size(inner.object) > TEMPLATE_MEMBERS_MAX)
            return error_field(get->error, STATUS_INVALID, "messages",
                               "`messages[%zu]` must have at most %u members", i,
                               TEMPLATE_MEMBERS_MAX);
        TRY(template_request_read_message(&inner, request, &request->messages[i]));
    }
    TRY(template_request_leave_out_absent(get, &list, true, request));
    json_t *fitting = template_fit_calls(list);
    if (!fitting || json_array_append_new(request->made, fitting) != 0)
        return template_request_no_memory(get);
    list = fitting;
    request->input.messages = request->messages;
    request->input.n_messages = n;
    request->input.json_messages = list;
    return STATUS_OK;
}

static enum status template_request_read_kwargs(const struct json_get *get,
                                                struct template_input *input) {
    struct json_get inner;
    TRY(json_get_object(get, "chat_template_kwargs", &inner));
    input->kwargs = inner.object;
    if (json_object_size(input->kwargs) > TEMPLATE_KWARGS_MAX)
        return json_get_fail(get, STATUS_INVALID, "chat_template_kwargs",
                             "must have at most %u members", TEMPLATE_KWARGS_MAX);
    for (size_t i = 0; input->kwargs && i < sizeof reserved / sizeof *reserved; i++)
        if (json_object_get(input->kwargs, reserved[i]))
            return json_get_fail(&inner, STATUS_INVALID, reserved[i],
                                 "cannot be set here; only further variables of the template can");
    return STATUS_OK;
}

/* A variable of its own name, as clients of other servers send it. */
static enum status template_request_read_thinking(const struct json_get *get,
                                                  struct template_input *input) {
    const json_t *other = json_object_get(input->kwargs, "enable_thinking");
    if (!json_get_member(get, "enable_thinking"))
        return STATUS_OK;
    TRY(json_get_bool(get, "enable_thinking", &input->enable_thinking));
    input->has_enable_thinking = true;
    if (other && !json_is_null(other) &&
        !json_equal(other, json_get_member(get, "enable_thinking")))
        return json_get_fail(get, STATUS_INVALID, "enable_thinking",
                             "says something else than `chat_template_kwargs.enable_thinking`: "
                             "leave one out");
    return STATUS_OK;
}

static enum status template_request_read_ending(const struct json_get *get, bool opens_answer,
                                                struct template_input *input) {
    TRY(json_get_bool(get, "continue_final_message", &input->continue_final_message));
    input->add_generation_prompt = opens_answer && !input->continue_final_message;
    TRY(json_get_bool(get, "add_generation_prompt", &input->add_generation_prompt));
    if (input->continue_final_message && input->add_generation_prompt)
        return json_get_fail(get, STATUS_INVALID, "continue_final_message",
                             "needs `add_generation_prompt`: false");
    const json_t *last = json_array_get(input->json_messages, input->n_messages - 1);
    const json_t *content = json_object_get(last, "content");
    if (input->continue_final_message && (!content || json_is_null(content)))
        return json_get_fail(get, STATUS_INVALID, "continue_final_message",
                             "needs a last message that has content");
    return STATUS_OK;
}

static enum status template_request_read_all(const struct json_get *get, bool opens_answer,
                                             struct template_request *request) {
    struct template_input *input = &request->input;
    TRY(template_request_read_messages(get, request));
    TRY(template_request_read_tools(get, request));
    TRY(template_request_read_objects(get, "documents", &input->documents));
    TRY(template_request_leave_out_absent(get, &input->documents, false, request));
    TRY(template_request_read_kwargs(get, input));
    TRY(template_request_read_thinking(get, input));
    TRY(json_get_text(get, "reasoning_effort", TEMPLATE_NAME_MAX, &input->reasoning_effort));
    return template_request_read_ending(get, opens_answer, input);
}

enum status template_request_read(const json_t *object, bool opens_answer,
                                  struct template_request *request, struct error *error) {
    struct json_get get = {.object = object, .error = error};
    struct template_request made = {0};
    if (!json_is_object(object))
        return error_set(error, STATUS_INVALID, "the request must be a JSON object");
    enum status status = template_request_read_all(&get, opens_answer, &made);
    if (status != STATUS_OK)
        template_request_fini(&made);
    else
        *request = made;
    return status;
}

void template_request_fini(struct template_request *request) {
    if (!request)
        return;
    free(request->messages);
    json_decref(request->made);
    *request = (struct template_request){0};
}
