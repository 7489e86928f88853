/* model/weights/decoder_tensors.h: whether a checkpoint has what a decoder needs of it. Start-up only, one thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"

struct tensors;

/* Walks all tensors that the config's family has, in the order of the layers, and reads none of their weights. Statuses
 * and lines as tensors_get() and tensors_matrix() have them for the first that is missing or has another shape or format;
 * STATUS_UNSUPPORTED where the family is not read from such files. Must not be called for a dummy, which would make them. */
NODISCARD enum status decoder_tensors_check(const struct tensors *tensors, struct error *error);
