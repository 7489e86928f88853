/* The leader's look at a board, with the last rank done in each gap of it. The board is compiled in here,
 * so that what happens between its two looks can be said. */
#include "tests/support/suite.h"
#include "worker/comm/event_count.h"

static void (*before_turn)(void), (*after_turn)(void);

static uint32_t interrupted_turn(const struct event_count *count) {
    if (before_turn)
        before_turn();
    uint32_t turn = event_count_turn(count);
    if (after_turn)
        after_turn();
    return turn;
}

#define event_count_turn interrupted_turn
#include "worker/ranks/board.c" // NOLINT(bugprone-suspicious-include): its calls go through the hook above
#undef event_count_turn

#include <stdlib.h>

const char *const suite_name = "worker board order";
const double suite_timeout_s = 60;

static struct board *board;

static void last_rank_is_done(void) {
    before_turn = after_turn = NULL; /* once */
    board_done(board);
}

/* A leader that counts who is left and then takes the turn would sleep on one that nobody raises. */
START_TEST(a_rank_that_is_done_within_the_look_is_not_waited_for) {
    static const struct board_sizes sizes = {
        .n_ranks = 2, .max_tokens = 1, .max_seqs = 1, .max_blocks = 1};
    struct event_count_patience patience = {0};
    size_t n;
    ck_assert_int_eq(board_bytes(&sizes, &n), STATUS_OK);
    board = aligned_alloc(64, (n + 63) / 64 * 64);
    ck_assert_ptr_nonnull(board);
    memset(board, 0, n);
    board_init(board, &sizes);
    atomic_store(&board->n_left, 1);
    before_turn = _i == 0 ? last_rank_is_done : NULL;
    after_turn = _i == 1 ? last_rank_is_done : NULL;
    ck_assert(board_settled(board, &patience));
    ck_assert_uint_eq(atomic_load(&board->n_left), 0);
    free(board);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_rank_that_is_done_within_the_look_is_not_waited_for, 0, 2);
}
