/* worker/family/slots.h: which tensors of a checkpoint become which packed matrices and vectors.
 *
 * A family lists its slots when it opens a model; worker/weights.c measures them for the memory
 * plan and fills them once at load. Loader thread only. Everything but the weights' own memory
 * belongs to the list. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

#define SLOTS_MAX 8192 /* matrices and vectors of one model */

struct model;

enum slot_kind { SLOT_MATRIX, SLOT_VECTOR };

struct slot {
    enum slot_kind kind;
    const char *name;                /* of its first tensor, for messages; in the list's arena */
    const struct weight_part *parts; /* (n_parts) in the list's arena */
    uint32_t n_parts;
    struct weight *weight; /* SLOT_MATRIX: borrowed, filled at load */
    const float **vector;  /* SLOT_VECTOR: borrowed, filled at load with (n) floats */
    uint32_t n;            /* SLOT_VECTOR: its length */
};

struct slots {
    struct slot *slots; /* owned (size) */
    uint32_t n;
    uint32_t size;
    struct arena arena; /* parts, row orders, names */
};

void slots_init(struct slots *slots);
void slots_fini(struct slots *slots); /* fine on a zeroed list */

/* One tensor of the checkpoint, by name, and the rows that it must have. */
struct slot_tensor {
    const char *name;
    uint32_t n_rows;
};

/* A matrix (n, k) made of whole tensors under each other; n is the sum of their rows. Statuses of
 * model_tensor(), and STATUS_NOMEM, STATUS_LIMIT. */
NODISCARD enum status slots_matrix(struct slots *slots, const struct model *model,
                                   struct weight *weight, const struct slot_tensor *tensors,
                                   uint32_t n_tensors, uint32_t k, struct error *error);

/* A matrix (2 n_rows, k) whose rows alternate between two tensors: gate 0, up 0, gate 1, ... as
 * EPILOGUE_SILU_MUL wants them. */
NODISCARD enum status slots_alternate(struct slots *slots, const struct model *model,
                                      struct weight *weight, const char *even, const char *odd,
                                      uint32_t n_rows, uint32_t k, struct error *error);

/* A vector of n numbers, made float32 at load. */
NODISCARD enum status slots_vector(struct slots *slots, const struct model *model,
                                   const float **vector, const char *name, uint32_t n,
                                   struct error *error);
