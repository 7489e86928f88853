#include "router/serve/api_keys.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct api_keys {
    unsigned n;
    char (*keys)[API_KEY_BYTES_MAX + 1]; /* owned (n): zero-padded, so that whole rows compare */
};

static const char *trim(char *line) {
    line += strspn(line, " \t\r\n");
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t\r\n", line[n - 1]))
        line[--n] = 0;
    return line;
}

static enum status api_keys_add(struct api_keys *keys, const char *key) {
    if (keys->n == API_KEYS_MAX || strlen(key) > API_KEY_BYTES_MAX)
        return STATUS_LIMIT;
    void *grown = reallocarray(keys->keys, keys->n + 1, sizeof *keys->keys);
    if (!grown)
        return STATUS_NOMEM;
    keys->keys = grown;
    memset(keys->keys[keys->n], 0, sizeof *keys->keys);
    memcpy(keys->keys[keys->n++], key, strlen(key));
    return STATUS_OK;
}

static enum status read_lines(FILE *file, struct api_keys *keys) {
    char line[API_KEY_BYTES_MAX + 64];
    enum status status = STATUS_OK;
    while (status == STATUS_OK && fgets(line, sizeof line, file)) {
        if (!strchr(line, '\n') && !feof(file))
            return STATUS_LIMIT;
        const char *key = trim(line);
        if (key[0] != 0 && key[0] != '#')
            status = api_keys_add(keys, key);
    }
    explicit_bzero(line, sizeof line);
    return status;
}

/* Whoever may write a file of keys can let himself in. Systemd's credentials are 0440. */
static enum status check_mode(FILE *file, const char *path, bool is_private, struct error *error) {
    struct stat info;
    if (fstat(fileno(file), &info) != 0)
        return error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
    if ((info.st_mode & (is_private ? 026 : 022)) != 0)
        return error_set(error, STATUS_DENIED, "%s: others can %s it (mode %03o); chmod go-w%s it",
                         path, (info.st_mode & 022) != 0 ? "change" : "read", info.st_mode & 0777,
                         is_private ? ",o=" : "");
    return STATUS_OK;
}

enum status api_keys_load(const char *path, bool is_private, struct api_keys **out,
                          struct error *error) {
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
    enum status allowed = check_mode(file, path, is_private, error);
    if (allowed != STATUS_OK) {
        fclose(file);
        return allowed;
    }
    struct api_keys *keys = calloc(1, sizeof *keys);
    enum status status = keys ? read_lines(file, keys) : STATUS_NOMEM;
    fclose(file);
    if (status == STATUS_OK && keys->n == 0)
        status = error_set(error, STATUS_INVALID, "%s: no key in it", path);
    else if (status == STATUS_LIMIT)
        error_set(error, status, "%s: more than %d keys, or one longer than %d bytes", path,
                  API_KEYS_MAX, API_KEY_BYTES_MAX);
    else if (status != STATUS_OK)
        error_set(error, status, "%s: %s", path, status_name(status));
    if (status != STATUS_OK) {
        api_keys_free(keys);
        return status;
    }
    *out = keys;
    return STATUS_OK;
}

void api_keys_free(struct api_keys *keys) {
    if (!keys)
        return;
    if (keys->keys)
        explicit_bzero(keys->keys, keys->n * sizeof *keys->keys);
    free(keys->keys);
    free(keys);
}

bool api_keys_has(const struct api_keys *keys, const char *key) {
    char row[API_KEY_BYTES_MAX + 1] = {0};
    size_t n = strlen(key);
    if (n == 0 || n > API_KEY_BYTES_MAX)
        return false;
    memcpy(row, key, n);
    unsigned found = 0;
    for (unsigned i = 0; i < keys->n; i++) {
        uint8_t differs = 0;
        for (size_t j = 0; j < sizeof row; j++)
            differs |= (uint8_t)(row[j] ^ keys->keys[i][j]);
        found |= differs == 0;
    }
    return found != 0;
}
