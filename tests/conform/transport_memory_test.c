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

/* A worker's KV: a copy on the host, and where it is. */
struct pool {
    unsigned char bytes[N_LAYERS][N_BLOCKS][BLOCK_BYTES];
    unsigned char staging[BLOCK_BYTES];
    const struct kernels *kernels; /* NULL: bytes are the KV */
    struct kernels_ctx *ctx;
    struct transport_kv kv;
};

static struct pool *pool_new(const struct kernels *kernels, uint64_t seed) {
    const struct kernels_options options = {.n_threads = 1, .limits = {1, 1, 16, 32, 32, 1, 1, 16}};
    struct pool *pool = calloc(1, sizeof *pool);
    struct random random = {seed};
    struct error error;
    ck_assert_ptr_nonnull(pool);
    for (size_t i = 0; i < sizeof pool->bytes; i++)
        ((unsigned char *)pool->bytes)[i] = (unsigned char)random_next(&random);
    pool->kernels = kernels;
    pool->kv = (struct transport_kv){.block_bytes = BLOCK_BYTES,
                                     .n_layers = N_LAYERS,
                                     .n_blocks = N_BLOCKS,
                                     .n_ranks = 1,
                                     .ranks = {{.base = &pool->bytes[0][0][0],
                                                .layer_bytes = sizeof pool->bytes[0],
                                                .block_bytes = BLOCK_BYTES}}};
    if (kernels) {
        ck_assert_int_eq(kernels->open(&options, &pool->ctx, &error), STATUS_OK);
        pool->kv.kernels = kernels;
        pool->kv.ctx = pool->ctx;
        pool->kv.staging = pool->staging;
        pool->kv.ranks[0].base = kernels->alloc(pool->ctx, sizeof pool->bytes);
        kernels->put(pool->ctx, pool->kv.ranks[0].base, pool->bytes, sizeof pool->bytes);
    }
    ck_assert(transport_kv_valid(&pool->kv));
    return pool;
}

static void pool_read(struct pool *pool) {
    if (pool->kernels)
        pool->kernels->get(pool->ctx, pool->bytes, pool->kv.ranks[0].base, sizeof pool->bytes);
}

static void pool_free(struct pool *pool) {
    if (pool->kernels) {
        pool->kernels->dealloc(pool->ctx, pool->kv.ranks[0].base, sizeof pool->bytes);
        pool->kernels->close(pool->ctx);
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
    uint32_t n = 1; /* the last one is the host */
    while (kernels_table[n - 1])
        n++;
    for (uint32_t i = 0; i < n * n; i++) {
        struct pool *from = pool_new(kernels_table[i % n], 2);
        struct pool *to = pool_new(kernels_table[i / n], 3);
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
    struct pool *from = pool_new(NULL, 8), *to = pool_new(NULL, 9);
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
    struct pool *from = pool_new(NULL, 8);
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

START_TEST(a_pool_of_a_device_has_one_rank_and_room_beside_it) {
    struct pool *pool = pool_new(kernels_table[0], 1);
    struct transport_kv kv = pool->kv;
    kv.staging = NULL;
    ck_assert(!transport_kv_valid(&kv));
    kv = pool->kv;
    kv.n_heads = 2;
    kv.n_ranks = 2;
    kv.ranks[0].block_bytes = kv.ranks[1].block_bytes = BLOCK_BYTES / 2;
    kv.ranks[0].n_heads = kv.ranks[1].n_heads = 1;
    kv.ranks[1].head_begin = 1;
    ck_assert(!transport_kv_valid(&kv));
    kv.kernels = NULL;
    ck_assert(transport_kv_valid(&kv));
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
    tcase_add_test(tests, a_pool_of_a_device_has_one_rank_and_room_beside_it);
}
