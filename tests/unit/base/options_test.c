#include "base/options.h"

#include "base/clock.h"
#include "base/exit.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "base_options";
const double suite_timeout_s = 60;

static const struct option_spec table[] = {
    {.name = "name", .type = OPTION_STRING, .help = "who"},
    {.name = "kv-blocks",
     .type = OPTION_UINT,
     .fallback = "64",
     .min = 1,
     .max = 1000,
     .sections = "worker",
     .help = "blocks"},
    {.name = "listen", .type = OPTION_STRING, .sections = "cluster worker", .help = "where"},
    {.name = "memory", .type = OPTION_SIZE, .fallback = "1GiB", .sections = "worker", .help = "m"},
    {.name = "grace",
     .type = OPTION_DURATION,
     .fallback = "10s",
     .min = NS_PER_MS,
     .sections = "cluster worker",
     .help = "t"},
    {.name = "fast", .type = OPTION_BOOL, .sections = "worker", .help = "f"},
    {.name = "role",
     .type = OPTION_CHOICE,
     .choices = "mixed prefill decode",
     .fallback = "mixed",
     .sections = "worker",
     .help = "r"},
    {.name = "peer", .type = OPTION_LIST, .sections = "cluster worker", .help = "p"},
};

static const struct options_program program = {.name = "tandem-worker",
                                               .table = table,
                                               .n_options = sizeof table / sizeof *table,
                                               .section = "worker",
                                               .instance = "name",
                                               .other_keys = "policy queue_max",
                                               .n_args_max = 1};

static struct buf errors;
static struct options *options;
static char path[64];

static void setup(void) {
    options = NULL;
    buf_init(&errors, 1 << 16);
    snprintf(path, sizeof path, "/tmp/tandem-options-%d.ini", (int)getpid());
}

static void teardown(void) {
    options_free(options);
    buf_fini(&errors);
    unlink(path);
}

static void write_file(const char *text, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
    close(fd);
}

/* Reads with the given file ("" for none) and up to four flags. */
static enum status read_options(const char *file, const char *a, const char *b, const char *c) {
    char config[80];
    char *argv[6] = {(char *)"tandem-worker"};
    int argc = 1;
    options_free(options);
    options = NULL;
    buf_clear(&errors);
    if (*file) {
        write_file(file, strlen(file));
        snprintf(config, sizeof config, "--config=%s", path);
        argv[argc++] = config;
    }
    const char *const more[] = {a, b, c};
    for (unsigned i = 0; i < 3 && more[i]; i++)
        argv[argc++] = (char *)more[i];
    return options_new(&program, argc, argv, &options, &errors);
}

START_TEST(flag_goes_before_environment_before_file_before_default) {
    const char *file = "[cluster]\ngrace = 1s\n[worker]\nkv_blocks = 7\n";
    ck_assert_int_eq(read_options("", NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(options_uint(options, "kv-blocks"), 64);
    ck_assert_str_eq(options_source(options, "kv-blocks"), "default");
    ck_assert_int_eq(read_options(file, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(options_uint(options, "kv-blocks"), 7);
    ck_assert_uint_eq(options_duration_ns(options, "grace"), NS_PER_S);
    ck_assert_ptr_nonnull(strstr(options_source(options, "kv-blocks"), ".ini:4"));
    setenv("TANDEM_KV_BLOCKS", "8", 1);
    setenv("TANDEM_NO_SUCH_THING", "8", 1);
    ck_assert_int_eq(read_options(file, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(options_uint(options, "kv-blocks"), 8);
    ck_assert_int_eq(read_options(file, "--kv-blocks=9", NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(options_uint(options, "kv-blocks"), 9);
    ck_assert_str_eq(options_source(options, "kv-blocks"), "--kv-blocks");
}
END_TEST

START_TEST(own_instance_goes_before_the_common_section) {
    const char *file = "[worker.d0]\nkv_blocks = 5\n[worker]\nkv_blocks = 6\nfast = yes\n"
                       "[worker.d1]\nkv_blocks = 7\n";
    ck_assert_int_eq(read_options(file, "--name=d0", NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(options_uint(options, "kv-blocks"), 5);
    ck_assert(options_bool(options, "fast"));
    ck_assert_int_eq(read_options(file, "--name=d9", NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(options_uint(options, "kv-blocks"), 6);
}
END_TEST

START_TEST(types_are_read_with_their_units) {
    ck_assert_int_eq(read_options("[worker]\nmemory = 16KiB\ngrace=250ms\nrole = decode\n"
                                  "listen = http://h:1/x ; y # z\n",
                                  "--fast", "file", NULL),
                     STATUS_OK);
    ck_assert_uint_eq(options_uint(options, "memory"), 16384);
    ck_assert_uint_eq(options_duration_ns(options, "grace"), 250 * NS_PER_MS);
    ck_assert_uint_eq(options_choice(options, "role"), 2);
    ck_assert_str_eq(options_string(options, "listen"), "http://h:1/x ; y # z");
    ck_assert(options_bool(options, "fast"));
    ck_assert_uint_eq(options_n_args(options), 1);
    ck_assert_str_eq(options_arg(options, 0), "file");
}
END_TEST

START_TEST(lists_grow_by_repeating_and_by_commas) {
    const char *file = "[worker]\npeer = a, b\npeer = c\n";
    ck_assert_int_eq(read_options(file, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(options_list_count(options, "peer"), 3);
    ck_assert_str_eq(options_list_at(options, "peer", 1), "b");
    ck_assert_str_eq(options_list_at(options, "peer", 2), "c");
    ck_assert_int_eq(read_options(file, "--peer=x", "--peer=y", NULL), STATUS_OK);
    ck_assert_uint_eq(options_list_count(options, "peer"), 2);
    ck_assert_str_eq(options_list_at(options, "peer", 0), "x");
}
END_TEST

START_TEST(each_mistake_is_named_with_file_and_line) {
    static const struct {
        const char *file;
        const char *error; /* after the path */
    } cases[] = {
        {"[worker]\nkv_block = 1\n", ":2: unknown key \"kv_block\" in [worker] (did you mean "
                                     "\"kv_blocks\"?)"},
        {"[worker]\nzzzzzzzzzzzz = 1\n", ":2: unknown key \"zzzzzzzzzzzz\" in [worker]\n"},
        {"[worker]\n\nkv_blocks = x\n", ":3: kv-blocks must be a whole number, not \"x\""},
        {"[worker]\nkv_blocks = 0\n", ":2: kv-blocks must be 1 to 1000, not \"0\""},
        {"[worker]\nkv_blocks = 1001\n", ":2: kv-blocks must be 1 to 1000"},
        {"[worker]\nkv_blocks = -1\n", ":2: kv-blocks must be a whole number"},
        {"[worker]\nkv_blocks = 99999999999999999999\n", ":2: kv-blocks must be a whole number"},
        {"[worker]\nkv_blocks = 5 ; five\n", ":2: kv-blocks must be a whole number"},
        {"[worker]\nkv_blocks = 1\nkv_blocks = 2\n", ":3: key \"kv_blocks\" stands in line 2"},
        {"[worker]\nfast = 1\n[cluster]\n[worker]\nfast = 1\n",
         ":4: section [worker] is there twice"},
        {"[cluster]\nkv_blocks = 1\n", ":2: key \"kv_blocks\" does not belong in [cluster]"},
        {"[wörker]\n", ":1: unknown section"},
        {"[worker.]\n", ":1: unknown section"},
        {"[]\n", ":1: a section's name has 1 to 49 bytes"},
        {"[worker.0123456789012345678901234567890123456789012345]\nfast = 1\n",
         ":1: a section's name has 1 to 49 bytes"},
        {"[worker\nfast = 1\n", ":1: expected [section]"},
        {"[worker] fast = 1\n", ":1: expected [section]"},
        {"fast = 1\n", ":1: expected a [section] first"},
        {"[worker]\nfast\n", ":2: expected key = value"},
        {"[worker]\n= 1\n", ":2: expected key = value"},
        {"[worker]\nfast = maybe\n", ":2: fast must be yes or no"},
        {"[worker]\nrole = boss\n", ":2: role must be one of: mixed prefill decode"},
        {"[worker]\nrole =\n", ":2: role must be one of"},
        {"[worker]\ngrace = 10\n", ":2: grace must be a time with its unit"},
        {"[worker]\ngrace = 1us\n", ":2: grace must be at least 0.001 s"},
        {"[worker]\nmemory = 16XB\n", ":2: memory must be a size"},
        {"[worker]\nmemory = 99999999999G\n", ":2: memory must be a size"},
        {"[worker]\nlisten = a\033b\n", ":2: a line has at most 4096 bytes and no control bytes"},
        {"[worker.d1]\nkv_blok = 1\n", ":2: unknown key"}, /* another's section is checked too */
        {"[worker]\nlisten = a\n  fast = x\n",
         ":3: fast must be yes or no"}, /* not a continuation */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(read_options(cases[i].file, NULL, NULL, NULL) == STATUS_INVALID, "case %u",
                      i);
        ck_assert_msg(strncmp(errors.data, path, strlen(path)) == 0, "%s", errors.data);
        ck_assert_msg(strncmp(errors.data + strlen(path), cases[i].error, strlen(cases[i].error)) ==
                          0,
                      "case %u: %s", i, errors.data);
    }
}
END_TEST

START_TEST(all_mistakes_are_shown_together) {
    ck_assert_int_eq(read_options("[worker]\nfast = x\nkv_blok = 1\n", "--kv-blocks=0", NULL, NULL),
                     STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, "--kv-blocks: kv-blocks must be 1 to 1000"));
    ck_assert_ptr_nonnull(strstr(errors.data, ":2: fast must be"));
    ck_assert_ptr_nonnull(strstr(errors.data, ":3: unknown key"));
}
END_TEST

START_TEST(what_other_programs_read_is_left_alone) {
    ck_assert_int_eq(read_options("\xef\xbb\xbf[router]\r\nanything = 1\r\n[cluster]\r\n"
                                  "policy = x\r\n; note\r\n  # note\r\n[worker]\r\nfast = on\r\n",
                                  NULL, NULL, NULL),
                     STATUS_OK);
    ck_assert(options_bool(options, "fast"));
}
END_TEST

START_TEST(long_lines_are_whole_or_refused) {
    char *text = malloc(16384);
    size_t n = (size_t)sprintf(text, "[worker]\nlisten = ");
    size_t value = OPTIONS_LINE_MAX - strlen("listen = ");
    memset(text + n, 'v', value);
    memcpy(text + n + value, "\nfast = 1\n", 11);
    ck_assert_int_eq(read_options(text, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(strlen(options_string(options, "listen")), value);
    ck_assert(options_bool(options, "fast"));
    memset(text + n, 'v', value + 1);
    memcpy(text + n + value + 1, "\nfast = 1\n", 11);
    ck_assert_int_eq(read_options(text, NULL, NULL, NULL), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, ":2: a line has at most 4096 bytes"));
    free(text);
}
END_TEST

START_TEST(a_file_of_noise_gives_a_bounded_number_of_lines) {
    unsigned seed = 7;
    for (unsigned round = 0; round < 50; round++) {
        char noise[4000];
        for (size_t i = 0; i < sizeof noise; i++) {
            seed = seed * 1664525u + 1013904223u;
            static const char letters[] = "[]=:;#\n\n \tworker.clusteabx\0\xff";
            noise[i] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        write_file(noise, sizeof noise);
        char config[80];
        snprintf(config, sizeof config, "--config=%s", path);
        char *argv[] = {(char *)"tandem-worker", config, NULL};
        buf_clear(&errors);
        struct options *noisy = NULL;
        ck_assert_int_eq(options_new(&program, 2, argv, &noisy, &errors), STATUS_INVALID);
        unsigned n_lines = 0;
        for (const char *at = errors.data; *at; at++)
            n_lines += *at == '\n';
        ck_assert_uint_le(n_lines, 34);
    }
}
END_TEST

START_TEST(missing_file_is_an_error) {
    ck_assert_int_eq(read_options("", "--config=/nonexistent/t.ini", NULL, NULL), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, "/nonexistent/t.ini: cannot read it"));
}
END_TEST

START_TEST(unknown_flag_ends_with_78) {
    (void)!freopen("/dev/null", "w", stderr);
    (void)!read_options("", "--no-such-flag", NULL, NULL);
}
END_TEST

START_TEST(help_ends_with_0) {
    (void)!freopen("/dev/null", "w", stdout);
    (void)!read_options("", "--help", NULL, NULL);
}
END_TEST

START_TEST(version_ends_with_0) {
    (void)!freopen("/dev/null", "w", stdout);
    (void)!read_options("", "--version", NULL, NULL);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, flag_goes_before_environment_before_file_before_default);
    tcase_add_test(tests, own_instance_goes_before_the_common_section);
    tcase_add_test(tests, types_are_read_with_their_units);
    tcase_add_test(tests, lists_grow_by_repeating_and_by_commas);
    tcase_add_test(tests, each_mistake_is_named_with_file_and_line);
    tcase_add_test(tests, all_mistakes_are_shown_together);
    tcase_add_test(tests, what_other_programs_read_is_left_alone);
    tcase_add_test(tests, long_lines_are_whole_or_refused);
    tcase_add_test(tests, a_file_of_noise_gives_a_bounded_number_of_lines);
    tcase_add_test(tests, missing_file_is_an_error);
    tcase_add_exit_test(tests, unknown_flag_ends_with_78, EXIT_CONFIG);
    tcase_add_exit_test(tests, help_ends_with_0, 0);
    tcase_add_exit_test(tests, version_ends_with_0, 0);
}
