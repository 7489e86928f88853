/* worker/family/slots.h: which tensors of a checkpoint become which packed matrices and vectors.
 *
 * A family lists its slots when it opens a model; worker/ranks/weights.c measures them for the
 * memory plan and fills them once at load. Loader thread only. Everything but the weights' own
 * memory belongs to the list. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTS_MAX 131072 /* matrices and vectors of one model: experts have many */

struct model;

enum slot_kind { SLOT_MATRIX, SLOT_VECTOR };

/* Part of a vector: numbers begin.. of a tensor go to out_begin.. of the vector. */
struct slot_piece {
    const char *format;
    const void *data; /* borrowed */
    size_t n_bytes;
    uint32_t begin;
    uint32_t n;
    uint32_t out_begin;
    uint32_t out_step;
};

struct slot {
    enum slot_kind kind;
    const char *name;            /* of its first tensor, for messages; in the list's arena */
    struct weight_source source; /* SLOT_MATRIX: parts in the list's arena */
    struct weight *weight;       /* SLOT_MATRIX: borrowed, filled at load */
    const float **vector;        /* SLOT_VECTOR: borrowed, filled at load with (n) floats; numbers
                                    that no piece covers are 0 */
    uint32_t n;                  /* SLOT_VECTOR: its length */
    const struct slot_piece *pieces; /* SLOT_VECTOR: in the list's arena */
    uint32_t n_pieces;
};

struct slots {
    struct slot *slots; /* owned (size) */
    uint32_t n;
    uint32_t size;
    struct arena arena; /* parts, tensors, names */
};

void slots_init(struct slots *slots);
void slots_fini(struct slots *slots); /* fine on a zeroed list */

/* Rows of one layer of the checkpoint that go into a matrix or, as its bias, into a vector. */
struct slot_rows {
    const char *stem;   /* the tensor's name without ".weight" */
    uint32_t n_all;     /* rows that the tensor must have */
    uint32_t row_begin; /* rows taken */
    uint32_t n_rows;
    uint32_t out_begin; /* where the first of them goes, and how far apart they are */
    uint32_t out_step;
};

/* Which inputs a matrix takes of its tensors, which must have n_all. */
struct slot_inputs {
    uint32_t n_all;
    uint32_t begin;
    uint32_t n;
};

/* A matrix of rows of one or several layers. Statuses of tensors_matrix(), and STATUS_NOMEM,
 * STATUS_LIMIT. */
NODISCARD enum status slots_matrix(struct slots *slots, const struct model *model,
                                   struct weight *weight, const struct slot_rows *rows,
                                   uint32_t n_parts, const struct slot_inputs *inputs, bool exact,
                                   struct error *error);

/* Whether the layers' rows can be one matrix: the same format, groups and order of inputs. */
NODISCARD enum status slots_mergeable(const struct model *model, const struct slot_rows *rows,
                                      uint32_t n_parts, uint32_t n_inputs, bool *mergeable,
                                      struct error *error);

/* A vector of n numbers named `name`, made float32 at load. */
NODISCARD enum status slots_vector(struct slots *slots, const struct model *model,
                                   const float **vector, const char *name, uint32_t n,
                                   struct error *error);

/* The biases of the same rows, as one vector of n numbers. Layers without a bias have zeros there;
 * when none has one, no slot is made and *vector stays. `required`: every layer must have one. */
NODISCARD enum status slots_bias(struct slots *slots, const struct model *model,
                                 const float **vector, uint32_t n, const struct slot_rows *rows,
                                 uint32_t n_parts, bool required, struct error *error);
