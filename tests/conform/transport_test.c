/* Every KV transport, over the whole table: what goes in comes out, nothing is written over before
 * it was read, and what is wrong is noticed. */
#include "worker/transport/transport.h"

#include "base/random.h"
#include "proto/message.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "transport";
const double suite_timeout_s = 120;

enum { N_LAYERS = 5, N_BLOCKS = 64, BLOCK_BYTES = 192, RING_BYTES = 16384, CHUNK_BYTES = 8192 };

struct pool {
    unsigned char bytes[N_LAYERS][N_BLOCKS][BLOCK_BYTES];
    struct transport_kv kv;
};

static struct pool *pool_new(uint64_t seed) {
    struct pool *pool = calloc(1, sizeof *pool);
    struct random random = {seed};
    ck_assert_ptr_nonnull(pool);
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int block = 0; block < N_BLOCKS; block++)
            for (int i = 0; i < BLOCK_BYTES; i++)
                pool->bytes[layer][block][i] = (unsigned char)random_next(&random);
    pool->kv = (struct transport_kv){.block_bytes = BLOCK_BYTES,
                                     .n_layers = N_LAYERS,
                                     .n_blocks = N_BLOCKS,
                                     .n_ranks = 1,
                                     .ranks = {{.base = &pool->bytes[0][0][0],
                                                .layer_bytes = sizeof pool->bytes[0],
                                                .block_bytes = BLOCK_BYTES}}};
    ck_assert(transport_kv_valid(&pool->kv));
    return pool;
}

/* The pool of a worker with n_ranks ranks and N_HEADS key-value heads; where there are fewer of
 * them than ranks, neighbours hold the same one. */
enum { N_HEADS = 4, HEAD_BYTES = BLOCK_BYTES / (2 * N_HEADS) };

struct cut_pool {
    unsigned char *bytes; /* all ranks', one after the other */
    size_t n_bytes;
    struct transport_kv kv;
};

static struct cut_pool cut_pool_new(uint32_t n_ranks, uint64_t seed) {
    struct cut_pool pool = {.kv = {.block_bytes = BLOCK_BYTES,
                                   .n_layers = N_LAYERS,
                                   .n_blocks = N_BLOCKS,
                                   .n_heads = N_HEADS,
                                   .n_ranks = n_ranks}};
    struct random random = {seed};
    uint32_t n_each = n_ranks < N_HEADS ? N_HEADS / n_ranks : 1;
    uint32_t block_bytes = n_each * 2 * HEAD_BYTES;
    size_t rank_bytes = (size_t)N_LAYERS * N_BLOCKS * block_bytes;
    pool.n_bytes = n_ranks * rank_bytes;
    pool.bytes = malloc(pool.n_bytes);
    ck_assert_ptr_nonnull(pool.bytes);
    for (size_t i = 0; i < pool.n_bytes; i++)
        pool.bytes[i] = (unsigned char)random_next(&random);
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        pool.kv.ranks[rank] = (struct transport_rank){.base = pool.bytes + rank * rank_bytes,
                                                      .layer_bytes = (size_t)N_BLOCKS * block_bytes,
                                                      .block_bytes = block_bytes,
                                                      .head_begin = rank * N_HEADS / n_ranks,
                                                      .n_heads = n_each};
    ck_assert(transport_kv_valid(&pool.kv));
    return pool;
}

/* Where a rank has head `head` of the model, its K (half 0) or V (1); NULL: it has not. */
static const unsigned char *head_of(const struct cut_pool *pool, uint32_t rank, uint32_t layer,
                                    uint32_t block, uint32_t half, uint32_t head) {
    const struct transport_rank *of = &pool->kv.ranks[rank];
    if (head < of->head_begin || head >= of->head_begin + of->n_heads)
        return NULL;
    return of->base + layer * of->layer_bytes + (size_t)block * of->block_bytes +
           (half * of->n_heads + head - of->head_begin) * HEAD_BYTES;
}

static const unsigned char *first_head_of(const struct cut_pool *pool, uint32_t layer,
                                          uint32_t block, uint32_t half, uint32_t head) {
    for (uint32_t rank = 0; rank < pool->kv.n_ranks; rank++)
        if (head_of(pool, rank, layer, block, half, head))
            return head_of(pool, rank, layer, block, half, head);
    ck_abort_msg("nobody holds the head");
}

struct link {
    struct transport_sender *sender;
    struct transport_receiver *receiver;
};

static struct link link_open(const struct transport *transport, uint64_t first_bytes) {
    struct link link = {0};
    struct error error;
    uint8_t offer[TRANSPORT_OFFER_MAX];
    struct transport_options options = {
        .ring_bytes = RING_BYTES, .first_bytes = first_bytes, .chunk_bytes = CHUNK_BYTES};
    ck_assert_int_eq(transport->sender_open(&options, &link.sender, &error), STATUS_OK);
    uint32_t n = transport->offer(link.sender, offer);
    ck_assert_uint_le(n, sizeof offer);
    ck_assert_int_eq(transport->receiver_open(offer, n, &link.receiver, &error), STATUS_OK);
    return link;
}

static void link_close(struct link *link) {
    transport_sender_close(link->sender);
    transport_receiver_close(link->receiver);
}

/* A CHUNK on its way: the raw frame is copied by the bus when it sends. */
struct letter {
    struct chunk chunk;
    unsigned char frame[CHUNK_BYTES];
};

static void letter_send(struct link *link, struct letter *letter) {
    if (letter->chunk.bytes) {
        memcpy(letter->frame, letter->chunk.bytes, letter->chunk.n_bytes);
        letter->chunk.bytes = letter->frame;
    }
    transport_sent(link->sender, &letter->chunk);
}

static struct chunk chunk_of(uint32_t layer_begin, uint32_t layer_end, uint32_t n_blocks) {
    return (struct chunk){.transfer_id = 7,
                          .layer_begin = layer_begin,
                          .layer_end = layer_end,
                          .block_begin = 3,
                          .block_end = 3 + n_blocks};
}

static void shuffle(struct random *random, uint32_t *blocks) {
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = i;
    for (uint32_t i = N_BLOCKS - 1; i > 0; i--) {
        uint32_t other = (uint32_t)random_below(random, i + 1), kept = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = kept;
    }
}

static void check_same(const struct pool *from, const uint32_t *from_blocks, const struct pool *to,
                       const uint32_t *to_blocks, const struct chunk *chunk) {
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++)
        for (uint32_t i = 0; i < chunk->block_end - chunk->block_begin; i++)
            ck_assert_mem_eq(from->bytes[layer][from_blocks[i]], to->bytes[layer][to_blocks[i]],
                             BLOCK_BYTES);
}

START_TEST(chunks_of_every_size_arrive_whole_while_the_ring_wraps) {
    const struct transport *transport = transport_table[_i];
    struct random random = {1};
    struct pool *from = pool_new(2), *to = pool_new(3);
    struct link link = link_open(transport, 0);
    uint32_t from_blocks[N_BLOCKS], to_blocks[N_BLOCKS];
    for (int round = 0; round < 2000; round++) {
        struct letter letter;
        uint32_t begin = (uint32_t)random_below(&random, N_LAYERS);
        uint32_t n_layers = 1 + (uint32_t)random_below(&random, N_LAYERS - begin);
        uint32_t most = CHUNK_BYTES / BLOCK_BYTES / n_layers;
        letter.chunk = chunk_of(begin, begin + n_layers, 1 + (uint32_t)random_below(&random, most));
        shuffle(&random, from_blocks);
        shuffle(&random, to_blocks);
        ck_assert_int_eq(transport_push(link.sender, &from->kv, &letter.chunk, from_blocks),
                         STATUS_OK);
        letter_send(&link, &letter);
        ck_assert_int_eq(transport_take(link.receiver, &to->kv, &letter.chunk, to_blocks),
                         STATUS_OK);
        check_same(from, from_blocks, to, to_blocks, &letter.chunk);
        transport_consumed(link.receiver, &letter.chunk);
        ck_assert_int_eq(transport_acked(link.sender, link.receiver->consumed), STATUS_OK);
    }
    link_close(&link);
    free(from);
    free(to);
}
END_TEST

/* Every head arrives at all its holders, and nothing else is touched, for every two sizes. */
static void check_heads(const struct cut_pool *from, const uint32_t *from_blocks,
                        const struct cut_pool *to, const uint32_t *to_blocks,
                        const struct chunk *chunk) {
    for (uint32_t layer = chunk->layer_begin; layer < chunk->layer_end; layer++)
        for (uint32_t i = 0; i < chunk->block_end - chunk->block_begin; i++)
            for (uint32_t half = 0; half < 2; half++)
                for (uint32_t head = 0; head < N_HEADS; head++) {
                    const unsigned char *wanted =
                        first_head_of(from, layer, from_blocks[i], half, head);
                    for (uint32_t rank = 0; rank < to->kv.n_ranks; rank++) {
                        const unsigned char *found =
                            head_of(to, rank, layer, to_blocks[i], half, head);
                        if (found)
                            ck_assert_mem_eq(found, wanted, HEAD_BYTES);
                    }
                }
}

static size_t count_differing(const struct cut_pool *pool, const unsigned char *before) {
    size_t n = 0;
    for (size_t i = 0; i < pool->n_bytes; i++)
        n += pool->bytes[i] != before[i];
    return n;
}

static void hand_over(const struct transport *transport, uint32_t n_from, uint32_t n_to) {
    struct random random = {n_from * 100 + n_to};
    struct cut_pool from = cut_pool_new(n_from, 20), to = cut_pool_new(n_to, 21);
    struct link link = link_open(transport, 0);
    uint32_t from_blocks[N_BLOCKS], to_blocks[N_BLOCKS];
    unsigned char *before = malloc(to.n_bytes);
    ck_assert_ptr_nonnull(before);
    for (int round = 0; round < 20; round++) {
        struct letter letter = {.chunk = chunk_of(1, 4, 1 + (uint32_t)random_below(&random, 5))};
        uint32_t n_blocks = letter.chunk.block_end - letter.chunk.block_begin;
        shuffle(&random, from_blocks);
        shuffle(&random, to_blocks);
        memcpy(before, to.bytes, to.n_bytes);
        ck_assert_int_eq(transport_push(link.sender, &from.kv, &letter.chunk, from_blocks),
                         STATUS_OK);
        ck_assert_uint_eq(letter.chunk.n_bytes, 3 * n_blocks * BLOCK_BYTES);
        letter_send(&link, &letter);
        ck_assert_int_eq(transport_take(link.receiver, &to.kv, &letter.chunk, to_blocks),
                         STATUS_OK);
        check_heads(&from, from_blocks, &to, to_blocks, &letter.chunk);
        size_t copies = n_to > N_HEADS ? n_to / N_HEADS : 1;
        ck_assert_uint_le(count_differing(&to, before), copies * letter.chunk.n_bytes);
        transport_consumed(link.receiver, &letter.chunk);
        ck_assert_int_eq(transport_acked(link.sender, link.receiver->consumed), STATUS_OK);
        letter.chunk.checksum ^= 1;
        ck_assert_int_eq(transport_take(link.receiver, &to.kv, &letter.chunk, to_blocks),
                         STATUS_CORRUPT);
    }
    link_close(&link);
    free(before);
    free(from.bytes);
    free(to.bytes);
}

START_TEST(heads_come_to_all_their_holders_whatever_the_two_sizes) {
    static const uint32_t sizes[] = {1, 2, 4, 8};
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            hand_over(transport_table[_i], sizes[from], sizes[to]);
}
END_TEST

START_TEST(pools_that_lack_a_head_or_have_another_size_are_not_valid) {
    struct cut_pool pool = cut_pool_new(2, 1);
    struct transport_kv kv = pool.kv;
    kv.ranks[1].head_begin = 1; /* nobody holds head 3 */
    ck_assert(!transport_kv_valid(&kv));
    kv = pool.kv;
    kv.ranks[1].n_heads++; /* a head that the model has not */
    kv.ranks[1].block_bytes += 2 * HEAD_BYTES;
    ck_assert(!transport_kv_valid(&kv));
    kv = pool.kv;
    kv.ranks[1].block_bytes += 16;
    ck_assert(!transport_kv_valid(&kv));
    kv = pool.kv;
    kv.n_ranks = 0;
    ck_assert(!transport_kv_valid(&kv));
    kv.n_ranks = TRANSPORT_RANKS_MAX + 1;
    ck_assert(!transport_kv_valid(&kv));
    free(pool.bytes);
}
END_TEST

START_TEST(a_full_ring_is_busy_until_chunks_are_acknowledged_and_none_is_overwritten) {
    const struct transport *transport = transport_table[_i];
    enum { WINDOW = 64 };
    static struct letter letters[WINDOW];
    static uint32_t from_blocks[WINDOW][N_BLOCKS];
    struct random random = {4};
    struct pool *from = pool_new(5), *to = pool_new(6);
    struct link link = link_open(transport, 0);
    uint32_t n_sent = 0, n_taken = 0, n_busy = 0, to_blocks[N_BLOCKS];
    uint64_t acks[2] = {0, 0};
    shuffle(&random, to_blocks);
    while (n_taken < 1000) {
        struct letter *letter = &letters[n_sent % WINDOW];
        uint32_t *blocks = from_blocks[n_sent % WINDOW];
        letter->chunk = chunk_of(0, N_LAYERS, 1 + (uint32_t)random_below(&random, 8));
        shuffle(&random, blocks);
        enum status status = transport_push(link.sender, &from->kv, &letter->chunk, blocks);
        if (status == STATUS_OK) {
            letter_send(&link, letter);
            n_sent++;
            ck_assert_uint_le(link.sender->stage.head - link.sender->stage.tail, RING_BYTES);
            continue;
        }
        ck_assert_int_eq(status, STATUS_BUSY);
        n_busy++;
        /* What is on the way is read late, and acknowledgements overtake each other. */
        uint32_t n = 1 + (uint32_t)random_below(&random, n_sent - n_taken);
        for (uint32_t i = 0; i < n; i++, n_taken++) {
            const struct chunk *chunk = &letters[n_taken % WINDOW].chunk;
            ck_assert_int_eq(transport_take(link.receiver, &to->kv, chunk, to_blocks), STATUS_OK);
            check_same(from, from_blocks[n_taken % WINDOW], to, to_blocks, chunk);
            transport_consumed(link.receiver, chunk);
        }
        acks[0] = acks[1];
        acks[1] = link.receiver->consumed;
        ck_assert_int_eq(transport_acked(link.sender, acks[1]), STATUS_OK);
        ck_assert_int_eq(transport_acked(link.sender, acks[0]), STATUS_OK);
    }
    ck_assert_uint_gt(n_busy, 10);
    link_close(&link);
    free(from);
    free(to);
}
END_TEST

/* What does not fit the first part is busy, and fits once the ring has grown. */
START_TEST(a_ring_that_grows_loses_nothing_on_the_way) {
    struct pool *from = pool_new(8), *to = pool_new(9);
    struct link link = link_open(transport_table[_i], CHUNK_BYTES);
    uint32_t blocks[N_BLOCKS] = {5, 6};
    struct letter letter = {.chunk = chunk_of(0, 1, 2)};
    while (transport_push(link.sender, &from->kv, &letter.chunk, blocks) == STATUS_OK)
        transport_sent(link.sender, &letter.chunk);
    ck_assert_uint_le(link.sender->stage.head, CHUNK_BYTES);
    ck_assert_int_eq(transport_grow(link.sender, RING_BYTES), STATUS_OK);
    for (int i = 0; i < 100; i++) { /* whole laps */
        ck_assert_int_eq(transport_push(link.sender, &from->kv, &letter.chunk, blocks), STATUS_OK);
        letter_send(&link, &letter);
        ck_assert_int_eq(transport_take(link.receiver, &to->kv, &letter.chunk, blocks), STATUS_OK);
        check_same(from, blocks, to, blocks, &letter.chunk);
        transport_consumed(link.receiver, &letter.chunk);
        ck_assert_int_eq(transport_acked(link.sender, link.receiver->consumed), STATUS_OK);
    }
    link_close(&link);
    free(from);
    free(to);
}
END_TEST

START_TEST(a_chunk_that_was_not_sent_takes_no_room) {
    const struct transport *transport = transport_table[_i];
    struct pool *from = pool_new(7);
    struct link link = link_open(transport, 0);
    uint32_t blocks[N_BLOCKS] = {1, 2, 3};
    for (int i = 0; i < 1000; i++) {
        struct chunk chunk = chunk_of(0, N_LAYERS, 3);
        ck_assert_int_eq(transport_push(link.sender, &from->kv, &chunk, blocks), STATUS_OK);
    }
    link_close(&link);
    free(from);
}
END_TEST

START_TEST(a_wrong_byte_a_wrong_place_or_a_wrong_size_is_corrupt) {
    const struct transport *transport = transport_table[_i];
    struct pool *from = pool_new(8), *to = pool_new(9);
    struct link link = link_open(transport, 0);
    uint32_t blocks[N_BLOCKS] = {4, 9, 2};
    struct letter letter = {.chunk = chunk_of(1, 4, 3)};
    ck_assert_int_eq(transport_push(link.sender, &from->kv, &letter.chunk, blocks), STATUS_OK);
    letter_send(&link, &letter);

    struct chunk wrong = letter.chunk;
    wrong.checksum ^= 1;
    ck_assert_int_eq(transport_take(link.receiver, &to->kv, &wrong, blocks), STATUS_CORRUPT);
    wrong = letter.chunk;
    wrong.n_bytes -= BLOCK_BYTES;
    ck_assert_int_eq(transport_take(link.receiver, &to->kv, &wrong, blocks), STATUS_CORRUPT);
    wrong = letter.chunk;
    wrong.layer_end = N_LAYERS + 1;
    ck_assert_int_eq(transport_take(link.receiver, &to->kv, &wrong, blocks), STATUS_CORRUPT);
    wrong = letter.chunk;
    wrong.layer_end = wrong.layer_begin;
    ck_assert_int_eq(transport_take(link.receiver, &to->kv, &wrong, blocks), STATUS_CORRUPT);
    if (!letter.chunk.bytes) { /* in a ring: another place in it, and one past its end */
        wrong = letter.chunk;
        wrong.where += 64;
        ck_assert_int_eq(transport_take(link.receiver, &to->kv, &wrong, blocks), STATUS_CORRUPT);
        wrong.where = RING_BYTES - 64;
        ck_assert_int_eq(transport_take(link.receiver, &to->kv, &wrong, blocks), STATUS_CORRUPT);
        /* by its place alone, before any byte is read */
        ck_assert_ptr_null(transport_bytes(link.receiver, &wrong));
        wrong.where = RING_BYTES - wrong.n_bytes;
        ck_assert_ptr_nonnull(transport_bytes(link.receiver, &wrong));
    } else {
        wrong = letter.chunk;
        wrong.bytes = NULL;
        ck_assert_int_eq(transport_take(link.receiver, &to->kv, &wrong, blocks), STATUS_CORRUPT);
        letter.frame[100] ^= 64;
        ck_assert_int_eq(transport_take(link.receiver, &to->kv, &letter.chunk, blocks),
                         STATUS_CORRUPT);
        letter.frame[100] ^= 64;
    }
    ck_assert_int_eq(transport_take(link.receiver, &to->kv, &letter.chunk, blocks), STATUS_OK);
    ck_assert_int_eq(transport_acked(link.sender, link.sender->stage.head + 64), STATUS_CORRUPT);
    link_close(&link);
    free(from);
    free(to);
}
END_TEST

START_TEST(a_chunk_larger_than_the_ring_is_refused) {
    const struct transport *transport = transport_table[_i];
    struct pool *from = pool_new(10);
    struct link link = link_open(transport, 0);
    uint32_t blocks[N_BLOCKS] = {0};
    struct chunk chunk = chunk_of(0, N_LAYERS, 1 + RING_BYTES / BLOCK_BYTES / N_LAYERS);
    ck_assert_int_eq(transport_push(link.sender, &from->kv, &chunk, blocks), STATUS_LIMIT);
    link_close(&link);
    free(from);
}
END_TEST

START_TEST(what_was_sent_can_be_read_after_the_sender_is_gone) {
    const struct transport *transport = transport_table[_i];
    struct pool *from = pool_new(11), *to = pool_new(12);
    struct link link = link_open(transport, 0);
    uint32_t blocks[N_BLOCKS] = {5, 6};
    struct letter letter = {.chunk = chunk_of(0, 2, 2)};
    ck_assert_int_eq(transport_push(link.sender, &from->kv, &letter.chunk, blocks), STATUS_OK);
    letter_send(&link, &letter);
    transport_sender_close(link.sender);
    link.sender = NULL;
    ck_assert_int_eq(transport_take(link.receiver, &to->kv, &letter.chunk, blocks), STATUS_OK);
    check_same(from, blocks, to, blocks, &letter.chunk);
    link_close(&link);
    free(from);
    free(to);
}
END_TEST

START_TEST(one_row_is_the_fallback_and_reaches_whoever_it_may_be) {
    struct transport_place here = {.host = 1, .pid = 2}, there = {.host = 3};
    unsigned n = 0;
    for (const struct transport *const *row = transport_table; *row; row++)
        n += (*row)->is_fallback;
    ck_assert_uint_eq(n, 1);
    ck_assert(transport_fallback()->is_fallback);
    ck_assert(transport_fallback()->reaches(&here, &there));
    ck_assert(transport_choose("auto", &here, &there) == transport_fallback());
    ck_assert(transport_find("local")->is_inside);
}
END_TEST

START_TEST(an_offer_that_is_stale_or_no_offer_is_refused) {
    const struct transport *transport = transport_table[_i];
    struct transport_options options = {.ring_bytes = RING_BYTES, .chunk_bytes = CHUNK_BYTES};
    struct transport_sender *sender;
    struct transport_receiver *receiver;
    struct error error;
    uint8_t offer[TRANSPORT_OFFER_MAX] = {0};
    ck_assert_int_eq(transport->sender_open(&options, &sender, &error), STATUS_OK);
    uint32_t n = transport->offer(sender, offer);
    transport_sender_close(sender);
    if (n > 0) {
        ck_assert_int_eq(transport->receiver_open(offer, n, &receiver, &error), STATUS_CLOSED);
        for (uint32_t cut = 0; cut < n; cut++)
            ck_assert_int_eq(transport->receiver_open(offer, cut, &receiver, &error),
                             STATUS_INVALID);
        memset(offer, 0xff, sizeof offer);
        ck_assert_int_ne(transport->receiver_open(offer, n, &receiver, &error), STATUS_OK);
    }
    ck_assert_int_eq(transport->receiver_open(offer, sizeof offer, &receiver, &error),
                     STATUS_INVALID);
}
END_TEST

/* Lines of the memory map that name our rings. */
static uint32_t count_rings(void) {
    uint32_t n = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps))
        n += strstr(line, "memfd:tandem-kv-") != NULL;
    fclose(maps);
    return n;
}

START_TEST(nothing_stays_open_or_mapped) {
    const struct transport *transport = transport_table[_i];
    unsigned n_fds = suite_count_files();
    for (int i = 0; i < 600; i++) { /* more than there may be at once */
        struct link link = link_open(transport, 0);
        link_close(&link);
    }
    ck_assert_uint_eq(suite_count_files(), n_fds);
    ck_assert_uint_eq(count_rings(), 0);
}
END_TEST

START_TEST(the_best_transport_is_chosen_by_where_the_peers_are) {
    struct transport_place here = {.host = 1, .pid = 10}, same = here;
    struct transport_place beside = {.host = 1, .pid = 11}, unknown = {.host = 1};
    struct transport_place far = {.host = 2, .pid = 10};
    ck_assert_str_eq(transport_choose("auto", &here, &same)->name, "local");
    ck_assert_str_eq(transport_choose("auto", &here, &beside)->name, "shm");
    ck_assert_str_eq(transport_choose("auto", &here, &unknown)->name, "shm");
    ck_assert_str_eq(transport_choose("auto", &here, &far)->name, "tcp");
    ck_assert_str_eq(transport_choose("tcp", &here, &beside)->name, "tcp");
    ck_assert_ptr_null(transport_choose("shm", &here, &far));
    ck_assert_ptr_null(transport_choose("local", &here, &beside));
    ck_assert_ptr_null(transport_choose("pigeon", &here, &here));
    ck_assert_ptr_eq(transport_find("shm"), transport_choose("shm", &here, &beside));
    ck_assert_ptr_null(transport_find("pigeon"));
}
END_TEST

START_TEST(shared_memory_is_read_across_processes_and_outlives_its_sender) {
    const struct transport *transport = transport_find("shm");
    struct transport_options options = {.ring_bytes = RING_BYTES, .chunk_bytes = CHUNK_BYTES};
    struct pool *from = pool_new(13), *to = pool_new(14);
    uint32_t blocks[N_BLOCKS] = {7, 8};
    struct {
        uint8_t offer[TRANSPORT_OFFER_MAX];
        uint32_t n;
        struct chunk chunk;
    } said;
    int said_fd[2], end_fd[2];
    ck_assert_int_eq(pipe(said_fd), 0);
    ck_assert_int_eq(pipe(end_fd), 0);
    pid_t child = fork();
    if (child == 0) {
        struct transport_sender *sender;
        struct error error;
        char byte;
        close(end_fd[1]);
        if (transport->sender_open(&options, &sender, &error) != STATUS_OK)
            _exit(1);
        memset(&said, 0, sizeof said);
        said.n = transport->offer(sender, said.offer);
        said.chunk = chunk_of(0, N_LAYERS, 2);
        if (transport_push(sender, &from->kv, &said.chunk, blocks) != STATUS_OK)
            _exit(1);
        transport_sent(sender, &said.chunk);
        if (write(said_fd[1], &said, sizeof said) != sizeof said)
            _exit(1);
        if (read(end_fd[0], &byte, 1) != 0) /* until the other side closes it */
            _exit(1);
        _exit(0);
    }
    struct transport_receiver *receiver;
    struct error error;
    close(end_fd[0]);
    ck_assert_int_eq(read(said_fd[0], &said, sizeof said), sizeof said);
    ck_assert_int_eq(transport->receiver_open(said.offer, said.n, &receiver, &error), STATUS_OK);
    close(end_fd[1]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(transport_take(receiver, &to->kv, &said.chunk, blocks), STATUS_OK);
    check_same(from, blocks, to, blocks, &said.chunk);
    transport_receiver_close(receiver);
    ck_assert_int_eq(transport->receiver_open(said.offer, said.n, &receiver, &error),
                     STATUS_CLOSED);
    close(said_fd[0]);
    close(said_fd[1]);
    free(from);
    free(to);
}
END_TEST

void suite_add(TCase *tests) {
    int n = 0;
    while (transport_table[n])
        n++;
    tcase_add_loop_test(tests, chunks_of_every_size_arrive_whole_while_the_ring_wraps, 0, n);
    tcase_add_loop_test(tests, heads_come_to_all_their_holders_whatever_the_two_sizes, 0, n);
    tcase_add_test(tests, pools_that_lack_a_head_or_have_another_size_are_not_valid);
    tcase_add_loop_test(
        tests, a_full_ring_is_busy_until_chunks_are_acknowledged_and_none_is_overwritten, 0, n);
    tcase_add_loop_test(tests, a_ring_that_grows_loses_nothing_on_the_way, 0, n);
    tcase_add_loop_test(tests, a_chunk_that_was_not_sent_takes_no_room, 0, n);
    tcase_add_test(tests, one_row_is_the_fallback_and_reaches_whoever_it_may_be);
    tcase_add_loop_test(tests, a_wrong_byte_a_wrong_place_or_a_wrong_size_is_corrupt, 0, n);
    tcase_add_loop_test(tests, a_chunk_larger_than_the_ring_is_refused, 0, n);
    tcase_add_loop_test(tests, what_was_sent_can_be_read_after_the_sender_is_gone, 0, n);
    tcase_add_loop_test(tests, an_offer_that_is_stale_or_no_offer_is_refused, 0, n);
    tcase_add_loop_test(tests, nothing_stays_open_or_mapped, 0, n);
    tcase_add_test(tests, the_best_transport_is_chosen_by_where_the_peers_are);
    tcase_add_test(tests, shared_memory_is_read_across_processes_and_outlives_its_sender);
}
