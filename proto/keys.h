/* proto/keys.h: the cluster's CURVE keys (RFC 26/CurveZMQ), one folder for the whole cluster.
 *
 * Two key pairs in Z85, one file each: what listens proves itself with the server pair, what
 * connects with the client pair, and only the cluster's client key is let in. A user who can read
 * the files can join, so they are 0600 in a folder of 0700, or root's with at most 0640 for its
 * group. Any thread; used at start only. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#define KEY_TEXT_BYTES 41 /* Z85 of 32 bytes, with NUL */

struct keys {
    char server_public[KEY_TEXT_BYTES];
    char server_secret[KEY_TEXT_BYTES];
    char client_public[KEY_TEXT_BYTES];
    char client_secret[KEY_TEXT_BYTES];
};

/* Makes the folder (0700, its parent must exist) and writes server.public, server.secret,
 * client.public, client.secret (0600). STATUS_EXISTS when any of them is there already, and then
 * nothing is changed. */
NODISCARD enum status keys_make(const char *folder, struct error *error);

/* STATUS_DENIED: a file that others can read or write, or a folder where they could put another in
 * its place. STATUS_NOT_FOUND,
 * STATUS_INVALID: not keys, or a public key that is not its secret's. */
NODISCARD enum status keys_load(const char *folder, struct keys *keys, struct error *error);

/* Overwrites the secrets. */
void keys_wipe(struct keys *keys);
