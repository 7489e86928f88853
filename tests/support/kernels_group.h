/* tests/support/kernels_group.h: a group of ranks, each a context of one backend with a device of its own, in a thread of its own. */
#pragma once

#include "kernels/kernels.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_MOST 8u

/* How ranks meet: by each other's memory, or by an id. A test of a backend and a way is number N_WAYS * row + way. */
enum way { BY_MEMORY, BY_ID, N_WAYS };

struct group;

/* A rank: what it computes with, and what came of it. */
struct member {
    struct group *group;
    struct kernels_ctx *ctx; /* owned */
    uint32_t rank;
    bool is_right; /* true before it lives */
    enum status status;
    pthread_t thread;
};

struct group {
    const struct kernels *kernels;
    enum way way;
    uint32_t n;
    struct kernels_group_id id;
    struct member members[GROUP_MOST];
    void (*lives)(struct member *member);
};

/* What contexts have room for. */
struct group_sizes {
    uint32_t n_vocab;
    uint32_t columns; /* of what they gather, the most that one rank has */
    size_t together;  /* numbers of a sum, mostly */
    uint32_t wait_ms; /* for a rank that is late; 0: as long as the backend thinks right */
};

/* Opens n ranks, which meet; `i` is the number of the test. Closed by group_close(). */
void group_open(struct group *group, int i, uint32_t n, const struct group_sizes *sizes);
void group_close(struct group *group);

/* Those that have parted meet again. */
void group_meet(struct group *group);

/* All ranks live, each in its thread, until each has come to its end. */
void group_run(struct group *group, void (*lives)(struct member *member));

/* The test fails unless each rank's is_right is left. */
void group_check(const struct group *group);

/* The life of a group: n ranks open and meet, live, are checked and closed. */
void group_try(int i, uint32_t n, const struct group_sizes *sizes,
               void (*lives)(struct member *member));

/* What a rank brings: large and small, so that another order of adding gives other bits. */
float group_number(uint32_t rank, uint32_t turn, size_t i);

/* How many ways there are to test a row: none of those that do not meet or are not wanted; whether there is a library for the second
 * one, which on a GPU is the machine's own. */
static inline int group_ways(const struct kernels *kernels) {
    bool emulated = subject_is_emulated(&(struct subject){.kernels = kernels});
    if (!kernels->meet || !(emulated || subject_is_wanted(kernels)))
        return 0;
#ifdef FAKE_NCCL
    if (emulated)
        setenv("TANDEM_NCCL", FAKE_NCCL, 0);
    return N_WAYS;
#else
    if (!emulated && getenv("TANDEM_NCCL"))
        return N_WAYS;
    suite_skip("ranks that meet by an id", emulated ? "there was no nccl.h" : "no TANDEM_NCCL");
    return BY_ID;
#endif
}
