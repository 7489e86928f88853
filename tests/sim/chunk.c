/* KV bytes between workers: riding along with the CHUNK, or through a ring in the sender's memory
 * that the receiver reads (worker/transport/: tcp, and shm with its stage.c). */
#include "tests/sim/sim.h"

#include "base/assert.h"

#include <string.h>

static uint64_t checksum(const void *bytes, uint32_t n) {
    const uint8_t *at = bytes;
    uint64_t sum = n;
    for (uint32_t i = 0; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, at + i, sizeof word);
        sum = mix64(sum ^ word);
    }
    for (uint32_t i = n & ~7u; i < n; i++)
        sum = mix64(sum ^ at[i]);
    return sum;
}

static uint32_t n_blocks_of(const struct chunk *chunk) {
    return chunk->block_end - chunk->block_begin;
}

/* Where the bytes go, or BUSY. What an idle receiver repeats now and then is heard here. */
static enum status find_room(struct sim *sim, struct wire *wire, uint32_t n, uint64_t *position) {
    enum status status = stage_room(&wire->stage, n, position);
    if (status != STATUS_BUSY)
        return status;
    sim_saw(sim, SIGHT_RING_FULL);
    if (wire->reminds_ns == 0)
        wire->reminds_ns = sim->now_ns + NS_PER_S;
    if (sim->now_ns >= wire->reminds_ns) {
        wire->reminds_ns = 0;
        status = stage_release(&wire->stage, wire->consumed);
        ASSERT(status == STATUS_OK);
        return STATUS_BUSY;
    }
    return status;
}

enum status chunk_push(struct sim *sim, uint32_t node, uint32_t i, uint32_t end,
                       struct chunk *chunk, const uint32_t *blocks) {
    struct wire *wire = &sim->wires[i];
    static uint8_t bytes[MESSAGE_CHUNK_MAX];
    uint32_t n = n_blocks_of(chunk) * (chunk->layer_end - chunk->layer_begin) * SIM_BLOCK_BYTES;
    uint8_t *to = bytes;
    uint64_t position = 0;
    ASSERT(n <= sim->options.chunk_bytes);
    if (wire->shm) {
        TRY(find_room(sim, wire, n, &position));
        to = wire->ring + position % SIM_RING_BYTES;
    }
    chunk->bytes = wire->shm ? NULL : to;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++) {
        for (uint32_t b = 0; b < n_blocks_of(chunk); b++, to += SIM_BLOCK_BYTES)
            memcpy(to, chunk_entry(&sim->nodes[node], layer, blocks[b], 0), SIM_BLOCK_BYTES);
    }
    chunk->n_bytes = n;
    chunk->checksum = checksum(to - n, n);
    chunk->where = position;
    struct message message = {.type = MESSAGE_CHUNK};
    message.u.chunk = *chunk;
    TRY(wire_send(sim, i, end, &message, sim->options.hwm));
    if (wire->shm)
        stage_put(&wire->stage, position, n);
    return STATUS_OK;
}

/* Its place in the ring may be used again. */
static bool consume(struct wire *wire, const struct chunk *chunk) {
    uint64_t behind = stage_end(chunk->where, chunk->n_bytes);
    bool is_new = behind > wire->consumed && behind <= wire->stage.head;
    wire->consumed = is_new ? behind : wire->consumed;
    return is_new;
}

/* Also of a chunk that nobody wanted: the sender hears of it without the core's doing. */
void chunk_consumed(struct sim *sim, uint32_t i, const struct chunk *chunk) {
    struct wire *wire = &sim->wires[i];
    if (!consume(wire, chunk))
        return;
    struct message ack = {.type = MESSAGE_CHUNK_ACK, .u.chunk_ack.where = wire->consumed};
    enum status status = wire_send(sim, i, 1, &ack, sim->options.hwm);
    (void)status; /* BUSY: the next one says it */
}

enum status chunk_take(struct sim *sim, uint32_t node, uint32_t i, const struct chunk *chunk,
                       const uint32_t *blocks) {
    struct wire *wire = &sim->wires[i];
    uint64_t n =
        (uint64_t)(chunk->layer_end - chunk->layer_begin) * n_blocks_of(chunk) * SIM_BLOCK_BYTES;
    const uint8_t *from = chunk->bytes;
    if (chunk->n_bytes != n)
        return STATUS_CORRUPT;
    if (wire->shm) {
        uint64_t place = chunk->where % SIM_RING_BYTES;
        if (n > SIM_RING_BYTES - place)
            return STATUS_CORRUPT;
        from = wire->ring + place;
        consume(wire, chunk);
    } else if (from != sim->raw || n != sim->n_raw) {
        sim_fail(sim, "a chunk of %u bytes is not the frame of %zu it came in", chunk->n_bytes,
                 sim->n_raw);
        return STATUS_CORRUPT;
    }
    bool right = checksum(from, chunk->n_bytes) == chunk->checksum;
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++) {
        for (uint32_t b = 0; b < n_blocks_of(chunk); b++, from += SIM_BLOCK_BYTES)
            memcpy(chunk_entry(&sim->nodes[node], layer, blocks[b], 0), from, SIM_BLOCK_BYTES);
    }
    if (!right)
        sim_saw(sim, SIGHT_CHUNK_CORRUPT);
    return right ? STATUS_OK : STATUS_CORRUPT;
}
