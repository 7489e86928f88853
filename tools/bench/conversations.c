#include "tools/bench/conversations.h"

#include "base/json/json_read.h"

#include <stdlib.h>
#include <string.h>

struct conversations_found {
    char **texts; /* owned (size), n of them */
    uint32_t n, size;
};

static bool conversations_is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

bool conversations_begin(struct span text) {
    size_t i = 0;
    while (i < text.n && conversations_is_blank(text.bytes[i]))
        i++;
    return i < text.n && (text.bytes[i] == '[' || text.bytes[i] == '{');
}

/* The member of either name. */
static const json_t *conversations_either_member(const json_t *object, const char *name,
                                                 const char *other) {
    const json_t *value = json_object_get(object, name);
    return value ? value : json_object_get(object, other);
}

static bool conversations_is_system(const json_t *turn) {
    const char *role = json_string_value(conversations_either_member(turn, "from", "role"));
    return role && strcmp(role, "system") == 0;
}

/* NULL: none, or it has no word, or a NUL. */
static const char *conversations_text_of(const json_t *turn) {
    const json_t *value = conversations_either_member(turn, "value", "content");
    for (size_t i = 0, n = json_array_size(value); i < n; i++)
        if (json_object_get(json_array_get(value, i), "text")) {
            value = json_object_get(json_array_get(value, i), "text");
            break;
        }
    const char *text = json_string_value(value);
    if (!text || strlen(text) != json_string_length(value))
        return NULL;
    return text[strspn(text, " \t\r\n")] ? text : NULL;
}

static enum status conversations_add(struct conversations_found *found, const char *text) {
    if (found->n == found->size) {
        uint32_t size = found->size ? 2 * found->size : 256;
        char **grown = size > found->size ? realloc(found->texts, size * sizeof *grown) : NULL;
        if (!grown)
            return STATUS_NOMEM;
        found->texts = grown;
        found->size = size;
    }
    found->texts[found->n] = strdup(text);
    if (!found->texts[found->n])
        return STATUS_NOMEM;
    found->n++;
    return STATUS_OK;
}

static enum status conversations_add_conversation(struct conversations_found *found,
                                                  const json_t *conversation) {
    const json_t *turns =
        json_is_array(conversation)
            ? conversation
            : conversations_either_member(conversation, "conversations", "messages");
    size_t n = json_array_size(turns), first = 0;
    while (first < n && conversations_is_system(json_array_get(turns, first)))
        first++;
    const char *text = n - first >= 2 ? conversations_text_of(json_array_get(turns, first)) : NULL;
    return text ? conversations_add(found, text) : STATUS_OK;
}

/* A list of conversations, or one. */
static enum status conversations_add_all(struct conversations_found *found, const json_t *root) {
    enum status status =
        json_is_object(root) ? conversations_add_conversation(found, root) : STATUS_OK;
    for (size_t i = 0, n = json_array_size(root); i < n && status == STATUS_OK; i++)
        status = conversations_add_conversation(found, json_array_get(root, i));
    return status;
}

static enum status conversations_fail_at(const char *path, int line, const json_error_t *wrong,
                                         struct error *error) {
    return error_set(error, STATUS_CORRUPT,
                     "%s: line %d, column %d: %s (what begins with [ or { is read as JSON)", path,
                     line, wrong->column, wrong->text);
}

/* A conversation a line. `whole` is what is wrong with the text as one value, which is told where its first line is none either. */
static enum status conversations_add_lines(struct conversations_found *found, const char *path,
                                           struct span text, const json_error_t *whole,
                                           struct error *error) {
    const char *at = text.bytes, *end = at + text.n;
    bool is_first = true;
    for (int number = 1; at < end; number++) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        struct span line = {at, (size_t)((eol ? eol : end) - at)};
        size_t n_blank = 0;
        json_error_t wrong;
        at = eol ? eol + 1 : end;
        while (n_blank < line.n && conversations_is_blank(line.bytes[n_blank]))
            n_blank++;
        if (n_blank == line.n)
            continue;
        json_t *root = json_read(line.bytes, line.n, JSON_ALLOW_NUL, &wrong);
        if (!root)
            return is_first ? conversations_fail_at(path, whole->line, whole, error)
                            : conversations_fail_at(path, number, &wrong, error);
        is_first = false;
        enum status status = conversations_add_conversation(found, root);
        json_decref(root);
        if (status != STATUS_OK)
            return error_set(error, status, "%s: out of memory", path);
    }
    return STATUS_OK;
}

static enum status conversations_read_all(struct conversations_found *found, const char *path,
                                          struct span text, struct error *error) {
    json_error_t wrong;
    json_t *root = json_read(text.bytes, text.n, JSON_ALLOW_NUL, &wrong);
    if (!root)
        return conversations_add_lines(found, path, text, &wrong, error);
    enum status status = conversations_add_all(found, root);
    json_decref(root);
    return status == STATUS_OK ? status : error_set(error, status, "%s: out of memory", path);
}

enum status conversations_read(const char *path, struct span text, char ***texts, uint32_t *n_texts,
                               struct error *error) {
    struct conversations_found found = {0};
    enum status status = conversations_read_all(&found, path, text, error);
    if (status == STATUS_OK && found.n == 0)
        status = error_set(error, STATUS_INVALID,
                           "%s: no conversation with two turns: looked for \"conversations\" or "
                           "\"messages\" with \"value\" or \"content\"",
                           path);
    if (status == STATUS_OK) {
        *texts = found.texts;
        *n_texts = found.n;
        return status;
    }
    for (uint32_t i = 0; i < found.n; i++)
        free(found.texts[i]);
    free(found.texts);
    return status;
}
