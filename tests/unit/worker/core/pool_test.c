#include "tests/support/suite.h"

#include "base/random.h"
#include "worker/core/block_hash.h"
#include "worker/core/kv_pool.h"
#include "worker/core/prefix.h"

const char *const suite_name = "worker_core_pool";
const double suite_timeout_s = 60;

static struct kv_pool pool;
static struct prefix_cache cache;

static void begin(uint32_t n_blocks) {
    ck_assert_int_eq(kv_pool_init(&pool, n_blocks), STATUS_OK);
    ck_assert_int_eq(prefix_cache_init(&cache, &pool, 5), STATUS_OK);
}

static void end(void) {
    ck_assert_ptr_null(kv_pool_check(&pool));
    ck_assert_ptr_null(prefix_cache_check(&cache));
    prefix_cache_fini(&cache);
    kv_pool_fini(&pool);
}

START_TEST(a_shared_block_is_free_only_after_its_last_holder) {
    uint32_t block, other;
    begin(1);
    ck_assert_int_eq(kv_pool_take(&pool, 1, KV_POOL_NO_BLOCK, KV_USED, &block), STATUS_OK);
    kv_pool_hold(&pool, block);
    ck_assert(!kv_pool_give(&pool, block, false));
    ck_assert_int_eq(kv_pool_take(&pool, 1, KV_POOL_NO_BLOCK, KV_USED, &other), STATUS_BUSY);
    ck_assert(kv_pool_give(&pool, block, false));
    ck_assert_int_eq(kv_pool_take(&pool, 1, KV_POOL_NO_BLOCK, KV_USED, &other), STATUS_OK);
    ck_assert(kv_pool_give(&pool, other, false));
    end();
}
END_TEST

START_TEST(blocks_come_in_runs_where_there_are_runs) {
    uint32_t blocks[200];
    begin(200);
    ck_assert_int_eq(kv_pool_take(&pool, 100, KV_POOL_NO_BLOCK, KV_USED, blocks), STATUS_OK);
    for (uint32_t i = 0; i < 100; i += 2) /* every second one of the first hundred is free */
        kv_pool_give(&pool, blocks[i], false);
    uint32_t run[80];
    ck_assert_int_eq(kv_pool_take(&pool, 80, KV_POOL_NO_BLOCK, KV_RESERVED, run), STATUS_OK);
    for (uint32_t i = 0; i < 80; i++)
        ck_assert_uint_eq(run[i], 100 + i);
    /* A sequence grows behind its last block. */
    ck_assert_int_eq(kv_pool_take(&pool, 5, run[79], KV_USED, run), STATUS_OK);
    ck_assert_uint_eq(run[0], 180);
    ck_assert_uint_eq(run[4], 184);
    /* No run is long enough: what there is. */
    ck_assert_int_eq(kv_pool_take(&pool, 30, KV_POOL_NO_BLOCK, KV_USED, run), STATUS_OK);
    ck_assert_int_eq(kv_pool_take(&pool, 36, KV_POOL_NO_BLOCK, KV_USED, run), STATUS_BUSY);
    ck_assert_int_eq(kv_pool_take(&pool, 35, KV_POOL_NO_BLOCK, KV_USED, run), STATUS_OK);
    ck_assert_uint_eq(pool.counts[KV_FREE], 0);
    end();
}
END_TEST

START_TEST(the_states_of_a_reservation_add_up) {
    uint32_t blocks[6];
    begin(10);
    ck_assert_int_eq(kv_pool_take(&pool, 6, KV_POOL_NO_BLOCK, KV_RESERVED, blocks), STATUS_OK);
    kv_pool_commit(&pool, blocks[0]);
    kv_pool_quarantine(&pool, blocks[1]);
    ck_assert_uint_eq(pool.counts[KV_FREE], 4);
    ck_assert_uint_eq(pool.counts[KV_USED], 1);
    ck_assert_uint_eq(pool.counts[KV_RESERVED], 4);
    ck_assert_uint_eq(pool.counts[KV_QUARANTINED], 1);
    ck_assert_ptr_null(kv_pool_check(&pool));
    kv_pool_release(&pool, blocks[1]);
    ck_assert_uint_eq(pool.counts[KV_FREE], 5);
    end();
}
END_TEST

START_TEST(the_longest_unused_prefix_is_evicted_first) {
    uint32_t blocks[4], taken[2], found;
    struct map_key keys[4] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}};
    begin(4);
    ck_assert_int_eq(prefix_cache_take(&cache, 4, KV_POOL_NO_BLOCK, KV_USED, blocks), STATUS_OK);
    for (uint32_t i = 0; i < 4; i++)
        prefix_cache_name(&cache, keys[i], blocks[i]);
    static const uint32_t order[] = {2, 0, 3, 1};
    for (uint32_t i = 0; i < 4; i++)
        prefix_cache_give(&cache, blocks[order[i]]);
    ck_assert_uint_eq(pool.counts[KV_CACHED], 4);
    /* Somebody uses the oldest again: it is no longer the oldest. */
    ck_assert_int_eq(prefix_cache_find(&cache, keys[2], &found), STATUS_OK);
    prefix_cache_hold(&cache, found);
    prefix_cache_give(&cache, found);
    ck_assert_int_eq(prefix_cache_take(&cache, 2, KV_POOL_NO_BLOCK, KV_USED, taken), STATUS_OK);
    ck_assert_int_eq(prefix_cache_find(&cache, keys[0], &found), STATUS_NOT_FOUND);
    ck_assert_int_eq(prefix_cache_find(&cache, keys[3], &found), STATUS_NOT_FOUND);
    ck_assert_int_eq(prefix_cache_find(&cache, keys[1], &found), STATUS_OK);
    ck_assert_int_eq(prefix_cache_find(&cache, keys[2], &found), STATUS_OK);
    end();
}
END_TEST

START_TEST(a_second_block_of_the_same_name_stays_nameless) {
    uint32_t blocks[2], found;
    struct map_key key = {1, 2};
    begin(2);
    ck_assert_int_eq(prefix_cache_take(&cache, 2, KV_POOL_NO_BLOCK, KV_USED, blocks), STATUS_OK);
    prefix_cache_name(&cache, key, blocks[0]);
    prefix_cache_name(&cache, key, blocks[1]);
    ck_assert(prefix_cache_is(&cache, blocks[0], key));
    ck_assert(!prefix_cache_is(&cache, blocks[1], key));
    prefix_cache_give(&cache, blocks[1]);
    prefix_cache_give(&cache, blocks[0]);
    ck_assert_uint_eq(pool.counts[KV_FREE], 1);
    ck_assert_uint_eq(pool.counts[KV_CACHED], 1);
    ck_assert_int_eq(prefix_cache_find(&cache, key, &found), STATUS_OK);
    ck_assert_uint_eq(found, blocks[0]);
    end();
}
END_TEST

START_TEST(a_block_is_named_by_all_tokens_before_its_end) {
    uint32_t ids[BLOCK_HASH_TOKENS] = {0};
    struct map_key start = BLOCK_HASH_START;
    struct map_key first = block_hash(1, 0, start, ids);
    ck_assert(!map_key_equal(first, block_hash(1, 0, first, ids)));
    ck_assert(!map_key_equal(first, block_hash(2, 0, start, ids)));
    ck_assert(!map_key_equal(first, block_hash(1, 3, start, ids)));
    for (uint32_t i = 0; i < BLOCK_HASH_TOKENS; i++) {
        ids[i] = 1;
        ck_assert(!map_key_equal(first, block_hash(1, 0, start, ids)));
        ids[i] = 0;
    }
}
END_TEST

START_TEST(random_taking_and_giving_keeps_every_ledger) {
    struct random random = {.state = 9};
    uint32_t held[300];
    uint32_t n_held = 0;
    begin(97);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t n = 1 + (uint32_t)random_below(&random, 9);
        if (random_below(&random, 2) == 0 && n_held + n <= 300) {
            uint32_t after = n_held ? held[n_held - 1] : KV_POOL_NO_BLOCK;
            bool fits = n <= prefix_cache_available(&cache);
            enum status status = prefix_cache_take(&cache, n, after, KV_USED, held + n_held);
            ck_assert_int_eq(status, fits ? STATUS_OK : STATUS_BUSY);
            for (uint32_t k = 0; fits && k < n; k++)
                if (random_below(&random, 2) == 0)
                    prefix_cache_name(&cache, (struct map_key){random_below(&random, 200), 0},
                                      held[n_held + k]);
            n_held += fits ? n : 0;
        } else if (n_held > 0 && n_held < 300 && random_below(&random, 4) == 0) {
            held[n_held] = held[random_below(&random, n_held)];
            prefix_cache_hold(&cache, held[n_held++]);
        }
        while (n-- > 1 && n_held > 0) {
            uint32_t at = (uint32_t)random_below(&random, n_held);
            prefix_cache_give(&cache, held[at]);
            held[at] = held[--n_held];
        }
        if (i % 16 == 0) {
            ck_assert_ptr_null(kv_pool_check(&pool));
            ck_assert_ptr_null(prefix_cache_check(&cache));
        }
    }
    end();
}
END_TEST

START_TEST(a_run_of_exactly_the_size_is_found) {
    uint32_t blocks[130], run[4];
    begin(130);
    ck_assert_int_eq(kv_pool_take(&pool, 130, KV_POOL_NO_BLOCK, KV_USED, blocks), STATUS_OK);
    static const uint32_t gaps[] = {3, 20, 21, 22, 70, 71, 72, 73, 100};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        kv_pool_give(&pool, blocks[gaps[i]], false);
    ck_assert_int_eq(kv_pool_take(&pool, 4, KV_POOL_NO_BLOCK, KV_USED, run), STATUS_OK);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(run[i], 70 + i);
    end();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_shared_block_is_free_only_after_its_last_holder);
    tcase_add_test(tests, blocks_come_in_runs_where_there_are_runs);
    tcase_add_test(tests, the_states_of_a_reservation_add_up);
    tcase_add_test(tests, the_longest_unused_prefix_is_evicted_first);
    tcase_add_test(tests, a_second_block_of_the_same_name_stays_nameless);
    tcase_add_test(tests, a_block_is_named_by_all_tokens_before_its_end);
    tcase_add_test(tests, random_taking_and_giving_keeps_every_ledger);
    tcase_add_test(tests, a_run_of_exactly_the_size_is_found);
}
