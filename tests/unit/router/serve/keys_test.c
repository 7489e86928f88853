#include "base/clock.h"
#include "router/call/quota.h"
#include "router/config.h"
#include "router/serve/api_keys.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const suite_name = "router_keys";
const double suite_timeout_s = 60;

static enum status load_bytes(const char *text, size_t n, struct api_keys **keys,
                              struct error *error) {
    char path[] = "/tmp/tandem-keys-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), n);
    close(fd);
    enum status status = api_keys_load(path, true, keys, error);
    unlink(path);
    return status;
}

static enum status load(const char *text, struct api_keys **keys, struct error *error) {
    return load_bytes(text, strlen(text), keys, error);
}

START_TEST(keys_are_lines_without_comments_and_blanks) {
    struct api_keys *keys = NULL;
    struct error error;
    ck_assert_int_eq(load("# who\n\n  one \r\ntwo", &keys, &error), STATUS_OK);
    ck_assert(api_keys_has(keys, "one") && api_keys_has(keys, "two"));
    ck_assert(!api_keys_has(keys, "") && !api_keys_has(keys, "on") && !api_keys_has(keys, "onee"));
    ck_assert(!api_keys_has(keys, "# who"));
    api_keys_free(keys);
}
END_TEST

START_TEST(a_file_that_others_may_change_or_read_is_refused) {
    static const struct {
        mode_t mode;
        enum status plain, private;
    } told[] = {
        {0600, STATUS_OK, STATUS_OK},         {0440, STATUS_OK, STATUS_OK},
        {0644, STATUS_OK, STATUS_DENIED},     {0660, STATUS_DENIED, STATUS_DENIED},
        {0602, STATUS_DENIED, STATUS_DENIED},
    };
    char path[] = "/tmp/tandem-keys-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq((int)write(fd, "one\n", 4), 4);
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        for (unsigned is_private = 0; is_private < 2; is_private++) {
            struct api_keys *keys = NULL;
            struct error error = {0};
            ck_assert_int_eq(fchmod(fd, told[i].mode), 0);
            enum status status = api_keys_load(path, is_private, &keys, &error);
            ck_assert_msg(status == (is_private ? told[i].private : told[i].plain), "%o %u: %s",
                          (unsigned)told[i].mode, is_private, error.text);
            ck_assert(status == STATUS_OK || strstr(error.text, path));
            api_keys_free(keys);
        }
    }
    close(fd);
    unlink(path);
}
END_TEST

START_TEST(a_file_without_keys_is_an_error) {
    struct api_keys *keys = NULL;
    struct error error;
    ck_assert_int_eq(load("# nobody\n", &keys, &error), STATUS_INVALID);
    ck_assert_int_eq(api_keys_load("/nonexistent/keys", false, &keys, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "/nonexistent/keys"));
    char *line = malloc(API_KEY_BYTES_MAX + 3);
    memset(line, 'k', API_KEY_BYTES_MAX + 1);
    strcpy(line + API_KEY_BYTES_MAX + 1, "\n");
    ck_assert_int_eq(load(line, &keys, &error), STATUS_LIMIT);
    free(line);
    ck_assert_ptr_null(keys);
}
END_TEST

START_TEST(bytes_that_no_key_has_are_refused_by_their_line) {
    struct api_keys *keys = NULL;
    struct error error = {0};
    char text[64];
    for (int byte = 1; byte < 256; byte++) {
        if (strchr(" \t\r\n", byte))
            continue;
        snprintf(text, sizeof text, "fine\nsesa%cme\n", byte);
        enum status status = load(text, &keys, &error);
        ck_assert_msg(status == (byte >= '!' && byte <= '~' ? STATUS_OK : STATUS_INVALID), "%d",
                      byte);
        if (status == STATUS_OK)
            api_keys_free(keys);
        else
            ck_assert(strstr(error.text, ": line 2: ") && !strstr(error.text, "sesa"));
        keys = NULL;
    }
    ck_assert_int_eq(load_bytes("fine\n#\0\n", 8, &keys, &error), STATUS_INVALID);
    ck_assert_int_eq(load_bytes("fine\0sesame\n", 12, &keys, &error), STATUS_INVALID);
    ck_assert_int_eq(load("# M\xc3\xbcller's\nfine\n", &keys, &error), STATUS_OK);
    api_keys_free(keys);
}
END_TEST

START_TEST(a_fifo_and_a_file_without_end_are_refused) {
    char folder[] = "/tmp/tandem-keys-XXXXXX", path[64];
    struct api_keys *keys = NULL;
    struct error error = {0};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(api_keys_load(path, false, &keys, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    ck_assert_int_eq(unlink(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(ftruncate(fd, 1ll << 40), 0); /* zeros: one line of a terabyte */
    close(fd);
    ck_assert_int_eq(api_keys_load(path, false, &keys, &error), STATUS_LIMIT);
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(one_key_for_clients_and_administrators_is_found) {
    struct api_keys *clients = NULL, *admins = NULL;
    struct error error = {0};
    ck_assert_int_eq(load("one concurrent=2\ntwo\n", &clients, &error), STATUS_OK);
    ck_assert_int_eq(load("three\n\n  two\n", &admins, &error), STATUS_OK);
    ck_assert_int_eq(api_keys_apart(clients, NULL, &error), STATUS_OK);
    ck_assert_int_eq(api_keys_apart(NULL, admins, &error), STATUS_OK);
    ck_assert_int_eq(api_keys_apart(clients, admins, &error), STATUS_INVALID);
    ck_assert(strstr(error.text, ": line 3: ") && strstr(error.text, ", line 2: "));
    ck_assert_ptr_null(strstr(error.text, "two"));
    api_keys_free(admins);
    ck_assert_int_eq(load("tw\ntwoo\n", &admins, &error), STATUS_OK);
    ck_assert_int_eq(api_keys_apart(clients, admins, &error), STATUS_OK);
    api_keys_free(clients);
    api_keys_free(admins);
}
END_TEST

START_TEST(words_behind_a_key_are_its_limits) {
    struct api_keys *keys = NULL;
    struct error error = {0};
    ck_assert_int_eq(
        load("one\ntwo concurrent=3 per-minute=60\tcache-salt=team=a name=Team_a.1-x\n", &keys,
             &error),
        STATUS_OK);
    const struct quota *one = api_keys_quota(keys, "one"), *two = api_keys_quota(keys, "two");
    ck_assert(one->concurrent_max == 0 && one->calls.per_minute == 0 && one->salt[0] == 0);
    ck_assert(two->concurrent_max == 3 && two->calls.per_minute == 60);
    ck_assert_str_eq(two->salt, "team=a");
    ck_assert_str_eq(two->name, "Team_a.1-x");
    ck_assert_str_eq(one->name, "");
    ck_assert(one->tenant != two->tenant && one->tenant != 0 && two->tenant != 0);
    ck_assert_ptr_null(api_keys_quota(keys, "concurrent=3"));
    api_keys_free(keys);
    static const char *const bad[] = {
        "concurrent=0",   "concurrent=",  "concurrent=8x", "concurrent=-1", "concurrent=1000001",
        "per-minute=1.5", "cache-salt=",  "something=1",   "two",           "# why",
        "per-minute= 3",  "CONCURRENT=3", "name=",         "name=-a",       "name=.a",
        "name=a\"b",      "name=a/b",     "name=_"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "fine concurrent=1\n\nsesame %s\n", bad[i]);
        ck_assert_msg(load(text, &keys, &error) == STATUS_INVALID, "%s", bad[i]);
        ck_assert_ptr_nonnull(strstr(error.text, "line 3: "));
        ck_assert_ptr_null(strstr(error.text, "sesame")); /* keys are no text of errors */
    }
}
END_TEST

START_TEST(limits_are_numbers_within_bounds) {
    static const struct {
        const char *word, *past;
    } rows[] = {{"concurrent=1000000", "concurrent=1000001"},
                {"per-minute=1000000", "per-minute=1000001"},
                {"tokens-per-minute=1000000000", "tokens-per-minute=1000000001"},
                {"tokens-per-minute=1", "tokens-per-minute=0"}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct api_keys *keys = NULL;
        struct error error = {0};
        char text[128];
        snprintf(text, sizeof text, "sesame %s\n", rows[i].past);
        ck_assert_msg(load(text, &keys, &error) == STATUS_INVALID, "%s", rows[i].past);
        snprintf(text, sizeof text, "sesame %s\n", rows[i].word);
        ck_assert_msg(load(text, &keys, &error) == STATUS_OK, "%s", rows[i].word);
        api_keys_free(keys);
    }
    struct api_keys *keys = NULL;
    struct error error = {0};
    ck_assert_int_eq(load("sesame per-minute=2 tokens-per-minute=30\n", &keys, &error), STATUS_OK);
    ck_assert_uint_eq(api_keys_quota(keys, "sesame")->calls.per_minute, 2);
    ck_assert_uint_eq(api_keys_quota(keys, "sesame")->tokens.per_minute, 30);
    api_keys_free(keys);
}
END_TEST

START_TEST(a_name_has_up_to_64_characters) {
    for (size_t n = QUOTA_NAME_MAX; n <= QUOTA_NAME_MAX + 1; n++) {
        struct api_keys *keys = NULL;
        struct error error = {0};
        char text[128], name[QUOTA_NAME_MAX + 2] = {0};
        memset(name, 'n', n);
        snprintf(text, sizeof text, "sesame name=%s\n", name);
        enum status status = load(text, &keys, &error);
        ck_assert_int_eq(status, n == QUOTA_NAME_MAX ? STATUS_OK : STATUS_INVALID);
        if (status == STATUS_OK)
            ck_assert_str_eq(api_keys_quota(keys, "sesame")->name, name);
        api_keys_free(keys);
    }
}
END_TEST

START_TEST(a_quota_bounds_calls_at_a_time_and_by_the_minute) {
    struct quota quota = {.concurrent_max = 2};
    uint64_t now_ns = 3600 * NS_PER_S;
    uint32_t wait_ms = 0;
    ck_assert_int_eq(quota_take(&quota, now_ns, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(&quota, now_ns, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(&quota, now_ns, &wait_ms), STATUS_BUSY);
    ck_assert_uint_gt(wait_ms, 0);
    quota_give(&quota);
    ck_assert_int_eq(quota_take(&quota, now_ns, &wait_ms), STATUS_OK);
    quota = (struct quota){.calls = {.per_minute = 6}}; /* one every 10 s, six at once */
    for (unsigned i = 0; i < 6; i++)
        ck_assert_int_eq(quota_take(&quota, now_ns, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(&quota, now_ns + 4 * NS_PER_S, &wait_ms), STATUS_BUSY);
    ck_assert_uint_ge(wait_ms, 5999);
    ck_assert_uint_le(wait_ms, 6001);
    uint64_t then_ns = now_ns + 4 * NS_PER_S + wait_ms * NS_PER_MS;
    ck_assert_int_eq(quota_take(&quota, then_ns, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(&quota, then_ns, &wait_ms), STATUS_BUSY);
    then_ns += 3600 * NS_PER_S; /* what nobody used is not saved up */
    for (unsigned i = 0; i < 6; i++)
        ck_assert_int_eq(quota_take(&quota, then_ns, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(&quota, then_ns, &wait_ms), STATUS_BUSY);
}
END_TEST

/* 100 a minute: what is taken, given back and grown back is exact to the token. */
START_TEST(a_quota_bounds_tokens_by_the_minute) {
    struct quota quota = {.tokens = {.per_minute = 100}};
    uint64_t now_ns = 3600 * NS_PER_S, n_taken = 7;
    uint32_t wait_ms = 0;
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 60, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_uint_eq(n_taken, 60);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 41, &n_taken, &wait_ms), STATUS_BUSY);
    ck_assert_uint_eq(n_taken, 60);
    ck_assert_uint_eq(wait_ms, 601); /* one token's time */
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 40, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 1, &n_taken, &wait_ms), STATUS_BUSY);
    quota_give_tokens(&quota, 15);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 16, &n_taken, &wait_ms), STATUS_BUSY);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 15, &n_taken, &wait_ms), STATUS_OK);
    now_ns += 30 * NS_PER_S;
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 51, &n_taken, &wait_ms), STATUS_BUSY);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 50, &n_taken, &wait_ms), STATUS_OK);
    quota_give_tokens(&quota, 50);
    now_ns += 3600 * NS_PER_S; /* neither time nor what came back is saved up */
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 100, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 1, &n_taken, &wait_ms), STATUS_BUSY);
}
END_TEST

START_TEST(a_call_of_more_than_a_minute_s_tokens_takes_a_full_minute_and_owes_the_rest) {
    struct quota quota = {.tokens = {.per_minute = 100}};
    uint64_t now_ns = 3600 * NS_PER_S, n_taken = 0;
    uint32_t wait_ms = 0;
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 1, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 150, &n_taken, &wait_ms), STATUS_BUSY);
    ck_assert_uint_eq(wait_ms, 601);
    now_ns += NS_PER_S;
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 150, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_uint_eq(n_taken, 150);
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 1, &n_taken, &wait_ms), STATUS_BUSY);
    ck_assert_uint_eq(wait_ms, 30601); /* 50 that are owed, and one */
    quota.tokens.n_left = -1e12;
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 1, &n_taken, &wait_ms), STATUS_BUSY);
    ck_assert_uint_eq(wait_ms, 3600000);
    quota = (struct quota){0}; /* without a limit nothing is counted */
    ck_assert_int_eq(quota_take_tokens(&quota, now_ns, 1u << 30, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_uint_eq(n_taken, 0);
}
END_TEST

static enum status reload(struct api_keys *keys, struct error *error) {
    struct api_keys *fresh = NULL;
    enum status status = api_keys_load_again(keys, &fresh, error);
    if (status == STATUS_OK)
        api_keys_replace(keys, &fresh);
    ck_assert_ptr_null(fresh);
    return status;
}

static void rewrite(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    fclose(file);
}

/* Calls of "stays", "salted" and "goes" run while their file is read again. AddressSanitizer tells what
 * is freed too early or never. */
START_TEST(keys_are_read_again_under_calls_that_run) {
    char path[] = "/tmp/tandem-keys-XXXXXX";
    int fd = mkstemp(path);
    struct api_keys *keys = NULL;
    struct error error = {0};
    uint32_t wait_ms = 0;
    uint64_t now_ns = 3600 * NS_PER_S;
    close(fd);
    uint64_t n_taken = 0;
    rewrite(path, "stays concurrent=1 per-minute=5 tokens-per-minute=100\nsalted concurrent=1 "
                  "cache-salt=a\ngoes\n");
    ck_assert_int_eq(api_keys_load(path, true, &keys, &error), STATUS_OK);
    struct quota *stays = api_keys_quota(keys, "stays"), *goes = api_keys_quota(keys, "goes");
    struct quota *salted = api_keys_quota(keys, "salted");
    ck_assert_int_eq(quota_take(stays, now_ns, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take_tokens(stays, now_ns, 90, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(salted, now_ns, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(goes, now_ns, &wait_ms), STATUS_OK);
    rewrite(path, "stays concurrent=none\n");
    ck_assert_int_eq(reload(keys, &error), STATUS_INVALID);
    ck_assert(api_keys_has(keys, "goes") && api_keys_quota(keys, "stays") == stays);
    rewrite(path, "stays concurrent=2 per-minute=7 tokens-per-minute=200 name=renamed\nsalted "
                  "concurrent=1 cache-salt=b\n"
                  "comes name=renamed\n");
    ck_assert_int_eq(reload(keys, &error), STATUS_OK);
    ck_assert(api_keys_has(keys, "comes") && !api_keys_has(keys, "goes"));
    ck_assert_ptr_eq(api_keys_quota(keys, "stays"), stays);
    ck_assert_str_eq(stays->name, "renamed");
    ck_assert_uint_eq(stays->tenant, api_keys_quota(keys, "comes")->tenant);
    ck_assert_uint_eq(stays->calls.per_minute, 7);
    ck_assert_int_eq(quota_take_tokens(stays, now_ns, 11, &n_taken, &wait_ms), STATUS_BUSY);
    ck_assert_int_eq(quota_take_tokens(stays, now_ns, 10, &n_taken, &wait_ms), STATUS_OK);
    now_ns += 60 * NS_PER_S;
    ck_assert_int_eq(quota_take_tokens(stays, now_ns, 150, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take_tokens(stays, now_ns, 50, &n_taken, &wait_ms), STATUS_OK);
    ck_assert_int_eq(quota_take(stays, now_ns, &wait_ms), STATUS_OK); /* the second of two */
    ck_assert_int_eq(quota_take(stays, now_ns, &wait_ms), STATUS_BUSY);
    ck_assert_str_eq(salted->salt, "a");
    ck_assert_str_eq(api_keys_quota(keys, "salted")->salt, "b");
    quota_give(goes);
    quota_give(salted);
    quota_give(stays);
    api_keys_free(keys);
    quota_give(stays);
    unlink(path);
}
END_TEST

static enum status read_config(char **argv, int argc, struct buf *errors) {
    struct config config;
    buf_init(errors, 65536);
    enum status status = config_read(&config, argc, argv, errors);
    if (status == STATUS_OK) {
        ck_assert_str_eq(config.policy, "two_choices");
        ck_assert_uint_eq(config.queue, 7);
    }
    config_fini(&config);
    return status;
}

static bool is_taken(char *flag) {
    struct buf errors;
    char *argv[] = {"tandem-router", "--model=hash", "--policy=two_choices",
                    "--queue=7",     flag,           NULL};
    bool taken = read_config(argv, 5, &errors) == STATUS_OK;
    ck_assert(taken == (errors.n == 0));
    buf_fini(&errors);
    return taken;
}

START_TEST(names_and_times_that_cannot_work_are_refused) {
    ck_assert(is_taken("--name=r 1") && !is_taken("--name=r/1") && !is_taken("--name=r\n1"));
    ck_assert(!is_taken("--name="));
    ck_assert(is_taken("--http2-ping=0") && is_taken("--http2-ping=100ms"));
    ck_assert(!is_taken("--http2-ping=1ns") && !is_taken("--http2-ping=99ms"));
    ck_assert(is_taken("--ping=0") && is_taken("--ping=100ms") && !is_taken("--ping=99ms"));
    ck_assert(is_taken("--idle-timeout=100ms") && !is_taken("--idle-timeout=99ms"));
    ck_assert(is_taken("--head-timeout=100ms") && !is_taken("--head-timeout=99ms"));
    ck_assert(is_taken("--body-timeout=100ms") && !is_taken("--body-timeout=99ms"));
    ck_assert(is_taken("--stall-timeout=100ms") && !is_taken("--stall-timeout=0"));
}
END_TEST

START_TEST(mistakes_in_options_are_all_named) {
    struct buf errors;
    char *good[] = {"tandem-router", "--model=hash", "--policy=two_choices", "--queue=7", NULL};
    ck_assert_int_eq(read_config(good, 4, &errors), STATUS_OK);
    buf_fini(&errors);
    char *bad[] = {"tandem-router", "--served-model=a//b", NULL};
    ck_assert_int_eq(read_config(bad, 2, &errors), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, "model"));
    ck_assert_ptr_nonnull(strstr(errors.data, "served-model"));
    buf_fini(&errors);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, keys_are_lines_without_comments_and_blanks);
    tcase_add_test(tests, a_file_that_others_may_change_or_read_is_refused);
    tcase_add_test(tests, a_file_without_keys_is_an_error);
    tcase_add_test(tests, bytes_that_no_key_has_are_refused_by_their_line);
    tcase_add_test(tests, a_fifo_and_a_file_without_end_are_refused);
    tcase_add_test(tests, one_key_for_clients_and_administrators_is_found);
    tcase_add_test(tests, words_behind_a_key_are_its_limits);
    tcase_add_test(tests, limits_are_numbers_within_bounds);
    tcase_add_test(tests, a_quota_bounds_tokens_by_the_minute);
    tcase_add_test(tests,
                   a_call_of_more_than_a_minute_s_tokens_takes_a_full_minute_and_owes_the_rest);
    tcase_add_test(tests, a_name_has_up_to_64_characters);
    tcase_add_test(tests, a_quota_bounds_calls_at_a_time_and_by_the_minute);
    tcase_add_test(tests, keys_are_read_again_under_calls_that_run);
    tcase_add_test(tests, names_and_times_that_cannot_work_are_refused);
    tcase_add_test(tests, mistakes_in_options_are_all_named);
}
