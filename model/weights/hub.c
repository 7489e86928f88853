#include "model/weights/hub.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/part_name.h"
#include "base/span.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REF_BYTES_MAX  256
#define NAMES_MAX      64 /* of a folder that are kept for a line that lists them */
#define NAMES_SHOWN    8
#define MODELS_PREFIX  "models--"
#define SNAPSHOTS_PART "/snapshots/"

/* Names of a folder that were asked for, sorted. */
struct hub_names {
    char all[NAMES_MAX][NAME_MAX + 1];
    unsigned n;       /* of those that are kept */
    unsigned n_there; /* all */
};

bool hub_is_id(const char *text) {
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n_org = strspn(text, bytes);
    if (n_org == 0 || text[n_org] != '/' || text[0] == '.')
        return false;
    const char *name = text + n_org + 1;
    size_t n_name = strspn(name, bytes);
    return n_name > 0 && name[n_name] == 0 && name[0] != '.';
}

static enum status hub_join(char path[PATH_MAX], const char *folder, const char *name,
                            struct error *error) {
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return n > 0 && n < PATH_MAX
               ? STATUS_OK
               : error_set(error, STATUS_LIMIT, "%.200s...: too long a path", folder);
}

static int hub_compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Is `name` a part of the same GGUF file as one that is listed? The first of them by name stands for all. */
static bool hub_is_listed(struct hub_names *names, const char *name) {
    struct part_name part, listed;
    if (!part_name_read(name, ".gguf", &part))
        return false;
    for (unsigned i = 0; i < names->n; i++) {
        char *other = names->all[i];
        if (!part_name_read(other, ".gguf", &listed) ||
            !part_name_same_set(name, &part, other, &listed))
            continue;
        if (part.number < listed.number)
            part_name_set(other, &listed, part.number);
        return true;
    }
    return false;
}

/* The names in a folder that end so, hidden ones apart. A folder that cannot be read has none. */
static void hub_list_names(const char *folder, const char *end, struct hub_names *names) {
    DIR *dir = opendir(folder);
    names->n = names->n_there = 0;
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || !span_ends(span_of(entry->d_name), end) ||
            hub_is_listed(names, entry->d_name))
            continue;
        names->n_there++;
        if (names->n < NAMES_MAX)
            memcpy(names->all[names->n++], entry->d_name, strlen(entry->d_name) + 1);
    }
    closedir(dir);
    qsort(names->all, names->n, sizeof names->all[0], hub_compare_names);
}

/* "a, b, c and 4 more" */
static const char *hub_show(const struct hub_names *names, char *text, size_t size) {
    size_t at = 0;
    unsigned n_shown = names->n < NAMES_SHOWN ? names->n : NAMES_SHOWN;
    text[0] = 0;
    for (unsigned i = 0; i < n_shown && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? ", " : "", names->all[i]);
    if (names->n_there > n_shown && at < size)
        snprintf(text + at, size - at, " and %u more", names->n_there - n_shown);
    return text;
}

/* What refs/main says: a commit. False: there is none. */
static enum status hub_read_ref(const char *folder, char commit[REF_BYTES_MAX + 1], bool *is_there,
                                struct error *error) {
    char path[PATH_MAX];
    struct buf text;
    *is_there = file_is_there(folder, "refs/main", path, sizeof path);
    if (!*is_there)
        return STATUS_OK;
    buf_init(&text, REF_BYTES_MAX + 1);
    enum status status = file_read(path, REF_BYTES_MAX, &text, error);
    if (status == STATUS_OK) {
        size_t n = 0;
        while (n < text.n && (unsigned char)text.data[n] > ' ' && text.data[n] != '/')
            n++;
        bool is_name = n > 0 && text.data[0] != '.' && strspn(text.data + n, " \r\n") == text.n - n;
        if (is_name)
            snprintf(commit, REF_BYTES_MAX + 1, "%.*s", (int)n, text.data);
        else
            status =
                error_set(error, STATUS_INVALID, "%s: does not hold the name of a commit", path);
    }
    buf_fini(&text);
    return status;
}

/* The folder of one commit: refs/main's, else the only one. */
static enum status hub_find_snapshot(const char *folder, char path[PATH_MAX], struct error *error) {
    char snapshots[PATH_MAX], commit[REF_BYTES_MAX + 1], text[ERROR_TEXT_MAX / 2];
    bool has_ref;
    TRY(hub_join(snapshots, folder, "snapshots", error));
    TRY(hub_read_ref(folder, commit, &has_ref, error));
    struct hub_names *names = malloc(sizeof *names);
    if (!names)
        return error_set(error, STATUS_NOMEM, "%s: no memory", folder);
    hub_list_names(snapshots, "", names);
    enum status status = STATUS_OK;
    if (has_ref)
        status = hub_join(path, snapshots, commit, error);
    else if (names->n_there == 1)
        status = hub_join(path, snapshots, names->all[0], error);
    else if (names->n_there == 0)
        status = error_passing(error, STATUS_NOT_FOUND, "%s: holds no snapshot", snapshots);
    else
        status =
            error_set(error, STATUS_INVALID,
                      "%s: has no refs/main, and %u snapshots: name the folder of one of them (%s)",
                      snapshots, names->n_there, hub_show(names, text, sizeof text));
    if (status == STATUS_OK && !file_is_folder(path))
        status =
            error_passing(error, STATUS_NOT_FOUND,
                          "%s/refs/main: names the snapshot %s, which does not exist (%s)", folder,
                          commit, names->n ? hub_show(names, text, sizeof text) : "there is none");
    free(names);
    return status;
}

/* Sets the name where the folder is CACHE/models--ORG--NAME/snapshots/COMMIT. */
static void hub_name_by_place(const char *folder, char name[HUB_NAME_MAX]) {
    char absolute[PATH_MAX];
    if (!realpath(folder, absolute))
        return;
    char *commit = strrchr(absolute, '/');
    size_t n_part = strlen(SNAPSHOTS_PART) - 1;
    if (!commit || (size_t)(commit - absolute) < n_part ||
        strncmp(commit - n_part, SNAPSHOTS_PART, n_part) != 0)
        return;
    commit[-(ptrdiff_t)n_part] = 0;
    const char *slash = strrchr(absolute, '/');
    const char *id = slash ? slash + 1 : absolute;
    if (strncmp(id, MODELS_PREFIX, strlen(MODELS_PREFIX)) != 0)
        return;
    id += strlen(MODELS_PREFIX);
    const char *cut = strstr(id, "--"); /* older ids have no ORG */
    snprintf(name, HUB_NAME_MAX, "%.*s%s%s", cut ? (int)(cut - id) : (int)strlen(id), id,
             cut ? "/" : "", cut ? cut + 2 : "");
}

/* A folder without safetensors stands for its one GGUF file, or that file's parts: publishers of those often leave a config.json beside
 * them. */
static enum status hub_look_inside(struct hub_found *found, struct error *error) {
    char text[ERROR_TEXT_MAX / 2], folder[PATH_MAX];
    struct hub_names *names = malloc(sizeof *names);
    if (!names)
        return error_set(error, STATUS_NOMEM, "%s: no memory", found->path);
    memcpy(folder, found->path, sizeof folder);
    hub_list_names(folder, ".safetensors", names);
    enum status status = STATUS_OK;
    if (names->n_there == 0) {
        hub_list_names(folder, ".gguf", names);
        if (names->n_there == 1)
            status = hub_join(found->path, folder, names->all[0], error);
        else if (names->n_there > 1)
            status = error_set(error, STATUS_INVALID,
                               "%s: holds %u models in .gguf files: name one of them (%s)", folder,
                               names->n_there, hub_show(names, text, sizeof text));
    }
    free(names);
    return status;
}

/* Where the hub's clients keep what they fetched. False: the environment does not name a home. */
static bool hub_cache_folder(char path[PATH_MAX]) {
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !value[0])
            continue;
        int n = snprintf(path, PATH_MAX, "%s%s", value, places[i].below);
        return n > 0 && n < PATH_MAX;
    }
    return false;
}

/* CACHE/models--ORG--NAME for ORG/NAME. */
static enum status hub_look_up(const char *id, char folder[PATH_MAX], struct error *error) {
    char cache[PATH_MAX], name[NAME_MAX + 1];
    const char *slash = strchr(id, '/');
    int n = snprintf(name, sizeof name, MODELS_PREFIX "%.*s--%s", (int)(slash - id), id, slash + 1);
    if (n < 0 || (size_t)n >= sizeof name)
        return error_set(error, STATUS_LIMIT, "%.200s...: too long a name", id);
    if (!hub_cache_folder(cache))
        return error_set(
            error, STATUS_NOT_FOUND,
            "%s: no such file or folder, and no hub's cache to look it up (set HF_HOME)", id);
    TRY(hub_join(folder, cache, name, error));
    if (!file_is_folder(folder))
        return error_passing(error, STATUS_NOT_FOUND,
                             "%s: no such file or folder, nor %s in the hub's cache (%s): fetch it "
                             "with `hf download %s`",
                             id, name, cache, id);
    return STATUS_OK;
}

enum status hub_find(const char *path, bool folder_only, struct hub_found *found,
                     struct error *error) {
    char folder[PATH_MAX], ignored[PATH_MAX];
    struct hub_found made = {.name = ""};
    struct stat info;
    if (strlen(path) >= sizeof folder)
        return error_set(error, STATUS_LIMIT, "%.200s...: too long a path", path);
    memcpy(folder, path, strlen(path) + 1);
    memcpy(made.path, path, strlen(path) + 1);
    if (stat(path, &info) != 0 && errno == ENOENT && hub_is_id(path))
        TRY(hub_look_up(path, folder, error));
    else if (!file_is_folder(path)) {
        *found = made;
        return STATUS_OK;
    }
    bool is_model = file_is_there(folder, "config.json", ignored, sizeof ignored);
    if (!is_model && file_is_there(folder, "snapshots", ignored, sizeof ignored))
        TRY(hub_find_snapshot(folder, made.path, error));
    else
        memcpy(made.path, folder, sizeof folder);
    hub_name_by_place(made.path, made.name);
    if (!folder_only)
        TRY(hub_look_inside(&made, error));
    *found = made;
    return STATUS_OK;
}
