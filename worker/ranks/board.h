/* worker/ranks/board.h: where rank 0 writes what a step is about, for the ranks in other threads
 * and processes to read.
 *
 * One piece of shared memory, sized once. Rank 0 publishes; each other rank takes the step, runs
 * it and says that it is done with it; the next one is written only then. Ranks wait on event counts
 * (event_count.h): none is busy between steps. */
#pragma once

#include "base/status.h"
#include "kernels/kernels.h"
#include "worker/comm/event_count.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct board_sizes {
    uint32_t n_ranks;
    uint32_t max_tokens;
    uint32_t max_seqs;
    uint32_t max_blocks; /* of a sequence */
};

struct board;

/* STATUS_LIMIT: more than memory can be. */
NODISCARD enum status board_bytes(const struct board_sizes *sizes, size_t *n_bytes);

/* Of zeroed memory (board_bytes(), 64-byte aligned), once. */
void board_init(struct board *board, const struct board_sizes *sizes);

/* A process that got the memory from another checks that it is a board of these sizes. */
bool board_fits(const struct board *board, const struct board_sizes *sizes);

/* A step as a rank takes it; borrows the board's memory until board_done(). */
struct board_step {
    struct kernels_batch batch;
    const uint32_t *rows; /* (n_rows) */
    uint32_t n_rows;
};

/* Rank 0: waits until the last step is done everywhere, and writes the next. False: closed. */
bool board_publish(struct board *board, const struct board_step *step,
                   struct event_count_patience *patience);

/* Rank 0: waits until the last step is done everywhere. False: closed. */
bool board_settled(struct board *board, struct event_count_patience *patience);

/* The others: waits for the step after *turn (0 at first) and counts it there. False: closed. */
bool board_take(struct board *board, uint32_t *turn, struct event_count_patience *patience,
                struct board_step *step);
void board_done(struct board *board);

/* There is no next step: every wait and take returns false. Any thread. */
void board_close(struct board *board);
