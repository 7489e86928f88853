#include "router/api/json_tree.h"

#include "base/json/json_get.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLAB_BYTES_MIN 8192u
#define SLAB_BYTES_MAX (1u << 20)
#define LARGE_BYTES    65536u /* a run of its own, given back when it is freed: it grows by copies */

/* The least that jansson 2.14 takes for a value, by its structs. */
#define ARRAY_COST  104u /* json_array_t and its first eight entries */
#define OBJECT_COST 200u /* json_object_t and its first eight buckets */
#define STRING_COST 40u
#define NUMBER_COST 24u
#define SLOT_COST   8u /* the pointer of the object or list that holds the value */

struct slab {
    struct slab *older, *newer;
    size_t size, used;
    _Alignas(16) unsigned char bytes[];
};

struct json_tree {
    struct slab *slab;  /* owned: small values; newest first */
    struct slab *large; /* owned: one allocation each; newest first */
    size_t n_bytes;     /* charged */
    bool too_large;     /* by itself */
    bool crowded;       /* with the others */
    bool no_memory;     /* of the system: the first of these three that came is the reason */
};

static size_t bytes_max = JSON_TREES_BYTES_DEFAULT; /* set before there are threads */
static atomic_size_t bytes_used;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct json_tree *current; /* that jansson works on, on this thread */

static bool json_tree_charge(struct json_tree *tree, size_t n) {
    if (tree->too_large || tree->crowded || tree->no_memory)
        return false; /* jansson may go on for a while */
    if (n > bytes_max - tree->n_bytes) {
        tree->too_large = true;
        return false;
    }
    if (atomic_fetch_add(&bytes_used, n) + n > bytes_max) {
        atomic_fetch_sub(&bytes_used, n);
        tree->crowded = true;
        return false;
    }
    tree->n_bytes += n;
    return true;
}

static void json_tree_give_back(struct json_tree *tree, size_t n) {
    atomic_fetch_sub(&bytes_used, n);
    tree->n_bytes -= n;
}

static struct slab *json_tree_add_slab(struct json_tree *tree, struct slab **list, size_t size) {
    if (!json_tree_charge(tree, size))
        return NULL;
    struct slab *slab = malloc(sizeof *slab + size);
    if (!slab) {
        tree->no_memory = true;
        return NULL; /* what was charged goes with the tree */
    }
    *slab = (struct slab){.older = *list, .size = size};
    if (*list)
        (*list)->newer = slab;
    *list = slab;
    return slab;
}

static void *json_tree_allocate(size_t size) {
    struct json_tree *tree = current;
    if (!tree)
        return malloc(size);
    if (size >= LARGE_BYTES) {
        struct slab *large = json_tree_add_slab(tree, &tree->large, size);
        return large ? large->bytes : NULL;
    }
    size = (size + 7) & ~(size_t)7; /* nothing of jansson's needs more */
    struct slab *slab = tree->slab;
    if (!slab || slab->size - slab->used < size) {
        size_t next = slab ? slab->size * 2 : SLAB_BYTES_MIN;
        next = next > SLAB_BYTES_MAX ? SLAB_BYTES_MAX : next;
        slab = json_tree_add_slab(tree, &tree->slab, next < size ? size : next);
        if (!slab)
            return NULL;
    }
    void *at = slab->bytes + slab->used;
    slab->used += size;
    return at;
}

/* Small ones wait for the end of their tree. */
static void json_tree_release(void *at) {
    struct json_tree *tree = current;
    if (!tree) {
        free(at);
        return;
    }
    const unsigned char *bytes = at;
    if (tree->slab && bytes >= tree->slab->bytes && bytes < tree->slab->bytes + tree->slab->size)
        return;
    for (struct slab *large = tree->large; large; large = large->older) {
        if (large->bytes != bytes)
            continue;
        if (large->older)
            large->older->newer = large->newer;
        *(large->newer ? &large->newer->older : &tree->large) = large->older;
        json_tree_give_back(tree, large->size);
        free(large);
        return;
    }
}

static void json_tree_install(void) {
    json_set_alloc_funcs(json_tree_allocate, json_tree_release);
}

void json_tree_init(size_t max) {
    bytes_max = max;
    pthread_once(&once, json_tree_install);
}

/* The least that the text's tree takes, without parsing: of a text that is not JSON it says
 * nothing, and the parser will. */
static size_t json_tree_least_cost(const char *bytes, size_t n) {
    size_t cost = 0;
    bool at_value = true; /* behind one of "[:," */
    for (size_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            continue;
        if (c == '"') {
            const char *end = bytes + i + 1;
            for (; end < bytes + n && *end != '"'; end++)
                end += *end == '\\';
            i = (size_t)(end - bytes);
            cost += STRING_COST;
        } else if (c == '[' || c == '{') {
            cost += c == '[' ? ARRAY_COST : OBJECT_COST;
        } else if (c == ',') {
            cost += SLOT_COST;
        } else if (at_value && (c == '-' || (c >= '0' && c <= '9'))) {
            cost += NUMBER_COST;
        }
        at_value = c == '[' || c == ':' || c == ',';
    }
    return cost;
}

static void json_tree_drop(struct slab *slab) {
    while (slab) {
        struct slab *older = slab->older;
        free(slab);
        slab = older;
    }
}

void json_tree_free(struct json_tree *tree) {
    if (!tree)
        return;
    json_tree_drop(tree->slab);
    json_tree_drop(tree->large);
    json_tree_give_back(tree, tree->n_bytes);
    free(tree);
}

static enum status json_tree_too_large(struct error *error) {
    return error_set(error, STATUS_LIMIT,
                     "the JSON has too many values: as a tree they take more than %zu MiB",
                     bytes_max >> 20);
}

enum status json_tree_parse(const char *bytes, size_t n, struct json_tree **out, json_t **root,
                            struct error *error) {
    pthread_once(&once, json_tree_install);
    if (json_tree_least_cost(bytes, n) > bytes_max)
        return json_tree_too_large(error);
    struct json_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return error_set(error, STATUS_NOMEM, "no memory to parse the request");
    current = tree;
    enum status status = json_get_parse(bytes, n, root, error);
    current = NULL;
    if (status == STATUS_OK) {
        *out = tree;
        return STATUS_OK;
    }
    if (tree->too_large)
        status = json_tree_too_large(error);
    else if (tree->crowded)
        status = error_set(error, STATUS_BUSY, "too many requests are being parsed");
    else if (tree->no_memory)
        status = error_set(error, STATUS_NOMEM, "no memory to parse the request");
    json_tree_free(tree);
    return status;
}

size_t json_tree_bytes(const struct json_tree *tree) {
    return tree->n_bytes;
}

size_t json_trees_bytes(void) {
    return atomic_load(&bytes_used);
}
