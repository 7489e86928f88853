/* kernels/cuda/nccl_version.h: NCCL's versions as ncclGetVersion() tells them, and the least one that can be used. Sees no nccl.h, so
 * that tools can ask, too. */
#pragma once

/* The first whose groups can be opened without waiting for all that is asked of it. */
#define NCCL_LEAST_MAJOR 2
#define NCCL_LEAST_MINOR 19
#define NCCL_LEAST       (NCCL_LEAST_MAJOR * 10000 + NCCL_LEAST_MINOR * 100)

#define NCCL_TEXT_OF(number) #number
#define NCCL_TEXT(number)    NCCL_TEXT_OF(number)
#define NCCL_LEAST_TEXT      NCCL_TEXT(NCCL_LEAST_MAJOR) "." NCCL_TEXT(NCCL_LEAST_MINOR)

/* Up to 2.8 the major number is a digit further right. */
static inline int nccl_major(int version) {
    return version / (version < 10000 ? 1000 : 10000);
}
static inline int nccl_minor(int version) {
    return version / 100 % (version < 10000 ? 10 : 100);
}
