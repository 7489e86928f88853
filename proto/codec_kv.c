/* Bodies of the messages between a prefill and a decode worker. */
#include "proto/codec_body.h"

#include <string.h>

enum status encode_kv_hello(struct encoder *encoder, const struct message *message) {
    const struct kv_hello *from = &message->u.kv_hello;
    if (from->n_opaque > sizeof from->opaque)
        return STATUS_LIMIT;
    Wire__KvHello to = WIRE__KV_HELLO__INIT;
    to.major = from->major;
    to.minor = from->minor;
    to.name = body_text(from->name);
    to.incarnation = from->incarnation;
    to.host = from->host;
    to.pid = from->pid;
    to.layout_fp = body_bytes(from->layout_fp, FINGERPRINT_BYTES);
    to.transport = body_text(from->transport);
    to.opaque = body_bytes(from->opaque, from->n_opaque);
    to.credits = from->credits;
    return encoder_pack(encoder, &to.base);
}

bool decode_kv_hello(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__KvHello *from = body;
    struct kv_hello *to = &message->u.kv_hello;
    if (!take_count(decoder, from->opaque.len, sizeof to->opaque, "opaque"))
        return false;
    to->major = from->major;
    to->minor = from->minor;
    to->incarnation = from->incarnation;
    to->host = from->host;
    to->pid = from->pid;
    to->credits = from->credits;
    to->n_opaque = (uint32_t)from->opaque.len;
    if (to->n_opaque > 0)
        memcpy(to->opaque, from->opaque.data, to->n_opaque);
    return take_name(decoder, from->name, to->name, sizeof to->name, "name") &&
           take_bytes(decoder, from->layout_fp, to->layout_fp, FINGERPRINT_BYTES, "layout_fp") &&
           take_text(decoder, from->transport, to->transport, sizeof to->transport, "transport");
}

enum status encode_chunk(struct encoder *encoder, const struct message *message) {
    const struct chunk *from = &message->u.chunk;
    if (from->n_bytes > MESSAGE_CHUNK_MAX)
        return STATUS_LIMIT;
    Wire__Chunk to = WIRE__CHUNK__INIT;
    to.transfer_id = from->transfer_id;
    to.gen = from->gen;
    to.index = from->index;
    to.layer_begin = from->layer_begin;
    to.layer_end = from->layer_end;
    to.block_begin = from->block_begin;
    to.block_end = from->block_end;
    to.n_bytes = from->n_bytes;
    to.checksum = from->checksum;
    to.where = from->where;
    if (from->bytes && from->n_bytes > 0) {
        encoder->frames->raw = from->bytes;
        encoder->frames->n_raw = from->n_bytes;
    }
    return encoder_pack(encoder, &to.base);
}

bool decode_chunk(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Chunk *from = body;
    struct chunk *to = &message->u.chunk;
    if (!take_count(decoder, from->n_bytes, MESSAGE_CHUNK_MAX, "n_bytes"))
        return false;
    if (decoder->raw && decoder->n_raw != from->n_bytes)
        return decoder_fail(decoder, STATUS_CORRUPT, "n_bytes", "disagrees with the raw frame");
    if (from->layer_begin >= from->layer_end || from->block_begin >= from->block_end)
        return decoder_fail(decoder, STATUS_INVALID, "layers or blocks", "are an empty range");
    *to = (struct chunk){
        .transfer_id = from->transfer_id,
        .gen = from->gen,
        .index = from->index,
        .layer_begin = from->layer_begin,
        .layer_end = from->layer_end,
        .block_begin = from->block_begin,
        .block_end = from->block_end,
        .n_bytes = from->n_bytes,
        .checksum = from->checksum,
        .where = from->where,
        .bytes = decoder->raw,
    };
    return true;
}

enum status encode_chunk_ack(struct encoder *encoder, const struct message *message) {
    const struct chunk_ack *from = &message->u.chunk_ack;
    Wire__ChunkAck to = WIRE__CHUNK_ACK__INIT;
    to.transfer_id = from->transfer_id;
    to.gen = from->gen;
    to.n_done = from->n_done;
    to.where = from->where;
    return encoder_pack(encoder, &to.base);
}

bool decode_chunk_ack(struct decoder *decoder, const void *body, struct message *message) {
    (void)decoder;
    const Wire__ChunkAck *from = body;
    message->u.chunk_ack = (struct chunk_ack){.transfer_id = from->transfer_id,
                                              .gen = from->gen,
                                              .n_done = from->n_done,
                                              .where = from->where};
    return true;
}

enum status encode_commit(struct encoder *encoder, const struct message *message) {
    const struct commit *from = &message->u.commit;
    Wire__Commit to = WIRE__COMMIT__INIT;
    Wire__Logprobs logprobs;
    to.transfer_id = from->transfer_id;
    to.gen = from->gen;
    to.req_hi = from->req.hi;
    to.req_lo = from->req.lo;
    to.attempt = from->attempt;
    to.n_tokens = from->n_tokens;
    to.n_chunks = from->n_chunks;
    to.first_index = from->first_index;
    to.first_token = from->first_token;
    to.finish = from->finish;
    to.cached_tokens = from->cached_tokens;
    if (from->has_logprobs) {
        TRY(logprobs_put(encoder, &logprobs, &from->logprobs, 1));
        to.logprobs = &logprobs;
    }
    return encoder_pack(encoder, &to.base);
}

bool decode_commit(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Commit *from = body;
    struct commit *to = &message->u.commit;
    uint32_t finish;
    if (!take_request(decoder, from->req_hi, from->req_lo, &to->req) ||
        !take_enum(decoder, from->finish, FINISH_ERROR + 1, &finish, "finish"))
        return false;
    to->transfer_id = from->transfer_id;
    to->gen = from->gen;
    to->attempt = from->attempt;
    to->n_tokens = from->n_tokens;
    to->n_chunks = from->n_chunks;
    to->first_index = from->first_index;
    to->first_token = from->first_token;
    to->finish = (enum finish)finish;
    to->cached_tokens = from->cached_tokens;
    to->has_logprobs = from->logprobs != NULL;
    return !from->logprobs || logprobs_take(decoder, from->logprobs, 1, &to->logprobs);
}

enum status encode_transfer_end(struct encoder *encoder, const struct message *message) {
    const struct transfer_end *from = &message->u.transfer_end;
    Wire__TransferEnd to = WIRE__TRANSFER_END__INIT;
    to.transfer_id = from->transfer_id;
    to.gen = from->gen;
    to.reason = from->reason;
    return encoder_pack(encoder, &to.base);
}

bool decode_transfer_end(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__TransferEnd *from = body;
    uint32_t reason;
    if (!take_enum(decoder, from->reason, REASON_COUNT, &reason, "reason"))
        return false;
    message->u.transfer_end = (struct transfer_end){
        .transfer_id = from->transfer_id, .gen = from->gen, .reason = (enum reason)reason};
    return true;
}
