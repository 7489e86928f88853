/* worker/config.h: what a worker is told: flags, TANDEM_* variables and tandem.ini, checked. Read
 * once at start. */
#pragma once

#include "base/log/log.h"
#include "base/options/options.h"
#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

struct config {
    struct options *options; /* owned: the strings below live in it */
    const char *name;
    enum worker_role role;
    const char *model;          /* path, or "hash" */
    unsigned dummy;             /* load-format: 1 where the weights are made up */
    const char *backend;        /* name of rows of kernels_table */
    const char *numerics;       /* "auto", "exact" or "fast" */
    char kernels[32];           /* label of a row of kernels_table: of both */
    uint32_t devices;           /* ordinal of the one that the backend computes on */
    const char *gpu_memory;     /* as it was given */
    double memory_share;        /* gpu_memory: of a device's free memory, above 0 and at most 1 */
    bool cuda_graphs;           /* steps that decode are launched as one */
    bool steps_ahead;           /* a step may begin before the one before it was read */
    uint32_t tp;                /* ranks of the tensor-parallel group */
    uint32_t ranks_here;        /* 0: all */
    const char *rank_listen;    /* where followers come to, or "" */
    const char *follow;         /* of a follower: where its leader listens, or "" */
    const char *kv_dtype;       /* "auto", "f16" or "f32" */
    struct option_list routers; /* their announce endpoints */
    const char *dns_server;     /* who is asked for their names, or "" */
    const char *endpoint;       /* where routers connect to */
    const char *kv_endpoint;    /* where prefill workers connect to */
    char kv_endpoint_text[MESSAGE_ENDPOINT_MAX + 32];
    const char *admin;        /* HOST:PORT of /metrics, or "" */
    const char *keys;         /* folder, or "" */
    const char *kv_transport; /* "auto" or a row of transport_table */
    uint32_t kv_blocks;       /* 0: by what memory there is */
    uint32_t chunk_tokens;    /* most of a step; 0: 512 */
    uint32_t max_batch;       /* sequences of a step; 0: by KV */
    uint32_t context;         /* 0: the model's */
    uint32_t threads;         /* 0: one per core */
    uint32_t step_us;
    uint64_t drain_ns; /* running sequences may take this long after a requested stop */
    unsigned sums;     /* enum sums of worker/ranks/rank.h */
    enum log_level log_level;
    bool dry_run;
    bool json;
    const char *device; /* of the memory plan: a name, bytes, or "" for this host */
};

extern const struct options_program config_program; /* a row for each option */

/* STATUS_INVALID with lines in `errors`, all of them; the program then ends with EXIT_CONFIG. */
NODISCARD enum status config_read(struct config *config, int argc, char **argv, struct buf *errors);
void config_fini(struct config *config); /* fine on a zeroed one */
