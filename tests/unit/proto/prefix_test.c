#include "tests/support/suite.h"

#include "proto/prefix.h"

const char *const suite_name = "prefix";
const double suite_timeout_s = 60;

static const struct prefix_key key = {{1, 2, 3}};

static void count_up(uint32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)i * 7;
}

START_TEST(only_full_blocks_are_hashed) {
    uint32_t ids[64];
    struct map_key hashes[4];
    count_up(ids, 64);
    ck_assert_uint_eq(prefix_hash_chain(&key, 0, PREFIX_START, ids, 0, hashes), 0);
    ck_assert_uint_eq(prefix_hash_chain(&key, 0, PREFIX_START, ids, 15, hashes), 0);
    ck_assert_uint_eq(prefix_hash_chain(&key, 0, PREFIX_START, ids, 16, hashes), 1);
    ck_assert_uint_eq(prefix_hash_chain(&key, 0, PREFIX_START, ids, 63, hashes), 3);
}
END_TEST

START_TEST(chain_goes_on_from_any_block) {
    uint32_t ids[160];
    struct map_key whole[10];
    struct map_key part[10];
    count_up(ids, 160);
    ck_assert_uint_eq(prefix_hash_chain(&key, 9, PREFIX_START, ids, 160, whole), 10);
    for (size_t b = 1; b < 10; b++) {
        size_t n = prefix_hash_chain(&key, 9, whole[b - 1], ids + b * PREFIX_BLOCK_TOKENS,
                                     160 - b * PREFIX_BLOCK_TOKENS, part);
        ck_assert_uint_eq(n, 10 - b);
        for (size_t i = 0; i < n; i++)
            ck_assert(map_key_equal(part[i], whole[b + i]));
    }
}
END_TEST

START_TEST(a_changed_id_changes_its_block_and_all_after_it) {
    uint32_t ids[64];
    struct map_key before[4];
    struct map_key after[4];
    count_up(ids, 64);
    prefix_hash_chain(&key, 0, PREFIX_START, ids, 64, before);
    ids[20]++;
    prefix_hash_chain(&key, 0, PREFIX_START, ids, 64, after);
    ck_assert(map_key_equal(before[0], after[0]));
    for (size_t i = 1; i < 4; i++)
        ck_assert(!map_key_equal(before[i], after[i]));
}
END_TEST

START_TEST(key_and_salt_keep_prefixes_apart) {
    struct prefix_key other = key;
    uint32_t ids[16];
    struct map_key hashes[4];
    other.bytes[31] = 1;
    count_up(ids, 16);
    uint64_t salt = prefix_salt(&key, "tenant a", 8);
    ck_assert_uint_ne(salt, prefix_salt(&key, "tenant b", 8));
    ck_assert_uint_eq(prefix_salt(&key, NULL, 0), 0);
    prefix_hash_chain(&key, 0, PREFIX_START, ids, 16, &hashes[0]);
    prefix_hash_chain(&key, salt, PREFIX_START, ids, 16, &hashes[1]);
    prefix_hash_chain(&other, 0, PREFIX_START, ids, 16, &hashes[2]);
    prefix_hash_chain(&key, 0, hashes[0], ids, 16, &hashes[3]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            ck_assert(!map_key_equal(hashes[i], hashes[j]));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, only_full_blocks_are_hashed);
    tcase_add_test(tests, chain_goes_on_from_any_block);
    tcase_add_test(tests, a_changed_id_changes_its_block_and_all_after_it);
    tcase_add_test(tests, key_and_salt_keep_prefixes_apart);
}
