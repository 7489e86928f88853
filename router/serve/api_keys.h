/* router/serve/api_keys.h: who may ask, and how much: one key per line of a file.
 *
 *     KEY [name=NAME] [concurrent=N] [per-minute=N] [tokens-per-minute=N]
 *         [cache-salt=TEXT]
 *
 * Several keys may have one name: their calls are counted together. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>

struct api_keys;
struct quota;

#define API_KEYS_MAX      4096
#define API_KEY_BYTES_MAX 512

/* Lines that are empty or begin with # are skipped; keys are printable ASCII characters. `path` must
 * be a regular file. STATUS_INVALID when there is no key, a byte that no key has, or a word behind
 * one that is not understood; STATUS_DENIED when others may change the file or, where it `is_private`, read
 * it; STATUS_LIMIT, STATUS_NOT_FOUND, STATUS_IO, each with one line that names the file. */
NODISCARD enum status api_keys_load(const char *path, bool is_private, struct api_keys **keys,
                                    struct error *error);
void api_keys_free(struct api_keys *keys); /* overwrites them; NULL is fine */

/* Loads the file of `keys` once more; `keys` stay as they are. */
NODISCARD enum status api_keys_load_again(const struct api_keys *keys, struct api_keys **fresh,
                                          struct error *error);

/* From now on `keys` are what *by was; frees that, with the old rows. A key that stays keeps count of
 * its calls and tokens; calls of one that is gone, or has another salt, end as they began. */
void api_keys_replace(struct api_keys *keys, struct api_keys **by);

/* STATUS_INVALID with a line when one key is in both; either may be NULL. */
NODISCARD enum status api_keys_apart(const struct api_keys *clients, const struct api_keys *admins,
                                     struct error *error);

/* Takes the same time for all keys. */
bool api_keys_has(const struct api_keys *keys, const char *key);

/* What that key may use; it lives until the next reload, and while a call has taken it. NULL: there
 * is no such key. */
struct quota *api_keys_quota(struct api_keys *keys, const char *key);
