/* Where a node of a schema is, for errors. */
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/schema/schema.h"

#include "base/buf.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A reference token of a JSON pointer (RFC 6901). */
static void schema_path_put_token(struct buf *path, const char *key) {
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
static bool schema_find_path(const json_t *at, const json_t *node, struct buf *path) {
    size_t n = path->n;
    if (at == node)
        return true;
    if (json_is_object(at)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)at, key, value) {
            schema_path_put_token(path, key);
            if (schema_find_path(value, node, path))
                return true;
            buf_truncate(path, n);
        }
    }
    for (size_t i = 0; json_is_array(at) && i < json_array_size(at); i++) {
        buf_printf(path, "/%zu", i);
        if (schema_find_path(json_array_get(at, i), node, path))
            return true;
        buf_truncate(path, n);
    }
    return false;
}

/* "/properties/a", or "(root)". */
static void schema_path_of(const struct schema *schema, const json_t *node, const char *keyword,
                           struct buf *path) {
    buf_init(path, 0);
    if (node)
        schema_find_path(schema->root, node, path);
    if (keyword)
        schema_path_put_token(path, keyword);
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
    schema_path_of(schema, node, keyword, &path);
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
    schema_path_of(schema, node, keyword, &path);
    *row = (struct grammar_unenforced){.keyword = keyword, .n = 1};
    snprintf(row->path, sizeof row->path, "%s", path.data ? path.data : "");
    buf_fini(&path);
    return STATUS_OK;
}
