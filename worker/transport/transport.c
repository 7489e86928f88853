#include "worker/transport/transport.h"

#include "base/assert.h"
#include "base/checked.h"
#include "kernels/kernels.h"
#include "proto/message.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include <xxhash.h>

extern const struct transport transport_local;
extern const struct transport transport_shm;
extern const struct transport transport_tcp;

const struct transport *const transport_table[] = {&transport_local, &transport_shm, &transport_tcp,
                                                   NULL};

static void transport_check_hooks(const struct transport *transport) {
    ASSERT(transport->name && transport->reaches);
    ASSERT(transport->sender_open && transport->sender_close);
    ASSERT(transport->offer && transport->receiver_open && transport->receiver_close);
}

const struct transport *transport_find(const char *name) {
    for (const struct transport *const *row = transport_table; *row; row++) {
        transport_check_hooks(*row);
        if (strcmp((*row)->name, name) == 0)
            return *row;
    }
    return NULL;
}

const struct transport *transport_fallback(void) {
    const struct transport *const *row = transport_table;
    while (*row && !(*row)->is_fallback)
        row++;
    ASSERT(*row);
    return *row;
}

bool transport_is_free(const char *name) {
    return strcmp(name, "auto") == 0;
}

const struct transport *transport_choose(const char *name, const struct transport_place *from,
                                         const struct transport_place *to) {
    bool any = transport_is_free(name);
    for (const struct transport *const *row = transport_table; *row; row++)
        if ((any || strcmp((*row)->name, name) == 0) && (*row)->reaches(from, to))
            return *row;
    return NULL;
}

/* Bytes of the chunk, or 0 when its ranges make no sense for this pool. */
static uint64_t transport_chunk_bytes(const struct transport_kv *kv, const struct chunk *chunk) {
    if (chunk->layer_begin >= chunk->layer_end || chunk->layer_end > kv->n_layers ||
        chunk->block_begin >= chunk->block_end ||
        chunk->block_end - chunk->block_begin > kv->n_blocks)
        return 0;
    uint64_t n_runs = (uint64_t)(chunk->layer_end - chunk->layer_begin) *
                      (chunk->block_end - chunk->block_begin); /* below 2^64: both are 32 bits */
    uint64_t n_bytes;
    return __builtin_mul_overflow(n_runs, (uint64_t)kv->block_bytes, &n_bytes) ? 0 : n_bytes;
}

static unsigned char *transport_block_at(const struct transport_kv *kv, uint32_t rank,
                                         uint32_t layer, uint32_t block) {
    const struct transport_rank *of = &kv->ranks[rank];
    ASSERT(block < kv->n_blocks);
    return of->base + layer * of->layer_bytes + (size_t)block * of->block_bytes;
}

static bool transport_holds(const struct transport_rank *rank, uint32_t head) {
    return head >= rank->head_begin && head - rank->head_begin < rank->n_heads;
}

bool transport_kv_valid(const struct transport_kv *kv) {
    if (kv->n_ranks == 0 || kv->n_ranks > TRANSPORT_RANKS_MAX)
        return false;
    if (kv->kernels && !kv->staging)
        return false;
    if (kv->n_ranks == 1)
        return kv->ranks[0].block_bytes == kv->block_bytes;
    if (kv->n_heads == 0 || kv->block_bytes % ((uint64_t)2 * kv->n_heads) != 0)
        return false;
    uint32_t n_held = 0;
    for (uint32_t i = 0; i < kv->n_ranks; i++) {
        const struct transport_rank *rank = &kv->ranks[i];
        if (!checked_range(rank->head_begin, rank->n_heads, kv->n_heads) ||
            rank->block_bytes != (uint64_t)kv->block_bytes / kv->n_heads * rank->n_heads)
            return false;
    }
    for (uint32_t head = 0; head < kv->n_heads; head++)
        for (uint32_t rank = 0; rank < kv->n_ranks; rank++)
            if (transport_holds(&kv->ranks[rank], head)) {
                n_held++;
                break;
            }
    return n_held == kv->n_heads;
}

/* A run of neighbouring heads within one half (K or V) of a block, as it lies in a rank's block and
 * in the whole one. */
struct transport_run {
    uint32_t rank;
    uint32_t head; /* of the model */
    uint32_t n;
};

/* The longest run from `head` on whose first holder is one rank. */
static struct transport_run transport_run_from(const struct transport_kv *kv, uint32_t head) {
    struct transport_run run = {.head = head};
    while (!transport_holds(&kv->ranks[run.rank], head))
        run.rank++; /* there is one: transport_kv_valid() */
    const struct transport_rank *of = &kv->ranks[run.rank];
    run.n = of->head_begin + of->n_heads - head;
    return run;
}

/* Where head `head` of a half lies in a rank's block. */
static unsigned char *transport_head_at(const struct transport_kv *kv, uint32_t rank,
                                        unsigned char *block, uint32_t half, uint32_t head) {
    const struct transport_rank *of = &kv->ranks[rank];
    size_t head_bytes = kv->block_bytes / (2 * kv->n_heads);
    return block + (half * of->n_heads + head - of->head_begin) * head_bytes;
}

/* Moves the heads of a rank between its block and the whole one: into the rank's, or, of heads that no
 * rank before it holds, out of it. */
static void transport_move_heads(const struct transport_kv *kv, uint32_t rank, unsigned char *own,
                                 unsigned char *whole, bool into) {
    const struct transport_rank *of = &kv->ranks[rank];
    size_t head_bytes = kv->block_bytes / (2 * kv->n_heads);
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t head = of->head_begin; head < of->head_begin + of->n_heads; head++) {
            unsigned char *here = transport_head_at(kv, rank, own, half, head);
            unsigned char *there = whole + (half * kv->n_heads + head) * head_bytes;
            if (into)
                memcpy(here, there, head_bytes);
            else if (transport_run_from(kv, head).rank == rank)
                memcpy(there, here, head_bytes);
        }
}

/* As transport_gather_block(), from devices. */
static enum status transport_get_block(const struct transport_kv *kv, uint32_t layer,
                                       uint32_t block, unsigned char *to) {
    for (uint32_t rank = 0; rank < kv->n_ranks; rank++) {
        const struct transport_rank *of = &kv->ranks[rank];
        unsigned char *own = kv->n_ranks > 1 ? kv->staging : to;
        TRY(kv->kernels->get_beside(of->ctx, own, transport_block_at(kv, rank, layer, block),
                                    of->block_bytes));
        if (kv->n_ranks > 1)
            transport_move_heads(kv, rank, own, to, false);
    }
    return STATUS_OK;
}

/* And to them: `whole` is (block_bytes) of the staging memory, the other half is a rank's. */
static void transport_put_block(const struct transport_kv *kv, uint32_t layer, uint32_t block,
                                unsigned char *whole) {
    for (uint32_t rank = 0; rank < kv->n_ranks; rank++) {
        const struct transport_rank *of = &kv->ranks[rank];
        unsigned char *own = kv->n_ranks > 1 ? whole + kv->block_bytes : whole;
        if (kv->n_ranks > 1)
            transport_move_heads(kv, rank, own, whole, true);
        kv->kernels->put_beside(of->ctx, transport_block_at(kv, rank, layer, block), own,
                                of->block_bytes);
    }
}

/* One layer of one block into its form on the wire. STATUS_IO: its device failed. */
static enum status transport_gather_block(const struct transport_kv *kv, uint32_t layer,
                                          uint32_t block, unsigned char *to) {
    if (kv->kernels)
        return transport_get_block(kv, layer, block, to);
    if (kv->n_ranks == 1) {
        memcpy(to, transport_block_at(kv, 0, layer, block), kv->block_bytes);
        return STATUS_OK;
    }
    size_t head_bytes = kv->block_bytes / (2 * kv->n_heads);
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t head = 0; head < kv->n_heads;) {
            struct transport_run run = transport_run_from(kv, head);
            unsigned char *from = transport_block_at(kv, run.rank, layer, block);
            memcpy(to, transport_head_at(kv, run.rank, from, half, head), run.n * head_bytes);
            to += run.n * head_bytes;
            head += run.n;
        }
    return STATUS_OK;
}

/* The other ranks that hold heads of this run get them from the first, whose bytes were summed. */
static void transport_share_run(const struct transport_kv *kv, const struct transport_run *run,
                                uint32_t layer, uint32_t block, uint32_t half) {
    size_t head_bytes = kv->block_bytes / (2 * kv->n_heads);
    unsigned char *from = transport_block_at(kv, run->rank, layer, block);
    for (uint32_t rank = run->rank + 1; rank < kv->n_ranks; rank++) {
        unsigned char *to = transport_block_at(kv, rank, layer, block);
        for (uint32_t head = run->head; head < run->head + run->n; head++)
            if (transport_holds(&kv->ranks[rank], head))
                memcpy(transport_head_at(kv, rank, to, half, head),
                       transport_head_at(kv, run->rank, from, half, head), head_bytes);
    }
}

/* The sum is taken over what arrived in the blocks, or over the copy that goes there, not over what
 * lay in shared memory: a writer that goes on writing cannot slip between the check and the copy. */
static void transport_scatter_block(const struct transport_kv *kv, uint32_t layer, uint32_t block,
                                    const unsigned char *from, XXH3_state_t *sum) {
    if (kv->kernels) {
        memcpy(kv->staging, from, kv->block_bytes);
        XXH3_64bits_update(sum, kv->staging, kv->block_bytes);
        transport_put_block(kv, layer, block, kv->staging);
        return;
    }
    if (kv->n_ranks == 1) {
        unsigned char *to = transport_block_at(kv, 0, layer, block);
        memcpy(to, from, kv->block_bytes);
        XXH3_64bits_update(sum, to, kv->block_bytes);
        return;
    }
    size_t head_bytes = kv->block_bytes / (2 * kv->n_heads);
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t head = 0; head < kv->n_heads;) {
            struct transport_run run = transport_run_from(kv, head);
            unsigned char *to = transport_head_at(
                kv, run.rank, transport_block_at(kv, run.rank, layer, block), half, head);
            memcpy(to, from, run.n * head_bytes);
            XXH3_64bits_update(sum, to, run.n * head_bytes);
            transport_share_run(kv, &run, layer, block, half);
            from += run.n * head_bytes;
            head += run.n;
        }
}

enum status transport_push(struct transport_sender *sender, const struct transport_kv *kv,
                           struct chunk *chunk, const uint32_t *blocks) {
    uint64_t n_bytes = transport_chunk_bytes(kv, chunk);
    uint32_t n_blocks = chunk->block_end - chunk->block_begin;
    uint64_t position;
    ASSERT(n_bytes > 0);
    if (n_bytes > MESSAGE_CHUNK_MAX)
        return STATUS_LIMIT;
    TRY(stage_room(&sender->stage, (uint32_t)n_bytes, &position));
    unsigned char *room = sender->memory;
    if (!sender->rides)
        room += position % sender->stage.n_bytes;
    unsigned char *at = room;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++)
        for (uint32_t i = 0; i < n_blocks; i++, at += kv->block_bytes)
            TRY(transport_gather_block(kv, layer, blocks[i], at));
    chunk->n_bytes = (uint32_t)n_bytes;
    chunk->checksum = XXH3_64bits(room, (size_t)n_bytes);
    chunk->where = position;
    chunk->bytes = sender->rides ? room : NULL;
    return STATUS_OK;
}

void transport_sent(struct transport_sender *sender, const struct chunk *chunk) {
    stage_put(&sender->stage, chunk->where, chunk->n_bytes);
}

enum status transport_grow(struct transport_sender *sender, uint64_t n_used) {
    ASSERT(n_used > sender->stage.n_used);
    if (sender->transport->sender_grow)
        TRY(sender->transport->sender_grow(sender, n_used));
    stage_use(&sender->stage, n_used);
    return STATUS_OK;
}

enum status transport_acked(struct transport_sender *sender, uint64_t where) {
    return stage_release(&sender->stage, where);
}

const void *transport_bytes(const struct transport_receiver *receiver, const struct chunk *chunk) {
    if (!receiver->ring)
        return chunk->bytes;
    uint64_t place = chunk->where % receiver->ring_bytes;
    return chunk->n_bytes > receiver->ring_bytes - place ? NULL : receiver->ring + place;
}

enum status transport_take(struct transport_receiver *receiver, const struct transport_kv *kv,
                           const struct chunk *chunk, const uint32_t *blocks) {
    uint64_t n_bytes = transport_chunk_bytes(kv, chunk);
    uint32_t n_blocks = chunk->block_end - chunk->block_begin;
    if (n_bytes == 0 || n_bytes != chunk->n_bytes || n_bytes > MESSAGE_CHUNK_MAX)
        return STATUS_CORRUPT;
    const unsigned char *from = transport_bytes(receiver, chunk);
    if (!from)
        return STATUS_CORRUPT;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++)
        for (uint32_t i = 0; i < n_blocks; i++, from += kv->block_bytes)
            transport_scatter_block(kv, layer, blocks[i], from, &state);
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
