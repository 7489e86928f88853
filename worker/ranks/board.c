#include "worker/ranks/board.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

#define MAGIC 0x314452414f425444ull /* "DTBOARD1" */

struct board {
    uint64_t magic;
    struct board_sizes sizes;
    _Alignas(64) struct event_count steps;    /* rises with every step */
    _Alignas(64) struct event_count all_done; /* rises when the last rank is done with it */
    _Alignas(64) _Atomic uint32_t n_left;     /* ranks that are not */
    /* The step: written while n_left is 0, read while it is not. */
    _Alignas(64) uint32_t n_tokens;
    uint32_t n_seqs;
    uint32_t block_table_stride;
    uint32_t n_rows;
    uint32_t has_variants;
    _Alignas(64) uint32_t words[]; /* the arrays, as board_places_of() finds them */
};

/* Where each array begins in words. */
struct board_places {
    uint64_t ids, positions, seq_begin, block_tables, rows, variants, n;
};

static struct board_places board_places_of(const struct board_sizes *sizes) {
    struct board_places at = {0};
    at.positions = at.ids + sizes->max_tokens;
    at.seq_begin = at.positions + sizes->max_tokens;
    at.rows = at.seq_begin + sizes->max_seqs + 1;
    at.variants = at.rows + sizes->max_seqs;
    at.block_tables = at.variants + sizes->max_seqs;
    at.n = at.block_tables + (uint64_t)sizes->max_seqs * sizes->max_blocks;
    return at;
}

enum status board_bytes(const struct board_sizes *sizes, size_t *n_bytes) {
    uint64_t n;
    if ((uint64_t)sizes->max_seqs * sizes->max_blocks > UINT64_MAX / 16) /* so that sums fit */
        return STATUS_LIMIT;
    if (!checked_mul(board_places_of(sizes).n, sizeof(uint32_t), &n) ||
        !checked_add(n, sizeof(struct board), &n) || n > SIZE_MAX / 4)
        return STATUS_LIMIT;
    *n_bytes = (size_t)n;
    return STATUS_OK;
}

void board_init(struct board *board, const struct board_sizes *sizes) {
    ASSERT(sizes->n_ranks > 1 && sizes->max_tokens > 0 && sizes->max_seqs > 0);
    board->sizes = *sizes;
    board->magic = MAGIC;
}

bool board_fits(const struct board *board, const struct board_sizes *sizes) {
    return board->magic == MAGIC && memcmp(&board->sizes, sizes, sizeof *sizes) == 0;
}

static void board_copy(uint32_t *to, const uint32_t *from, size_t n) {
    memcpy(to, from, n * sizeof *to);
}

static void board_write_step(struct board *board, const struct board_step *step) {
    const struct kernels_batch *batch = &step->batch;
    const struct board_sizes *sizes = &board->sizes;
    struct board_places at = board_places_of(sizes);
    ASSERT(batch->n_tokens <= sizes->max_tokens && batch->n_seqs <= sizes->max_seqs);
    ASSERT(batch->block_table_stride <= sizes->max_blocks && step->n_rows <= sizes->max_seqs);
    board->n_tokens = batch->n_tokens;
    board->n_seqs = batch->n_seqs;
    board->block_table_stride = batch->block_table_stride;
    board->n_rows = step->n_rows;
    board->has_variants = batch->variants != NULL;
    board_copy(board->words + at.ids, batch->ids, batch->n_tokens);
    board_copy(board->words + at.positions, batch->positions, batch->n_tokens);
    board_copy(board->words + at.seq_begin, batch->seq_begin, (size_t)batch->n_seqs + 1);
    board_copy(board->words + at.block_tables, batch->block_tables,
               (size_t)batch->n_seqs * batch->block_table_stride);
    if (step->n_rows > 0)
        board_copy(board->words + at.rows, step->rows, step->n_rows);
    if (batch->variants)
        board_copy(board->words + at.variants, batch->variants, batch->n_seqs);
}

bool board_settled(struct board *board, struct event_count_patience *patience) {
    for (;;) {
        uint32_t turn = event_count_turn(&board->all_done);
        if (event_count_closed(&board->steps))
            return false;
        if (atomic_load(&board->n_left) == 0)
            return true;
        (void)event_count_wait(&board->all_done, turn, patience);
    }
}

bool board_publish(struct board *board, const struct board_step *step,
                   struct event_count_patience *patience) {
    if (!board_settled(board, patience))
        return false;
    board_write_step(board, step);
    atomic_store(&board->n_left, board->sizes.n_ranks - 1);
    event_count_advance(&board->steps);
    return true;
}

bool board_take(struct board *board, uint32_t *turn, struct event_count_patience *patience,
                struct board_step *step) {
    if (!event_count_wait(&board->steps, *turn, patience))
        return false;
    struct board_places at = board_places_of(&board->sizes);
    *turn = event_count_turn(&board->steps);
    *step = (struct board_step){
        .batch = {.n_tokens = board->n_tokens,
                  .n_seqs = board->n_seqs,
                  .ids = board->words + at.ids,
                  .positions = board->words + at.positions,
                  .seq_begin = board->words + at.seq_begin,
                  .block_tables = board->words + at.block_tables,
                  .block_table_stride = board->block_table_stride,
                  .variants = board->has_variants ? board->words + at.variants : NULL},
        .rows = board->words + at.rows,
        .n_rows = board->n_rows,
    };
    return true;
}

void board_done(struct board *board) {
    if (atomic_fetch_sub(&board->n_left, 1) == 1)
        event_count_advance(&board->all_done);
}

void board_close(struct board *board) {
    event_count_close(&board->steps);
    event_count_close(&board->all_done);
}
