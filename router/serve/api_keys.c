#include "router/serve/api_keys.h"

#include "base/file.h"
#include "router/call/quota.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (API_KEY_BYTES_MAX + QUOTA_SALT_MAX + 128)
#define BLANKS         " \t\r\n"

struct row {
    char key[API_KEY_BYTES_MAX + 1]; /* zero-padded, so that whole ones compare */
    struct quota *quota;             /* owned, until it is retired */
};

struct api_keys {
    char *path;      /* owned */
    bool is_private; /* others may not read it */
    unsigned n;
    struct row *rows; /* owned (n) */
};

static bool read_number(const char *text, uint32_t *number) {
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < 1 || value > 1000000)
        return false;
    *number = (uint32_t)value;
    return true;
}

/* "concurrent=8" and its like. */
static bool read_word(const char *word, struct quota *quota) {
    static const char concurrent[] = "concurrent=", per_minute[] = "per-minute=";
    static const char salt[] = "cache-salt=";
    if (strncmp(word, concurrent, sizeof concurrent - 1) == 0)
        return read_number(word + sizeof concurrent - 1, &quota->concurrent_max);
    if (strncmp(word, per_minute, sizeof per_minute - 1) == 0)
        return read_number(word + sizeof per_minute - 1, &quota->per_minute);
    size_t n = strlen(word);
    if (strncmp(word, salt, sizeof salt - 1) != 0 || n < sizeof salt ||
        n - (sizeof salt - 1) > QUOTA_SALT_MAX)
        return false;
    snprintf(quota->salt, sizeof quota->salt, "%s", word + sizeof salt - 1);
    return true;
}

static enum status api_keys_add(struct api_keys *keys, char *line, unsigned n_lines,
                                const char *path, struct error *error) {
    char *rest = NULL;
    const char *key = strtok_r(line, BLANKS, &rest);
    if (!key || key[0] == '#')
        return STATUS_OK;
    if (keys->n == API_KEYS_MAX || strlen(key) > API_KEY_BYTES_MAX)
        return error_set(error, STATUS_LIMIT, "%s: more than %d keys, or one longer than %d bytes",
                         path, API_KEYS_MAX, API_KEY_BYTES_MAX);
    struct row *grown = reallocarray(keys->rows, keys->n + 1, sizeof *keys->rows);
    if (!grown)
        return error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    keys->rows = grown;
    struct row *row = &keys->rows[keys->n++];
    memset(row, 0, sizeof *row);
    memcpy(row->key, key, strlen(key));
    row->quota = calloc(1, sizeof *row->quota);
    if (!row->quota)
        return error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    for (const char *word; (word = strtok_r(NULL, BLANKS, &rest)) != NULL;)
        if (!read_word(word, row->quota))
            return error_set(error, STATUS_INVALID,
                             "%s: line %u: the words behind a key are concurrent=N, per-minute=N "
                             "(1 to 1000000) and cache-salt=TEXT (up to %d bytes)",
                             path, n_lines, QUOTA_SALT_MAX);
    return STATUS_OK;
}

static enum status read_lines(struct api_keys *keys, FILE *file, const char *path,
                              struct error *error) {
    char line[LINE_BYTES_MAX];
    unsigned n_lines = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && fgets(line, sizeof line, file)) {
        n_lines++;
        status = !strchr(line, '\n') && !feof(file)
                     ? error_set(error, STATUS_LIMIT, "%s: line %u: longer than %d bytes", path,
                                 n_lines, LINE_BYTES_MAX - 2)
                     : api_keys_add(keys, line, n_lines, path, error);
    }
    explicit_bzero(line, sizeof line);
    return status;
}

enum status api_keys_load(const char *path, bool is_private, struct api_keys **out,
                          struct error *error) {
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
    /* Whoever may write a file of keys can let himself in. */
    enum status allowed = file_check_mode(fileno(file), path, is_private, error);
    if (allowed != STATUS_OK) {
        fclose(file);
        return allowed;
    }
    struct api_keys *keys = calloc(1, sizeof *keys);
    if (keys)
        *keys = (struct api_keys){.path = strdup(path), .is_private = is_private};
    enum status status = keys && keys->path
                             ? read_lines(keys, file, path, error)
                             : error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    fclose(file);
    if (status == STATUS_OK && keys->n == 0)
        status = error_set(error, STATUS_INVALID, "%s: no key in it", path);
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
    for (unsigned i = 0; i < keys->n; i++)
        quota_retire(keys->rows[i].quota);
    if (keys->rows)
        explicit_bzero(keys->rows, keys->n * sizeof *keys->rows);
    free(keys->rows);
    free(keys->path);
    free(keys);
}

static struct row *api_keys_find(const struct api_keys *keys, const char *key) {
    char padded[API_KEY_BYTES_MAX + 1] = {0};
    size_t n = strlen(key);
    struct row *found = NULL;
    if (n == 0 || n > API_KEY_BYTES_MAX)
        return NULL;
    memcpy(padded, key, n);
    for (unsigned i = 0; i < keys->n; i++) {
        uint8_t differs = 0;
        for (size_t j = 0; j < sizeof padded; j++)
            differs |= (uint8_t)(padded[j] ^ keys->rows[i].key[j]);
        found = differs == 0 ? &keys->rows[i] : found;
    }
    return found;
}

bool api_keys_has(const struct api_keys *keys, const char *key) {
    return api_keys_find(keys, key) != NULL;
}

struct quota *api_keys_quota(struct api_keys *keys, const char *key) {
    struct row *row = api_keys_find(keys, key);
    return row ? row->quota : NULL;
}

/* The quota of a key that stays goes over, with the limits of now: each side owns one afterwards. */
static void keep_quota(struct row *old, struct row *fresh) {
    struct quota *kept = old->quota;
    if (strcmp(kept->salt, fresh->quota->salt) != 0)
        return;
    kept->concurrent_max = fresh->quota->concurrent_max;
    kept->per_minute = fresh->quota->per_minute;
    old->quota = fresh->quota;
    fresh->quota = kept;
}

enum status api_keys_reload(struct api_keys *keys, struct error *error) {
    struct api_keys *fresh = NULL;
    TRY(api_keys_load(keys->path, keys->is_private, &fresh, error));
    for (unsigned i = 0; i < fresh->n; i++) {
        struct row *old = api_keys_find(keys, fresh->rows[i].key);
        if (old)
            keep_quota(old, &fresh->rows[i]);
    }
    struct api_keys gone = *keys;
    *keys = *fresh;
    *fresh = gone;
    api_keys_free(fresh);
    return STATUS_OK;
}
