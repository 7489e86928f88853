/* kernels/cuda/nccl_library.h: the functions of NCCL, loaded at run time. Included where nccl.h may be seen: cuda/nccl.c and
 * cuda/nccl_library.c. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <nccl.h>

/* Name, behind `nccl`, and type. */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(GetVersion, ncclResult_t, int *version)                                                      \
    X(GetUniqueId, ncclResult_t, ncclUniqueId *id)                                                 \
    X(GetErrorString, const char *, ncclResult_t result)                                           \
    X(GetLastError, const char *, ncclComm_t comm)                                                 \
    X(CommInitRankConfig, ncclResult_t, ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank,  \
      ncclConfig_t *config)                                                                        \
    X(CommGetAsyncError, ncclResult_t, ncclComm_t comm, ncclResult_t *result)                      \
    X(CommAbort, ncclResult_t, ncclComm_t comm)                                                    \
    X(AllGather, ncclResult_t, const void *from, void *to, size_t n, ncclDataType_t type,          \
      ncclComm_t comm, cudaStream_t stream)                                                        \
    X(Send, ncclResult_t, const void *from, size_t n, ncclDataType_t type, int peer,               \
      ncclComm_t comm, cudaStream_t stream)                                                        \
    X(Recv, ncclResult_t, void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,      \
      cudaStream_t stream)                                                                         \
    X(GroupStart, ncclResult_t, void)                                                              \
    X(GroupEnd, ncclResult_t, void)

struct nccl_library {
#define X(name, type, ...) type (*name)(__VA_ARGS__);
    NCCL_FUNCTIONS(X)
#undef X
    int version;
};

/* The library of TANDEM_NCCL, or of this name (NULL: there is none), which stays loaded: NULL with the reason in *error. Any
 * thread; the first call decides for the process. */
const struct nccl_library *nccl_library(const char *name, struct error *error);
