#include "router/serve/api_keys.h"

#include "base/file.h"
#include "router/call/quota.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define LINE_BYTES_MAX (API_KEY_BYTES_MAX + QUOTA_SALT_MAX + QUOTA_NAME_MAX + 128)
#define BLANKS         " \t\r\n"
#define FILE_BYTES_MAX (API_KEYS_MAX * LINE_BYTES_MAX)

struct api_keys_row {
    char key[API_KEY_BYTES_MAX + 1]; /* zero-padded, so that whole ones compare */
    struct quota *quota;             /* owned, until it is retired */
    unsigned line;                   /* of the file */
};

struct api_keys {
    char *path;      /* owned */
    bool is_private; /* others may not read it */
    unsigned n;
    struct api_keys_row *rows; /* owned (n) */
};

#define CALLS_MAX  1000000
#define TOKENS_MAX 1000000000

static bool api_keys_read_number(const char *text, uint32_t *number, uint32_t max) {
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < 1 || value > max)
        return false;
    *number = (uint32_t)value;
    return true;
}

/* A label of metrics and a word of the log. What begins otherwise is no name, so that rows of other
 * kinds can be told from keys. */
static bool read_name(const char *text, char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t n = strlen(text);
    if (n == 0 || n > QUOTA_NAME_MAX || !strchr(letters, text[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr(letters, text[i]) && !strchr("._-", text[i]))
            return false;
    memcpy(name, text, n + 1);
    return true;
}

/* "concurrent=8" and its like. */
static bool api_keys_read_word(const char *word, struct quota *quota) {
    static const char concurrent[] = "concurrent=", per_minute[] = "per-minute=";
    static const char tokens[] = "tokens-per-minute=";
    static const char salt[] = "cache-salt=", name[] = "name=";
    if (strncmp(word, concurrent, sizeof concurrent - 1) == 0)
        return api_keys_read_number(word + sizeof concurrent - 1, &quota->concurrent_max,
                                    CALLS_MAX);
    if (strncmp(word, per_minute, sizeof per_minute - 1) == 0)
        return api_keys_read_number(word + sizeof per_minute - 1, &quota->calls.per_minute,
                                    CALLS_MAX);
    if (strncmp(word, tokens, sizeof tokens - 1) == 0)
        return api_keys_read_number(word + sizeof tokens - 1, &quota->tokens.per_minute,
                                    TOKENS_MAX);
    if (strncmp(word, name, sizeof name - 1) == 0)
        return read_name(word + sizeof name - 1, quota->name);
    size_t n = strlen(word);
    if (strncmp(word, salt, sizeof salt - 1) != 0 || n < sizeof salt ||
        n - (sizeof salt - 1) > QUOTA_SALT_MAX)
        return false;
    snprintf(quota->salt, sizeof quota->salt, "%s", word + sizeof salt - 1);
    return true;
}

/* What a header can carry, and a person can type. */
static bool api_keys_is_key(const char *key) {
    while (*key > ' ' && *key <= '~')
        key++;
    return *key == 0;
}

/* Where requests wait, keys of one name are one tenant. 0 is whoever has no key. */
static uint64_t tenant_of(const struct api_keys_row *row) {
    const char *name = row->quota->name[0] ? row->quota->name : row->key;
    uint64_t hash = XXH3_64bits(name, strlen(name));
    return hash != 0 ? hash : 1;
}

static enum status api_keys_read_words(char *rest, struct api_keys_row *row, const char *path,
                                       struct error *error) {
    for (const char *word; (word = strtok_r(NULL, BLANKS, &rest)) != NULL;)
        if (!api_keys_read_word(word, row->quota))
            return error_set(error, STATUS_INVALID,
                             "%s: line %u: the words after a key are concurrent=N, per-minute=N "
                             "(1 to 1000000), tokens-per-minute=N (1 to 1000000000), "
                             "cache-salt=TEXT (up to %d bytes) and name=NAME (up "
                             "to %d letters, digits and ._-, a letter or digit first)",
                             path, row->line, QUOTA_SALT_MAX, QUOTA_NAME_MAX);
    return STATUS_OK;
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
    if (!api_keys_is_key(key))
        return error_set(error, STATUS_INVALID,
                         "%s: line %u: a key must be printable ASCII characters", path, n_lines);
    struct api_keys_row *grown = reallocarray(keys->rows, keys->n + 1, sizeof *keys->rows);
    if (!grown)
        return error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    keys->rows = grown;
    struct api_keys_row *row = &keys->rows[keys->n++];
    memset(row, 0, sizeof *row);
    memcpy(row->key, key, strlen(key));
    row->line = n_lines;
    row->quota = calloc(1, sizeof *row->quota);
    if (!row->quota)
        return error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    TRY(api_keys_read_words(rest, row, path, error));
    row->quota->tenant = tenant_of(row);
    return STATUS_OK;
}

/* `line` has n bytes and a NUL behind them. */
static enum status api_keys_read_line(struct api_keys *keys, char *line, size_t n, unsigned n_lines,
                                      const char *path, struct error *error) {
    if (n > LINE_BYTES_MAX - 1)
        return error_set(error, STATUS_LIMIT, "%s: line %u: longer than %d bytes", path, n_lines,
                         LINE_BYTES_MAX - 2);
    if (strlen(line) != n)
        return error_set(error, STATUS_INVALID, "%s: line %u: a zero byte: not a file of keys",
                         path, n_lines);
    return api_keys_add(keys, line, n_lines, path, error);
}

static enum status api_keys_read_lines(struct api_keys *keys, FILE *file, const char *path,
                                       struct error *error) {
    char *line = NULL;
    size_t size = 0;
    unsigned n_lines = 0;
    enum status status = STATUS_OK;
    for (ssize_t n; status == STATUS_OK && (n = getline(&line, &size, file)) >= 0;)
        status = api_keys_read_line(keys, line, (size_t)n, ++n_lines, path, error);
    if (line)
        explicit_bzero(line, size);
    free(line);
    return status;
}

/* A regular file that its owner alone may change: whoever may write it can let himself in. */
static enum status api_keys_open_file(const char *path, bool is_private, FILE **file,
                                      struct error *error) {
    int fd;
    uint64_t n_bytes;
    TRY(file_open(path, &fd, &n_bytes, error));
    enum status status = file_check_mode(fd, path, is_private, error);
    if (status == STATUS_OK && n_bytes > FILE_BYTES_MAX)
        status = error_set(error, STATUS_LIMIT, "%s: more than %d bytes", path, FILE_BYTES_MAX);
    if (status == STATUS_OK && !(*file = fdopen(fd, "re")))
        status = error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    if (status != STATUS_OK)
        close(fd);
    return status;
}

enum status api_keys_load(const char *path, bool is_private, struct api_keys **out,
                          struct error *error) {
    FILE *file;
    TRY(api_keys_open_file(path, is_private, &file, error));
    struct api_keys *keys = calloc(1, sizeof *keys);
    if (keys)
        *keys = (struct api_keys){.path = strdup(path), .is_private = is_private};
    enum status status = keys && keys->path
                             ? api_keys_read_lines(keys, file, path, error)
                             : error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    fclose(file);
    if (status == STATUS_OK && keys->n == 0)
        status = error_set(error, STATUS_INVALID, "%s: contains no key", path);
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

static struct api_keys_row *api_keys_find(const struct api_keys *keys, const char *key) {
    char padded[API_KEY_BYTES_MAX + 1] = {0};
    size_t n = strlen(key);
    struct api_keys_row *found = NULL;
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
    struct api_keys_row *row = api_keys_find(keys, key);
    return row ? row->quota : NULL;
}

/* The quota of a key that stays goes over, with the limits of now: each side owns one afterwards. */
static void api_keys_keep_quota(struct api_keys_row *old, struct api_keys_row *fresh) {
    struct quota *kept = old->quota;
    if (strcmp(kept->salt, fresh->quota->salt) != 0)
        return;
    quota_change(kept, fresh->quota);
    old->quota = fresh->quota;
    fresh->quota = kept;
}

enum status api_keys_load_again(const struct api_keys *keys, struct api_keys **fresh,
                                struct error *error) {
    return api_keys_load(keys->path, keys->is_private, fresh, error);
}

void api_keys_replace(struct api_keys *keys, struct api_keys **by) {
    struct api_keys *fresh = *by;
    for (unsigned i = 0; i < fresh->n; i++) {
        struct api_keys_row *old = api_keys_find(keys, fresh->rows[i].key);
        if (old)
            api_keys_keep_quota(old, &fresh->rows[i]);
    }
    struct api_keys gone = *keys;
    *keys = *fresh;
    *fresh = gone;
    api_keys_free(fresh);
    *by = NULL;
}

enum status api_keys_apart(const struct api_keys *clients, const struct api_keys *admins,
                           struct error *error) {
    for (unsigned i = 0; clients && admins && i < admins->n; i++) {
        const struct api_keys_row *both = api_keys_find(clients, admins->rows[i].key);
        if (both)
            return error_set(error, STATUS_INVALID,
                             "%s: line %u: the key is also in %s, line %u: a client would be an "
                             "administrator",
                             admins->path, admins->rows[i].line, clients->path, both->line);
    }
    return STATUS_OK;
}
