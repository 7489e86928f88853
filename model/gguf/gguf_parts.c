/* A GGUF file in parts: which they are, whether they are of one set, and their tensors together. */
#include "base/assert.h"
#include "base/part_name.h"
#include "model/gguf/gguf_cursor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEY_NO        "split.no"
#define KEY_COUNT     "split.count"
#define KEY_N_TENSORS "split.tensors.count"

/* What the keys of a file say of it. */
struct gguf_parts_place {
    uint32_t no;
    uint32_t count; /* 0 or 1: no part */
    uint32_t n_tensors;
};

const struct gguf *gguf_part(const struct gguf *gguf, uint32_t i) {
    return i == 0 ? gguf : gguf->others[i - 1];
}

enum status gguf_check(const struct gguf *gguf, struct error *error) {
    for (uint32_t i = 0; i <= gguf->n_others; i++)
        TRY(file_map_check(&gguf_part(gguf, i)->file, gguf_part(gguf, i)->name, error));
    return STATUS_OK;
}

void gguf_drop_pages(const struct gguf *gguf) {
    for (uint32_t i = 0; i <= gguf->n_others; i++)
        file_map_drop(&gguf_part(gguf, i)->file);
}

static enum status gguf_read_place(const struct gguf *gguf, struct gguf_parts_place *place,
                                   struct error *error) {
    struct gguf_parts_place read = {0};
    TRY(gguf_u32(gguf, KEY_COUNT, &read.count, error));
    if (read.count > 1) {
        TRY(gguf_need(gguf, KEY_NO, error));
        TRY(gguf_u32(gguf, KEY_NO, &read.no, error));
        TRY(gguf_need(gguf, KEY_N_TENSORS, error));
        TRY(gguf_u32(gguf, KEY_N_TENSORS, &read.n_tensors, error));
    }
    if (read.count > GGUF_PARTS_MAX)
        return error_field(error, STATUS_LIMIT, KEY_COUNT,
                           "%s: " KEY_COUNT " is %u, at most %u parts are read", gguf->name,
                           read.count, GGUF_PARTS_MAX);
    if (read.count > 1 && read.no >= read.count)
        return error_field(error, STATUS_CORRUPT, KEY_NO,
                           "%s: " KEY_NO " is %u, but " KEY_COUNT " is %u", gguf->name, read.no,
                           read.count);
    *place = read;
    return STATUS_OK;
}

/* Part i of n, of a set whose first part says `first`. */
static enum status gguf_check_place(const struct gguf *gguf, uint32_t i, uint32_t n,
                                    const struct gguf *begin, const struct gguf_parts_place *first,
                                    struct error *error) {
    struct gguf_parts_place place;
    TRY(gguf_read_place(gguf, &place, error));
    if (place.count <= 1)
        return error_field(error, STATUS_CORRUPT, KEY_COUNT,
                           "%s: a whole file by its keys, not part %u of %u", gguf->name, i + 1, n);
    if (place.count != n || place.no != i)
        return error_field(error, STATUS_CORRUPT, KEY_NO,
                           "%s: part %u of %u by its keys (" KEY_NO ", " KEY_COUNT
                           "), not part %u of %u",
                           gguf->name, place.no + 1, place.count, i + 1, n);
    if (place.n_tensors != first->n_tensors)
        return error_field(error, STATUS_CORRUPT, KEY_N_TENSORS,
                           "%s: a part of another set: " KEY_N_TENSORS " is %u, but %u in %s",
                           gguf->name, place.n_tensors, first->n_tensors, begin->name);
    return STATUS_OK;
}

static enum status gguf_check_places(struct gguf *const *parts, uint32_t n, struct error *error) {
    struct gguf_parts_place first;
    uint64_t n_tensors = 0;
    TRY(gguf_read_place(parts[0], &first, error));
    for (uint32_t i = 0; i < n; i++) {
        TRY(gguf_check_place(parts[i], i, n, parts[0], &first, error));
        n_tensors += parts[i]->n_tensors;
    }
    if (n_tensors > GGUF_TENSORS_MAX)
        return error_set(error, STATUS_LIMIT, "%s: %llu tensors in all parts, at most %u are read",
                         parts[0]->name, (unsigned long long)n_tensors, GGUF_TENSORS_MAX);
    if (n_tensors != first.n_tensors)
        return error_field(error, STATUS_CORRUPT, KEY_N_TENSORS,
                           "%s: " KEY_N_TENSORS " is %u, but the %u parts have %llu",
                           parts[0]->name, first.n_tensors, n, (unsigned long long)n_tensors);
    return STATUS_OK;
}

/* All tensors, and where each stands by its name: tables that take the place of the first part's own. */
struct tables {
    struct tensor *tensors; /* owned (n) */
    uint32_t n;
    struct map by_name;
};

static enum status gguf_fill_tables(struct tables *tables, struct gguf *const *parts, uint32_t n,
                                    struct error *error) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < parts[i]->n_tensors; j++) {
            const struct tensor *tensor = &parts[i]->tensors[j];
            struct map_key key = gguf_hash(parts[0], tensor->name, strlen(tensor->name));
            uint32_t earlier, owner = 0;
            if (map_get(&tables->by_name, key, &earlier) == STATUS_OK) {
                while (!gguf_tensor(parts[owner], tensor->name))
                    owner++;
                return error_field(error, STATUS_CORRUPT, tensor->name,
                                   "%s: tensor %s is in %s too", parts[i]->name, tensor->name,
                                   parts[owner]->name);
            }
            TRY(map_put(&tables->by_name, key, tables->n));
            tables->tensors[tables->n++] = *tensor;
        }
    }
    return STATUS_OK;
}

static enum status gguf_join_tensors(struct gguf *const *parts, uint32_t n, struct error *error) {
    struct tables tables = {0};
    struct gguf *first = parts[0];
    uint32_t n_tensors = 0;
    for (uint32_t i = 0; i < n; i++)
        n_tensors += parts[i]->n_tensors;
    tables.tensors = calloc((size_t)n_tensors + 1, sizeof *tables.tensors);
    enum status status =
        tables.tensors ? map_init(&tables.by_name, n_tensors + 1, first->seed) : STATUS_NOMEM;
    if (status == STATUS_OK)
        status = gguf_fill_tables(&tables, parts, n, error);
    else
        (void)error_set(error, status, "%s: no memory for its tensors", first->name);
    if (status != STATUS_OK) {
        free(tables.tensors);
        map_fini(&tables.by_name);
        return status;
    }
    free(first->tensors);
    map_fini(&first->tensor_by_name);
    first->tensors = tables.tensors;
    first->n_tensors = tables.n;
    first->tensor_by_name = tables.by_name;
    return STATUS_OK;
}

enum status gguf_join(struct gguf **parts, uint32_t n, struct gguf **gguf, struct error *error) {
    ASSERT(n > 1 && n <= GGUF_PARTS_MAX);
    struct gguf **others = calloc(n, sizeof(struct gguf *));
    enum status status = STATUS_OK;
    if (!others)
        status = error_set(error, STATUS_NOMEM, "%s: no memory for its parts", parts[0]->name);
    if (status == STATUS_OK)
        status = gguf_check_places(parts, n, error);
    if (status == STATUS_OK)
        status = gguf_join_tensors(parts, n, error);
    if (status != STATUS_OK) {
        free(others);
        for (uint32_t i = 0; i < n; i++)
            gguf_close(parts[i]);
        return status;
    }
    memcpy(others, parts + 1, (n - 1) * sizeof(struct gguf *));
    parts[0]->n_others = n - 1;
    parts[0]->others = others;
    *gguf = parts[0];
    return STATUS_OK;
}

/* Opens the parts that are not there yet. `path` is that of any of them. */
static enum status gguf_open_parts(char *path, const struct part_name *name, struct gguf **parts,
                                   struct error *error) {
    for (uint32_t i = 0; i < name->count; i++) {
        if (parts[i])
            continue;
        struct stat info;
        part_name_set(path, name, i + 1);
        if (lstat(path, &info) != 0 && errno == ENOENT) {
            enum status status =
                error_field(error, STATUS_NOT_FOUND, KEY_COUNT, "%s: part %u of %u is missing",
                            path, i + 1, name->count);
            error->may_pass = true;
            return status;
        }
        TRY(gguf_open_one(path, &parts[i], error));
    }
    return STATUS_OK;
}

/* Takes over the part that was opened. */
static enum status gguf_open_set(const char *path, const struct gguf_parts_place *place,
                                 struct gguf *opened, struct gguf **gguf, struct error *error) {
    struct gguf *parts[GGUF_PARTS_MAX] = {0};
    struct part_name name;
    char other[PATH_MAX];
    enum status status = STATUS_OK;
    parts[place->no] = opened;
    if (!part_name_read(path, ".gguf", &name) || name.number != place->no + 1 ||
        name.count != place->count)
        status = error_field(error, STATUS_INVALID, KEY_COUNT,
                             "%s: part %u of %u by its keys (" KEY_NO ", " KEY_COUNT
                             "), so its name has to end in -%05u-of-%05u.gguf",
                             path, place->no + 1, place->count, place->no + 1, place->count);
    else if (snprintf(other, sizeof other, "%s", path) >= (int)sizeof other)
        status = error_set(error, STATUS_LIMIT, "%.200s...: too long a path", path);
    else
        status = gguf_open_parts(other, &name, parts, error);
    if (status == STATUS_OK)
        return gguf_join(parts, place->count, gguf, error);
    for (uint32_t i = 0; i < place->count; i++)
        gguf_close(parts[i]);
    return status;
}

enum status gguf_open(const char *path, struct gguf **gguf, struct error *error) {
    struct gguf *opened;
    struct gguf_parts_place place;
    TRY(gguf_open_one(path, &opened, error));
    enum status status = gguf_read_place(opened, &place, error);
    if (status != STATUS_OK)
        gguf_close(opened);
    else if (place.count > 1)
        status = gguf_open_set(path, &place, opened, gguf, error);
    else
        *gguf = opened;
    return status;
}
