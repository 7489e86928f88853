/* KV in memory that is not the host's, over every transport: chunks come from memory of each backend
 * into that of each other, and what is put there is what was checked. */
#include "base/random.h"
#include "kernels/kernels.h"
#include "proto/message.h"
#include "tests/support/suite.h"
#include "worker/transport/transport.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "transport memory";
const double suite_timeout_s = 120;

enum { N_LAYERS = 3, N_BLOCKS = 16, BLOCK_BYTES = 192, RING_BYTES = 16384, CHUNK_BYTES = 8192 };

/* Of two ranks each has two of the three heads; both have the one in the middle. */
enum { N_HEADS = 3, HEAD_BYTES = BLOCK_BYTES / 2 / N_HEADS, RANKS_MAX = 2, HELD = 2 };

typedef unsigned char cut[N_LAYERS][N_BLOCKS][2][HELD][HEAD_BYTES];

/* A worker's KV: a copy on the host, and where it is. */
struct pool {
    unsigned char bytes[N_LAYERS][N_BLOCKS][BLOCK_BYTES];
    unsigned char staging[2 * BLOCK_BYTES];
    const struct kernels *kernels; /* NULL: bytes are the KV */
    struct kernels_ctx *ctxs[RANKS_MAX];
    struct transport_kv kv;
};

/* What a rank has of the bytes, to its own memory or back from there. */
static void move_cut(struct pool *pool, uint32_t rank, cut own, bool back) {
    for (uint32_t at = 0; at < N_LAYERS * N_BLOCKS * 2 * HELD; at++) {
        uint32_t layer = at / (N_BLOCKS * 2 * HELD), block = at / (2 * HELD) % N_BLOCKS;
        uint32_t half = at / HELD % 2, held = at % HELD;
        unsigned char *there =
            pool->bytes[layer][block] + (half * N_HEADS + rank + held) * HEAD_BYTES;
        unsigned char *here = own[layer][block][half][held];
        if (back && rank > 0 && held == 0) /* the head that both have */
            ck_assert_mem_eq(there, here, HEAD_BYTES);
        memcpy(back ? there : here, back ? here : there, HEAD_BYTES);
    }
}

/* A rank of the pool's in memory of its own. */
static void open_rank(struct pool *pool, uint32_t rank, uint32_t n_ranks) {
    const struct kernels_options options = {
        .n_threads = 1, .device = rank, .limits = {1, 1, 16, 32, 32, 1, 1, 16}};
    static cut own;
    struct error error;
    size_t n_bytes = n_ranks > 1 ? sizeof own : sizeof pool->bytes;
    ck_assert_int_eq(pool->kernels->open(&options, &pool->ctxs[rank], &error), STATUS_OK);
    unsigned char *base = pool->kernels->alloc(pool->ctxs[rank], n_bytes);
    ck_assert_ptr_nonnull(base);
    move_cut(pool, rank, own, false);
    pool->kernels->put(pool->ctxs[rank], base, n_ranks > 1 ? (void *)own : pool->bytes, n_bytes);
    pool->kv.ranks[rank] =
        (struct transport_rank){.base = base,
                                .ctx = pool->ctxs[rank],
                                .layer_bytes = n_bytes / N_LAYERS,
                                .block_bytes = (uint32_t)(n_bytes / N_LAYERS / N_BLOCKS),
                                .head_begin = rank,
                                .n_heads = HELD};
}

/* kernels NULL: the memory is the host's own. */
static struct pool *pool_new(const struct kernels *kernels, uint32_t n_ranks, uint64_t seed) {
    struct pool *pool = calloc(1, sizeof *pool);
    struct random random = {seed};
    ck_assert_ptr_nonnull(pool);
    for (size_t i = 0; i < sizeof pool->bytes; i++)
        ((unsigned char *)pool->bytes)[i] = (unsigned char)random_next(&random);
    pool->kernels = kernels;
    pool->kv = (struct transport_kv){.block_bytes = BLOCK_BYTES,
                                     .n_layers = N_LAYERS,
                                     .n_blocks = N_BLOCKS,
                                     .n_heads = N_HEADS,
                                     .n_ranks = n_ranks,
                                     .ranks = {{.base = &pool->bytes[0][0][0],
                                                .layer_bytes = sizeof pool->bytes[0],
                                                .block_bytes = BLOCK_BYTES}}};
    if (kernels) {
        pool->kv.kernels = kernels;
        pool->kv.staging = pool->staging;
        for (uint32_t rank = 0; rank < n_ranks; rank++)
            open_rank(pool, rank, n_ranks);
    }
    ck_assert(transport_kv_valid(&pool->kv));
    return pool;
}

static void pool_read(struct pool *pool) {
    const struct kernels *kernels = pool->kernels;
    static cut own;
    if (kernels && pool->kv.n_ranks == 1)
        kernels->get(pool->ctxs[0], pool->bytes, pool->kv.ranks[0].base, sizeof pool->bytes);
    for (uint32_t rank = 0; pool->kv.n_ranks > 1 && rank < pool->kv.n_ranks; rank++) {
        kernels->get(pool->ctxs[rank], own, pool->kv.ranks[rank].base, sizeof own);
        move_cut(pool, rank, own, true);
    }
}

static void pool_free(struct pool *pool) {
    for (uint32_t rank = 0; pool->kernels && rank < pool->kv.n_ranks; rank++) {
        size_t n_bytes = (size_t)N_LAYERS * pool->kv.ranks[rank].layer_bytes;
        pool->kernels->dealloc(pool->ctxs[rank], pool->kv.ranks[rank].base, n_bytes);
        pool->kernels->close(pool->ctxs[rank]);
    }
    free(pool);
}

struct link {
    struct transport_sender *sender;
    struct transport_receiver *receiver;
};

static struct link link_open(const struct transport *transport) {
    struct link link = {0};
    struct error error;
    uint8_t offer[TRANSPORT_OFFER_MAX];
    struct transport_options options = {.ring_bytes = RING_BYTES, .chunk_bytes = CHUNK_BYTES};
    ck_assert_int_eq(transport->sender_open(&options, &link.sender, &error), STATUS_OK);
    uint32_t n = transport->offer(link.sender, offer);
    ck_assert_int_eq(transport->receiver_open(offer, n, &link.receiver, &error), STATUS_OK);
    return link;
}

static void link_close(struct link *link) {
    transport_sender_close(link->sender);
    transport_receiver_close(link->receiver);
}

/* Some layers of blocks 1, 2, ... go to blocks 15, 14, ..., and nothing else is touched. */
static void hand_over(struct link *link, struct pool *from, struct pool *to, uint32_t layer_begin,
                      uint32_t n_blocks) {
    struct chunk chunk = {.layer_begin = layer_begin,
                          .layer_end = N_LAYERS,
                          .block_begin = 5,
                          .block_end = 5 + n_blocks};
    uint32_t from_blocks[N_BLOCKS], to_blocks[N_BLOCKS];
    static unsigned char expected[N_LAYERS][N_BLOCKS][BLOCK_BYTES];
    memcpy(expected, to->bytes, sizeof expected);
    for (uint32_t i = 0; i < n_blocks; i++) {
        from_blocks[i] = 1 + i;
        to_blocks[i] = N_BLOCKS - 1 - i;
        for (uint32_t layer = layer_begin; layer < N_LAYERS; layer++)
            memcpy(expected[layer][to_blocks[i]], from->bytes[layer][from_blocks[i]], BLOCK_BYTES);
    }
    ck_assert_int_eq(transport_push(link->sender, &from->kv, &chunk, from_blocks), STATUS_OK);
    transport_sent(link->sender, &chunk);
    struct chunk wrong = chunk;
    wrong.checksum ^= 1;
    ck_assert_int_eq(transport_take(link->receiver, &to->kv, &wrong, to_blocks), STATUS_CORRUPT);
    ck_assert_int_eq(transport_take(link->receiver, &to->kv, &chunk, to_blocks), STATUS_OK);
    transport_consumed(link->receiver, &chunk);
    ck_assert_int_eq(transport_acked(link->sender, link->receiver->consumed), STATUS_OK);
    pool_read(to);
    ck_assert_mem_eq(to->bytes, expected, sizeof expected);
}

START_TEST(chunks_come_from_memory_of_every_backend_into_that_of_every_other) {
    uint32_t n = 0;
    while (kernels_table[n])
        n++;
    uint32_t n_pools = RANKS_MAX * n + 1; /* each backend with one rank and with two; the host */
    for (uint32_t i = 0; i < n_pools * n_pools; i++) {
        uint32_t a = i % n_pools, b = i / n_pools;
        struct pool *from = pool_new(kernels_table[a / RANKS_MAX], 1 + a % RANKS_MAX, 2);
        struct pool *to = pool_new(kernels_table[b / RANKS_MAX], 1 + b % RANKS_MAX, 3);
        struct link link = link_open(transport_table[_i]);
        for (uint32_t round = 0; round < 30; round++)
            hand_over(&link, from, to, round % N_LAYERS, 1 + round % 9);
        link_close(&link);
        pool_free(from);
        pool_free(to);
    }
}
END_TEST

/* The sender's shared memory changes while the receiver puts a block where it belongs. */
static unsigned char *changed;

static void put_while_it_changes(struct kernels_ctx *ctx, void *to, const void *from,
                                 size_t n_bytes) {
    (void)ctx;
    changed[0] ^= 1;
    memcpy(to, from, n_bytes);
}

START_TEST(a_block_is_put_as_it_was_checked_whatever_the_sender_writes_meanwhile) {
    const struct kernels fake = {.name = "fake", .put_beside = put_while_it_changes};
    struct pool *from = pool_new(NULL, 1, 8), *to = pool_new(NULL, 1, 9);
    struct link link = link_open(transport_find("local"));
    struct chunk chunk = {.layer_begin = 1, .layer_end = 2, .block_end = 1};
    const uint32_t block = 4;
    ck_assert_int_eq(transport_push(link.sender, &from->kv, &chunk, &block), STATUS_OK);
    transport_sent(link.sender, &chunk);
    changed = (unsigned char *)(uintptr_t)transport_bytes(link.receiver, &chunk);
    ck_assert_ptr_nonnull(changed);
    to->kv.kernels = &fake;
    to->kv.staging = to->staging;
    ck_assert_int_eq(transport_take(link.receiver, &to->kv, &chunk, &block), STATUS_OK);
    ck_assert_mem_eq(to->bytes[1][block], from->bytes[1][block], BLOCK_BYTES);
    ck_assert_uint_ne(changed[0], to->bytes[1][block][0]);
    link_close(&link);
    pool_free(from);
    pool_free(to);
}
END_TEST

static enum status get_from_a_broken_device(struct kernels_ctx *ctx, void *to, const void *from,
                                            size_t n_bytes) {
    (void)ctx;
    (void)from;
    memset(to, 0, n_bytes);
    return STATUS_IO;
}

START_TEST(nothing_is_sent_of_a_device_that_failed) {
    const struct kernels fake = {.name = "fake", .get_beside = get_from_a_broken_device};
    struct pool *from = pool_new(NULL, 1, 8);
    struct link link = link_open(transport_find("local"));
    struct chunk chunk = {.layer_begin = 1, .layer_end = 2, .block_end = 1};
    const uint32_t block = 4;
    from->kv.kernels = &fake;
    from->kv.staging = from->staging;
    ck_assert_int_eq(transport_push(link.sender, &from->kv, &chunk, &block), STATUS_IO);
    link_close(&link);
    pool_free(from);
}
END_TEST

START_TEST(a_pool_of_devices_has_room_beside_it) {
    struct pool *pool = pool_new(kernels_table[0], RANKS_MAX, 1);
    struct transport_kv kv = pool->kv;
    kv.staging = NULL;
    ck_assert(!transport_kv_valid(&kv));
    kv = pool->kv;
    kv.ranks[1].head_begin = 0; /* nobody has the last head */
    ck_assert(!transport_kv_valid(&kv));
    pool_free(pool);
}
END_TEST

void suite_add(TCase *tests) {
    int n = 0;
    while (transport_table[n])
        n++;
    tcase_add_loop_test(tests, chunks_come_from_memory_of_every_backend_into_that_of_every_other, 0,
                        n);
    tcase_add_test(tests, a_block_is_put_as_it_was_checked_whatever_the_sender_writes_meanwhile);
    tcase_add_test(tests, nothing_is_sent_of_a_device_that_failed);
    tcase_add_test(tests, a_pool_of_devices_has_room_beside_it);
}
