/* model/weights/dummy.h: tensors that lie nowhere: each that is asked for exists, with the shape it
 * is asked for and pseudo-random values, and costs next to no memory.
 *
 * Start-up only, one thread: making a tensor changes the checkpoint. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdint.h>

struct checkpoint;
struct model_config;

/* On success the caller ends *checkpoint with its kind's close(). STATUS_NOMEM, STATUS_IO. */
NODISCARD enum status dummy_open(const struct model_config *config, uint64_t seed,
                                 struct checkpoint **checkpoint, struct error *error);
