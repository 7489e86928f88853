/* Every option arrives in the field that is named for it. Each has a value that no other has, so
 * two that were swapped are seen. */
#include "router/config.h"

#include "base/clock.h"
#include "router/core/policy/policy.h"
#include "tests/support/option_values.h"
#include "tests/support/suite.h"

const char *const suite_name = "router config";
const double suite_timeout_s = 60;

static const struct option_value values[] = {
    {"name", "r-17", "router"},
    {"model", "hash", "cluster router"},
    {"load-format", "dummy", "cluster router"},
    {"served-model", "served-19", "router"},
    {"generation-config", "none", "router"},
    {"tool-format", "mistral", "router"},
    {"default-max-tokens", "23", "router"},
    {"listen", "127.0.0.1:29", "router"},
    {"announce", "ipc:///run/a-31", "router"},
    {"policy", "two_choices", "router"},
    {"queue", "37", "router"},
    {"max-sequences", "41", "router"},
    {"roles", "fixed", "router"},
    {"local-prefill-tokens", "43", "router"},
    {"keys", "/keys-47", "cluster"},
    {"api-keys", "/api-keys-53", "router"},
    {"tls-cert", "/tls-cert-131", "router"},
    {"tls-key", "/tls-key-137", "router"},
    {"tls-check", "191ms", "router"},
    {"tls-client-ca", "/tls-client-ca-139", "router"},
    {"admin-keys", "/admin-keys-59", "router"},
    {"allow-host", "host-61,host-67", "router"},
    {"cors-origins", "http://a-71,http://b-73,http://c-79", "router"},
    {"page", "off", "router"},
    {"siblings", "yes", NULL},
    {"text-threads", "83", "router"},
    {"hang-timeout", "157ms", "router"},
    {"worker-wait", "163ms", "router"},
    {"deadline", "89ms", "router"},
    {"ping", "149ms", "router"},
    {"max-body", "97K", "router"},
    {"body-memory", "1009K", "router"},
    {"output-memory", "1013K", "router"},
    {"max-connections", "101", "router"},
    {"max-streams", "149", "router"},
    {"http2-ping", "151ms", "router"},
    {"idle-timeout", "103ms", "router"},
    {"head-timeout", "107ms", "router"},
    {"body-timeout", "109ms", "router"},
    {"stall-timeout", "113ms", "router"},
    {"drain", "127ms", "router"},
    {"traces", "http://c-167:4318", "router"},
    {"traces-ratio", "0.25", "router"},
    {"traces-header", "x-key: 173", "router"},
    {"log-level", "warn", "cluster router"},
};
#define N_VALUES (sizeof values / sizeof *values)

/* Reads and frees the arguments. */
static void read_args(struct config *config, struct option_args *args) {
    struct buf errors;
    buf_init(&errors, 65536);
    enum status status = config_read(config, args->argc, args->argv, &errors);
    ck_assert_msg(status == STATUS_OK, "%.*s", (int)errors.n, errors.data);
    option_args_fini(args);
    buf_fini(&errors);
}

static void check_texts(const struct config *config) {
    ck_assert_str_eq(config->name, "r-17");
    ck_assert_str_eq(config->model, "hash");
    ck_assert_str_eq(config->served_model, "served-19");
    ck_assert_str_eq(config->tool_format, "mistral");
    ck_assert_str_eq(config->listen, "127.0.0.1:29");
    ck_assert_str_eq(config->announce, "ipc:///run/a-31");
    ck_assert_str_eq(config->traces, "http://c-167:4318");
    ck_assert_str_eq(config->traces_header, "x-key: 173");
    ck_assert(config->traces_ratio == 0.25);
    ck_assert_str_eq(config->policy, "two_choices");
    ck_assert_str_eq(config->keys, "/keys-47");
    ck_assert_str_eq(config->api_keys, "/api-keys-53");
    ck_assert_str_eq(config->admin_keys, "/admin-keys-59");
    ck_assert_str_eq(config->tls_cert, "/tls-cert-131");
    ck_assert_str_eq(config->tls_key, "/tls-key-137");
    ck_assert_uint_eq(config->tls_check_ns, 191 * NS_PER_MS);
    ck_assert_str_eq(config->tls_client_ca, "/tls-client-ca-139");
    ck_assert_uint_eq(config->hosts.n, 2);
    ck_assert_str_eq(config->hosts.all[0], "host-61");
    ck_assert_str_eq(config->hosts.all[1], "host-67");
    ck_assert_uint_eq(config->origins.n, 3);
    ck_assert_str_eq(config->origins.all[0], "http://a-71");
    ck_assert_str_eq(config->origins.all[1], "http://b-73");
    ck_assert_str_eq(config->origins.all[2], "http://c-79");
}

static void check_all(const struct config *config) {
    check_texts(config);
    ck_assert(config->dummy && config->no_generation && config->no_page);
    ck_assert_uint_eq(config->default_max_tokens, 23);
    ck_assert_uint_eq(config->queue, 37);
    ck_assert_uint_eq(config->max_sequences, 41);
    ck_assert_int_eq(config->roles, ROLES_FIXED);
    ck_assert_uint_eq(config->local_prefill_tokens, 43);
    ck_assert_uint_eq(config->text_threads, 83);
    ck_assert_uint_eq(config->max_connections, 101);
    ck_assert_uint_eq(config->max_streams, 149);
    ck_assert_uint_eq(config->ping_ns, 151 * NS_PER_MS);
    ck_assert_uint_eq(config->max_body, 97 * 1024);
    ck_assert_uint_eq(config->body_memory, 1009 * 1024);
    ck_assert_uint_eq(config->output_memory, 1013 * 1024);
    ck_assert_uint_eq(config->hang_ns, 157 * NS_PER_MS);
    ck_assert_uint_eq(config->worker_wait_ns, 163 * NS_PER_MS);
    ck_assert_uint_eq(config->deadline_ns, 89 * NS_PER_MS);
    ck_assert_uint_eq(config->silence_ns, 149 * NS_PER_MS);
    ck_assert_uint_eq(config->idle_ns, 103 * NS_PER_MS);
    ck_assert_uint_eq(config->head_ns, 107 * NS_PER_MS);
    ck_assert_uint_eq(config->body_ns, 109 * NS_PER_MS);
    ck_assert_uint_eq(config->stall_ns, 113 * NS_PER_MS);
    ck_assert_uint_eq(config->drain_ns, 127 * NS_PER_MS);
    ck_assert_int_eq(config->log_level, LOG_WARN);
}

START_TEST(every_option_arrives_where_it_belongs) {
    struct config config;
    struct option_args args;
    ck_assert_uint_eq(N_VALUES, config_program.n_options);
    option_args_flags(&args, values, N_VALUES);
    read_args(&config, &args);
    check_all(&config);
    config_fini(&config);
}
END_TEST

START_TEST(so_it_does_from_each_section_of_a_file) {
    for (unsigned in_first = 0; in_first < 2; in_first++) {
        struct config config;
        struct option_args args;
        option_args_file(&args, values, N_VALUES, in_first == 1);
        read_args(&config, &args);
        check_all(&config);
        config_fini(&config);
    }
}
END_TEST

static void read_two(struct config *config, const char *name, const char *value) {
    struct option_args args;
    const struct option_value two[] = {{"model", "hash", NULL}, {name, value, NULL}};
    option_args_flags(&args, two, 2);
    read_args(config, &args);
}

/* A router that is right but for one option; says whether it is taken. */
static bool is_taken(const char *name, const char *value) {
    struct config config;
    struct option_args args;
    struct buf errors;
    const struct option_value two[] = {{"model", "hash", NULL}, {name, value, NULL}};
    buf_init(&errors, 65536);
    option_args_flags(&args, two, 2);
    bool taken = config_read(&config, args.argc, args.argv, &errors) == STATUS_OK;
    buf_putc(&errors, 0);
    ck_assert_msg(taken || strstr(errors.data, name), "%s: %s", name, errors.data);
    option_args_fini(&args);
    config_fini(&config);
    buf_fini(&errors);
    return taken;
}

START_TEST(every_word_of_a_choice_is_what_it_says) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    struct config config;
    for (unsigned i = 0; policy_table[i]; i++) {
        read_two(&config, "policy", policy_table[i]->name);
        ck_assert_str_eq(config.policy, policy_table[i]->name);
        config_fini(&config);
    }
    for (unsigned i = 0; i < 4; i++) {
        read_two(&config, "log-level", levels[i]);
        ck_assert_int_eq(config.log_level, (enum log_level)i);
        config_fini(&config);
    }
    read_two(&config, "load-format", "auto");
    ck_assert(!config.dummy && !config.no_generation);
    config_fini(&config);
}
END_TEST

/* At its bound an option is taken; one beyond, one line names it. */
START_TEST(numbers_are_taken_up_to_their_bounds) {
    static const struct {
        const char *name, *least, *below, *most, *above;
    } rows[] = {
        {"default-max-tokens", "0", NULL, "2147483647", "2147483648"},
        {"queue", "0", NULL, "1000000", "1000001"},
        {"max-sequences", "1", "0", "1000000", "1000001"},
        {"local-prefill", "0", NULL, "16777216", "16777217"},
        {"text-threads", "1", "0", "256", "257"},
        {"hang-timeout", "100ms", "99999us", "24h", NULL},
        {"worker-wait", "0", NULL, "24h", NULL},
        {"ping", "100ms", "99999us", "24h", NULL},
        {"http2-ping", "100ms", "99999us", "24h", NULL},
        {"max-body", "1024", "1023", "224MiB", NULL},
        {"body-memory", "38347928", "38347927", "1024g", "1099511627777"},
        {"output-memory", "64K", "65535", "1024g", "1099511627777"},
        {"max-connections", "1", "0", "1000000", "1000001"},
        {"max-streams", "1", "0", "10000", "10001"},
        {"idle-timeout", "100ms", "99999us", "24h", NULL},
        {"head-timeout", "100ms", "99999us", "24h", NULL},
        {"body-timeout", "100ms", "99999us", "24h", NULL},
        {"stall-timeout", "100ms", "99999us", "24h", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(is_taken(rows[i].name, rows[i].least), "%s", rows[i].name);
        ck_assert_msg(is_taken(rows[i].name, rows[i].most), "%s", rows[i].name);
        ck_assert_msg(!rows[i].below || !is_taken(rows[i].name, rows[i].below), "%s", rows[i].name);
        ck_assert_msg(!rows[i].above || !is_taken(rows[i].name, rows[i].above), "%s", rows[i].name);
    }
}
END_TEST

/* Go's HTTP client keeps idle connections for 90 s: where the server closes first, a request may meet its end. */
START_TEST(idle_connections_are_closed_by_their_clients_first) {
    struct config config;
    struct option_args args;
    struct buf errors;
    const struct option_value model = {"model", "hash", NULL};
    buf_init(&errors, 65536);
    option_args_flags(&args, &model, 1);
    ck_assert_int_eq(config_read(&config, args.argc, args.argv, &errors), STATUS_OK);
    ck_assert_uint_eq(config.idle_ns, 120 * NS_PER_S);
    option_args_fini(&args);
    config_fini(&config);
    buf_fini(&errors);
}
END_TEST

START_TEST(an_origin_is_one_that_browsers_send) {
    static const char *const good[] = {"*",
                                       "null",
                                       "http://localhost:5173",
                                       "https://chat.example.org",
                                       "http://a",
                                       "https://[::1]:8443",
                                       "http://h:443",
                                       "https://h:80",
                                       "app://obsidian.md",
                                       "chrome-extension://abcdefgh",
                                       "tauri://localhost",
                                       "tauri://localhost:443",
                                       "app://h:80",
                                       "vscode-webview://1A2b",
                                       "http://a,https://b"};
    static const char *const bad[] = {"http://localhost:5173/",
                                      "https://h/path",
                                      "http://h?x",
                                      "http://h#x",
                                      "localhost:5173",
                                      "localhost",
                                      "http://",
                                      "://h",
                                      "http://Localhost",
                                      "HTTP://h",
                                      "App://h",
                                      "http://h:80",
                                      "https://h:443",
                                      "https://[::1]:443",
                                      "tauri://localhost/",
                                      "http://a,http://b/",
                                      "Null"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(is_taken("cors-origins", good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!is_taken("cors-origins", bad[i]), "%s", bad[i]);
}
END_TEST

/* tests/unit/router/trace has every form; here, that the options ask for it. */
START_TEST(what_traces_need_is_looked_at) {
    ck_assert(is_taken("traces", "https://c/otlp"));
    ck_assert(!is_taken("traces", "c:4318"));
    ck_assert(is_taken("traces-ratio", "0") && is_taken("traces-ratio", "1"));
    ck_assert(!is_taken("traces-ratio", "1.01"));
    ck_assert(is_taken("traces-header", "a: b"));
    ck_assert(!is_taken("traces-header", "a b"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, what_traces_need_is_looked_at);
    tcase_add_test(tests, idle_connections_are_closed_by_their_clients_first);
    tcase_add_test(tests, an_origin_is_one_that_browsers_send);
    tcase_add_test(tests, numbers_are_taken_up_to_their_bounds);
    tcase_add_test(tests, every_option_arrives_where_it_belongs);
    tcase_add_test(tests, so_it_does_from_each_section_of_a_file);
    tcase_add_test(tests, every_word_of_a_choice_is_what_it_says);
}
