/* worker/family/family.h: the seam of model families: from tokens and KV blocks to logits.
 *
 * A family is a row of family_table: its name and the network that computes it
 * (model/weights/decoder_names.h has the names of its tensors). A network (`decoder`, which all transformer families share, and `hash`, the oracle) is
 * one `const struct family_network` in a file of its own. Opening a model reads its shapes and lists its tensors but takes no memory for them, so that a memory plan
 * can be made; worker/ranks/weights.c then fills the slots, family_model's `prepare` makes what
 * follows from them (rotary tables), and `forward` runs a step. Engine thread only; nothing
 * allocates in forward. Conformance: tests/conform/family_test.c walks the table. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"
#include "worker/family/slots.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;
struct family;
struct model;

#define FAMILY_VARIANTS_MAX 16

/* What the engine must know of a model, or of one rank's share of it. Constant after open. */
struct family_facts {
    uint32_t n_vocab;
    uint32_t n_layers;    /* of the KV cache */
    uint32_t block_bytes; /* of one layer of one block, this rank's heads */
    uint32_t context;     /* most tokens of a sequence */
    uint32_t max_dim;     /* widest activation; 0 when `forced` */
    uint32_t dim;         /* floats per token that ranks add up; 0 when `forced` */
    uint32_t n_heads;     /* this rank's, as the next two */
    uint32_t n_kv_heads;
    uint32_t kv_head_begin;
    uint32_t n_kv_heads_all; /* of the model; several ranks may hold the same one */
    uint32_t head_dim;
    uint32_t vocab_begin; /* this rank's rows of the output head */
    uint32_t vocab_n;
    enum kv_format kv_format;
    /* What a family fixes when a sequence is admitted (Qwen's NTK factor) follows from the length
     * of its real prompt: variant v while n_prompt <= variant_limits[v]; the last has no limit. It
     * goes with the sequence and salts its prefix hashes. */
    uint32_t n_variants; /* at least 1 */
    uint32_t variant_limits[FAMILY_VARIANTS_MAX];
    bool forced; /* forward() names the next tokens itself: no logits, no kernels needed */
};

struct family_options {
    const struct model *model; /* borrowed: outlives the filling of the slots */
    uint32_t rank;             /* of the tensor-parallel group, */
    uint32_t n_ranks;          /* 0: 1 */
    enum kv_format kv_format;
    uint32_t max_tokens;  /* of a step */
    uint32_t context_max; /* 0: the model's own; else an upper bound on facts.context */
    uint32_t step_us;     /* families of no arithmetic: how long a step takes; 0: no longer
                             than it does */
};

/* The common head of a family's own struct. */
struct family_model {
    const struct family *family;
    struct family_facts facts;
    struct slots slots;
    char numerics[128]; /* what, beside the kernels, decides the bits; set by prepare */
};

/* The KV pool: layer l of block b lies at base + l * layer_bytes + b * block_bytes. */
struct family_kv {
    unsigned char *base; /* borrowed: memory of the kernels where there are any */
    size_t layer_bytes;
    size_t block_bytes;
    uint32_t n_layers;
    uint32_t n_blocks;
};

struct family_step {
    const struct kernels_batch *batch; /* as step_begin() of the kernels has it */
    const struct family_kv *kv;
    const uint32_t *rows; /* (n_rows) indexes below T: the tokens that choose a next one */
    uint32_t n_rows;
    float *logits;    /* out (n_rows, n_vocab), all ranks' together; NULL when facts.forced and
                         on ranks other than 0 */
    uint32_t *forced; /* out (n_rows) when facts.forced */
    void *scratch;    /* scratch_bytes(), 64-byte aligned */
    /* Called in rising order, as soon as the operations are called that bring these layers of the
     * step's tokens into the KV pool. */
    void (*layers_done)(void *context, uint32_t layer_begin, uint32_t layer_end);
    void *context;
};

struct family_network {
    /* Reads shapes and lists this rank's slots. STATUS_INVALID, STATUS_UNSUPPORTED with a line that
     * names the key or tensor, or says why the model cannot be cut for so many ranks;
     * STATUS_NOMEM. On success the caller owns *model. */
    NODISCARD enum status (*open)(const struct family *family, const struct family_options *options,
                                  struct family_model **model, struct error *error);
    void (*close)(struct family_model *model); /* never NULL */

    /* Bytes of activations for steps of up to n_tokens tokens and n_rows sampled rows; kernels are NULL when facts.forced. */
    size_t (*scratch_bytes)(const struct family_model *model, const struct kernels *kernels,
                            uint32_t n_tokens, uint32_t n_rows);

    /* After the slots are filled. `ctx` and `comm` are borrowed and outlive the model; kernels and
     * ctx are NULL when facts.forced, comm is NULL for a group of one. */
    NODISCARD enum status (*prepare)(struct family_model *model, const struct kernels *kernels,
                                     struct kernels_ctx *ctx, struct comm *comm,
                                     struct error *error);

    /* All ranks of a group together. When the group loses a rank meanwhile it ends early and what
     * it computed means nothing: the caller asks its comm. */
    void (*forward)(struct family_model *model, const struct family_step *step);
};

struct family {
    const char *name; /* as in model_config.family */
    const struct family_network *network;
};

extern const struct family family_table[]; /* ends with a row without a name */

/* By name (model_config.family), or NULL. */
const struct family *family_find(const char *name);

static inline void family_close(struct family_model *model) {
    if (model)
        model->family->network->close(model);
}
