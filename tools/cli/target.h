/* tools/cli/target.h: the running server that a command asks, and the key that it shows there. */
#pragma once

#include "base/buf.h"
#include "base/client/http_url.h"
#include "base/error.h"
#include "tools/lib/args.h"

struct cli_target {
    const char *server; /* borrowed: --server, or NULL */
    struct http_trust trust;
    const char *key_file; /* borrowed: --admin-key-file, or NULL */
    char key[512];        /* "": none; target_forget() overwrites it */
};

/* The options --server and --admin-key-file; those of `trust` are http_trust_rows. */
extern const struct args_row target_rows[];

/* The server's address: the option's value, else $TANDEM_SERVER, else the usual address. */
const char *target_server(const char *option);

/* What may help behind the words of a connection's error, as ": is a server up? ..."; "": nothing. */
const char *target_hint(const char *why);

/* Reads the key from its file, else from TANDEM_ADMIN_KEY; without both there is none.
 * STATUS_INVALID, STATUS_LIMIT and file_read()'s errors name the file or the variable. */
NODISCARD enum status target_find_key(struct cli_target *target, struct error *error);
void target_forget(struct cli_target *target);
