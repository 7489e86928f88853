#include "tools/cli/target.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_FILE_BYTES_MAX 65536u

#define AT(member) offsetof(struct cli_target, member)
const struct args_row target_rows[] = {
    {"server", "URL", args_text, AT(server),
     .help = "the server (default: TANDEM_SERVER or port 8000 here)"},
    {"admin-key-file", "FILE", args_text, AT(key_file),
     .help = "its first line that is not a comment is the key (default: TANDEM_ADMIN_KEY, the key "
             "itself)"},
    {0}};

const char *target_server(const char *option) {
    const char *from_env = getenv("TANDEM_SERVER");
    return option ? option : from_env && from_env[0] ? from_env : "http://127.0.0.1:8000";
}

const char *target_hint(const char *why) {
    return strstr(why, strerror(ECONNREFUSED)) ? ": is a server up? tandem up MODEL" : "";
}

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
        status = error_set(error, STATUS_INVALID, "%s: contains no key", target->key_file);
    if (file.data)
        explicit_bzero(file.data, file.n);
    buf_fini(&file);
    return status;
}

void target_forget(struct cli_target *target) {
    explicit_bzero(target->key, sizeof target->key);
}
