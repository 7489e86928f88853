/* router/api/json_tree.h: JSON requests as trees, in memory of their own.
 *
 * A tree of many small values costs up to 70 times its text (`{},{},...`), and an allocator keeps
 * what such a tree has fragmented. So each tree lies in slabs of its own that are dropped as a
 * whole, and all trees together have a bound. Trees are read, never changed: jansson would free
 * what is not the heap's.
 *
 * Any thread; a tree belongs to one at a time. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

struct json_tree;

#define JSON_TREES_BYTES_DEFAULT (256u << 20)

/* Before there are other threads: jansson asks us for memory from now on. `bytes_max` bounds all
 * trees together. Trees may be made without this; the bound is the default then. */
void json_tree_init(size_t bytes_max);

/* Parses as json_get_parse(). STATUS_LIMIT: this text alone needs more than the bound; most such
 * texts are found by counting, before anything is built. STATUS_BUSY: other trees have the memory
 * now. On success the caller owns *tree, which owns *root. */
NODISCARD enum status json_tree_parse(const char *bytes, size_t n, struct json_tree **tree,
                                      json_t **root, struct error *error);
void json_tree_free(struct json_tree *tree); /* NULL is fine */

size_t json_tree_bytes(const struct json_tree *tree);
size_t json_trees_bytes(void); /* of all trees that live */
