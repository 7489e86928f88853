/* Which of a folder's files holds the tokenizer. */
#include "base/file.h"
#include "model/gguf/gguf.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_files.h"
#include "model/text/tokenizer/tokenizer.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first *.tiktoken by name, so that a folder means the same everywhere. */
static bool tokenizer_find_tiktoken(const char *folder, char path[PATH_MAX]) {
    char best[256] = "";
    DIR *listing = opendir(folder);
    if (!listing)
        return false;
    for (struct dirent *entry; (entry = readdir(listing));)
        if (span_ends(span_of(entry->d_name), ".tiktoken") &&
            (!best[0] || strcmp(entry->d_name, best) < 0))
            snprintf(best, sizeof best, "%s", entry->d_name);
    closedir(listing);
    return best[0] && file_is_there(folder, best, path, PATH_MAX);
}

static enum status tokenizer_folder_choose(const char *folder,
                                           const struct tokenizer_extras *extras,
                                           struct tokenizer **tokenizer, struct error *error) {
    char path[PATH_MAX];
    char merges[PATH_MAX];
    if (file_is_there(folder, "tokenizer.json", path, sizeof path))
        return tokenizer_open_json(path, extras, tokenizer, error);
    if (tokenizer_find_tiktoken(folder, path))
        return tokenizer_open_tiktoken(path, extras, tokenizer, error);
    if (file_is_there(folder, "vocab.json", path, sizeof path) &&
        file_is_there(folder, "merges.txt", merges, sizeof merges))
        return tokenizer_open_merges(path, merges, extras, tokenizer, error);
    if (file_is_there(folder, "tokenizer.model", path, sizeof path))
        return tokenizer_open_sentencepiece(path, extras, tokenizer, error);
    return error_passing(
        error, STATUS_NOT_FOUND,
        "%s: contains no tokenizer: neither tokenizer.json, *.tiktoken, vocab.json "
        "with merges.txt, nor tokenizer.model",
        folder);
}

enum status tokenizer_open_folder(const char *path, struct tokenizer **tokenizer,
                                  struct error *error) {
    struct tokenizer_extras extras;
    TRY(tokenizer_extras_init(&extras, path, error));
    enum status status = tokenizer_folder_choose(path, &extras, tokenizer, error);
    if (status == STATUS_OK)
        (*tokenizer)->remarks = extras.remarks;
    tokenizer_extras_fini(&extras);
    return status;
}

static enum status tokenizer_open_gguf_file(const char *path, struct tokenizer **tokenizer,
                                            struct error *error) {
    struct gguf *gguf = NULL;
    TRY(gguf_open(path, &gguf, error));
    enum status status = tokenizer_open_gguf(gguf, tokenizer, error);
    gguf_close(gguf);
    return status;
}

/* What lies beside a file that is named by itself belongs to it all the same. */
static enum status tokenizer_open_file(const char *path, struct tokenizer **tokenizer,
                                       struct error *error) {
    char folder[PATH_MAX];
    struct tokenizer_extras extras;
    enum status status;
    const char *slash = strrchr(path, '/');
    if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1,
                 slash ? path : ".") >= (int)sizeof folder)
        return error_set(error, STATUS_LIMIT, "%s: the path is too long", path);
    TRY(tokenizer_extras_init(&extras, folder[0] ? folder : "/", error));
    if (span_ends(span_of(path), ".json"))
        status = tokenizer_open_json(path, &extras, tokenizer, error);
    else if (span_ends(span_of(path), ".tiktoken"))
        status = tokenizer_open_tiktoken(path, &extras, tokenizer, error);
    else
        status = tokenizer_open_sentencepiece(path, &extras, tokenizer, error);
    tokenizer_extras_fini(&extras);
    return status;
}

enum status tokenizer_open_path(const char *path, struct tokenizer **tokenizer,
                                struct error *error) {
    struct span name = span_of(path);
    if (span_is(name, "hash"))
        return tokenizer_open_hash(tokenizer, error);
    if (file_is_folder(path))
        return tokenizer_open_folder(path, tokenizer, error);
    if (span_ends(name, ".json") || span_ends(name, ".tiktoken") || span_ends(name, ".model"))
        return tokenizer_open_file(path, tokenizer, error);
    return tokenizer_open_gguf_file(path, tokenizer, error);
}
