/* worker/ranks/rank_wire.h: what the processes of one tensor-parallel group say to each other while
 * they find together: a Unix socket of whole records, on one host and of one user. Steps themselves
 * go through shared memory (worker/ranks/board.h).
 *
 *   follower: JOIN   -> leader: TERMS with the group's memory, or REFUSED
 *   follower: READY with its KV pools, or FAILED -> leader: BYE at an orderly end
 *
 * A socket that closes without BYE means that the process at its other end died. Records are structs
 * of one build; JOIN and TERMS carry its version. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"
#include "worker/comm/comm.h"
#include "worker/ranks/group.h"

#include <stdint.h>
#include <sys/types.h>

#define RANK_WIRE_NUMERICS_MAX 512

enum rank_message_type {
    RANK_JOIN,
    RANK_TERMS,
    RANK_REFUSED,
    RANK_READY,
    RANK_FAILED,
    RANK_BYE,
    RANK_MESSAGE_TYPES,
};

struct rank_join {
    char version[32];
    uint32_t n_ranks; /* that it would hold; 0: all that are left */
    uint8_t model_fp[32];
};

struct rank_terms {
    uint32_t rank_begin;
    uint32_t n_here;
    uint32_t n_ranks;
    uint32_t context_max;
    uint32_t n_blocks;
    enum kv_format kv_format;
    struct group_sizes sizes; /* of the memory whose descriptor comes along */
    char backend[16];         /* label of a row of kernels_table */
};

/* One rank's KV pool; its descriptor comes along. */
struct rank_pool {
    uint64_t n_bytes;
    uint64_t layer_bytes;
    uint32_t block_bytes;
    uint32_t head_begin;
    uint32_t n_heads;
};

struct rank_ready {
    char numerics[RANK_WIRE_NUMERICS_MAX];
    uint32_t n_pools;
    struct rank_pool pools[COMM_RANKS_MAX]; /* in order of ranks */
};

struct rank_message {
    uint64_t magic; /* set and checked here */
    enum rank_message_type type;
    union {
        struct rank_join join;
        struct rank_terms terms;
        struct rank_ready ready;
        struct {
            enum status status;
            char text[ERROR_TEXT_MAX];
        } failed; /* REFUSED and FAILED */
    } u;
};

/* "ipc://PATH" or a path. STATUS_UNSUPPORTED: an address beyond this host. STATUS_INVALID. */
NODISCARD enum status rank_wire_path(const char *address, const char **path, struct error *error);

/* A listening socket at `path`, mode 0600; a stale one is replaced. STATUS_EXISTS: somebody listens
 * there. STATUS_IO. */
NODISCARD enum status rank_wire_listen(const char *path, int *fd, struct error *error);

/* STATUS_NOT_FOUND: no process listens there. STATUS_IO. */
NODISCARD enum status rank_wire_connect(const char *path, int *fd, struct error *error);

/* Who holds the other end. STATUS_DENIED: not our user. */
NODISCARD enum status rank_wire_peer(int fd, pid_t *pid);

/* STATUS_CLOSED: the other end is gone. */
NODISCARD enum status rank_wire_send(int fd, struct rank_message *message, const int *fds,
                                     uint32_t n_fds);

/* Waits for a record and its *n_fds descriptors, at most COMM_RANKS_MAX, which the caller then
 * owns. STATUS_CLOSED; STATUS_CORRUPT: no record of ours; STATUS_TIMEOUT where the
 * socket has one. */
NODISCARD enum status rank_wire_receive(int fd, struct rank_message *message,
                                        int fds[COMM_RANKS_MAX], uint32_t *n_fds);
void rank_wire_close(int *fds, uint32_t n_fds);
