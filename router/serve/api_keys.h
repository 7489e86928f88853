/* router/serve/api_keys.h: who may ask, and how much: one key per line of a file.
 *
 *     KEY [concurrent=N] [per-minute=N] [cache-salt=TEXT]
 */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>

struct api_keys;
struct quota;

#define API_KEYS_MAX      4096
#define API_KEY_BYTES_MAX 512

/* Lines that are empty or begin with # are skipped. STATUS_INVALID when there is no key or a word
 * behind one is not understood, STATUS_DENIED when others may change the file or, where `is_private`, read
 * it; STATUS_LIMIT, STATUS_IO, each with one line that names the file. */
NODISCARD enum status api_keys_load(const char *path, bool is_private, struct api_keys **keys,
                                    struct error *error);
void api_keys_free(struct api_keys *keys); /* overwrites them; NULL is fine */

/* Reads the file again, and fails as the load does; then nothing has changed. A key that stays keeps
 * count of its calls; calls of one that is gone, or has another salt, end as they began. */
NODISCARD enum status api_keys_reload(struct api_keys *keys, struct error *error);

/* Takes the same time whatever the keys say. */
bool api_keys_has(const struct api_keys *keys, const char *key);

/* What that key may use; it lives until the next reload, and while a call has taken it. NULL: there
 * is no such key. */
struct quota *api_keys_quota(struct api_keys *keys, const char *key);
