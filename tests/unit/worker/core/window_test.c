/* How many chunks may be on the way to a decode worker: more where its looks hold the link up, and
 * only there. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"

const char *const suite_name = "worker_core_window";
const double suite_timeout_s = 60;

/* A hand-over of so many blocks in chunks of one block and one group of layers, computed: what waits,
 * waits for credits. */
static struct rig *computed(uint32_t n_blocks, uint32_t credits) {
    struct rig *rig = rig_new(1);
    struct engine_config config = rig_config();
    rig->credits = credits;
    rig->queue_max = RIG_QUEUE;
    config.n_blocks = 64;
    config.chunk_bytes = config.block_bytes * (config.n_layers / config.layer_groups);
    rig_add(rig, config);
    rig_add(rig, config);
    rig_hello(rig, 0);
    pair_hand_over(rig, 16 * n_blocks, 2);
    rig_deliver_all(rig);
    while (rig_step(rig, P))
        ;
    return rig;
}

static struct peer_link *peer_link_of(struct rig *rig) {
    struct peer_link *peer_link =
        peer_link_find(&rig->workers[P].engine->peer_links, rig->pipes[0].link_p);
    ck_assert_ptr_nonnull(peer_link);
    return peer_link;
}

/* The decode worker looks, and the prefill worker hears of it `after_ns` after the window began. */
static void look(struct rig *rig, uint64_t after_ns) {
    struct pipe *pipe = &rig->pipes[0];
    uint32_t n = pipe->n_to_d;
    while (n-- > 0)
        ck_assert(rig_deliver(rig, pipe, true));
    rig->now_ns = peer_link_of(rig)->window_ns + after_ns;
    n = pipe->n_to_p;
    while (n-- > 0)
        ck_assert(rig_deliver(rig, pipe, false));
    rig_check(rig);
}

START_TEST(a_window_that_one_look_takes_whole_doubles_up_to_the_grant) {
    struct rig *rig = computed(30, 40);
    struct pipe *pipe = &rig->pipes[0];
    ck_assert_uint_eq(pipe->n_to_d, ENGINE_CREDITS);
    look(rig, ENGINE_WINDOW_NS);
    ck_assert_uint_eq(peer_link_of(rig)->credits, 2 * ENGINE_CREDITS);
    ck_assert_uint_eq(pipe->n_to_d, 2 * ENGINE_CREDITS);
    look(rig, ENGINE_WINDOW_NS);
    ck_assert_uint_eq(peer_link_of(rig)->credits, 40); /* 2 * 32 would be more than it grants */
    rig_run(rig, 1000);
    rig_expect_done(&rig->calls[0], 2, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_window_that_the_link_itself_holds_up_stays) {
    struct rig *rig = computed(30, 64);
    look(rig, ENGINE_WINDOW_NS + 1);
    ck_assert_uint_eq(peer_link_of(rig)->credits, ENGINE_CREDITS);
    look(rig, ENGINE_WINDOW_NS); /* the next one begins anew */
    ck_assert_uint_eq(peer_link_of(rig)->credits, 2 * ENGINE_CREDITS);
    rig_run(rig, 1000);
    rig_expect_done(&rig->calls[0], 2, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(a_window_that_nothing_waited_for_stays) {
    struct rig *rig = computed(ENGINE_CREDITS / 2, 64); /* two groups of layers: sixteen chunks */
    struct peer_link *peer_link = peer_link_of(rig);
    ck_assert_uint_eq(rig->pipes[0].n_to_d, ENGINE_CREDITS + 1); /* and the commit */
    look(rig, ENGINE_WINDOW_NS);
    ck_assert_uint_eq(peer_link->credits, ENGINE_CREDITS);
    rig_free(rig);
}
END_TEST

START_TEST(a_pause_between_two_transfers_is_not_the_links) {
    struct rig *rig = computed(30, 64);
    struct peer_link *peer_link = peer_link_of(rig);
    for (int i = 0; i < 100 && peer_link->n_in_flight > 0; i++)
        look(rig, 2 * ENGINE_WINDOW_NS);
    ck_assert_uint_eq(peer_link->n_in_flight, 0);
    ck_assert_uint_eq(peer_link->credits, ENGINE_CREDITS);
    rig_run(rig, 1000);
    rig->now_ns += 1000 * ENGINE_WINDOW_NS;
    pair_hand_over(rig, 16 * 30, 2);
    while (rig_step(rig, P))
        ;
    ck_assert_uint_eq(rig->pipes[0].n_to_d, ENGINE_CREDITS);
    look(rig, ENGINE_WINDOW_NS);
    ck_assert_uint_eq(peer_link->credits, 2 * ENGINE_CREDITS);
    rig_free(rig);
}
END_TEST

START_TEST(a_grant_below_the_first_window_is_the_window) {
    static const uint32_t grants[][2] = {{0, 1},
                                         {1, 1},
                                         {ENGINE_CREDITS - 1, ENGINE_CREDITS - 1},
                                         {ENGINE_CREDITS, ENGINE_CREDITS},
                                         {ENGINE_CREDITS + 1, ENGINE_CREDITS}};
    for (uint32_t i = 0; i < sizeof grants / sizeof *grants; i++) {
        struct rig *rig = computed(30, grants[i][0]);
        ck_assert_uint_eq(rig->pipes[0].n_to_d, grants[i][1]);
        look(rig, ENGINE_WINDOW_NS);
        uint32_t grant = grants[i][0] > 0 ? grants[i][0] : 1;
        ck_assert_uint_eq(peer_link_of(rig)->credits, grant);
        rig_free(rig);
    }
}
END_TEST

/* Ten of a window were acknowledged and as many sent behind them: all that are under way are more than the
 * six that are left of it. */
START_TEST(an_acknowledgement_of_more_than_is_left_of_a_window_ends_it) {
    struct rig *rig = computed(30, 40);
    struct pipe *pipe = &rig->pipes[0];
    const struct chunk chunk = pipe->to_d[0].message.u.chunk;
    for (uint32_t i = 0; i < 10; i++)
        ck_assert(rig_deliver(rig, pipe, true));
    while (pipe->n_to_p > 0)
        ck_assert(rig_deliver(rig, pipe, false));
    ck_assert_uint_eq(peer_link_of(rig)->window_left, ENGINE_CREDITS - 10);
    struct message message = {.type = MESSAGE_CHUNK_ACK};
    message.u.chunk_ack = (struct chunk_ack){.transfer_id = chunk.transfer_id,
                                             .gen = chunk.gen,
                                             .n_done = 10 + ENGINE_CREDITS,
                                             .where = chunk.where};
    engine_message(rig->workers[P].engine, rig->now_ns, pipe->link_p, &message);
    ck_assert_uint_eq(peer_link_of(rig)->credits, 2 * ENGINE_CREDITS);
    rig_run(rig, 1000);
    rig_expect_done(&rig->calls[0], 2, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_window_that_one_look_takes_whole_doubles_up_to_the_grant);
    tcase_add_test(tests, a_window_that_the_link_itself_holds_up_stays);
    tcase_add_test(tests, a_window_that_nothing_waited_for_stays);
    tcase_add_test(tests, a_pause_between_two_transfers_is_not_the_links);
    tcase_add_test(tests, a_grant_below_the_first_window_is_the_window);
    tcase_add_test(tests, an_acknowledgement_of_more_than_is_left_of_a_window_ends_it);
}
