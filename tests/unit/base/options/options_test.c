#include "base/options/options.h"

#include "base/clock.h"
#include "base/exit.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "base_options";
const double suite_timeout_s = 60;

struct config {
    const char *name, *listen, *pace;
    uint32_t kv_blocks;
    size_t memory;
    uint64_t grace_ns;
    bool fast;
    unsigned role;
    struct option_list peers;
};

static const char *pace_word(unsigned at) {
    static const char *const words[] = {"slow", "quick", NULL};
    return words[at];
}

#define AT(field) offsetof(struct config, field)

static const struct option_spec table[] = {
    {"name", OPTION_STRING, AT(name), .help = "who"},
    {"kv-blocks", OPTION_UINT, AT(kv_blocks), "64", "worker", NULL, .help = "blocks", .min = 1,
     .max = 1000},
    {"listen", OPTION_STRING, AT(listen), NULL, "cluster worker", NULL, .help = "where"},
    {"memory", OPTION_SIZE, AT(memory), "1GiB", "worker", NULL, .help = "m"},
    {"grace", OPTION_DURATION, AT(grace_ns), "10s", "cluster worker", NULL, .help = "t",
     .min = NS_PER_MS},
    {"fast", OPTION_BOOL, AT(fast), NULL, "worker", NULL, .help = "f"},
    {"role", OPTION_CHOICE, AT(role), "mixed", "worker", NULL, .help = "r",
     .choices = "mixed prefill decode"},
    {"pace", OPTION_WORD, AT(pace), "auto", "worker", NULL, .help = "p", .choices = "auto",
     .words = pace_word},
    {"peer", OPTION_LIST, AT(peers), NULL, "cluster worker", NULL, .help = "p", .max = 3},
};

static const struct options_program program = {.name = "tandem-worker",
                                               .table = table,
                                               .n_options = sizeof table / sizeof *table,
                                               .section = "worker",
                                               .instance = "name",
                                               .other_keys = "policy queue_max"};

static struct config config;
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
    char flag[80];
    char *argv[6] = {(char *)"tandem-worker"};
    int argc = 1;
    options_free(options);
    options = NULL;
    buf_clear(&errors);
    if (*file) {
        write_file(file, strlen(file));
        snprintf(flag, sizeof flag, "--config=%s", path);
        argv[argc++] = flag;
    }
    const char *const more[] = {a, b, c};
    for (unsigned i = 0; i < 3 && more[i]; i++)
        argv[argc++] = (char *)more[i];
    memset(&config, 0xff, sizeof config); /* each field is set, whatever was there */
    return options_new(&program, argc, argv, &config, &options, &errors);
}

START_TEST(flag_goes_before_environment_before_file_before_default) {
    const char *file = "[cluster]\ngrace = 1s\n[worker]\nkv_blocks = 7\n";
    ck_assert_int_eq(read_options("", NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(config.kv_blocks, 64);
    ck_assert_str_eq(options_source(options, "kv-blocks"), "default");
    ck_assert_int_eq(read_options(file, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(config.kv_blocks, 7);
    ck_assert_uint_eq(config.grace_ns, NS_PER_S);
    ck_assert_ptr_nonnull(strstr(options_source(options, "kv-blocks"), ".ini:4"));
    setenv("TANDEM_KV_BLOCKS", "8", 1);
    setenv("TANDEM_NO_SUCH_THING", "8", 1);
    ck_assert_int_eq(read_options(file, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(config.kv_blocks, 8);
    ck_assert_int_eq(read_options(file, "--kv-blocks=9", NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(config.kv_blocks, 9);
    ck_assert_str_eq(options_source(options, "kv-blocks"), "--kv-blocks");
}
END_TEST

START_TEST(own_instance_goes_before_the_common_section) {
    const char *file = "[worker.d0]\nkv_blocks = 5\n[worker]\nkv_blocks = 6\nfast = yes\n"
                       "[worker.d1]\nkv_blocks = 7\n";
    ck_assert_int_eq(read_options(file, "--name=d0", NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(config.kv_blocks, 5);
    ck_assert(config.fast);
    ck_assert_int_eq(read_options(file, "--name=d9", NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(config.kv_blocks, 6);
}
END_TEST

START_TEST(types_are_read_with_their_units) {
    ck_assert_int_eq(read_options("[worker]\nmemory = 16KiB\ngrace=250ms\nrole\t: \tdecode\t\n"
                                  "listen = http://h:1/x ; y # z\n",
                                  "--fast", NULL, NULL),
                     STATUS_OK);
    ck_assert_uint_eq(config.memory, 16384);
    ck_assert_uint_eq(config.grace_ns, 250 * NS_PER_MS);
    ck_assert_uint_eq(config.role, 2);
    ck_assert_str_eq(config.listen, "http://h:1/x ; y # z");
    ck_assert(config.fast);
}
END_TEST

START_TEST(lists_grow_by_repeating_and_by_commas) {
    const char *file = "[worker]\npeer = a, b\npeer = c\n";
    ck_assert_int_eq(read_options(file, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(config.peers.n, 3);
    ck_assert_str_eq(config.peers.all[1], "b");
    ck_assert_str_eq(config.peers.all[2], "c");
    ck_assert_int_eq(read_options(file, "--peer=x", "--peer=y", NULL), STATUS_OK);
    ck_assert_uint_eq(config.peers.n, 2);
    ck_assert_str_eq(config.peers.all[0], "x");
}
END_TEST

START_TEST(words_come_from_the_row_and_from_its_function) {
    static const char *const words[] = {"auto", "slow", "quick"};
    for (unsigned i = 0; i < 3; i++) {
        char flag[32];
        snprintf(flag, sizeof flag, "--pace=%s", words[i]);
        ck_assert_int_eq(read_options("", flag, NULL, NULL), STATUS_OK);
        ck_assert_str_eq(config.pace, words[i]);
    }
    ck_assert_int_eq(read_options("", NULL, NULL, NULL), STATUS_OK);
    ck_assert_str_eq(config.pace, "auto");
    ck_assert_str_eq(config.listen, ""); /* never NULL */
    ck_assert(!config.fast && config.peers.n == 0);
}
END_TEST

/* What --print-config puts on standard output. */
static void printed(const char *file, const char *flag, char *out, size_t size) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        (void)!read_options(file, "--print-config", flag, NULL);
        _exit(99);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], out + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = 0;
    close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

START_TEST(what_is_printed_can_be_read_again) {
    char text[4096], again[4096];
    printed("[worker]\npeer = a\npeer = b\nrole = decode\n", "--kv-blocks=7", text, sizeof text);
    ck_assert_str_eq(text, "[cluster]\n"
                           "# where\n#listen =\n"
                           "# t\n#grace = 10s\n"
                           "# p\npeer = a, b\n"
                           "\n[worker]\n"
                           "# blocks\nkv_blocks = 7\n"
                           "# m\n#memory = 1GiB\n"
                           "# f\n#fast =\n"
                           "# r; one of: mixed prefill decode\nrole = decode\n"
                           "# p; one of: auto slow quick\n#pace = auto\n");
    printed(text, NULL, again, sizeof again);
    ck_assert_str_eq(again, text);
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
        {"[worker]\n\nkv_blocks = x\n", ":3: kv-blocks: \"x\" is not a whole number"},
        {"[worker]\nkv_blocks = 0\n", ":2: kv-blocks: 0 is out of range (1..1000)\n"},
        {"[worker]\nkv_blocks = 1001\n", ":2: kv-blocks: 1001 is out of range (1..1000)\n"},
        {"[worker]\nkv_blocks = -1\n", ":2: kv-blocks: \"-1\" is not a whole number"},
        {"[worker]\nkv_blocks = 99999999999999999999\n",
         ":2: kv-blocks: \"99999999999999999999\" is not a whole number"},
        {"[worker]\nkv_blocks = 5 ; five\n", ":2: kv-blocks: \"5 ; five\" is not a whole number"},
        {"[worker]\nkv_blocks = 1\nkv_blocks = 2\n",
         ":3: key \"kv_blocks\" is already set in line 2"},
        {"[worker]\nfast = 1\n[cluster]\n[worker]\nfast = 1\n",
         ":4: section [worker] appears twice"},
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
        {"[worker]\nfast = maybe\n", ":2: fast: \"maybe\" is not yes or no"},
        {"[worker]\nrole = boss\n", ":2: role: \"boss\" is not one of: mixed prefill decode"},
        {"[worker]\nrole =\n", ":2: role: \"\" is not one of"},
        {"[worker]\npace = fast\n", ":2: pace: \"fast\" is not one of: auto slow quick\n"},
        {"[worker]\npeer = a,b,c,d\n", ":2: peer: more than 3 entries\n"},
        {"[worker]\ngrace = 10\n", ":2: grace: \"10\" is not a time with its unit"},
        {"[worker]\ngrace = 1us\n", ":2: grace: 1us is out of range (at least 0.001 s)\n"},
        {"[worker]\nmemory = 16XB\n", ":2: memory: \"16XB\" is not a size"},
        {"[worker]\nmemory = 99999999999G\n", ":2: memory: \"99999999999G\" is not a size"},
        {"[worker]\nlisten = a\033b\n", ":2: a line has at most 4096 bytes and no control bytes"},
        {"[worker.d1]\nkv_blok = 1\n", ":2: unknown key"}, /* another's section is checked too */
        {"[worker]\nlisten = a\n  fast = x\n",
         ":3: fast: \"x\" is not yes or no"}, /* not a continuation */
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
    ck_assert_ptr_nonnull(strstr(errors.data, "--kv-blocks: 0 is out of range (1..1000)\n"));
    ck_assert_ptr_nonnull(strstr(errors.data, ":2: fast: \""));
    ck_assert_ptr_nonnull(strstr(errors.data, ":3: unknown key"));
}
END_TEST

START_TEST(what_other_programs_read_is_left_alone) {
    ck_assert_int_eq(read_options("\xef\xbb\xbf[router]\r\nanything = 1\r\n[cluster]\r\n"
                                  "policy = x\r\n; note\r\n  # note\r\n[worker]\r\nfast = on\r\n",
                                  NULL, NULL, NULL),
                     STATUS_OK);
    ck_assert(config.fast);
}
END_TEST

START_TEST(long_lines_are_whole_or_refused) {
    char *text = malloc(16384);
    size_t n = (size_t)sprintf(text, "[worker]\nlisten = ");
    size_t value = OPTIONS_LINE_MAX - strlen("listen = ");
    memset(text + n, 'v', value);
    memcpy(text + n + value, "\nfast = 1\n", 11);
    ck_assert_int_eq(read_options(text, NULL, NULL, NULL), STATUS_OK);
    ck_assert_uint_eq(strlen(config.listen), value);
    ck_assert(config.fast);
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
        char flag[80];
        snprintf(flag, sizeof flag, "--config=%s", path);
        char *argv[] = {(char *)"tandem-worker", flag, NULL};
        buf_clear(&errors);
        struct options *noisy = NULL;
        ck_assert_int_eq(options_new(&program, 2, argv, &config, &noisy, &errors), STATUS_INVALID);
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

START_TEST(a_program_that_only_checks_knows_it) {
    ck_assert_int_eq(read_options("", "--check-config", NULL, NULL), STATUS_OK);
    ck_assert(options_only_checks(options));
    ck_assert_int_eq(read_options("", NULL, NULL, NULL), STATUS_OK);
    ck_assert(!options_only_checks(options));
    ck_assert_int_eq(read_options("", "--check-config", "--kv-blocks=x", NULL), STATUS_INVALID);
}
END_TEST

START_TEST(a_file_without_a_section_of_the_instance_is_known) {
    static const char file[] = "[cluster]\n[worker.a]\n[worker]\n[worker.c]\n";
    ck_assert_int_eq(read_options("", "--name=b", NULL, NULL), STATUS_OK);
    ck_assert(!options_lack_instance(options));
    for (const char *name = "abc"; *name; name++) {
        char flag[] = "--name=x";
        flag[sizeof flag - 2] = *name;
        ck_assert_int_eq(read_options(file, flag, NULL, NULL), STATUS_OK);
        ck_assert(options_lack_instance(options) == (*name == 'b'));
    }
    ck_assert_int_eq(read_options(file, NULL, NULL, NULL), STATUS_OK);
    ck_assert(options_lack_instance(options));
}
END_TEST

START_TEST(instances_are_listed_in_the_files_order) {
    static const char file[] = "[cluster]\nanything = 1\n[worker.b]\nrole = x\n[worker]\n"
                               "[worker.a]\n[worker.b]\n[workers.c]\n[worker.]\n[router]\n";
    struct buf names;
    buf_init(&names, 0);
    write_file(file, sizeof file - 1);
    ck_assert_int_eq(options_instances(path, "worker", &names), STATUS_OK);
    ck_assert_str_eq(names.data, "b\na\n");
    buf_clear(&names);
    ck_assert_int_eq(options_instances("/nonexistent/t.ini", "worker", &names), STATUS_IO);
    ck_assert_uint_eq(names.n, 0);
    buf_fini(&names);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, flag_goes_before_environment_before_file_before_default);
    tcase_add_test(tests, own_instance_goes_before_the_common_section);
    tcase_add_test(tests, types_are_read_with_their_units);
    tcase_add_test(tests, a_program_that_only_checks_knows_it);
    tcase_add_test(tests, a_file_without_a_section_of_the_instance_is_known);
    tcase_add_test(tests, instances_are_listed_in_the_files_order);
    tcase_add_test(tests, lists_grow_by_repeating_and_by_commas);
    tcase_add_test(tests, words_come_from_the_row_and_from_its_function);
    tcase_add_test(tests, what_is_printed_can_be_read_again);
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
