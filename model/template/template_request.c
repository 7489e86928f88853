#include "model/template/template_request.h"

#include <stdlib.h>
#include <string.h>

static struct span text_of(const json_t *value) {
    return (struct span){json_string_value(value), json_string_length(value)};
}

/* Parts put together, for formats that know text alone. The template itself sees the parts. */
static enum status join_parts(const json_t *parts, struct template_request *request,
                              struct span *content, struct error *error) {
    struct buf text;
    enum status status = STATUS_OK;
    buf_init(&text, 0);
    for (size_t i = 0; i < json_array_size(parts) && status == STATUS_OK; i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *type = json_object_get(part, "type");
        const json_t *words = json_object_get(part, "text");
        if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0)
            status = error_field(error, STATUS_UNSUPPORTED, "content",
                                 "parts of a message other than text are not supported");
        else if (!json_is_string(words))
            status = error_field(error, STATUS_INVALID, "content", "a part's text is no string");
        else
            buf_append(&text, json_string_value(words), json_string_length(words));
    }
    if (status == STATUS_OK &&
        (buf_status(&text) != STATUS_OK ||
         json_array_append_new(request->texts, json_stringn(text.data ? text.data : "", text.n)) !=
             0))
        status = error_set(error, STATUS_NOMEM, "no memory for the messages");
    buf_fini(&text);
    if (status == STATUS_OK)
        *content = text_of(json_array_get(request->texts, json_array_size(request->texts) - 1));
    return status;
}

static enum status read_message(const json_t *value, struct template_request *request,
                                struct template_message *message, struct error *error) {
    const json_t *role = json_object_get(value, "role");
    const json_t *content = json_object_get(value, "content");
    const json_t *name = json_object_get(value, "name");
    bool may_be_empty = json_array_size(json_object_get(value, "tool_calls")) > 0 ||
                        json_is_string(json_object_get(value, "reasoning_content"));
    if (!json_is_string(role))
        return error_field(error, STATUS_INVALID, "messages", "a message needs a role");
    if (template_role_parse(text_of(role), &message->role) != STATUS_OK)
        return error_field(error, STATUS_INVALID, "role", "the role \"%.*s\" is not known",
                           span_shown(text_of(role)), json_string_value(role));
    message->name = json_is_string(name) ? text_of(name) : (struct span){0};
    message->content = SPAN("");
    if (json_is_array(content))
        return join_parts(content, request, &message->content, error);
    if (json_is_string(content))
        message->content = text_of(content);
    else if (!may_be_empty || (content && !json_is_null(content)))
        return error_field(error, STATUS_INVALID, "messages", "a message needs content");
    return STATUS_OK;
}

static enum status read_messages(json_t *list, struct template_request *request,
                                 struct error *error) {
    size_t n = json_array_size(list);
    if (n > TEMPLATE_MESSAGES_MAX)
        return error_field(error, STATUS_LIMIT, "messages", "%zu messages, at most %u are taken", n,
                           TEMPLATE_MESSAGES_MAX);
    if (n == 0)
        return error_field(error, STATUS_INVALID, "messages", "there is no message");
    request->messages = calloc(n, sizeof *request->messages);
    request->texts = json_array();
    if (!request->messages || !request->texts)
        return error_set(error, STATUS_NOMEM, "no memory for the messages");
    for (size_t i = 0; i < n; i++)
        TRY(read_message(json_array_get(list, i), request, &request->messages[i], error));
    request->input.messages = request->messages;
    request->input.n_messages = n;
    request->input.json_messages = list;
    return STATUS_OK;
}

static enum status wrong(const char *key, struct error *error) {
    return error_field(error, STATUS_INVALID, key, "%s has the wrong kind of value", key);
}

/* What changes a prompt but is not rendered must not be dropped in silence. */
static enum status read_field(const char *key, json_t *value, struct template_input *input,
                              struct error *error) {
    bool is_tools = strcmp(key, "tools") == 0;
    if (strcmp(key, "messages") == 0 || json_is_null(value))
        return STATUS_OK;
    if (is_tools || strcmp(key, "documents") == 0) {
        if (!json_is_array(value))
            return wrong(key, error);
        *(is_tools ? &input->tools : &input->documents) = value;
    } else if (strcmp(key, "chat_template_kwargs") == 0) {
        if (!json_is_object(value))
            return wrong(key, error);
        input->kwargs = value;
    } else if (strcmp(key, "add_generation_prompt") == 0) {
        if (!json_is_boolean(value))
            return wrong(key, error);
        input->add_generation_prompt = json_is_true(value);
    } else if (strcmp(key, "bos_token") == 0 || strcmp(key, "eos_token") == 0) {
        if (!json_is_string(value))
            return wrong(key, error);
        *(key[0] == 'b' ? &input->bos : &input->eos) = text_of(value);
    } else {
        return error_field(error, STATUS_UNSUPPORTED, key, "%s is not supported here", key);
    }
    return STATUS_OK;
}

static enum status fill(json_t *object, struct template_request *request, struct error *error) {
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return error_set(error, STATUS_INVALID, "a request is an object");
    json_object_foreach(object, key, value) {
        TRY(read_field(key, value, &request->input, error));
    }
    return read_messages(json_object_get(object, "messages"), request, error);
}

enum status template_request_read(json_t *object, struct template_request *request,
                                  struct error *error) {
    struct template_request made = {0};
    enum status status = fill(object, &made, error);
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
    json_decref(request->texts);
    *request = (struct template_request){0};
}
