/* References of a schema (JSON Schema 2020-12, section 8.2): a part with an `$id` is a resource of its own, whose URI is resolved
 * against that of the part around it; `#...` is of the resource that the reference stands in. All URIs and names are entered once,
 * while the parts are put in their order. */
#include "model/text/grammar/schema/schema.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

/* Undoes "%41" and "~0", "~1" of one token, in place. */
static void schema_ref_decode_token(char *token) {
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

static const json_t *schema_ref_at_pointer(const json_t *at, const char *pointer) {
    char *copy = strdup(pointer);
    char *rest = copy;
    if (copy && *copy == '/')
        rest++;
    char *token;
    while (copy && at && *pointer && (token = strsep(&rest, "/"))) {
        schema_ref_decode_token(token);
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

/* --- URIs (RFC 3986, section 5.2) ------------------------------------------------------------ */

/* Bytes of "http:" and the like; 0: the reference is relative. */
static size_t schema_ref_scheme_of(const char *uri) {
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n > 0 && uri[n] == ':' ? n + 1 : 0;
}

/* Bytes of scheme and authority: "http://host". */
static size_t schema_ref_root_of(const char *uri) {
    size_t n = schema_ref_scheme_of(uri);
    return strncmp(uri + n, "//", 2) == 0 ? n + 2 + strcspn(uri + n + 2, "/") : n;
}

/* Takes "." and ".." out of the path that begins at `from`. */
static void schema_ref_remove_dots(struct buf *uri, size_t from) {
    char *path = strndup(uri->data + from, uri->n - from), *rest = path, *segment;
    buf_truncate(uri, from);
    while (path && (segment = strsep(&rest, "/"))) {
        size_t n = uri->n;
        if (strcmp(segment, ".") == 0)
            continue;
        if (strcmp(segment, "..") == 0) {
            for (n -= n > from + 1; n > from && uri->data[n - 1] != '/';)
                n--;
            buf_truncate(uri, n);
            continue;
        }
        buf_puts(uri, segment);
        if (rest)
            buf_putc(uri, '/');
    }
    free(path);
}

/* *uri becomes what `reference` (n bytes, without a fragment) means at `base`; an empty one is the base. */
static void schema_ref_resolve(struct buf *uri, const char *base, const char *reference, size_t n) {
    size_t root = schema_ref_root_of(base);
    buf_clear(uri);
    if (schema_ref_scheme_of(reference) > 0) {
        buf_append(uri, reference, n);
        return;
    }
    if (n == 0)
        buf_puts(uri, base);
    else if (n > 1 && reference[0] == '/' && reference[1] == '/')
        buf_append(uri, base, schema_ref_scheme_of(base));
    else if (reference[0] == '/')
        buf_append(uri, base, root);
    else /* beside what the base's path ends with */
        for (size_t end = strlen(base); end > root || uri->n == 0; end--)
            if (end == root || base[end - 1] == '/') {
                buf_append(uri, base, end);
                break;
            }
    buf_append(uri, reference, n);
    if (n > 0 && buf_status(uri) == STATUS_OK)
        schema_ref_remove_dots(uri, schema_ref_root_of(uri->data));
}

/* --- resources ------------------------------------------------------------------------------ */

/* Of a part that is a resource of its own: what its `$id` says, without a fragment; NULL: it is none. */
static const char *schema_ref_id_of(const json_t *part, size_t *n) {
    const char *id = json_string_value(json_object_get(part, "$id"));
    if (!id || id[0] == '#') /* a name, before draft 2019-09 */
        return NULL;
    *n = strcspn(id, "#");
    return id;
}

/* The key of a name there, made of the URI; NULL: no memory. */
static const char *schema_ref_key_of(struct buf *uri, const char *name) {
    buf_putc(uri, '#');
    buf_puts(uri, name);
    return buf_status(uri) == STATUS_OK ? uri->data : NULL;
}

/* The first part of a URI or name keeps it. */
static void schema_ref_enter(struct schema *schema, const char *key, const json_t *part) {
    json_t *value = (json_t *)(uintptr_t)part;
    if (!key || (!json_object_get(schema->targets, key) &&
                 json_object_set_nocheck(schema->targets, key, value) != 0))
        program_fail(schema->program, STATUS_NOMEM, "memory");
}

static void schema_ref_enter_name(struct schema *schema, const struct resource *resource,
                                  const char *name, const json_t *part) {
    struct buf uri;
    if (!name || !program_work(schema->program, strlen(resource->uri) + strlen(name)))
        return;
    buf_init(&uri, 0);
    buf_puts(&uri, resource->uri);
    schema_ref_enter(schema, schema_ref_key_of(&uri, name), part);
    buf_fini(&uri);
}

static bool schema_ref_grow(struct schema *schema) {
    uint32_t n = schema->n_resources;
    if ((n & (n - 1)) != 0) /* sizes are powers of two */
        return true;
    struct resource *grown = realloc(schema->resources, (n ? 2 * n : 1) * sizeof *grown);
    schema->resources = grown ? grown : schema->resources;
    return grown;
}

/* A part whose `$id` is `id` (n bytes), below a resource of the URI `base`. */
static void schema_ref_enter_resource(struct schema *schema, const json_t *part, const char *base,
                                      const char *id, size_t n) {
    struct buf uri;
    if (!program_work(schema->program, strlen(base) + n))
        return;
    buf_init(&uri, 0);
    schema_ref_resolve(&uri, base, id, n);
    const char *kept = buf_status(&uri) == STATUS_OK
                           ? arena_copy(&schema->arena, uri.data ? uri.data : "", uri.n)
                           : NULL;
    buf_fini(&uri);
    if (!kept || !schema_ref_grow(schema)) {
        program_fail(schema->program, STATUS_NOMEM, "memory");
        return;
    }
    schema->resources[schema->n_resources++] = (struct resource){.part = part, .uri = kept};
    schema_ref_enter(schema, kept, part);
}

/* Answers the resource that the part stands in, or is. The program keeps a failure. */
static uint32_t schema_ref_enter_part(struct schema *schema, const json_t *part, uint32_t around) {
    size_t n = 0;
    const char *id = schema_ref_id_of(part, &n),
               *plain = json_string_value(json_object_get(part, "$id"));
    uint32_t own = around;
    if (id || schema->n_resources == 0) {
        own = schema->n_resources;
        schema_ref_enter_resource(schema, part, own > 0 ? schema->resources[around].uri : "",
                                  id ? id : "", n);
    }
    if (!program_ok(schema->program))
        return around;
    const struct resource *resource = &schema->resources[own];
    schema_ref_enter_name(schema, resource, json_string_value(json_object_get(part, "$anchor")),
                          part);
    schema_ref_enter_name(schema, resource,
                          json_string_value(json_object_get(part, "$dynamicAnchor")), part);
    schema_ref_enter_name(schema, resource, plain && plain[0] == '#' ? plain + 1 : NULL, part);
    return own;
}

static bool schema_ref_is_data(const char *keyword) {
    return strcmp(keyword, "enum") == 0 || strcmp(keyword, "const") == 0;
}

/* Objects within data are no parts: they have no names, and are of the resource around. */
static void schema_ref_enter_all(struct schema *schema, const json_t *at, uint32_t resource,
                                 bool in_data, uint32_t *next) {
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(at)) {
        resource = in_data ? resource : schema_ref_enter_part(schema, at, resource);
        schema_put(schema, at, (*next)++, resource);
        json_object_foreach((json_t *)(uintptr_t)at, key, value)
            schema_ref_enter_all(schema, value, resource, in_data || schema_ref_is_data(key), next);
    } else if (json_is_array(at)) {
        json_array_foreach(at, i, value)
            schema_ref_enter_all(schema, value, resource, in_data, next);
    }
}

enum status schema_enter(struct schema *schema) {
    uint32_t next = 0;
    TRY(schema_order(schema));
    schema->targets = json_object();
    if (!schema->targets)
        return error_set(schema->error, STATUS_NOMEM, "out of memory");
    schema_ref_enter_all(schema, schema->root, 0, false, &next);
    return program_status(schema->program, schema->error);
}

/* What a reference of a part in `resource` names; *leaves: it points outside this schema. */
static const json_t *schema_ref_target_of(const struct schema *schema,
                                          const struct resource *resource, const char *reference,
                                          bool *leaves) {
    size_t n_base = strcspn(reference, "#");
    const char *fragment = reference + n_base + (reference[n_base] == '#');
    bool is_name = *fragment && *fragment != '/';
    const json_t *found = resource->part;
    struct buf uri;
    *leaves = false;
    if (n_base == 0 && !is_name)
        return program_work(schema->program, 8) ? schema_ref_at_pointer(found, fragment) : NULL;
    if (!program_work(schema->program, 8 + strlen(resource->uri) + strlen(reference)))
        return NULL;
    buf_init(&uri, 0);
    schema_ref_resolve(&uri, resource->uri, reference, n_base);
    if (n_base > 0)
        found = json_object_get(schema->targets, uri.data ? uri.data : "");
    *leaves = !found;
    if (is_name && found)
        found = json_object_get(schema->targets, schema_ref_key_of(&uri, fragment));
    else if (found)
        found = schema_ref_at_pointer(found, fragment);
    if (buf_status(&uri) != STATUS_OK)
        program_fail(schema->program, STATUS_NOMEM, "memory");
    buf_fini(&uri);
    return found;
}

enum status schema_follow(struct schema *schema, const json_t *node, const json_t **found) {
    const char *reference = json_string_value(json_object_get(node, "$ref"));
    bool leaves;
    *found = NULL;
    if (!reference)
        return schema_fail(schema, STATUS_INVALID, node, "$ref", "must be a string");
    *found = schema_ref_target_of(schema, &schema->resources[schema_resource(schema, node)],
                                  reference, &leaves);
    if (*found)
        return STATUS_OK;
    TRY(program_status(schema->program, schema->error));
    if (leaves)
        return schema_cannot(schema, node, "$ref", "it points outside this schema");
    return schema_fail(schema, STATUS_INVALID, node, "$ref", "there is no %.*s",
                       (int)strnlen(reference, 96), reference);
}
