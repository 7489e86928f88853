/* Where a node of a schema is: paths in errors, references. */
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/schema/schema.h"

#include "base/buf.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A reference token of a JSON pointer (RFC 6901). */
static void put_token(struct buf *path, const char *key) {
    buf_putc(path, '/');
    for (; *key; key++) {
        if (*key == '~')
            buf_puts(path, "~0");
        else if (*key == '/')
            buf_puts(path, "~1");
        else
            buf_putc(path, *key);
    }
}

/* Appends the way from `at` to `node`; false: it is not below. */
static bool find_path(const json_t *at, const json_t *node, struct buf *path) {
    size_t n = path->n;
    if (at == node)
        return true;
    if (json_is_object(at)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)at, key, value) {
            put_token(path, key);
            if (find_path(value, node, path))
                return true;
            buf_truncate(path, n);
        }
    }
    for (size_t i = 0; json_is_array(at) && i < json_array_size(at); i++) {
        buf_printf(path, "/%zu", i);
        if (find_path(json_array_get(at, i), node, path))
            return true;
        buf_truncate(path, n);
    }
    return false;
}

/* "/properties/a", or "(root)". */
static void path_of(const struct schema *schema, const json_t *node, const char *keyword,
                    struct buf *path) {
    buf_init(path, 0);
    if (node)
        find_path(schema->root, node, path);
    if (keyword)
        put_token(path, keyword);
    if (path->n == 0)
        buf_puts(path, "(root)");
}

enum status schema_fail(struct schema *schema, enum status status, const json_t *node,
                        const char *keyword, const char *format, ...) {
    struct buf path;
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    path_of(schema, node, keyword, &path);
    error_set(schema->error, status, "schema %s: %s", path.data ? path.data : "", what);
    buf_fini(&path);
    return status;
}

enum status schema_cannot(struct schema *schema, const json_t *node, const char *keyword,
                          const char *why) {
    struct compile *compile = schema->compile;
    if (!schema->lenient)
        return schema_fail(schema, STATUS_UNSUPPORTED, node, keyword, "%s cannot be kept: %s",
                           keyword, why);
    for (uint32_t i = 0; i < compile->n_unenforced; i++)
        if (strcmp(compile->unenforced[i].keyword, keyword) == 0) {
            compile->unenforced[i].n++;
            return STATUS_OK;
        }
    struct grammar_unenforced *grown =
        realloc(compile->unenforced, (compile->n_unenforced + 1) * sizeof *grown);
    if (!grown)
        return error_set(schema->error, STATUS_NOMEM, "out of memory");
    compile->unenforced = grown;
    struct grammar_unenforced *row = &grown[compile->n_unenforced++];
    struct buf path;
    path_of(schema, node, keyword, &path);
    *row = (struct grammar_unenforced){.keyword = keyword, .n = 1};
    snprintf(row->path, sizeof row->path, "%s", path.data ? path.data : "");
    buf_fini(&path);
    return STATUS_OK;
}

/* Undoes "%41" and "~0", "~1" of one token, in place. */
static void decode_token(char *token) {
    char *out = token;
    for (const char *in = token; *in; in++) {
        unsigned byte;
        if (in[0] == '%' && in[1] && in[2] && sscanf(in + 1, "%2x", &byte) == 1) {
            *out++ = (char)byte;
            in += 2;
        } else if (in[0] == '~' && (in[1] == '0' || in[1] == '1')) {
            *out++ = in[1] == '0' ? '~' : '/';
            in++;
        } else {
            *out++ = *in;
        }
    }
    *out = 0;
}

static const json_t *at_pointer(const json_t *at, const char *pointer) {
    char *copy = strdup(pointer);
    char *rest = copy;
    if (copy && *copy == '/')
        rest++;
    char *token;
    while (copy && at && *pointer && (token = strsep(&rest, "/"))) {
        decode_token(token);
        if (json_is_object(at)) {
            at = json_object_get(at, token);
        } else if (json_is_array(at)) {
            char *end;
            unsigned long i = strtoul(token, &end, 10);
            at = *token && !*end ? json_array_get(at, i) : NULL;
        } else {
            at = NULL;
        }
    }
    free(copy);
    return copy ? at : NULL;
}

/* The first node, in the order of the document, whose member `key` is `name`. */
static const json_t *find_named(const json_t *at, const char *key, const char *name) {
    const json_t *found = NULL;
    if (json_is_object(at)) {
        const char *own = json_string_value(json_object_get(at, key));
        const char *member;
        json_t *value;
        if (own && strcmp(own, name) == 0)
            return at;
        json_object_foreach((json_t *)(uintptr_t)at, member, value) {
            found = strcmp(member, "enum") == 0 || strcmp(member, "const") == 0
                        ? NULL
                        : find_named(value, key, name);
            if (found)
                return found;
        }
    }
    for (size_t i = 0; json_is_array(at) && i < json_array_size(at) && !found; i++)
        found = find_named(json_array_get(at, i), key, name);
    return found;
}

enum status schema_follow(struct schema *schema, const json_t *node, const json_t **found) {
    const char *reference = json_string_value(json_object_get(node, "$ref"));
    *found = NULL;
    if (!reference)
        return schema_fail(schema, STATUS_INVALID, node, "$ref", "must be a string");
    const char *own = json_string_value(json_object_get(schema->root, "$id"));
    const json_t *base = schema->root;
    const char *fragment = strchr(reference, '#');
    size_t n_base = fragment ? (size_t)(fragment - reference) : strlen(reference);
    bool is_own =
        n_base == 0 || (own && strlen(own) == n_base && strncmp(own, reference, n_base) == 0);
    if (!is_own) {
        char *id = strndup(reference, n_base);
        base = id ? find_named(schema->root, "$id", id) : NULL;
        free(id);
    }
    fragment = fragment ? fragment + 1 : "";
    if (base && *fragment && *fragment != '/')
        *found = find_named(base, "$anchor", fragment);
    else if (base)
        *found = at_pointer(base, fragment);
    if (*found)
        return STATUS_OK;
    if (!base)
        return schema_cannot(schema, node, "$ref", "it leads out of this schema");
    return schema_fail(schema, STATUS_INVALID, node, "$ref", "there is no %.*s",
                       (int)strnlen(reference, 96), reference);
}
