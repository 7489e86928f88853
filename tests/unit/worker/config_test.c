/* Every option arrives in the field that is named for it. Each has a value that no other has, so
 * two that were swapped are seen. */
#include "worker/config.h"
#include "worker/links/names.h"

#include "base/clock.h"
#include "kernels/kernels.h"
#include "tests/support/option_values.h"
#include "tests/support/suite.h"

#include <string.h>

const char *const suite_name = "worker config";
const double suite_timeout_s = 60;

/* --follow silences what does not fit together. Missing is dry-run, which no follower takes:
 * another test has it. */
static const struct option_value values[] = {
    {"name", "w-17", NULL},
    {"role", "decode", "worker"},
    {"model", "/model-19", "cluster worker"},
    {"load-format", "dummy", "cluster worker"},
    {"routers", "ipc:///r-23,tcp://r:29", "worker"},
    {"dns-server", "127.0.0.1:101", "worker"},
    {"endpoint", "ipc:///e-31", "worker"},
    {"kv-endpoint", "ipc:///kv-37", "worker"},
    {"keys", "/keys-41", "cluster"},
    {"backend", "ref", "worker"},
    {"numerics", "exact", "worker"},
    {"devices", "43", "worker"},
    {"gpu-memory", "0.625", "worker"},
    {"cuda-graphs", "no", "worker"},
    {"steps-ahead", "no", "worker"},
    {"tp", "7", "worker"},
    {"sums", "host", "worker"},
    {"ranks-here", "5", "worker"},
    {"rank-listen", "ipc:///ranks-47", "worker"},
    {"follow", "ipc:///leader-53", "worker"},
    {"kv-dtype", "f16", "worker"},
    {"threads", "59", "worker"},
    {"kv-blocks", "61", "worker"},
    {"chunk-tokens", "67", "worker"},
    {"max-batch", "71", "worker"},
    {"context", "73", "worker"},
    {"kv-transport", "shm", "worker"},
    {"step-us", "79", "worker"},
    {"admin", "127.0.0.1:83", "worker"},
    {"drain", "89ms", "worker"},
    {"log-level", "error", "cluster worker"},
    {"json", "yes", NULL},
    {"device", "device-97", NULL},
};
#define N_VALUES (sizeof values / sizeof *values)

/* Reads and frees the arguments; what is wrong with them, if anything, goes into `errors`. */
static enum status read_args(struct config *config, struct option_args *args, struct buf *errors) {
    buf_init(errors, 65536);
    enum status status = config_read(config, args->argc, args->argv, errors);
    option_args_fini(args);
    return status;
}

static void check_texts(const struct config *config) {
    ck_assert_str_eq(config->name, "w-17");
    ck_assert_str_eq(config->model, "/model-19");
    ck_assert_uint_eq(config->routers.n, 2);
    ck_assert_str_eq(config->routers.all[0], "ipc:///r-23");
    ck_assert_str_eq(config->routers.all[1], "tcp://r:29");
    ck_assert_str_eq(config->dns_server, "127.0.0.1:101");
    ck_assert_str_eq(config->endpoint, "ipc:///e-31");
    ck_assert_str_eq(config->kv_endpoint, "ipc:///kv-37");
    ck_assert_str_eq(config->keys, "/keys-41");
    ck_assert_str_eq(config->backend, "ref");
    ck_assert_str_eq(config->numerics, "exact");
    ck_assert_str_eq(config->kernels, "ref:exact");
    ck_assert_str_eq(config->gpu_memory, "0.625");
    ck_assert_str_eq(config->rank_listen, "ipc:///ranks-47");
    ck_assert_str_eq(config->follow, "ipc:///leader-53");
    ck_assert_str_eq(config->kv_dtype, "f16");
    ck_assert_str_eq(config->kv_transport, "shm");
    ck_assert_str_eq(config->admin, "127.0.0.1:83");
    ck_assert_str_eq(config->device, "device-97");
}

static void check_all(const struct config *config) {
    check_texts(config);
    ck_assert(config->dummy && config->json && !config->dry_run);
    ck_assert_int_eq(config->role, ROLE_DECODE);
    ck_assert_uint_eq(config->tp, 7);
    ck_assert_uint_eq(config->devices, 43);
    ck_assert(config->memory_share == 0.625 && !config->cuda_graphs && !config->steps_ahead);
    ck_assert_uint_eq(config->ranks_here, 5);
    ck_assert_uint_eq(config->sums, 3);
    ck_assert_uint_eq(config->threads, 59);
    ck_assert_uint_eq(config->kv_blocks, 61);
    ck_assert_uint_eq(config->chunk_tokens, 67);
    ck_assert_uint_eq(config->max_batch, 71);
    ck_assert_uint_eq(config->context, 73);
    ck_assert_uint_eq(config->step_us, 79);
    ck_assert_uint_eq(config->drain_ns, 89 * NS_PER_MS);
    ck_assert_int_eq(config->log_level, LOG_ERROR);
}

static void reads_all(struct option_args *args) {
    struct config config;
    struct buf errors;
    enum status status = read_args(&config, args, &errors);
    ck_assert_msg(status == STATUS_OK, "%.*s", (int)errors.n, errors.data);
    check_all(&config);
    config_fini(&config);
    buf_fini(&errors);
}

START_TEST(every_option_arrives_where_it_belongs) {
    struct option_args args;
    ck_assert_uint_eq(N_VALUES + 1, config_program.n_options); /* dry-run */
    option_args_flags(&args, values, N_VALUES);
    reads_all(&args);
}
END_TEST

START_TEST(so_it_does_from_each_section_of_a_file) {
    struct option_args args;
    option_args_file(&args, values, N_VALUES, false);
    reads_all(&args);
    option_args_file(&args, values, N_VALUES, true);
    reads_all(&args);
}
END_TEST

/* A plan is all that is asked for, so that nothing else is missing. */
static enum status read_plan(struct config *config, const char *name, const char *value,
                             struct buf *errors) {
    struct option_args args;
    const struct option_value plan[] = {
        {"model", "hash", NULL}, {"dry-run", "yes", NULL}, {name, value, NULL}};
    option_args_flags(&args, plan, 3);
    return read_args(config, &args, errors);
}

START_TEST(a_name_of_routers_has_a_port) {
    static const struct {
        const char *endpoint;
        bool is_right;
    } cases[] = {
        {"dns://tandem-routers:7001", true},
        {"dns://a.b.example.:65535", true},
        {"dns://127.0.0.1:1", true},
        {"dns://[::1]:7001", true},
        {"tcp://what:ever", true},
        {"dns://", false},
        {"dns://name", false},
        {"dns://:7001", false},
        {"dns://name:", false},
        {"dns://name:0", false},
        {"dns://name:65536", false},
        {"dns://name:70x", false},
        {"dns://name:-1", false},
        {"dns://na me:1", false},
        {"dns://name/path:1", false},
        {"dns://::1:7001", true}, /* the last colon is the port's */
        {"dns://[fe80::1%eth0]:7001", true},
        {"dns://::1", false},
        {"dns://[name]:7001", false},
        {"dns://name:*", false},
        {"dns://[]:7001", false},
        {"dns://[::1:7001", false},
    };
    struct error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg((names_check(cases[i].endpoint, &error) == STATUS_OK) == cases[i].is_right,
                      "%s", cases[i].endpoint);
    char longest[400] = "dns://";
    memset(longest + 6, 'a', 300);
    memcpy(longest + 306, ":1", 3);
    ck_assert_int_eq(names_check(longest, &error), STATUS_INVALID);
}
END_TEST

/* A worker that is right but for one option, which is given last; says whether it is taken. */
static bool is_taken(const char *name, const char *value, const char *words) {
    struct option_args args;
    struct config config;
    struct buf errors;
    struct option_value given[] = {{"model", "hash", NULL},
                                   {"name", "w0", NULL},
                                   {"routers", "ipc:///run/r", NULL},
                                   {"endpoint", "ipc:///run/e", NULL}};
    for (size_t i = 0; i < 4; i++)
        if (strcmp(given[i].name, name) == 0)
            given[i].value = value;
    option_args_flags(&args, given, 4);
    bool taken = read_args(&config, &args, &errors) == STATUS_OK;
    buf_putc(&errors, 0);
    ck_assert_msg(taken || (strstr(errors.data, name) && strstr(errors.data, words)), "%s: %s",
                  value, errors.data);
    ck_assert_msg(taken || strchr(errors.data, '\n') == errors.data + errors.n - 2, "%s",
                  errors.data);
    config_fini(&config);
    buf_fini(&errors);
    return taken;
}

START_TEST(names_are_text_that_a_path_can_hold) {
    char longest[65];
    memset(longest, 'n', 64);
    longest[64] = 0;
    ck_assert(!is_taken("name", longest, "1 to 63 bytes"));
    longest[63] = 0;
    ck_assert(is_taken("name", longest, ""));
    ck_assert(is_taken("name", "decode 0.\xc3\xa4-\xc2\xa0", ""));
    ck_assert(!is_taken("name", "", "is needed"));
    ck_assert(!is_taken("name", "a/b", "must not contain"));
    ck_assert(!is_taken("name", "/", "must not contain"));
    ck_assert(!is_taken("name", "a\nb", "must not contain"));
    ck_assert(!is_taken("name", "a\x1f", "must not contain"));
    ck_assert(!is_taken("name", "a\x7f", "must not contain"));
    ck_assert(!is_taken("name", "a\xc2\x9f", "must not contain")); /* U+009F */
    ck_assert(!is_taken("name", "a\xff", "UTF-8"));
}
END_TEST

START_TEST(routers_that_could_never_be_reached_are_refused) {
    ck_assert(is_taken("routers", "tcp://127.0.0.1:7001", ""));
    ck_assert(is_taken("routers", "dns://routers:7001", ""));
    ck_assert(is_taken("routers", "ipc:///run/a,tcp://localhost:1,dns://b:2", ""));
    ck_assert(!is_taken("routers", "foo", "foo: neither"));
    ck_assert(!is_taken("routers", "ipc:///run/a,http://b:1", "http://b:1: neither"));
    ck_assert(!is_taken("routers", "ipc://relative", "absolute"));
    ck_assert(!is_taken("routers", "tcp://127.0.0.1", "not HOST:PORT"));
    ck_assert(!is_taken("routers", "tcp://127.0.0.1:x", "not HOST:PORT"));
    ck_assert(is_taken("routers", "tcp://::1:7001", ""));
    ck_assert(!is_taken("routers", "tcp://2001:db8::5:7001", "no keys"));
    ck_assert(!is_taken("routers", "tcp://2001:db8::7001", "not HOST:PORT"));
    ck_assert(!is_taken("routers", "tcp://fe80::1:7001", "needs its interface: [fe80::1%eth0]"));
    ck_assert(!is_taken("routers", "tcp://10.1.2.3:7001", "no keys"));
    ck_assert(!is_taken("routers", "dns://routers", "dns://NAME:PORT"));
}
END_TEST

START_TEST(every_word_of_a_choice_is_what_it_says) {
    static const struct {
        const char *option, *word;
        enum worker_role role;
    } words[] = {
        {"role", "mixed", ROLE_MIXED},   {"role", "prefill", ROLE_PREFILL},
        {"role", "decode", ROLE_DECODE}, {"kv-dtype", "auto", 0},
        {"kv-dtype", "f16", 0},          {"kv-dtype", "f32", 0},
        {"kv-transport", "auto", 0},     {"kv-transport", "local", 0},
        {"kv-transport", "shm", 0},      {"kv-transport", "tcp", 0},
        {"backend", "cpu", 0},           {"backend", "ref", 0},
        {"numerics", "auto", 0},         {"numerics", "exact", 0},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct config config;
        struct buf errors;
        ck_assert_int_eq(read_plan(&config, words[i].option, words[i].word, &errors), STATUS_OK);
        ck_assert(config.dry_run && !config.json && !config.dummy && config.cuda_graphs &&
                  config.steps_ahead);
        ck_assert_int_eq(config.role, words[i].role);
        if (strcmp(words[i].option, "kv-dtype") == 0)
            ck_assert_str_eq(config.kv_dtype, words[i].word);
        if (strcmp(words[i].option, "backend") == 0)
            ck_assert_str_eq(config.backend, words[i].word);
        if (strcmp(words[i].option, "numerics") == 0)
            ck_assert_str_eq(config.numerics, words[i].word);
        ck_assert_ptr_nonnull(kernels_find(config.kernels));
        if (strcmp(words[i].option, "kv-transport") == 0)
            ck_assert_str_eq(config.kv_transport, words[i].word);
        config_fini(&config);
        buf_fini(&errors);
    }
}
END_TEST

START_TEST(numerics_that_a_backend_has_not_are_refused) {
    struct config config;
    struct buf errors;
    ck_assert_int_eq(read_plan(&config, "numerics", "fast", &errors), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(errors.data, "--numerics"));
    ck_assert_ptr_nonnull(strstr(errors.data, "the backend cpu"));
    config_fini(&config);
    buf_fini(&errors);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, numerics_that_a_backend_has_not_are_refused);
    tcase_add_test(tests, a_name_of_routers_has_a_port);
    tcase_add_test(tests, names_are_text_that_a_path_can_hold);
    tcase_add_test(tests, routers_that_could_never_be_reached_are_refused);
    tcase_add_test(tests, every_option_arrives_where_it_belongs);
    tcase_add_test(tests, so_it_does_from_each_section_of_a_file);
    tcase_add_test(tests, every_word_of_a_choice_is_what_it_says);
}
