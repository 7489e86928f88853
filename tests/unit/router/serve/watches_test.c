/* Who may watch: the page, who shows a key, and who shows none have their shares of the places. */
#include "router/serve/watches.h"

#include "base/http/exchange.h"
#include "router/call/quota.h"
#include "router/serve/api_keys.h"
#include "router/serve/server.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "router_watches";
const double suite_timeout_s = 60;

#define PLACES 1024u

static struct server server;
static struct exchange watchers[PLACES + 1];
static struct quota *quotas[PLACES + 1];
static uint32_t n_of_each[PLACES + 1]; /* each on a connection of its own */
static unsigned n_open;

static struct api_keys *keys_of(const char *line) {
    char path[] = "/tmp/tandem-watches-XXXXXX";
    struct api_keys *keys = NULL;
    struct error error;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, line, strlen(line)), strlen(line));
    close(fd);
    ck_assert_int_eq(api_keys_load(path, true, &keys, &error), STATUS_OK);
    unlink(path);
    return keys;
}

static void setup(void) {
    struct exchanges_bounds bounds = {.n_max = 4,
                                      .n_watches_max = PLACES,
                                      .n_watches_of_each = 32,
                                      .body_bytes_max = 1,
                                      .output_bytes_max = 1};
    server = (struct server){0};
    n_open = 0;
    ck_assert_int_eq(exchanges_new(&bounds, &server.serving.exchanges), STATUS_OK);
}

static void leave(unsigned i) {
    watches_leave(quotas[i]);
    exchanges_remove(server.serving.exchanges, &watchers[i]);
}

static void teardown(void) {
    while (n_open > 0)
        leave(--n_open);
    exchanges_free(server.serving.exchanges);
    api_keys_free(server.keys);
    api_keys_free(server.admin_keys);
}

/* One that shows this key (NULL: none) asks to watch. */
static enum status watch(const char *key, bool is_page) {
    ck_assert_uint_le(n_open, PLACES);
    struct header header = {"x-api-key", key};
    struct api_error error = {0};
    struct exchange *exchange = &watchers[n_open];
    n_of_each[n_open] = 0;
    *exchange = (struct exchange){
        .headers = &header, .n_headers = key ? 1 : 0, .n_watches = &n_of_each[n_open]};
    ck_assert_int_eq(exchanges_add(server.serving.exchanges, exchange), STATUS_OK);
    enum status status = watches_admit(&server, exchange, is_page, &quotas[n_open], &error);
    exchange->headers = NULL;
    exchange->n_headers = 0;
    if (status == STATUS_OK) {
        n_open++;
    } else {
        ck_assert_int_eq(error.status, status);
        exchanges_remove(server.serving.exchanges, exchange);
    }
    return status;
}

/* As many as come in, but for one that does not. */
static unsigned crowd(const char *key, bool is_page) {
    unsigned n = 0;
    while (watch(key, is_page) == STATUS_OK)
        n++;
    ck_assert_int_eq(watch(key, is_page), STATUS_BUSY);
    return n;
}

START_TEST(who_shows_no_key_takes_half_and_leaves_the_rest) {
    server.keys = keys_of("right\n");
    ck_assert_uint_eq(crowd(NULL, false), 512);
    ck_assert_int_eq(watch("wrong", false), STATUS_BUSY); /* no key that we know is none */
    ck_assert_uint_eq(crowd("right", false), 448);
    ck_assert_uint_eq(crowd(NULL, true), 64);
    ck_assert_uint_eq(n_open, PLACES);
}
END_TEST

START_TEST(a_place_of_a_keyless_one_is_free_for_the_next) {
    server.keys = keys_of("right\n");
    crowd(NULL, false);
    leave(--n_open);
    ck_assert_int_eq(watch(NULL, false), STATUS_OK);
    ck_assert_int_eq(watch(NULL, false), STATUS_BUSY);
    ck_assert_int_eq(watch("right", false), STATUS_OK);
}
END_TEST

START_TEST(keys_of_both_files_are_keys) {
    server.admin_keys = keys_of("boss\n");
    ck_assert_uint_eq(crowd(NULL, false), 512);
    ck_assert_int_eq(watch("boss", false), STATUS_OK);
    server.keys = keys_of("right\n");
    ck_assert_int_eq(watch("right", false), STATUS_OK);
    ck_assert_int_eq(watch("boss", true), STATUS_OK);
    ck_assert_int_eq(watch(NULL, false), STATUS_BUSY);
}
END_TEST

START_TEST(where_there_are_no_keys_all_are_alike_and_the_page_has_its_share) {
    ck_assert_uint_eq(crowd(NULL, false), 960);
    ck_assert_int_eq(watch("right", false), STATUS_BUSY);
    ck_assert_uint_eq(crowd(NULL, true), 64);
}
END_TEST

START_TEST(who_is_refused_gives_the_call_of_its_key_back) {
    server.keys = keys_of("right\nfew concurrent=2\n");
    ck_assert_uint_eq(crowd("right", false), 960);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(watch("few", false), STATUS_BUSY);
    leave(--n_open);
    leave(--n_open);
    leave(--n_open);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(watch("few", false), i < 2 ? STATUS_OK : STATUS_BUSY);
    ck_assert_int_eq(watch("right", false), STATUS_OK);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, who_shows_no_key_takes_half_and_leaves_the_rest);
    tcase_add_test(tests, a_place_of_a_keyless_one_is_free_for_the_next);
    tcase_add_test(tests, keys_of_both_files_are_keys);
    tcase_add_test(tests, where_there_are_no_keys_all_are_alike_and_the_page_has_its_share);
    tcase_add_test(tests, who_is_refused_gives_the_call_of_its_key_back);
}
