/* model/weights/hub.h: what a model's path stands for: a file, a folder, or a place in a hub's
 * cache.
 *
 * Clients of the Hugging Face hub keep what they fetched as CACHE/models--ORG--NAME: `snapshots` has a
 * folder of links for each commit, `refs/main` holds the name of the one that the main branch had, and
 * `blobs` the bytes (huggingface.co/docs/huggingface_hub/guides/manage-cache). Such a folder can be
 * named, or just ORG/NAME, which is looked up in the cache. Nothing is fetched. Start-up only, any
 * thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <limits.h>
#include <stdbool.h>

#define HUB_NAME_MAX 128 /* bytes with the 0 */

struct hub_found {
    char path[PATH_MAX];     /* a .gguf file or a folder with a config.json, if all is well */
    char name[HUB_NAME_MAX]; /* "ORG/NAME" of what was found in a cache; "": named by its path */
};

/* Has it the form of a hub's id: ORG/NAME, of letters, digits, '.', '_' and '-'? */
bool hub_is_id(const char *text);

/* Finds what `path` stands for: what exists stands for itself, but a cache's folder of a model for its
 * snapshot, and a folder that has no safetensors and one .gguf file, or the parts of one, for that
 * file or the first part that is there (not where `folder_only`: a dummy is made from the folder's config.json). Other ids are looked up in
 * $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub. What is nothing of all that is left as it
 * is: opening it says why. STATUS_NOT_FOUND or STATUS_INVALID with a line that names the folder and,
 * where several things could be meant, lists them; STATUS_LIMIT for a path that is too long. */
NODISCARD enum status hub_find(const char *path, bool folder_only, struct hub_found *found,
                               struct error *error);
