/* Wrong words of a KV peer or a router about a transfer: what each of them ends, and what not. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"

#include <string.h>

const char *const suite_name = "worker_core_handoff_words";
const double suite_timeout_s = 60;

/* Everything of a transfer, or of its first step, waits in the pipe: its first parcel is a chunk. */
static struct pipe *pushed(struct rig *rig, bool whole) {
    rig_deliver_all(rig);
    while (rig_step(rig, P) && whole)
        ;
    struct pipe *pipe = &rig->pipes[0];
    ck_assert_uint_gt(pipe->n_to_d, 0);
    ck_assert_int_eq(pipe->to_d[0].message.type, MESSAGE_CHUNK);
    return pipe;
}

static enum status never_taken(void *context, uint32_t link, const struct chunk *chunk,
                               const uint32_t *blocks) {
    (void)context, (void)link, (void)chunk, (void)blocks;
    ck_abort_msg("a chunk that fits nothing was copied");
    return STATUS_CORRUPT;
}

START_TEST(a_submit_of_another_transfer_than_the_chunks_is_refused) {
    struct rig *rig = pair_new(1, 64);
    struct call *call = rig_call(rig, 70, 12);
    rig_reserve(rig, D, call);
    rig_prefill(rig, P, D, call);
    struct pipe *pipe = pushed(rig, true);
    pipe->to_d[0].message.u.chunk.transfer_id ^= 1;
    ck_assert(rig_deliver(rig, pipe, true));
    ck_assert(!call->failed);
    rig_decode(rig, D, P, call);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    ck_assert_int_eq(call->failed_phase, PHASE_DECODE);
    const struct worker *d = &rig->workers[D];
    for (uint32_t i = 0; i < d->n_notes; i++) /* and nobody says that it was taken */
        ck_assert_int_ne(strncmp(d->notes[i % RIG_NOTES], "submitted ", 10), 0);
    rig_run(rig, 100);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

/* A name that fills its field has lost its end: its first 63 bytes are the peer's. */
START_TEST(a_submits_peer_has_a_name_of_63_bytes) {
    struct rig *rig = pair_new(14, 64);
    struct peer peer = {.incarnation = 9};
    memset(peer.name, 'x', MESSAGE_NAME_MAX - 1);
    struct message peers = {.type = MESSAGE_PEERS};
    peers.u.peers = (struct peers){.n = 1, .peers = &peer};
    rig_send(rig, P, 0, &peers);
    rig->busy_percent = 100; /* the link is not there yet */
    struct call *call = rig_call(rig, 20, 5);
    struct message message = {.type = MESSAGE_SUBMIT};
    message.u.submit = (struct submit){.req = call->req,
                                       .attempt = 1,
                                       .phase = PHASE_PREFILL,
                                       .n_prompt = 20,
                                       .n_tokens = 20,
                                       .tokens = call->ids,
                                       .has_xfer = true,
                                       .sampling = call->sampling};
    struct xfer *xfer = &message.u.submit.xfer;
    *xfer = (struct xfer){.transfer_id = 5, .gen = 1, .peer_incarnation = 9};
    memset(xfer->peer, 'x', sizeof xfer->peer);
    rig_send(rig, P, 0, &message);
    const struct sequence *sequence = sequence_find(&rig->workers[P].engine->sequences, call->req);
    ck_assert_ptr_nonnull(sequence);
    ck_assert_uint_eq(strnlen(sequence->handoff.peer, MESSAGE_NAME_MAX), MESSAGE_NAME_MAX - 1);
    rig_free(rig);
}
END_TEST

/* The first chunk, changed to cover these blocks with so many bytes, fails and is not copied. */
static void expect_not_copied(uint32_t block_begin, uint32_t block_end, int32_t extra_bytes) {
    struct rig *rig = pair_new(2, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig, true);
    struct chunk *chunk = &pipe->to_d[0].message.u.chunk;
    uint32_t n_layers = chunk->layer_end - chunk->layer_begin;
    chunk->block_begin = block_begin;
    chunk->block_end = block_end;
    chunk->n_bytes = (block_end - block_begin) * n_layers * RIG_BLOCK * 8;
    chunk->n_bytes = (uint32_t)((int32_t)chunk->n_bytes + extra_bytes);
    rig->workers[D].engine->sink.take_chunk = never_taken;
    ck_assert(rig_deliver(rig, pipe, true));
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    rig_run(rig, 100);
    pair_expect_quiet(rig);
    rig_free(rig);
}

START_TEST(a_chunk_reaches_no_block_behind_the_reservation) {
    expect_not_copied(4, 6, 0); /* of 5 blocks */
    expect_not_copied(5, 6, 0);
}
END_TEST

START_TEST(a_chunk_has_as_many_bytes_as_its_cells) {
    expect_not_copied(0, 2, -RIG_BLOCK * 8);
    expect_not_copied(0, 2, -1);
    expect_not_copied(0, 2, 1);
}
END_TEST

START_TEST(a_chunk_reaches_no_layer_behind_the_last) {
    struct rig *rig = pair_new(3, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig, true);
    struct chunk *chunk = &pipe->to_d[0].message.u.chunk;
    uint32_t n_blocks = chunk->block_end - chunk->block_begin;
    chunk->layer_begin = RIG_LAYERS - 1;
    chunk->layer_end = RIG_LAYERS + 1;
    ck_assert_uint_eq(chunk->n_bytes, n_blocks * 2 * RIG_BLOCK * 8);
    rig->workers[D].engine->sink.take_chunk = never_taken;
    ck_assert(rig_deliver(rig, pipe, true));
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    rig_run(rig, 100);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

static void say_end(struct rig *rig, uint32_t w, uint32_t link, enum message_type type,
                    const struct chunk *chunk) {
    struct message message = {.type = type};
    message.u.transfer_end = (struct transfer_end){
        .transfer_id = chunk->transfer_id, .gen = chunk->gen, .reason = REASON_TRANSFER};
    engine_message(rig->workers[w].engine, rig->now_ns, link, &message);
}

START_TEST(an_acknowledgement_before_the_commit_ends_the_transfer_as_failed) {
    struct rig *rig = pair_new(4, 64);
    struct call *call = pair_hand_over(rig, 200, 12);
    struct pipe *pipe = pushed(rig, false);
    struct chunk chunk = pipe->to_d[0].message.u.chunk;
    struct engine *p = rig->workers[P].engine;
    ck_assert_uint_eq(sequence_find(&p->sequences, call->req)->n_tokens, 200);
    say_end(rig, P, pipe->link_p, MESSAGE_COMMIT_ACK, &chunk);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    ck_assert_int_eq(call->failed_phase, PHASE_PREFILL);
    ck_assert_uint_eq(p->figures.n_handoffs_out, 0);
    rig_run(rig, 100);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

/* A third worker, or an older process of the same name, knows the numbers of a transfer that is not
 * its own: before its first chunk, and behind it. */
START_TEST(an_abort_by_another_link_ends_no_transfer_that_comes_in) {
    struct rig *rig = pair_new(5, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig, true);
    struct chunk chunk = pipe->to_d[0].message.u.chunk;
    struct engine *d = rig->workers[D].engine;
    engine_kv_open(d, rig->now_ns, 900, "worker2", rig->workers[P].incarnation, 0, true);
    engine_kv_open(d, rig->now_ns, 901, "worker0", rig->workers[P].incarnation - 1, 0, true);
    for (int i = 0; i < 2; i++) {
        uint64_t n_stale = d->figures.n_stale_dropped;
        say_end(rig, D, 900, MESSAGE_ABORT, &chunk);
        say_end(rig, D, 901, MESSAGE_ABORT, &chunk);
        ck_assert_uint_eq(d->figures.n_stale_dropped, n_stale + 2);
        ck_assert(!call->failed);
        ck_assert(rig_deliver(rig, pipe, true));
    }
    rig_run(rig, 100);
    rig_expect_done(call, 12, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* The sender may give up before its first chunk, and before the router's Submit has come. */
START_TEST(an_abort_of_the_sender_ends_a_transfer_that_has_not_begun) {
    for (int submitted = 0; submitted < 2; submitted++) {
        struct rig *rig = pair_new(7, 64);
        struct call *call = rig_call(rig, 70, 12);
        rig_reserve(rig, D, call);
        rig_prefill(rig, P, D, call);
        if (submitted)
            rig_decode(rig, D, P, call);
        struct pipe *pipe = pushed(rig, true);
        struct chunk chunk = pipe->to_d[0].message.u.chunk;
        say_end(rig, D, pipe->link_d, MESSAGE_ABORT, &chunk);
        ck_assert(call->failed);
        ck_assert_int_eq(call->reason, REASON_TRANSFER);
        rig_run(rig, 100);
        pair_expect_quiet(rig);
        rig_free(rig);
    }
}
END_TEST

START_TEST(an_abort_by_another_link_ends_no_transfer_that_goes_out) {
    struct rig *rig = rig_new(6);
    rig->credits = 64;
    for (int i = 0; i < 3; i++)
        rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct call *other = rig_call(rig, 70, 12);
    rig_reserve(rig, 2, other);
    rig_prefill(rig, P, 2, other);
    rig_decode(rig, 2, P, other);
    struct pipe *pipe = pushed(rig, true);
    struct chunk chunk = pipe->to_d[0].message.u.chunk;
    ck_assert_uint_eq(rig->n_pipes, 2);
    say_end(rig, P, rig->pipes[1].link_p, MESSAGE_ABORT, &chunk);
    rig_run(rig, 100);
    rig_expect_done(call, 12, FINISH_LENGTH);
    rig_expect_done(other, 12, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

/* Some of its cells have come before: it fits no transfer, and may be another's. */
START_TEST(a_chunk_that_is_known_in_part_is_not_copied) {
    struct rig *rig = pair_new(8, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig, true);
    struct message again = pipe->to_d[0].message;
    uint8_t bytes[RIG_CHUNK_ROOM] = {0};
    ck_assert_uint_eq(again.u.chunk.block_end, 2);
    ck_assert(rig_deliver(rig, pipe, true));
    again.u.chunk.block_begin = 1;
    again.u.chunk.block_end = 3;
    again.u.chunk.bytes = bytes;
    rig->workers[D].engine->sink.take_chunk = never_taken;
    engine_message(rig->workers[D].engine, rig->now_ns, pipe->link_d, &again);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_TRANSFER);
    rig_run(rig, 100);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(an_abort_of_another_transfer_of_the_same_link_ends_nothing) {
    struct rig *rig = pair_new(9, 64);
    struct call *call = pair_hand_over(rig, 70, 12);
    struct pipe *pipe = pushed(rig, true);
    struct chunk chunk = pipe->to_d[0].message.u.chunk;
    ck_assert(rig_deliver(rig, pipe, true));
    chunk.transfer_id ^= 1;
    say_end(rig, D, pipe->link_d, MESSAGE_ABORT, &chunk);
    chunk.transfer_id ^= 1;
    chunk.gen++;
    say_end(rig, P, pipe->link_p, MESSAGE_ABORT, &chunk);
    ck_assert(!call->failed);
    rig_run(rig, 100);
    rig_expect_done(call, 12, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* The counts are absolute: one that comes late gives no credits back. */
START_TEST(an_older_acknowledgement_changes_nothing) {
    struct rig *rig = pair_new(10, 3);
    struct call *call = pair_hand_over(rig, 200, 12);
    struct pipe *pipe = pushed(rig, true);
    struct engine *p = rig->workers[P].engine;
    const struct peer_link *peer_link = peer_link_find(&p->peer_links, pipe->link_p);
    struct chunk chunk = pipe->to_d[0].message.u.chunk;
    static const uint32_t n_done[] = {2, 1, 0, 2};
    ck_assert_uint_eq(peer_link->n_in_flight, 3);
    for (int i = 0; i < 4; i++) {
        struct message message = {.type = MESSAGE_CHUNK_ACK};
        message.u.chunk_ack = (struct chunk_ack){
            .transfer_id = chunk.transfer_id, .gen = chunk.gen, .n_done = n_done[i]};
        engine_message(p, rig->now_ns, pipe->link_p, &message);
        ck_assert_uint_eq(peer_link->n_in_flight, 3); /* two came back, two more went */
        ck_assert_uint_eq(pipe->n_to_d, 5);
        rig_check(rig);
    }
    rig_run(rig, 200);
    rig_expect_done(call, 12, FINISH_LENGTH);
    pair_expect_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_reservation_counts_full_blocks_of_its_own_tokens_alone) {
    struct rig *rig = pair_new(11, 64);
    struct call *known = rig_call(rig, 3 * RIG_BLOCK + 1, 2), *call = rig_call(rig, 20, 5);
    rig_both(rig, D, known);
    rig_run(rig, 100);
    struct map_key hashes[3], key = BLOCK_HASH_START;
    for (uint32_t i = 0; i < 3; i++)
        hashes[i] = key = block_hash(rig->workers[D].engine->config.prefix_key, 0, key,
                                     known->ids + (size_t)i * RIG_BLOCK);
    struct message message = {.type = MESSAGE_RESERVE};
    message.u.reserve = (struct reserve){
        .req = call->req, .attempt = 1, .n_tokens = 20, .n_hashes = 3, .hashes = hashes};
    rig_send(rig, D, 0, &message);
    ck_assert(call->reserved);
    ck_assert_uint_eq(call->reserved_cached, RIG_BLOCK);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

/* Another router's request of the same number is none of this one's. */
START_TEST(a_reservation_drops_no_other_routers_request) {
    struct rig *rig = pair_new(12, 64);
    rig_hello(rig, 1);
    struct call *call = rig_call(rig, 20, 30);
    rig_both(rig, D, call);
    rig_step(rig, D);
    struct message message = {.type = MESSAGE_RESERVE};
    message.u.reserve = (struct reserve){.req = call->req, .attempt = 2, .n_tokens = 20};
    rig_send(rig, D, 1, &message);
    ck_assert(call->refused);
    ck_assert_int_eq(call->reason, REASON_INVALID);
    rig_run(rig, 100);
    rig_expect_done(call, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(no_reservation_has_the_number_0) {
    struct rig *rig = pair_new(13, 64);
    rig->workers[D].engine->next_gen = UINT32_MAX - 1;
    for (uint32_t i = 0; i < 3; i++) {
        struct call *call = rig_call(rig, 20, 5);
        rig_reserve(rig, D, call);
        ck_assert(call->reserved);
        ck_assert_uint_eq(call->gen, i == 0 ? UINT32_MAX : i);
    }
    rig_free(rig);
}
END_TEST

/* Its router replays that attempt of it. */
START_TEST(who_asks_again_for_what_is_unknown_hears_which_attempt) {
    struct rig *rig = pair_new(40, 8);
    struct call *call = rig_call(rig, 20, 5);
    call->attempt = 7;
    rig_resend(rig, D, call, 0);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_UNKNOWN);
    ck_assert_int_eq(call->failed_phase, PHASE_DECODE);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_submit_of_another_transfer_than_the_chunks_is_refused);
    tcase_add_test(tests, a_submits_peer_has_a_name_of_63_bytes);
    tcase_add_test(tests, a_chunk_reaches_no_block_behind_the_reservation);
    tcase_add_test(tests, a_chunk_has_as_many_bytes_as_its_cells);
    tcase_add_test(tests, a_chunk_reaches_no_layer_behind_the_last);
    tcase_add_test(tests, an_acknowledgement_before_the_commit_ends_the_transfer_as_failed);
    tcase_add_test(tests, an_abort_by_another_link_ends_no_transfer_that_comes_in);
    tcase_add_test(tests, an_abort_of_the_sender_ends_a_transfer_that_has_not_begun);
    tcase_add_test(tests, an_abort_by_another_link_ends_no_transfer_that_goes_out);
    tcase_add_test(tests, a_chunk_that_is_known_in_part_is_not_copied);
    tcase_add_test(tests, an_abort_of_another_transfer_of_the_same_link_ends_nothing);
    tcase_add_test(tests, an_older_acknowledgement_changes_nothing);
    tcase_add_test(tests, a_reservation_counts_full_blocks_of_its_own_tokens_alone);
    tcase_add_test(tests, a_reservation_drops_no_other_routers_request);
    tcase_add_test(tests, no_reservation_has_the_number_0);
    tcase_add_test(tests, who_asks_again_for_what_is_unknown_hears_which_attempt);
}
