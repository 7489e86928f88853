#include "base/buf.h"
#include "router/api/json_tree.h"
#include "tests/support/suite.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *const suite_name = "router_tree";
const double suite_timeout_s = 120;

#define BOUND (8u << 20)

static struct error error;

static enum status parse(const char *text, size_t n, struct json_tree **tree, json_t **root) {
    error = (struct error){0};
    return json_tree_parse(text, n, tree, root, &error);
}

/* {"x":[PIECE,PIECE,...]}, n pieces, or {"k0":PIECE,"k1":PIECE,...}. */
static void repeat(struct buf *out, const char *piece, unsigned n, bool keyed) {
    buf_init(out, 0);
    buf_puts(out, keyed ? "{" : "{\"x\":[");
    for (unsigned i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(out, ',');
        if (keyed)
            buf_printf(out, "\"k%u\":", i);
        buf_puts(out, piece);
    }
    buf_puts(out, keyed ? "}" : "]}");
}

static const char *const pieces[] = {
    "[]", "{}",         "1",       "true",        "\"\"", "\"text\"", "[[[[]]]]",  "1.5",
    "-3", "{\"a\":{}}", "[1,2,3]", "\"\\u00e9\"", "null", "[ 7 ]",    "{\"a\":1}", "\"a\\\"b,[]\""};

START_TEST(a_tree_is_what_the_text_says_and_leaves_nothing) {
    json_tree_init(BOUND);
    for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        for (unsigned keyed = 0; keyed < 2; keyed++) {
            struct json_tree *tree = NULL;
            json_t *root = NULL;
            struct buf text;
            repeat(&text, pieces[i], 3000, keyed);
            ck_assert_int_eq(parse(text.data, text.n, &tree, &root), STATUS_OK);
            json_t *plain = json_loadb(text.data, text.n, 0, NULL); /* the heap's, as ever */
            ck_assert(json_equal(root, plain));
            ck_assert_uint_eq(json_trees_bytes(), json_tree_bytes(tree));
            ck_assert_uint_le(json_tree_bytes(tree), BOUND);
            json_decref(plain);
            json_tree_free(tree);
            ck_assert_uint_eq(json_trees_bytes(), 0);
            buf_fini(&text);
        }
    }
}
END_TEST

/* What is refused by counting could not have been parsed: the largest text of each shape that is
 * taken leaves no room for one that is half as large again. */
START_TEST(counting_refuses_only_what_would_not_fit) {
    json_tree_init(BOUND);
    for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        unsigned n_taken = 0;
        for (unsigned n = 4096; n <= 4u << 20; n += n / 2) {
            struct json_tree *tree = NULL;
            json_t *root = NULL;
            struct buf text;
            repeat(&text, pieces[i], n, false);
            enum status status = parse(text.data, text.n, &tree, &root);
            if (status == STATUS_OK) {
                ck_assert_uint_eq(n_taken, n == 4096 ? 0 : n_taken); /* no gaps */
                n_taken = n;
                ck_assert_uint_eq(json_array_size(json_object_get(root, "x")), n);
            } else {
                ck_assert_int_eq(status, STATUS_LIMIT);
                ck_assert_ptr_nonnull(strstr(error.text, "too many values"));
            }
            json_tree_free(tree);
            ck_assert_uint_eq(json_trees_bytes(), 0);
            buf_fini(&text);
            if (status != STATUS_OK)
                break;
        }
        ck_assert_uint_ge(n_taken, 4096); /* 2 KiB a value is more than any of these takes */
    }
}
END_TEST

START_TEST(many_empty_values_are_refused_before_they_are_built) {
    json_tree_init(BOUND);
    struct json_tree *tree = NULL;
    json_t *root = NULL;
    struct buf text;
    repeat(&text, "[]", 1000000, false);
    ck_assert_int_eq(parse(text.data, text.n, &tree, &root), STATUS_LIMIT);
    buf_fini(&text);
    buf_init(&text, 0); /* broken at its end: counting comes first, so nobody looks there */
    for (unsigned i = 0; i < 1000000; i++)
        buf_puts(&text, "[],");
    ck_assert_int_eq(parse(text.data, text.n, &tree, &root), STATUS_LIMIT);
    buf_fini(&text);
    repeat(&text, "123", 100000, false); /* and of a text in a string nothing is counted */
    ck_assert_int_eq(parse(text.data, text.n, &tree, &root), STATUS_OK);
    json_tree_free(tree);
    buf_fini(&text);
    buf_init(&text, 0);
    buf_puts(&text, "{\"x\":\"");
    for (unsigned i = 0; i < 500000; i++)
        buf_puts(&text, "[],");
    buf_puts(&text, "\"}");
    ck_assert_int_eq(parse(text.data, text.n, &tree, &root), STATUS_OK);
    ck_assert_uint_eq(json_string_length(json_object_get(root, "x")), 1500000);
    json_tree_free(tree);
    buf_fini(&text);
}
END_TEST

START_TEST(all_trees_together_have_a_bound) {
    json_tree_init(BOUND);
    struct json_tree *first = NULL, *second = NULL;
    json_t *root = NULL;
    struct buf text;
    repeat(&text, "1", 150000, false); /* about 5 MiB */
    ck_assert_int_eq(parse(text.data, text.n, &first, &root), STATUS_OK);
    ck_assert_uint_gt(json_tree_bytes(first), BOUND / 2);
    ck_assert_uint_lt(json_tree_bytes(first), 7u << 20); /* smaller tables were given back */
    ck_assert_int_eq(parse(text.data, text.n, &second, &root), STATUS_BUSY);
    ck_assert_ptr_null(second);
    ck_assert_uint_eq(json_trees_bytes(), json_tree_bytes(first));
    json_tree_free(first);
    ck_assert_int_eq(parse(text.data, text.n, &second, &root), STATUS_OK);
    json_tree_free(second);
    json_tree_free(NULL);
    buf_fini(&text);
}
END_TEST

START_TEST(a_broken_text_gives_everything_back) {
    json_tree_init(BOUND);
    struct json_tree *tree = NULL;
    json_t *root = NULL;
    struct buf text;
    repeat(&text, "{\"a\":\"bcdefghijklmnop\"}", 2000, true);
    for (size_t n = 0; n < text.n; n += 1 + n / 16) {
        ck_assert_int_eq(parse(text.data, n, &tree, &root), STATUS_INVALID);
        ck_assert_uint_eq(json_trees_bytes(), 0);
    }
    buf_fini(&text);
}
END_TEST

static void *parse_often(void *user) {
    const struct buf *text = user;
    for (unsigned i = 0; i < 200; i++) {
        struct json_tree *tree = NULL;
        json_t *root = NULL;
        struct error mine;
        enum status status = json_tree_parse(text->data, text->n, &tree, &root, &mine);
        ck_assert(status == STATUS_OK || status == STATUS_BUSY);
        json_tree_free(tree);
    }
    return NULL;
}

START_TEST(threads_share_the_bound_and_nothing_else) {
    json_tree_init(BOUND);
    pthread_t threads[4];
    struct buf text;
    repeat(&text, "{\"a\":[1,\"x\"]}", 4000, false);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, parse_often, &text), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(json_trees_bytes(), 0);
    buf_fini(&text);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t process_bytes(void) {
    unsigned long n_pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu", &n_pages), 1);
    fclose(file);
    return (size_t)n_pages * (size_t)sysconf(_SC_PAGESIZE);
}
/* At every size of the address space: what lacks is memory, and not room in the bound. */
START_TEST(a_full_address_space_is_no_memory) {
    struct buf text;
    struct rlimit before, limit;
    unsigned n_short = 0;
    repeat(&text, "[]", 60000, false); /* about 6.5 MiB of a tree */
    json_tree_init(BOUND);
    free(malloc(1)); /* the heap is there */
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    for (size_t kib = 0; kib < 12u << 10; kib += 256) {
        struct json_tree *tree = NULL;
        json_t *root = NULL;
        limit = before;
        limit.rlim_cur = process_bytes() + kib * 1024;
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
        enum status status = parse(text.data, text.n, &tree, &root);
        setrlimit(RLIMIT_AS, &before);
        ck_assert_msg(status == STATUS_OK || status == STATUS_NOMEM, "%zu KiB: %s: %s", kib,
                      status_name(status), error.text);
        n_short += status == STATUS_NOMEM;
        json_tree_free(tree);
        malloc_trim(0);
    }
    ck_assert_uint_gt(n_short, 3);
    buf_fini(&text);
}
END_TEST
#endif

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_tree_is_what_the_text_says_and_leaves_nothing);
    tcase_add_test(tests, counting_refuses_only_what_would_not_fit);
    tcase_add_test(tests, many_empty_values_are_refused_before_they_are_built);
    tcase_add_test(tests, all_trees_together_have_a_bound);
    tcase_add_test(tests, a_broken_text_gives_everything_back);
    tcase_add_test(tests, threads_share_the_bound_and_nothing_else);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tests, a_full_address_space_is_no_memory);
#else
    suite_skip("a_full_address_space_is_no_memory", "a sanitizer needs all of it");
#endif
}
