/* Bounds of what a worker's core holds and takes, each at n and at n + 1. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/rig.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "worker_core_bounds";
const double suite_timeout_s = 60;

static enum status try_config(const struct engine_config *config) {
    struct engine *engine = NULL;
    struct engine_sink sink = {0};
    enum status status = engine_new(config, &sink, &engine);
    ck_assert((engine != NULL) == (status == STATUS_OK));
    engine_free(engine);
    return status;
}

/* A member of the config at its bound, and beyond. */
struct bound {
    size_t at;
    uint32_t good, bad;
};

START_TEST(sizes_of_an_engine_have_bounds) {
    static const struct bound bounds[] = {
        {offsetof(struct engine_config, n_blocks), 1, 0},
        {offsetof(struct engine_config, n_blocks), 1, (1u << 30) + 1},
        {offsetof(struct engine_config, n_layers), 1, 0},
        {offsetof(struct engine_config, layer_groups), 1, 0},
        {offsetof(struct engine_config, layer_groups), 128, 129},
        {offsetof(struct engine_config, chunk_tokens), 1, 0},
        {offsetof(struct engine_config, block_bytes), 1, 0},
        {offsetof(struct engine_config, block_bytes), 512, 513}, /* a chunk takes 512 */
        {offsetof(struct engine_config, chunk_bytes), MESSAGE_CHUNK_MAX, MESSAGE_CHUNK_MAX + 1},
        {offsetof(struct engine_config, max_batch), 1, 0},
        {offsetof(struct engine_config, max_batch), 65536, 65537},
        {offsetof(struct engine_config, max_seqs), 1, 0},
        {offsetof(struct engine_config, max_seqs), MESSAGE_ENTRIES_MAX, MESSAGE_ENTRIES_MAX + 1},
        {offsetof(struct engine_config, context), 2, 1},
        {offsetof(struct engine_config, context), 1u << 24, (1u << 24) + 1},
        {offsetof(struct engine_config, max_links), 1, 0},
        {offsetof(struct engine_config, max_links), 4096, 4097},
        {offsetof(struct engine_config, n_variants), ENGINE_VARIANTS_MAX, ENGINE_VARIANTS_MAX + 1},
        {offsetof(struct engine_config, n_ends), 16, 17},
        {offsetof(struct engine_config, block_tokens), 16, 17},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        struct engine_config config = rig_config();
        config.max_seqs = 8;
        config.max_links = 2;
        memcpy((char *)&config + bounds[i].at, &bounds[i].good, sizeof bounds[i].good);
        ck_assert_msg(try_config(&config) == STATUS_OK, "bound %zu: refused", i);
        memcpy((char *)&config + bounds[i].at, &bounds[i].bad, sizeof bounds[i].bad);
        ck_assert_msg(try_config(&config) == STATUS_INVALID, "bound %zu: taken", i);
    }
}
END_TEST

/* Four blocks of one layer fit a chunk: 512 layers are 128 groups. */
START_TEST(no_more_groups_of_layers_than_a_hand_off_follows) {
    struct engine_config config = rig_config();
    config.max_links = 2;
    config.n_layers = 4 * HANDOFF_GROUPS_MAX;
    ck_assert_int_eq(try_config(&config), STATUS_OK);
    config.n_layers++;
    ck_assert_int_eq(try_config(&config), STATUS_INVALID);
}
END_TEST

static enum status check(struct submit submit) {
    return sequence_check_submit(&submit, 100);
}

START_TEST(lists_of_a_submit_have_bounds) {
    static uint32_t ids[MESSAGE_TOKENS_MAX + 1];
    static float bias[MESSAGE_BIAS_MAX + 1];
    struct submit plain = {
        .phase = PHASE_BOTH,
        .n_prompt = 1,
        .n_tokens = 1,
        .tokens = ids,
        .sampling =
            {.max_new = 5, .stop_ids = ids, .bias_ids = ids, .bias = bias, .allowed_ids = ids},
    };
    for (uint32_t more = 0; more < 2; more++) {
        enum status expected = more ? STATUS_INVALID : STATUS_OK;
        struct submit submit = plain;
        submit.sampling.n_stop_ids = MESSAGE_STOP_IDS_MAX + more;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.sampling.n_bias = MESSAGE_BIAS_MAX + more;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.sampling.n_allowed = MESSAGE_ALLOWED_MAX + more;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.sampling.n_top = MESSAGE_TOP_MAX + more;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.n_prompt = submit.n_tokens = MESSAGE_TOKENS_MAX + more;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.n_tokens = 5 + more; /* 4 of 5 tokens, or all of them */
        ck_assert_int_eq(check(submit), expected);
    }
}
END_TEST

/* Ids that index logits are below the vocabulary; stop ids only compare. */
START_TEST(ids_of_a_submit_are_below_the_vocabulary) {
    static const uint32_t ids[] = {99, 100, UINT32_MAX};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t id = ids[i];
        enum status expected = id < 100 ? STATUS_OK : STATUS_INVALID;
        float bias = 1;
        uint32_t known = 5;
        struct submit plain = {.phase = PHASE_BOTH,
                               .n_prompt = 1,
                               .n_tokens = 1,
                               .tokens = &known,
                               .sampling = {.max_new = 5, .bias = &bias}};
        struct submit submit = plain;
        submit.tokens = &id;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.sampling.n_bias = 1;
        submit.sampling.bias_ids = &id;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.sampling.n_allowed = 1;
        submit.sampling.allowed_ids = &id;
        ck_assert_int_eq(check(submit), expected);
        submit = plain;
        submit.sampling.n_stop_ids = 1;
        submit.sampling.stop_ids = &id;
        ck_assert_int_eq(check(submit), STATUS_OK);
    }
}
END_TEST

static struct rig *rig_of(struct engine_config config) {
    struct rig *rig = rig_new(1);
    rig_add(rig, config);
    rig_hello(rig, 0);
    return rig;
}

START_TEST(a_router_names_64_peers) {
    struct rig *rig = rig_of(rig_config());
    struct peer_link_table *peer_links = &rig->workers[0].engine->peer_links;
    struct peer_link *peer_link = peer_link_find(peer_links, rig_link(0));
    ck_assert_ptr_nonnull(peer_link);
    static struct peer peers[MESSAGE_PEERS_MAX + 1];
    for (uint32_t n = MESSAGE_PEERS_MAX; n <= MESSAGE_PEERS_MAX + 1; n++) {
        for (uint32_t i = 0; i < n; i++)
            peers[i].incarnation = n + i;
        struct message message = {.type = MESSAGE_PEERS};
        message.u.peers = (struct peers){.n = n, .peers = peers};
        rig_send(rig, 0, 0, &message);
        ck_assert_uint_eq(peer_link->n_peers, MESSAGE_PEERS_MAX);
        ck_assert_uint_eq(peer_link->peers[MESSAGE_PEERS_MAX - 1].incarnation,
                          n + MESSAGE_PEERS_MAX - 1);
        ck_assert_uint_eq(peer_links->links[1].peers[0].incarnation, 0); /* the next one's */
    }
    rig_free(rig);
}
END_TEST

START_TEST(a_peers_name_has_63_bytes) {
    struct rig *rig = rig_of(rig_config());
    struct engine *engine = rig->workers[0].engine;
    char name[MESSAGE_NAME_MAX + 2];
    for (uint32_t n = MESSAGE_NAME_MAX - 1; n <= MESSAGE_NAME_MAX + 1; n++) {
        memset(name, 'x', n);
        name[n] = 0;
        engine_kv_open(engine, rig->now_ns, 900 + n, name, 7, 0, true);
        const struct peer_link *peer_link = peer_link_find(&engine->peer_links, 900 + n);
        ck_assert_ptr_nonnull(peer_link);
        ck_assert_uint_eq(strnlen(peer_link->name, MESSAGE_NAME_MAX), MESSAGE_NAME_MAX - 1);
    }
    rig_free(rig);
}
END_TEST

START_TEST(a_worker_has_so_many_links_and_no_more) {
    struct engine_config config = rig_config();
    config.max_links = 2;
    struct rig *rig = rig_of(config);
    struct worker *worker = &rig->workers[0];
    engine_kv_open(worker->engine, rig->now_ns, 900, "worker1", 7, 0, true);
    ck_assert_uint_eq(worker->n_closed, 0);
    engine_kv_open(worker->engine, rig->now_ns, 901, "worker2", 8, 0, true);
    ck_assert_uint_eq(worker->n_closed, 1);
    struct message message = {.type = MESSAGE_HELLO, .session = 5};
    message.u.hello = (struct hello){.major = PROTO_MAJOR, .router_id = 501, .session = 5};
    engine_message(worker->engine, rig->now_ns, rig_link(1), &message);
    ck_assert_uint_eq(worker->n_welcomes, 1);
    ck_assert_int_eq(worker->reset_reason, REASON_BUSY);
    engine_link_lost(worker->engine, rig->now_ns, 900);
    engine_message(worker->engine, rig->now_ns, rig_link(1), &message);
    ck_assert_uint_eq(worker->n_welcomes, 2);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_worker_holds_so_many_sequences_and_no_more) {
    struct engine_config config = rig_config();
    config.max_seqs = 3;
    struct rig *rig = rig_of(config);
    struct call *calls[4];
    for (int i = 0; i < 4; i++) {
        calls[i] = rig_call(rig, 5, 3);
        rig_both(rig, 0, calls[i]);
        ck_assert(calls[i]->failed == (i == 3));
    }
    ck_assert_int_eq(calls[3]->reason, REASON_BUSY);
    struct call *call = rig_call(rig, 5, 3);
    rig_reserve(rig, 0, call);
    ck_assert(call->refused);
    ck_assert_int_eq(call->reason, REASON_BUSY);
    rig_cancel(rig, 0, calls[0]);
    rig_reserve(rig, 0, call);
    ck_assert(call->reserved);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

/* Of 512 tokens, one is left for the answer. */
START_TEST(a_reservation_leaves_room_for_one_token_of_the_context) {
    struct rig *rig = rig_of(rig_config());
    struct call *call = rig_call(rig, 511, 1), *longer = rig_call(rig, 512, 1);
    rig_reserve(rig, 0, longer);
    ck_assert(longer->refused);
    ck_assert_int_eq(longer->reason, REASON_TOO_LONG);
    rig_reserve(rig, 0, call);
    ck_assert(call->reserved);
    rig_free(rig);
}
END_TEST

START_TEST(a_budget_is_at_least_one_token_and_at_most_the_chunk) {
    struct rig *rig = rig_of(rig_config());
    struct engine *engine = rig->workers[0].engine;
    static const uint32_t given[] = {0, 1, 2, 63, 64, 65, UINT32_MAX};
    static const uint32_t taken[] = {1, 1, 2, 63, 64, 64, 64};
    for (int i = 0; i < 7; i++) {
        engine_budget(engine, given[i]);
        ck_assert_uint_eq(engine_chunk_tokens(engine), taken[i]);
    }
    rig_free(rig);
}
END_TEST

/* A message ends with its event, and a request's arrays do not. */
START_TEST(arrays_of_a_request_are_copied) {
    struct rig *rig = rig_new(3);
    uint32_t stops[] = {701, 702}, biased[] = {801, 802, 803}, allowed[] = {901, 902};
    float bias[] = {1.5f, -2, 3};
    struct sequence_view view;
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 20, 5);
    struct sampling *asked = &call->sampling;
    asked->stop_ids = stops, asked->n_stop_ids = 2;
    asked->bias_ids = biased, asked->bias = bias, asked->n_bias = 3;
    asked->allowed_ids = allowed, asked->n_allowed = 2;
    rig_both(rig, 0, call);
    memset(stops, 0, sizeof stops);
    memset(biased, 0, sizeof biased);
    memset(bias, 0, sizeof bias);
    memset(allowed, 0, sizeof allowed);
    const struct engine *engine = rig->workers[0].engine;
    struct sequence *sequence = sequence_find(&rig->workers[0].engine->sequences, call->req);
    ck_assert_ptr_nonnull(sequence);
    engine_sequence(engine, sequence->slot, 20, &view);
    const struct sampling *kept = view.sampling;
    ck_assert(kept->n_stop_ids == 2 && kept->stop_ids[0] == 701 && kept->stop_ids[1] == 702);
    ck_assert_uint_eq(kept->n_bias, 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(kept->bias_ids[i], 801 + i);
        ck_assert(kept->bias[i] == (i == 0 ? 1.5f : i == 1 ? -2 : 3));
    }
    ck_assert(kept->n_allowed == 2 && kept->allowed_ids[0] == 901 && kept->allowed_ids[1] == 902);
    rig_free(rig);
}
END_TEST

/* A slot that had more stop ids before: behind those of now lies what was. */
START_TEST(stop_ids_of_a_slots_last_request_stop_nobody) {
    struct rig *rig = rig_new(4);
    struct engine_config config = rig_config();
    config.max_seqs = 1;
    rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *first = rig_call(rig, 20, 2), *second = rig_call(rig, 20, 5);
    uint32_t stops[] = {1, rig_oracle(second->ids, 20)}; /* no token is below 256 */
    first->sampling.stop_ids = second->sampling.stop_ids = stops;
    first->sampling.n_stop_ids = 2;
    rig_both(rig, 0, first);
    rig_run(rig, 100);
    rig_expect_done(first, 2, FINISH_LENGTH);
    rig_forget(rig, 0, first);
    second->sampling.n_stop_ids = 1;
    rig_both(rig, 0, second);
    rig_run(rig, 100);
    rig_expect_done(second, 5, FINISH_LENGTH);
    rig_forget(rig, 0, second);
    second->attempt = 2, second->n_got = 0, second->finish = FINISH_NONE;
    second->sampling.n_stop_ids = 2;
    rig_both(rig, 0, second);
    rig_run(rig, 100);
    ck_assert_int_eq(second->finish, FINISH_STOP);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, sizes_of_an_engine_have_bounds);
    tcase_add_test(tests, no_more_groups_of_layers_than_a_hand_off_follows);
    tcase_add_test(tests, lists_of_a_submit_have_bounds);
    tcase_add_test(tests, ids_of_a_submit_are_below_the_vocabulary);
    tcase_add_test(tests, a_router_names_64_peers);
    tcase_add_test(tests, a_peers_name_has_63_bytes);
    tcase_add_test(tests, a_worker_has_so_many_links_and_no_more);
    tcase_add_test(tests, a_worker_holds_so_many_sequences_and_no_more);
    tcase_add_test(tests, a_reservation_leaves_room_for_one_token_of_the_context);
    tcase_add_test(tests, a_budget_is_at_least_one_token_and_at_most_the_chunk);
    tcase_add_test(tests, arrays_of_a_request_are_copied);
    tcase_add_test(tests, stop_ids_of_a_slots_last_request_stop_nobody);
}
