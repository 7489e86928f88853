#include "model/weights/checkpoint/safetensors.h"

#include "base/json/json_text.h"
#include "base/part_name.h"
#include "base/random.h"
#include "base/span.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define INDEX_NAME "model.safetensors.index.json"
#define SUFFIX     ".safetensors"

/* File names of a folder. */
struct tensor_names {
    char (*at)[NAME_MAX + 1]; /* owned (n) */
    uint32_t n;
};

static struct map_key safetensors_hash_name(const struct safetensors *files, const char *name) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(name, strlen(name), files->seed);
    return (struct map_key){.hi = hash.high64, .lo = hash.low64};
}

static struct safetensors *safetensors_new_files(uint32_t n_files) {
    struct safetensors *files = calloc(1, sizeof *files);
    struct safetensors_file *each = calloc(n_files, sizeof *each);
    if (!files || !each) {
        free(files);
        free(each);
        return NULL;
    }
    *files = (struct safetensors){.n_files = n_files, .files = each, .seed = random_seed()};
    return files;
}

static void safetensors_name_file(struct safetensors_file *file, const char *path) {
    size_t n = strlen(path);
    size_t cut = n < sizeof file->name ? 0 : n - (sizeof file->name - 1);
    memcpy(file->name, path + cut, n - cut);
}

/* A name that is there twice, in one shard or two, would make the model depend on their order. */
static enum status safetensors_index_tensors(struct safetensors *files, struct error *error) {
    if (map_init(&files->by_name, files->n_tensors + 1, files->seed) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "%s: no memory for its header", files->files[0].name);
    for (uint32_t i = 0; i < files->n_tensors; i++) {
        uint32_t earlier;
        const char *name = files->tensors[i].name;
        struct map_key key = safetensors_hash_name(files, name);
        if (map_get(&files->by_name, key, &earlier) == STATUS_OK)
            return error_field(error, STATUS_CORRUPT, name, "%s: tensor %s is in %s too",
                               files->files[files->file_of[i]].name, name,
                               files->files[files->file_of[earlier]].name);
        TRY(map_put(&files->by_name, key, i));
    }
    return STATUS_OK;
}

enum status safetensors_parse(const void *bytes, size_t n, const char *name,
                              struct safetensors **opened, struct error *error) {
    struct safetensors *files = safetensors_new_files(1);
    if (!files)
        return error_set(error, STATUS_NOMEM, "%s: no memory", name);
    safetensors_name_file(&files->files[0], name);
    files->files[0].bytes = bytes;
    files->files[0].n_bytes = n;
    enum status status = safetensors_read_header(files, 0, error);
    if (status == STATUS_OK)
        status = safetensors_index_tensors(files, error);
    if (status != STATUS_OK)
        safetensors_close(files);
    else
        *opened = files;
    return status;
}

static enum status safetensors_open_one(struct safetensors *files, uint32_t index, const char *path,
                                        struct error *error) {
    struct safetensors_file *file = &files->files[index];
    safetensors_name_file(file, path);
    TRY(file_map(path, &file->map, error));
    file->bytes = file->map.bytes;
    file->n_bytes = file->map.n_bytes;
    return safetensors_read_header(files, index, error);
}

static enum status safetensors_open_shards(struct safetensors *files, const char *folder,
                                           const struct tensor_names *names, struct error *error) {
    char path[PATH_MAX];
    for (uint32_t i = 0; i < names->n; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, names->at[i]) >= (int)sizeof path)
            return error_set(error, STATUS_LIMIT, "%s: the path is too long", names->at[i]);
        TRY(safetensors_open_one(files, i, path, error));
    }
    return safetensors_index_tensors(files, error);
}

static enum status safetensors_add_name(struct tensor_names *names, const char *name,
                                        struct error *error) {
    for (uint32_t i = names->n; i-- > 0;)
        if (strcmp(names->at[i], name) == 0)
            return STATUS_OK;
    if (names->n == SAFETENSORS_FILES_MAX)
        return error_set(error, STATUS_LIMIT, "more than %u safetensors files",
                         SAFETENSORS_FILES_MAX);
    if (!names->at)
        names->at = calloc(SAFETENSORS_FILES_MAX, sizeof *names->at);
    if (!names->at)
        return error_set(error, STATUS_NOMEM, "no memory for the names of files");
    snprintf(names->at[names->n++], sizeof *names->at, "%s", name);
    return STATUS_OK;
}

/* Shards lie beside the index: a path in it could lead anywhere. */
static bool safetensors_is_plain(const char *name) {
    return name[0] != '.' && !strchr(name, '/') && strlen(name) <= NAME_MAX &&
           span_ends(span_of(name), SUFFIX);
}

static enum status safetensors_names_of_index(const json_t *weight_map, const char *path,
                                              struct tensor_names *names, struct error *error) {
    const char *tensor;
    json_t *value;
    if (!json_is_object(weight_map) || json_object_size(weight_map) == 0)
        return error_field(error, STATUS_CORRUPT, "weight_map",
                           "%s: weight_map is not an object of tensors and files", path);
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !safetensors_is_plain(name))
            return error_field(
                error, STATUS_CORRUPT, "weight_map",
                "%s: weight_map.%.100s is not the name of a .safetensors file in its folder", path,
                tensor);
        TRY(safetensors_add_name(names, name, error));
    }
    return STATUS_OK;
}

/* What the index promises must be there, in the shard it says. */
static enum status safetensors_check_index(const struct safetensors *files,
                                           const struct tensor_names *names,
                                           const json_t *weight_map, const char *path,
                                           struct error *error) {
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor, value) {
        const struct tensor *found = safetensors_find(files, tensor);
        if (!found || strcmp(names->at[files->file_of[found - files->tensors]],
                             json_string_value(value)) != 0)
            return error_field(error, STATUS_CORRUPT, tensor,
                               "%s: tensor %.128s is not in %.100s, where the index has it", path,
                               tensor, json_string_value(value));
    }
    return STATUS_OK;
}

static enum status safetensors_open_index(const char *folder, const char *path,
                                          struct tensor_names *names, struct safetensors **files,
                                          struct error *error) {
    static const struct json_limits limits = {
        .n_bytes = 32u << 20, .depth = 3, .n_values = SAFETENSORS_TENSORS_MAX + 64};
    json_t *index;
    TRY(json_text_load(path, &limits, &index, error));
    const json_t *weight_map = json_object_get(index, "weight_map");
    enum status status = safetensors_names_of_index(weight_map, path, names, error);
    if (status == STATUS_OK && !(*files = safetensors_new_files(names->n)))
        status = error_set(error, STATUS_NOMEM, "%s: no memory", path);
    if (status == STATUS_OK)
        status = safetensors_open_shards(*files, folder, names, error);
    if (status == STATUS_OK)
        status = safetensors_check_index(*files, names, weight_map, path, error);
    json_decref(index);
    return status;
}

static int safetensors_compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Shards say how many there are (x-00001-of-00003.safetensors): without an index this alone shows
 * that one is missing. */
static enum status safetensors_check_count(const char *folder, const struct tensor_names *names,
                                           struct error *error) {
    for (uint32_t i = 0; i < names->n; i++) {
        struct part_name shard;
        char wanted[NAME_MAX + 1];
        if (!part_name_read(names->at[i], SUFFIX, &shard))
            continue;
        snprintf(wanted, sizeof wanted, "%s", names->at[i]);
        for (uint32_t n = 1; n <= shard.count && n <= SAFETENSORS_FILES_MAX; n++) {
            part_name_set(wanted, &shard, n);
            if (!bsearch(wanted, names->at, names->n, sizeof *names->at, safetensors_compare_names))
                return error_passing(error, STATUS_NOT_FOUND, "%s: %s is missing", folder, wanted);
        }
    }
    return STATUS_OK;
}

static bool safetensors_is_pickle(const char *name) {
    struct span text = span_of(name);
    return span_ends(text, ".bin") || span_ends(text, ".pt") || span_ends(text, ".pth");
}

/* *pickle becomes the name of the first file of pickles, if there is one. */
static enum status safetensors_list_folder(const char *folder, struct tensor_names *names,
                                           char pickle[NAME_MAX + 1], struct error *error) {
    DIR *listing = opendir(folder);
    int number = errno;
    enum status status = STATUS_OK;
    if (!listing)
        return error_errno(error, STATUS_IO, number, "%s: cannot list it", folder);
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(listing));) {
        if (safetensors_is_plain(entry->d_name))
            status = safetensors_add_name(names, entry->d_name, error);
        if (safetensors_is_pickle(entry->d_name) &&
            (!pickle[0] || strcmp(entry->d_name, pickle) < 0))
            snprintf(pickle, NAME_MAX + 1, "%s", entry->d_name);
    }
    closedir(listing);
    if (names->n > 0)
        qsort(names->at, names->n, sizeof *names->at, safetensors_compare_names);
    return status;
}

static enum status safetensors_open_folder(const char *folder, struct tensor_names *names,
                                           struct safetensors **files, struct error *error) {
    char path[PATH_MAX];
    char pickle[NAME_MAX + 1] = "";
    if (file_is_there(folder, INDEX_NAME, path, sizeof path))
        return safetensors_open_index(folder, path, names, files, error);
    if (file_is_there(folder, "model.safetensors", path, sizeof path))
        TRY(safetensors_add_name(names, "model.safetensors", error));
    else
        TRY(safetensors_list_folder(folder, names, pickle, error));
    if (names->n == 0 && pickle[0])
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: no .safetensors file but %.100s, a pickle, which is a program and not loaded; "
            "convert with: python -c \"from transformers import AutoModelForCausalLM as "
            "M; M.from_pretrained('IN', torch_dtype='auto', trust_remote_code=True)"
            ".save_pretrained('OUT', safe_serialization=True)\"",
            folder, pickle);
    if (names->n == 0)
        return error_passing(error, STATUS_NOT_FOUND, "%s: no .safetensors file", folder);
    TRY(safetensors_check_count(folder, names, error));
    if (!(*files = safetensors_new_files(names->n)))
        return error_set(error, STATUS_NOMEM, "%s: no memory", folder);
    return safetensors_open_shards(*files, folder, names, error);
}

enum status safetensors_open(const char *path, struct safetensors **opened, struct error *error) {
    struct safetensors *files = NULL;
    struct tensor_names names = {0};
    enum status status;
    if (file_is_folder(path)) {
        status = safetensors_open_folder(path, &names, &files, error);
    } else if (!(files = safetensors_new_files(1))) {
        status = error_set(error, STATUS_NOMEM, "%s: no memory", path);
    } else {
        status = safetensors_open_one(files, 0, path, error);
        if (status == STATUS_OK)
            status = safetensors_index_tensors(files, error);
    }
    free(names.at);
    if (status != STATUS_OK)
        safetensors_close(files);
    else
        *opened = files;
    return status;
}

const struct tensor *safetensors_find(const struct safetensors *files, const char *name) {
    uint32_t index;
    if (map_get(&files->by_name, safetensors_hash_name(files, name), &index) != STATUS_OK)
        return NULL;
    return strcmp(files->tensors[index].name, name) == 0 ? &files->tensors[index] : NULL;
}

enum status safetensors_check(const struct safetensors *files, struct error *error) {
    for (uint32_t i = 0; i < files->n_files; i++)
        TRY(file_map_check(&files->files[i].map, files->files[i].name, error));
    return STATUS_OK;
}

void safetensors_drop_pages(const struct safetensors *files) {
    for (uint32_t i = 0; i < files->n_files; i++)
        file_map_drop(&files->files[i].map);
}

void safetensors_close(struct safetensors *files) {
    if (!files)
        return;
    for (uint32_t i = 0; i < files->n_files; i++)
        file_unmap(&files->files[i].map);
    map_fini(&files->by_name);
    free(files->files);
    free(files->tensors);
    free(files->file_of);
    free(files);
}
