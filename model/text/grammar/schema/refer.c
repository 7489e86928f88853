/* References of a schema (JSON Schema 2020-12, section 8.2): a part with an `$id` is a resource of its own, whose URI is resolved
 * against that of the part around it; `#...` is of the resource that the reference stands in. */
#include "model/text/grammar/schema/schema.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

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

/* --- URIs (RFC 3986, section 5.2) ------------------------------------------------------------ */

/* Bytes of "http:" and the like; 0: the reference is relative. */
static size_t scheme_of(const char *uri) {
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n > 0 && uri[n] == ':' ? n + 1 : 0;
}

/* Bytes of scheme and authority: "http://host". */
static size_t root_of(const char *uri) {
    size_t n = scheme_of(uri);
    return strncmp(uri + n, "//", 2) == 0 ? n + 2 + strcspn(uri + n + 2, "/") : n;
}

/* Takes "." and ".." out of the path that begins at `from`. */
static void remove_dots(struct buf *uri, size_t from) {
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
static void resolve(struct buf *uri, const char *base, const char *reference, size_t n) {
    size_t root = root_of(base);
    buf_clear(uri);
    if (scheme_of(reference) > 0) {
        buf_append(uri, reference, n);
        return;
    }
    if (n == 0)
        buf_puts(uri, base);
    else if (n > 1 && reference[0] == '/' && reference[1] == '/')
        buf_append(uri, base, scheme_of(base));
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
        remove_dots(uri, root_of(uri->data));
}

/* --- resources ------------------------------------------------------------------------------ */

/* Of a part that is a resource of its own: what its `$id` says, without a fragment; NULL: it is none. */
static const char *id_of(const json_t *part, size_t *n) {
    const char *id = json_string_value(json_object_get(part, "$id"));
    if (!id || id[0] == '#') /* a name, before draft 2019-09 */
        return NULL;
    *n = strcspn(id, "#");
    return id;
}

static bool is_data(const char *keyword) {
    return strcmp(keyword, "enum") == 0 || strcmp(keyword, "const") == 0;
}

/* A search through the parts of a schema, each with the URI of its resource. */
struct search {
    const struct schema *schema;
    const json_t *node;     /* looks for the resource that has this part, or else */
    const char *wanted;     /* for the one with this URI */
    const json_t *resource; /* the answer, NULL: none */
    struct buf uri;         /* its URI */
};

static bool search_from(struct search *search, const json_t *at, const json_t *resource,
                        const char *base) {
    if (!program_work(search->schema->program, 8))
        return false;
    const char *member;
    json_t *value;
    size_t n = 0;
    const char *id = json_is_object(at) ? id_of(at, &n) : NULL;
    struct buf own;
    bool found = false;
    buf_init(&own, 0);
    if (id) {
        resolve(&own, base, id, n);
        resource = at;
        base = own.data ? own.data : "";
    }
    if (search->node ? at == search->node : at == resource && strcmp(base, search->wanted) == 0) {
        search->resource = resource;
        buf_clear(&search->uri);
        buf_puts(&search->uri, base);
        found = true;
    }
    json_object_foreach((json_t *)(uintptr_t)at, member, value) {
        found = found || (!is_data(member) && search_from(search, value, resource, base));
    }
    for (size_t i = 0; json_is_array(at) && i < json_array_size(at); i++)
        found = found || search_from(search, json_array_get(at, i), resource, base);
    buf_fini(&own);
    return found;
}

/* Is the member `begin`, with the name behind it? */
static bool has_name(const json_t *part, const char *member, const char *begin, const char *name) {
    const char *own = json_string_value(json_object_get(part, member));
    size_t n = strlen(begin);
    return own && strncmp(own, begin, n) == 0 && strcmp(own + n, name) == 0;
}

/* The part of a resource that has a name; parts that are resources have names of their own. */
static const json_t *find_anchor(const struct schema *schema, const json_t *at, const char *name,
                                 bool is_first) {
    const json_t *found = NULL;
    if (!program_work(schema->program, 8))
        return NULL;
    const char *member;
    json_t *value;
    size_t n;
    if (json_is_object(at) && !is_first && id_of(at, &n))
        return NULL;
    if (has_name(at, "$anchor", "", name) || has_name(at, "$dynamicAnchor", "", name) ||
        has_name(at, "$id", "#", name))
        return at;
    json_object_foreach((json_t *)(uintptr_t)at, member, value) {
        if (!found && !is_data(member))
            found = find_anchor(schema, value, name, false);
    }
    for (size_t i = 0; json_is_array(at) && i < json_array_size(at) && !found; i++)
        found = find_anchor(schema, json_array_get(at, i), name, false);
    return found;
}

bool schema_has_parts(const json_t *at, bool is_root) {
    const char *member;
    json_t *value;
    size_t n;
    bool has = json_is_object(at) && !is_root && id_of(at, &n);
    json_object_foreach((json_t *)(uintptr_t)at, member, value) {
        has = has || (!is_data(member) && schema_has_parts(value, false));
    }
    for (size_t i = 0; json_is_array(at) && i < json_array_size(at); i++)
        has = has || schema_has_parts(json_array_get(at, i), false);
    return has;
}

/* The resource that a reference of `node` leads to, NULL: none of this schema. */
static const json_t *resource_of(const struct schema *schema, const json_t *node,
                                 const char *reference, size_t n_base) {
    struct search around = {.schema = schema, .node = node}, wanted = {.schema = schema};
    struct buf uri;
    if (!schema->has_parts && n_base == 0)
        return schema->root;
    buf_init(&around.uri, 0);
    buf_init(&wanted.uri, 0);
    buf_init(&uri, 0);
    if (!search_from(&around, schema->root, schema->root, ""))
        around.resource = schema->root; /* merged parts stand nowhere */
    const json_t *found = around.resource;
    if (n_base > 0) {
        resolve(&uri, around.uri.data ? around.uri.data : "", reference, n_base);
        wanted.wanted = uri.data ? uri.data : "";
        found = search_from(&wanted, schema->root, schema->root, "") ? wanted.resource : NULL;
    }
    buf_fini(&around.uri);
    buf_fini(&wanted.uri);
    buf_fini(&uri);
    return found;
}

enum status schema_follow(struct schema *schema, const json_t *node, const json_t **found) {
    const char *reference = json_string_value(json_object_get(node, "$ref"));
    *found = NULL;
    if (!reference)
        return schema_fail(schema, STATUS_INVALID, node, "$ref", "must be a string");
    const char *fragment = strchr(reference, '#');
    size_t n_base = strcspn(reference, "#");
    const json_t *resource = resource_of(schema, node, reference, n_base);
    fragment = fragment ? fragment + 1 : "";
    if (resource && *fragment && *fragment != '/')
        *found = find_anchor(schema, resource, fragment, true);
    else if (resource)
        *found = at_pointer(resource, fragment);
    if (*found)
        return STATUS_OK;
    TRY(program_status(schema->program, schema->error));
    if (!resource)
        return schema_cannot(schema, node, "$ref", "it leads out of this schema");
    return schema_fail(schema, STATUS_INVALID, node, "$ref", "there is no %.*s",
                       (int)strnlen(reference, 96), reference);
}
