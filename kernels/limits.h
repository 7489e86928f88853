/* kernels/limits.h: the checks of kernels_options that backends on the CPU share. */
#pragma once

#include "kernels/kernels.h"

#define HEAD_DIM_MIN 8
#define HEAD_DIM_MAX 256
#define DIM_MAX      (1u << 20)
#define TOKENS_MAX   (1u << 20)
#define VOCAB_MAX    (1u << 24)
#define THREADS_MAX  256
#define EXPERTS_MAX  1024 /* of one mixture; families refuse more */

/* Every limit is set, within its bound, and fits the kernels. STATUS_INVALID or _UNSUPPORTED. */
NODISCARD enum status limits_check(const struct kernels_options *options, struct error *error);
