#include "tools/cli/target.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_FILE_BYTES_MAX 65536u

enum { KEY_SERVER = 0x2000, KEY_ADMIN_KEY_FILE };

static const struct argp_option options[] = {
    {"server", KEY_SERVER, "URL", 0, "the server (default: TANDEM_SERVER or port 8000 here)", 0},
    {"admin-key-file", KEY_ADMIN_KEY_FILE, "FILE", 0,
     "its first line that is not a comment is the key (default: TANDEM_ADMIN_KEY, the key itself)",
     0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct cli_target *target = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &target->trust;
        return 0;
    case KEY_SERVER:
        target->server = text;
        return 0;
    case KEY_ADMIN_KEY_FILE:
        target->key_file = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, NULL, NULL, http_trust_argp, NULL, NULL};
const struct argp_child target_argp[2] = {{&argp, 0, NULL, 0}, {0}};

/* A key is never an argument: others on this host could read it there. */
enum status target_find_key(struct cli_target *target, struct error *error) {
    const char *from_env = getenv("TANDEM_ADMIN_KEY");
    struct buf file;
    if (!target->key_file) {
        if (from_env && strlen(from_env) >= sizeof target->key)
            return error_set(error, STATUS_LIMIT, "TANDEM_ADMIN_KEY: longer than 511 bytes");
        snprintf(target->key, sizeof target->key, "%s", from_env ? from_env : "");
        return STATUS_OK;
    }
    buf_init(&file, 0);
    enum status status = file_read(target->key_file, KEY_FILE_BYTES_MAX, &file, error);
    char *rest = NULL;
    char *line = status == STATUS_OK && file.n > 0 ? strtok_r(file.data, "\r\n", &rest) : NULL;
    for (; line; line = strtok_r(NULL, "\r\n", &rest)) {
        line += strspn(line, " \t");
        size_t n = strlen(line);
        while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
            n--;
        if (n > 0 && n < sizeof target->key && line[0] != '#') {
            memcpy(target->key, line, n);
            target->key[n] = '\0';
            break;
        }
    }
    if (status == STATUS_OK && !target->key[0])
        status = error_set(error, STATUS_INVALID, "%s: no key in it", target->key_file);
    if (file.data)
        explicit_bzero(file.data, file.n);
    buf_fini(&file);
    return status;
}

void target_forget(struct cli_target *target) {
    explicit_bzero(target->key, sizeof target->key);
}
