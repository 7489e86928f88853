#include "worker/transport/transport.h"

#include "base/assert.h"
#include "proto/message.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include <xxhash.h>

extern const struct transport transport_local;
extern const struct transport transport_shm;
extern const struct transport transport_tcp;

const struct transport *const transport_table[] = {&transport_local, &transport_shm, &transport_tcp,
                                                   NULL};

static void check_hooks(const struct transport *transport) {
    ASSERT(transport->name && transport->reaches);
    ASSERT(transport->sender_open && transport->sender_close);
    ASSERT(transport->offer && transport->room);
    ASSERT(transport->receiver_open && transport->receiver_close && transport->find);
}

const struct transport *transport_find(const char *name) {
    for (const struct transport *const *row = transport_table; *row; row++) {
        check_hooks(*row);
        if (strcmp((*row)->name, name) == 0)
            return *row;
    }
    return NULL;
}

const struct transport *transport_choose(const char *name, const struct transport_place *from,
                                         const struct transport_place *to) {
    bool any = strcmp(name, "auto") == 0;
    for (const struct transport *const *row = transport_table; *row; row++)
        if ((any || strcmp((*row)->name, name) == 0) && (*row)->reaches(from, to))
            return *row;
    return NULL;
}

/* Bytes of the chunk, or 0 when its ranges make no sense for this pool. */
static uint64_t chunk_bytes(const struct transport_kv *kv, const struct chunk *chunk) {
    if (chunk->layer_begin >= chunk->layer_end || chunk->layer_end > kv->n_layers ||
        chunk->block_begin >= chunk->block_end ||
        chunk->block_end - chunk->block_begin > kv->n_blocks)
        return 0;
    uint64_t n_runs = (uint64_t)(chunk->layer_end - chunk->layer_begin) *
                      (chunk->block_end - chunk->block_begin); /* below 2^64: both are 32 bits */
    uint64_t n_bytes;
    return __builtin_mul_overflow(n_runs, (uint64_t)kv->block_bytes, &n_bytes) ? 0 : n_bytes;
}

static unsigned char *block_at(const struct transport_kv *kv, uint32_t layer, uint32_t block) {
    ASSERT(block < kv->n_blocks);
    return kv->base + layer * kv->layer_bytes + (size_t)block * kv->block_bytes;
}

enum status transport_push(struct transport_sender *sender, const struct transport_kv *kv,
                           struct chunk *chunk, const uint32_t *blocks) {
    uint64_t n_bytes = chunk_bytes(kv, chunk);
    uint32_t n_blocks = chunk->block_end - chunk->block_begin;
    uint64_t position;
    ASSERT(n_bytes > 0);
    if (n_bytes > MESSAGE_CHUNK_MAX)
        return STATUS_LIMIT;
    TRY(stage_room(&sender->stage, (uint32_t)n_bytes, &position));
    const void *ride;
    unsigned char *room = sender->transport->room(sender, position, &ride);
    unsigned char *at = room;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++)
        for (uint32_t i = 0; i < n_blocks; i++, at += kv->block_bytes)
            memcpy(at, block_at(kv, layer, blocks[i]), kv->block_bytes);
    chunk->n_bytes = (uint32_t)n_bytes;
    chunk->checksum = XXH3_64bits(room, (size_t)n_bytes);
    chunk->where = position;
    chunk->bytes = ride;
    return STATUS_OK;
}

void transport_sent(struct transport_sender *sender, const struct chunk *chunk) {
    stage_put(&sender->stage, chunk->where, chunk->n_bytes);
}

enum status transport_acked(struct transport_sender *sender, uint64_t where) {
    return stage_release(&sender->stage, where);
}

enum status transport_take(struct transport_receiver *receiver, const struct transport_kv *kv,
                           const struct chunk *chunk, const uint32_t *blocks) {
    uint64_t n_bytes = chunk_bytes(kv, chunk);
    uint32_t n_blocks = chunk->block_end - chunk->block_begin;
    const void *bytes;
    if (n_bytes == 0 || n_bytes != chunk->n_bytes || n_bytes > MESSAGE_CHUNK_MAX)
        return STATUS_CORRUPT;
    TRY(receiver->transport->find(receiver, chunk, &bytes));
    /* The sum is taken over what arrived in the blocks, not over what lay in shared memory: a
     * writer that goes on writing cannot slip between the check and the copy. */
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    const unsigned char *from = bytes;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++) {
        for (uint32_t i = 0; i < n_blocks; i++, from += kv->block_bytes) {
            unsigned char *to = block_at(kv, layer, blocks[i]);
            memcpy(to, from, kv->block_bytes);
            XXH3_64bits_update(&state, to, kv->block_bytes);
        }
    }
    return XXH3_64bits_digest(&state) == chunk->checksum ? STATUS_OK : STATUS_CORRUPT;
}

void transport_consumed(struct transport_receiver *receiver, const struct chunk *chunk) {
    uint64_t end = stage_end(chunk->where, chunk->n_bytes);
    if (end > receiver->consumed)
        receiver->consumed = end;
}

void transport_sender_close(struct transport_sender *sender) {
    if (sender)
        sender->transport->sender_close(sender);
}

void transport_receiver_close(struct transport_receiver *receiver) {
    if (receiver)
        receiver->transport->receiver_close(receiver);
}
