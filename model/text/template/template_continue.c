#include "model/text/template/template_continue.h"

#include "base/buf.h"
#include "model/text/template/jinja/value/jinja_text.h"

#include <string.h>

/* transformers' own, to the byte: there are templates that look for it. */
static const struct span tag = SPAN("CONTINUE_FINAL_MESSAGE_TAG ");

/* The part whose text is continued, and its number; NULL when none has one. */
static const json_t *template_last_part(const json_t *parts, size_t *index) {
    for (size_t i = json_array_size(parts); i > 0; i--) {
        const json_t *part = json_array_get(parts, i - 1);
        if (json_is_string(json_object_get(part, "text"))) {
            *index = i - 1;
            return part;
        }
    }
    return NULL;
}

static struct span template_message_text(const json_t *message) {
    const json_t *content = json_object_get(message, "content");
    size_t index;
    if (json_is_array(content)) {
        const json_t *part = template_last_part(content, &index);
        content = part ? json_object_get(part, "text") : NULL;
    }
    return (struct span){json_string_value(content), json_string_length(content)};
}

/* NULL when memory is short. */
static json_t *template_tagged_message(struct span text) {
    struct buf whole;
    buf_init(&whole, 0);
    buf_append(&whole, text.bytes, text.n);
    buf_append(&whole, tag.bytes, tag.n);
    json_t *made =
        buf_status(&whole) == STATUS_OK ? json_stringn_nocheck(whole.data, whole.n) : NULL;
    buf_fini(&whole);
    return made;
}

/* A copy of the object with another value of one member, which is taken over. */
static json_t *template_message_with(const json_t *object, const char *name, json_t *value) {
    json_t *copy = json_copy((json_t *)(uintptr_t)object);
    if (!copy || json_object_set_new(copy, name, value) != 0) {
        if (!copy)
            json_decref(value);
        json_decref(copy);
        return NULL;
    }
    return copy;
}

enum status template_continue_mark(const json_t *message, json_t **marked, struct error *error) {
    struct span text = template_message_text(message);
    const json_t *content = json_object_get(message, "content");
    size_t index;
    if (!text.bytes)
        return error_field(error, STATUS_INVALID, "continue_final_message",
                           "the last message has no text to continue");
    json_t *value = template_tagged_message(text);
    if (value && json_is_array(content)) {
        json_t *part = template_message_with(template_last_part(content, &index), "text", value);
        value = json_copy((json_t *)(uintptr_t)content);
        if (!value || json_array_set_new(value, index, part) != 0) {
            if (!value)
                json_decref(part);
            json_decref(value);
            value = NULL;
        }
    }
    json_t *made = value ? template_message_with(message, "content", value) : NULL;
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for the messages");
    *marked = made;
    return STATUS_OK;
}

/* Where `part` begins for the last time, or SIZE_MAX. */
static size_t template_find_last(const char *bytes, size_t n, struct span part) {
    for (size_t at = n >= part.n ? n - part.n + 1 : 0; at > 0; at--)
        if (memcmp(bytes + at - 1, part.bytes, part.n) == 0)
            return at - 1;
    return SIZE_MAX;
}

static void template_cut_continued_text(struct jinja_output *output, size_t n) {
    while (output->n_marks > 0 &&
           (output->n_marks > 1 ? output->marks[output->n_marks - 2].end : 0) >= n)
        output->n_marks--;
    if (output->n_marks > 0)
        output->marks[output->n_marks - 1].end = n;
    output->bytes[n] = 0;
    output->n = n;
}

enum status template_continue_cut(const json_t *message, struct jinja_output *output,
                                  struct error *error) {
    struct span text = template_message_text(message);
    size_t begin = jinja_skip_space(text.bytes, text.n, 0);
    struct span word = {tag.bytes, tag.n - 1};
    size_t at = template_find_last(output->bytes, output->n, word);
    text = (struct span){text.bytes + begin, jinja_trim_space(text.bytes, text.n)};
    text.n = text.n > begin ? text.n - begin : 0;
    if (at == SIZE_MAX || !memmem(output->bytes, output->n, text.bytes, text.n))
        return error_field(error, STATUS_INVALID, "continue_final_message",
                           "the model's chat template changes the last message's text, so that it "
                           "cannot be continued");
    bool is_whole = output->n - at >= tag.n && memcmp(output->bytes + at, tag.bytes, tag.n) == 0;
    template_cut_continued_text(output, is_whole ? at : jinja_trim_space(output->bytes, at));
    return STATUS_OK;
}
