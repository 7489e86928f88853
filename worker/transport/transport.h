/* worker/transport/transport.h: the seam of KV transports: a chunk's bytes from a prefill worker's
 * blocks into a decode worker's.
 *
 * Control stays on the KV link (proto/message.h): the sender's `offer` travels in KV_HELLO, a chunk
 * is named by CHUNK{where, n_bytes, checksum}, and what was read is acknowledged by
 * CHUNK_ACK{where}. The receiver always executes the copy itself, so its own word is the proof that
 * nothing writes into its blocks any more. Every chunk is checked with XXH3-64, with any transport.
 *
 * A transport is one `const struct transport` in a file of its own and a row of transport_table, in
 * order of preference. Engine thread only. Conformance: tests/conform/transport_test.c. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/transport/stage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_OFFER_MAX 256 /* bytes of an offer, as in struct kv_hello */
#define TRANSPORT_RANKS_MAX 16u /* of one worker */

struct chunk;
struct kernels;
struct kernels_ctx;
struct transport;

/* Where a worker runs. */
struct transport_place {
    uint64_t host; /* equal on one machine */
    uint32_t pid;  /* 0: not known */
};

struct transport_options {
    uint64_t ring_bytes;  /* most bytes on the way to one peer; a multiple of STAGE_ALIGNMENT */
    uint64_t first_bytes; /* of them at first, until transport_grow(); the same; 0: all */
    uint32_t chunk_bytes; /* most bytes of one chunk, at most ring_bytes */
};

/* The common heads of a transport's own structs. */
struct transport_sender {
    const struct transport *transport;
    struct stage stage;
    unsigned char *memory; /* the member's: a ring (stage.n_bytes), or one chunk that rides */
    bool rides;            /* in the CHUNK's raw frame, which the link copies when it sends */
};
struct transport_receiver {
    const struct transport *transport;
    uint64_t consumed;         /* what the next CHUNK_ACK says: all before it was read or dropped */
    const unsigned char *ring; /* (ring_bytes) the member's; NULL: the bytes ride in the chunk */
    uint64_t ring_bytes;
};

struct transport {
    const char *name;
    bool is_fallback; /* needs nothing but the KV link: taken where another fails; one row has it */
    bool is_inside;   /* within one process: who asks for it by name knows that the peer is here */

    bool (*reaches)(const struct transport_place *from, const struct transport_place *to);

    /* Takes the link's memory, of the ring the first_bytes. STATUS_NOMEM, STATUS_IO. On success the caller owns *sender. */
    NODISCARD enum status (*sender_open)(const struct transport_options *options,
                                         struct transport_sender **sender, struct error *error);
    void (*sender_close)(struct transport_sender *sender);

    /* Takes memory for the first n_used bytes of the ring, more than before. STATUS_NOMEM: nothing
     * has changed. NULL: there is nothing to take. */
    enum status (*sender_grow)(struct transport_sender *sender, uint64_t n_used);

    /* Writes what the receiver needs to find us and answers its length. */
    uint32_t (*offer)(const struct transport_sender *sender, uint8_t offer[TRANSPORT_OFFER_MAX]);

    /* STATUS_INVALID: no offer of ours. STATUS_CLOSED: the sender is gone. STATUS_DENIED,
     * STATUS_UNSUPPORTED, STATUS_IO: cannot be reached this way, another transport may. */
    NODISCARD enum status (*receiver_open)(const uint8_t *offer, uint32_t n_offer,
                                           struct transport_receiver **receiver,
                                           struct error *error);
    void (*receiver_close)(struct transport_receiver *receiver);
};

extern const struct transport *const transport_table[]; /* NULL-terminated */

const struct transport *transport_find(const char *name); /* or NULL */

/* The row that is taken where another fails. */
const struct transport *transport_fallback(void);

/* Whether the option's word lets the workers choose: "auto". */
bool transport_is_free(const char *name);

/* The first of the table that reaches from `from` to `to`, or the one named, if it does. NULL when
 * there is none. */
const struct transport *transport_choose(const char *name, const struct transport_place *from,
                                         const struct transport_place *to);

/* One rank's part of the KV pool: layer l of block b lies at base + l * layer_bytes + b *
 * block_bytes and holds KV heads [head_begin, head_begin + n_heads): K of each, then V of each. */
struct transport_rank {
    unsigned char *base;     /* borrowed */
    struct kernels_ctx *ctx; /* borrowed: whose memory it is, where it is not the host's */
    size_t layer_bytes;
    uint32_t block_bytes;
    uint32_t head_begin;
    uint32_t n_heads;
};

/* The KV pool. On the wire a block is as one rank alone has it, K of all heads and then V of all
 * heads, so that workers of any tensor-parallel sizes understand each other: a head is read from
 * the first rank that has it and written to every one. */
struct transport_kv {
    uint32_t block_bytes; /* of one layer of a block, all heads */
    uint32_t n_layers;
    uint32_t n_blocks;
    uint32_t n_heads; /* of the model; of no meaning when there is one rank */
    uint32_t n_ranks;
    struct transport_rank ranks[TRANSPORT_RANKS_MAX];

    /* Of ranks whose memory is not the host's; else NULL. Borrowed. */
    const struct kernels *kernels;
    unsigned char *staging; /* (2 block_bytes): what is checked, and what goes to a rank or comes
                               from it, in nobody else's reach */
};

/* Is every head in some rank, and every rank as large as its heads? */
bool transport_kv_valid(const struct transport_kv *kv);

/* Puts the chunk's layers of `blocks` (block_end - block_begin) into the sender's memory and fills
 * n_bytes, checksum, where and bytes. It counts only after transport_sent(), so a CHUNK that could
 * not be sent costs nothing. STATUS_BUSY: too much is on the way. STATUS_LIMIT: larger than a
 * chunk may be. STATUS_IO: the device that holds the blocks failed. */
NODISCARD enum status transport_push(struct transport_sender *sender, const struct transport_kv *kv,
                                     struct chunk *chunk, const uint32_t *blocks);
void transport_sent(struct transport_sender *sender, const struct chunk *chunk);

/* So many bytes may be on the way from now on: more than before, at most the options' ring_bytes.
 * STATUS_NOMEM: it stays as it was. */
NODISCARD enum status transport_grow(struct transport_sender *sender, uint64_t n_used);

/* The peer has read up to `where`. STATUS_CORRUPT: it says so of what was never sent. */
NODISCARD enum status transport_acked(struct transport_sender *sender, uint64_t where);

/* Copies a chunk into our blocks (block_end - block_begin) and checks it. STATUS_CORRUPT,
 * STATUS_CLOSED; the blocks then hold anything. */
NODISCARD enum status transport_take(struct transport_receiver *receiver,
                                     const struct transport_kv *kv, const struct chunk *chunk,
                                     const uint32_t *blocks);

/* The bytes of a chunk whose n_bytes was checked. NULL: `where` lies outside, or nothing rides. */
const void *transport_bytes(const struct transport_receiver *receiver, const struct chunk *chunk);

/* After a CHUNK was taken or dropped: its memory may be used again. */
void transport_consumed(struct transport_receiver *receiver, const struct chunk *chunk);

/* NULL is fine. */
void transport_sender_close(struct transport_sender *sender);
void transport_receiver_close(struct transport_receiver *receiver);
