#include "router/config.h"

#include "base/options.h"
#include "proto/keys.h"
#include "proto/message.h"

#include <string.h>
#include <xxhash.h>

#define SECTIONS "router"

static const struct option_spec table[] = {
    {.name = "name",
     .type = OPTION_STRING,
     .fallback = "router0",
     .sections = SECTIONS,
     .value = "NAME",
     .help = "this router's name in its cluster"},
    {.name = "model",
     .type = OPTION_STRING,
     .sections = "cluster " SECTIONS,
     .value = "PATH",
     .help =
         "for tokenizer and template: a .gguf file, a model folder, or \"hash\"; the workers' own"},
    {.name = "load-format",
     .type = OPTION_CHOICE,
     .fallback = "auto",
     .choices = "auto dummy",
     .sections = "cluster " SECTIONS,
     .help = "as the workers': dummy needs no weights"},
    {.name = "served-model",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "NAME",
     .help = "the model's id for clients; default: the file's stem"},
    {.name = "generation-config",
     .type = OPTION_CHOICE,
     .fallback = "auto",
     .choices = "auto none",
     .sections = SECTIONS,
     .help = "auto: the model's own sampling defaults hold where a request is silent"},
    {.name = "default-max-tokens",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = INT32_MAX,
     .sections = SECTIONS,
     .value = "N",
     .help = "tokens of an answer where a request is silent; 0: the rest of the context, 16 for "
             "completions"},
    {.name = "listen",
     .type = OPTION_STRING,
     .fallback = "127.0.0.1:8000",
     .sections = SECTIONS,
     .value = "HOST:PORT",
     .help = "where clients connect; port 0 picks a free one"},
    {.name = "announce",
     .type = OPTION_STRING,
     .fallback = "ipc:///run/tandem/announce",
     .sections = SECTIONS,
     .value = "ENDPOINT",
     .help = "where workers announce themselves (ipc:// or tcp://)"},
    {.name = "policy",
     .type = OPTION_CHOICE,
     .fallback = "prefix_affinity",
     .choices = "round_robin least_load two_choices prefix_affinity",
     .sections = SECTIONS,
     .help = "how workers are chosen"},
    {.name = "queue",
     .type = OPTION_UINT,
     .fallback = "1024",
     .max = 1000000,
     .sections = SECTIONS,
     .value = "N",
     .help = "sequences that may wait for a worker; more are refused with 429"},
    {.name = "max-sequences",
     .type = OPTION_UINT,
     .fallback = "16384",
     .min = 1,
     .max = 1000000,
     .sections = SECTIONS,
     .value = "N",
     .help = "sequences alive at once, waiting ones included"},
    {.name = "local-prefill-tokens",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 1u << 24,
     .sections = SECTIONS,
     .value = "N",
     .help = "prompts whose uncached part is at most this are prefilled where they decode"},
    {.name = "keys",
     .type = OPTION_STRING,
     .sections = "cluster",
     .value = "DIR",
     .help = "the cluster's CURVE keys; needed beyond this host"},
    {.name = "api-keys",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "FILE",
     .help = "one key a line; then clients must send one"},
    {.name = "admin-keys",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "FILE",
     .help =
         "one key a line; then /admin/ needs one. Without: no key there from this host, and none "
         "will do where there are api-keys"},
    {.name = "allow-host",
     .type = OPTION_LIST,
     .sections = SECTIONS,
     .value = "NAME",
     .help = "names of this server beside localhost and addresses, where it listens on a loopback "
             "address: requests for others are refused"},
    {.name = "cors-origins",
     .type = OPTION_LIST,
     .sections = SECTIONS,
     .value = "ORIGIN",
     .help = "pages of these origins may read answers; default: none but our own"},
    {.name = "text-threads",
     .type = OPTION_UINT,
     .fallback = "2",
     .min = 1,
     .max = 256,
     .sections = SECTIONS,
     .value = "N",
     .help = "threads for long bodies, templates, tokenizing"},
    {.name = "deadline",
     .type = OPTION_DURATION,
     .fallback = "0",
     .sections = SECTIONS,
     .help = "most time for a call, after which it ends with 504; 0: none"},
    {.name = "max-body",
     .type = OPTION_SIZE,
     .fallback = "32MiB",
     .min = 1024,
     .max = 1u << 30,
     .sections = SECTIONS,
     .help = "bytes of a request's body; more are a 413"},
    {.name = "body-memory",
     .type = OPTION_SIZE,
     .fallback = "256MiB",
     .min = 65536,
     .max = 1ull << 40,
     .sections = SECTIONS,
     .help = "bytes of all bodies together that were read and not yet parsed; more are a 503"},
    {.name = "max-connections",
     .type = OPTION_UINT,
     .fallback = "16384",
     .min = 1,
     .max = 1000000,
     .sections = SECTIONS,
     .value = "N",
     .help = "open client connections"},
    {.name = "idle-timeout",
     .type = OPTION_DURATION,
     .fallback = "75s",
     .sections = SECTIONS,
     .help = "a connection without a request is closed after this"},
    {.name = "head-timeout",
     .type = OPTION_DURATION,
     .fallback = "10s",
     .sections = SECTIONS,
     .help = "most time for a request's head"},
    {.name = "body-timeout",
     .type = OPTION_DURATION,
     .fallback = "120s",
     .sections = SECTIONS,
     .help = "most time for a request's body; a pause of 30 s or less than 1 KiB/s end it too"},
    {.name = "stall-timeout",
     .type = OPTION_DURATION,
     .fallback = "30s",
     .sections = SECTIONS,
     .help = "a client that takes nothing of its answer for this long is closed"},
    {.name = "drain",
     .type = OPTION_DURATION,
     .fallback = "30s",
     .sections = SECTIONS,
     .help = "how long running answers may take after SIGTERM"},
    {.name = "log-level",
     .type = OPTION_CHOICE,
     .fallback = "info",
     .choices = "debug info warn error",
     .sections = "cluster " SECTIONS,
     .help = "lines below are dropped"},
};

static const struct options_program program = {
    .name = "tandem-router",
    .doc = "Takes requests (OpenAI-style HTTP), chooses workers for them and streams the answers. "
           "SIGTERM drains, a second one ends at once; SIGHUP reloads nothing.",
    .table = table,
    .n_options = sizeof table / sizeof *table,
    .section = "router",
};

static const char *const policies[] = {"round_robin", "least_load", "two_choices",
                                       "prefix_affinity"};

static void fill(struct config *config) {
    const struct options *options = config->options;
    config->name = options_string(options, "name");
    config->model = options_string(options, "model");
    config->dummy = options_choice(options, "load-format") == 1;
    config->served_model = options_string(options, "served-model");
    config->has_generation = options_choice(options, "generation-config") == 0;
    config->default_max_tokens = (uint32_t)options_uint(options, "default-max-tokens");
    config->listen = options_string(options, "listen");
    config->announce = options_string(options, "announce");
    config->policy = policies[options_choice(options, "policy")];
    config->keys = options_string(options, "keys");
    config->api_keys = options_string(options, "api-keys");
    config->admin_keys = options_string(options, "admin-keys");
    config->queue = (uint32_t)options_uint(options, "queue");
    config->max_sequences = (uint32_t)options_uint(options, "max-sequences");
    config->local_prefill_tokens = (uint32_t)options_uint(options, "local-prefill-tokens");
    config->text_threads = (uint32_t)options_uint(options, "text-threads");
    config->max_connections = (uint32_t)options_uint(options, "max-connections");
    config->max_body = (size_t)options_uint(options, "max-body");
    config->body_memory = (size_t)options_uint(options, "body-memory");
    config->body_ns = options_duration_ns(options, "body-timeout");
    config->deadline_ns = options_duration_ns(options, "deadline");
    config->idle_ns = options_duration_ns(options, "idle-timeout");
    config->head_ns = options_duration_ns(options, "head-timeout");
    config->stall_ns = options_duration_ns(options, "stall-timeout");
    config->drain_ns = options_duration_ns(options, "drain");
    config->log_level = (enum log_level)options_choice(options, "log-level");
}

static void check(struct config *config, struct buf *errors) {
    const struct options *options = config->options;
    unsigned n_origins = options_list_count(options, "cors-origins");
    unsigned n_hosts = options_list_count(options, "allow-host");
    if (!config->model[0])
        options_complain(options, "model", "is needed: a .gguf file, a model folder, or \"hash\"",
                         errors);
    if (!config->name[0] || strlen(config->name) >= MESSAGE_NAME_MAX)
        options_complain(options, "name", "has to have 1 to 63 bytes", errors);
    if (strlen(config->announce) >= MESSAGE_ENDPOINT_MAX)
        options_complain(options, "announce", "is too long: 255 bytes are the most", errors);
    if (strchr(config->served_model, '/'))
        options_complain(options, "served-model", "must not have a slash", errors);
    if (n_origins > CONFIG_ORIGINS_MAX)
        options_complain(options, "cors-origins", "are more than 64", errors);
    for (unsigned i = 0; i < n_origins && i < CONFIG_ORIGINS_MAX; i++)
        config->origins[config->n_origins++] = options_list_at(options, "cors-origins", i);
    if (n_hosts > CONFIG_HOSTS_MAX)
        options_complain(options, "allow-host", "are more than 64", errors);
    for (unsigned i = 0; i < n_hosts && i < CONFIG_HOSTS_MAX; i++)
        config->hosts[config->n_hosts++] = options_list_at(options, "allow-host", i);
    if (config->body_memory / 8 * 7 < config->max_body)
        options_complain(options, "body-memory", "is too small: 8/7 of max-body is the least",
                         errors);
}

enum status config_read(struct config *config, int argc, char **argv, struct buf *errors) {
    memset(config, 0, sizeof *config);
    TRY(options_new(&program, argc, argv, &config->options, errors));
    fill(config);
    check(config, errors);
    return errors->n > 0 ? STATUS_INVALID : STATUS_OK;
}

void config_fini(struct config *config) {
    options_free(config->options);
    memset(config, 0, sizeof *config);
}

uint64_t config_prefix_seed(const struct keys *keys) {
    return XXH3_64bits(keys->server_secret, sizeof keys->server_secret - 1);
}
