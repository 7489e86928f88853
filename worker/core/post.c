#include "worker/core/post.h"

void post_failed(struct engine *engine, struct peer_link *router, struct request_id req,
                 uint32_t attempt, enum phase phase, enum reason reason) {
    struct post post = {.type = MESSAGE_FAILED};
    post.u.failed =
        (struct failed){.req = req, .attempt = attempt, .phase = phase, .reason = reason};
    peer_link_post(&engine->peer_links, router, &engine->sink, &post);
}

void post_sequence_failed(struct engine *engine, const struct sequence *sequence,
                          enum reason reason) {
    if (sequence->peer_link == PEER_LINK_NONE)
        return;
    post_failed(engine, &engine->peer_links.links[sequence->peer_link], sequence->req,
                sequence->attempt, sequence->phase, reason);
}

void post_refused(struct engine *engine, struct peer_link *router, const struct reserve *reserve,
                  enum reason reason) {
    struct post post = {.type = MESSAGE_REFUSED};
    post.u.refused = (struct refused){reserve->req, reserve->attempt, reason};
    peer_link_post(&engine->peer_links, router, &engine->sink, &post);
}

void post_reserved(struct engine *engine, struct peer_link *router,
                   const struct sequence *sequence) {
    struct post post = {.type = MESSAGE_RESERVED};
    post.u.reserved = (struct reserved){
        .req = sequence->req,
        .attempt = sequence->attempt,
        .gen = sequence->handoff.gen,
        .cached_tokens = sequence->handoff.first_block * engine->config.block_tokens,
        .lease_ms = (uint32_t)(engine->config.lease_ns / 1000000),
    };
    peer_link_post(&engine->peer_links, router, &engine->sink, &post);
}

void post_chunk_ack(struct engine *engine, struct peer_link *peer_link, const struct chunk *chunk,
                    uint32_t n_done) {
    struct post post = {.type = MESSAGE_CHUNK_ACK};
    post.u.chunk_ack = (struct chunk_ack){.transfer_id = chunk->transfer_id,
                                          .gen = chunk->gen,
                                          .n_done = n_done,
                                          .where = chunk->where};
    peer_link_post(&engine->peer_links, peer_link, &engine->sink, &post);
}

void post_transfer_end(struct engine *engine, struct peer_link *peer_link, enum message_type type,
                       uint64_t transfer_id, uint32_t gen, enum reason reason) {
    struct post post = {.type = type};
    post.u.transfer_end =
        (struct transfer_end){.transfer_id = transfer_id, .gen = gen, .reason = reason};
    peer_link_post(&engine->peer_links, peer_link, &engine->sink, &post);
}

void post_reset(struct engine *engine, uint32_t link, uint64_t session, enum reason reason) {
    struct message message = {.type = MESSAGE_RESET, .session = session};
    message.u.reset.reason = reason;
    engine->figures.n_stale_dropped++;
    (void)engine->sink.send(engine->sink.context, link, &message);
}
