/* model/weights/checkpoint/checkpoint.h: the seam of where a model's tensors lie: a GGUF file,
 * safetensors files, or nowhere (dummy: made when asked for).
 *
 * A member embeds struct checkpoint first. Tensors are read-only and live as long as the
 * checkpoint. Their data need not be aligned to anything: a safetensors header may have any length,
 * so readers go bytewise (memcpy); GGUF files and dummies give 32 bytes at least.
 *
 * Files never change after opening, so any thread may read; a dummy makes its tensors when they are
 * asked for, which belongs to one thread at start-up. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/tensor.h"

#include <stdbool.h>
#include <stdint.h>

struct checkpoint;
struct fingerprint;
struct gguf;

/* What a tensor is asked to be. */
struct checkpoint_want {
    const char *name;
    const char *format; /* NULL: any; a dummy picks the config's */
    uint32_t n_dims;
    uint64_t shape[TENSOR_DIMS_MAX]; /* slowest first; entries from n_dims on are 1 */
};

struct checkpoint_kind {
    const char *name; /* constant: "gguf", "safetensors", "dummy" */
    /* NULL when there is no such tensor; of a dummy: not yet. */
    const struct tensor *(*find)(const struct checkpoint *checkpoint, const char *name);
    /* In the files' order, for walks; NULL past the last. */
    const struct tensor *(*nth)(const struct checkpoint *checkpoint, uint32_t n);
    /* Makes a tensor to measure; NULL for files. STATUS_NOMEM, STATUS_LIMIT. */
    enum status (*make)(struct checkpoint *checkpoint, const struct checkpoint_want *want,
                        const struct tensor **tensor, struct error *error);
    /* Adds everything that decides the weights: sizes, headers, samples. */
    void (*hash)(const struct checkpoint *checkpoint, struct fingerprint *fingerprint);
    /* The files are still as long as they were; STATUS_IO naming the one that is not. */
    enum status (*check)(const struct checkpoint *checkpoint, struct error *error);
    /* Hands resident pages back. */
    void (*drop)(const struct checkpoint *checkpoint);
    void (*close)(struct checkpoint *checkpoint);
};

struct checkpoint {
    const struct checkpoint_kind *kind;
};

/* Each gives an open checkpoint that the caller ends with checkpoint->kind->close(). */

/* Takes the open file over, and closes it when there is no memory: STATUS_NOMEM. */
NODISCARD enum status checkpoint_from_gguf(struct gguf *gguf, struct checkpoint **checkpoint,
                                           struct error *error);

/* A .safetensors file, or a folder with some (model/weights/checkpoint/safetensors.h). */
NODISCARD enum status checkpoint_from_safetensors(const char *path, struct checkpoint **checkpoint,
                                                  struct error *error);
