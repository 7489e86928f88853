#include "worker/config.h"

#include "worker/ranks/rank_wire.h"

#include <stdio.h>
#include <string.h>

#define SECTIONS "worker"

static const struct option_spec table[] = {
    {.name = "name",
     .type = OPTION_STRING,
     .value = "NAME",
     .help = "this worker's name in its cluster; picks [worker.NAME] of the file"},
    {.name = "role",
     .type = OPTION_CHOICE,
     .fallback = "mixed",
     .choices = "mixed prefill decode",
     .sections = SECTIONS,
     .help = "what it is preferred for; every worker can do both"},
    {.name = "model",
     .type = OPTION_STRING,
     .sections = "cluster " SECTIONS,
     .value = "PATH",
     .help = "a .gguf file, a folder with config.json, safetensors and a tokenizer, or \"hash\" "
             "for the oracle that needs none"},
    {.name = "load-format",
     .type = OPTION_CHOICE,
     .fallback = "auto",
     .choices = "auto dummy",
     .sections = "cluster " SECTIONS,
     .help = "dummy: a folder's config.json is enough; weights are pseudo-random"},
    {.name = "routers",
     .type = OPTION_LIST,
     .sections = SECTIONS,
     .value = "ENDPOINT",
     .help = "announce endpoints of the routers to serve (ipc:// or tcp://)"},
    {.name = "endpoint",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "ENDPOINT",
     .help = "where routers connect to (ipc://FOLDER/NAME or tcp://HOST:PORT)"},
    {.name = "kv-endpoint",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "ENDPOINT",
     .help =
         "where prefill workers connect to; default: beside the endpoint (ipc), any port (tcp)"},
    {.name = "keys",
     .type = OPTION_STRING,
     .sections = "cluster",
     .value = "DIR",
     .help = "the cluster's CURVE keys; needed beyond this host"},
    {.name = "backend",
     .type = OPTION_STRING,
     .fallback = "cpu",
     .sections = SECTIONS,
     .value = "NAME",
     .help = "what computes: cpu or ref"},
    {.name = "tp",
     .type = OPTION_UINT,
     .fallback = "1",
     .min = 1,
     .max = 64,
     .sections = SECTIONS,
     .value = "N",
     .help = "tensor-parallel size: how many ranks share the model, at most 16"},
    {.name = "ranks-here",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 64,
     .sections = SECTIONS,
     .value = "N",
     .help = "ranks that this process holds; 0: all, of a follower all that are left"},
    {.name = "rank-listen",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "ADDRESS",
     .help = "where processes with the other ranks come to (ipc://PATH)"},
    {.name = "follow",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "ADDRESS",
     .help = "hold ranks of the worker that listens there (its --rank-listen), nothing else"},
    {.name = "kv-dtype",
     .type = OPTION_CHOICE,
     .fallback = "auto",
     .choices = "auto f16 f32",
     .sections = SECTIONS,
     .help = "numbers of the KV cache; auto: f32 where all matrices are f32, else f16"},
    {.name = "threads",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 1024,
     .sections = SECTIONS,
     .value = "N",
     .help = "threads that compute; 0: one per core this process may use"},
    {.name = "kv-blocks",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 1u << 26,
     .sections = SECTIONS,
     .value = "N",
     .help = "KV blocks of 16 tokens; 0: 65536 tokens, within a quarter of the free memory"},
    {.name = "chunk-tokens",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 65536,
     .sections = SECTIONS,
     .value = "N",
     .help = "most tokens of a step, less where 120 ms compute less; 0: 512"},
    {.name = "max-batch",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 1024,
     .sections = SECTIONS,
     .value = "N",
     .help = "sequences of a step; 0: 64, of hash 256"},
    {.name = "context",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 1u << 24,
     .sections = SECTIONS,
     .value = "N",
     .help = "most tokens of a sequence; 0: the model's"},
    {.name = "devices",
     .type = OPTION_LIST,
     .sections = SECTIONS,
     .value = "N,...",
     .help = "accelerators of the ranks, in order; the CPU backends have none"},
    {.name = "kv-transport",
     .type = OPTION_CHOICE,
     .fallback = "auto",
     .choices = "auto local shm tcp",
     .sections = SECTIONS,
     .help = "how KV goes to decode workers; auto: by where they are"},
    {.name = "step-us",
     .type = OPTION_UINT,
     .fallback = "0",
     .max = 10000000,
     .sections = SECTIONS,
     .value = "N",
     .help = "hash only: how long a step lasts, asleep"},
    {.name = "admin",
     .type = OPTION_STRING,
     .sections = SECTIONS,
     .value = "ADDRESS",
     .help = "HOST:PORT for /metrics, /livez and /readyz; default: none"},
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
    {.name = "dry-run",
     .type = OPTION_BOOL,
     .help = "print the memory plan (of the largest rank) and end"},
    {.name = "json", .type = OPTION_BOOL, .help = "of --dry-run: as JSON, alone on the output"},
    {.name = "device",
     .type = OPTION_STRING,
     .value = "NAME",
     .help = "of --dry-run: a100-40, a100-80, l20, h100, h200 or bytes; default: this host"},
};

static const struct options_program program = {
    .name = "tandem-worker",
    .doc = "Runs a model's sequences for Tandem routers: prefill, decode, or both.",
    .table = table,
    .n_options = sizeof table / sizeof *table,
    .section = "worker",
    .instance = "name",
};

static void check_address(struct buf *errors, const struct options *options, const char *name,
                          const char *address) {
    struct error error;
    const char *path;
    if (rank_wire_path(address, &path, &error) != STATUS_OK)
        options_complain(options, name, error.text, errors);
}

static void check_ranks(const struct config *config, struct buf *errors) {
    const struct options *options = config->options;
    if (config->tp > COMM_RANKS_MAX)
        options_complain(options, "tp", "has to be at most 16", errors);
    if (config->ranks_here > config->tp)
        options_complain(options, "ranks-here", "are more than the ranks (--tp)", errors);
    bool others = config->ranks_here > 0 && config->ranks_here < config->tp;
    if (others && !config->rank_listen[0] && !config->dry_run)
        options_complain(options, "rank-listen",
                         "is needed: where processes with the other ranks come to", errors);
    if (config->rank_listen[0] && !others)
        options_complain(
            options, "rank-listen",
            "is for workers that hold fewer ranks (--ranks-here) than there are (--tp)", errors);
    if (config->rank_listen[0])
        check_address(errors, options, "rank-listen", config->rank_listen);
}

static void check(const struct config *config, struct buf *errors) {
    const struct options *options = config->options;
    if (!config->model[0])
        options_complain(options, "model", "is needed: a .gguf file, a model folder, or \"hash\"",
                         errors);
    if (strlen(config->name) >= MESSAGE_NAME_MAX)
        options_complain(options, "name", "is too long: 63 bytes are the most", errors);
    if (options_list_count(options, "devices") > 0)
        options_complain(options, "devices",
                         "has to be left out: the backends of this build compute on CPU cores",
                         errors);
    if (config->follow[0]) {
        check_address(errors, options, "follow", config->follow);
        if (config->dry_run)
            options_complain(options, "dry-run",
                             "is for the leader: a follower has no plan of its own", errors);
        return; /* the leader has all else */
    }
    if (config->context == 1)
        options_complain(options, "context",
                         "1 token is too few: it must be at least 2 (0: the model's)", errors);
    check_ranks(config, errors);
    if (config->dry_run)
        return;
    if (!config->name[0])
        options_complain(options, "name", "is needed", errors);
    if (!config->endpoint[0])
        options_complain(options, "endpoint", "is needed: where routers connect to", errors);
    if (config->endpoint[0] && !config->kv_endpoint[0])
        options_complain(options, "endpoint", "is neither ipc://FOLDER/NAME nor tcp://HOST:PORT",
                         errors);
    if (config->n_routers == 0)
        options_complain(options, "routers", "is needed: at least one announce endpoint", errors);
}

/* The endpoint with "-kv" behind it, or any other port of the same address. Routers and workers are
 * told, so nobody needs to know it beforehand. Answers "" for an endpoint that is none. */
static const char *kv_endpoint_beside(struct config *config, const char *endpoint) {
    char *text = config->kv_endpoint_text;
    size_t size = sizeof config->kv_endpoint_text;
    const char *colon = strrchr(endpoint, ':');
    text[0] = '\0';
    if (strncmp(endpoint, "ipc://", 6) == 0)
        snprintf(text, size, "%s-kv", endpoint);
    else if (strncmp(endpoint, "tcp://", 6) == 0 && colon > endpoint + 5)
        snprintf(text, size, "%.*s:0", (int)(colon - endpoint), endpoint);
    return text;
}

static void fill(struct config *config) {
    const struct options *options = config->options;
    config->name = options_string(options, "name");
    config->role = (enum worker_role)options_choice(options, "role");
    config->model = options_string(options, "model");
    config->dummy = options_choice(options, "load-format") == 1;
    config->backend = options_string(options, "backend");
    config->tp = (uint32_t)options_uint(options, "tp");
    config->ranks_here = (uint32_t)options_uint(options, "ranks-here");
    config->rank_listen = options_string(options, "rank-listen");
    config->follow = options_string(options, "follow");
    static const char *const dtypes[] = {"auto", "f16", "f32"};
    config->kv_dtype = dtypes[options_choice(options, "kv-dtype")];
    config->endpoint = options_string(options, "endpoint");
    config->kv_endpoint = options_string(options, "kv-endpoint");
    if (!config->kv_endpoint[0])
        config->kv_endpoint = kv_endpoint_beside(config, config->endpoint);
    config->admin = options_string(options, "admin");
    config->keys = options_string(options, "keys");
    static const char *const transports[] = {"auto", "local", "shm", "tcp"};
    config->kv_transport = transports[options_choice(options, "kv-transport")];
    config->kv_blocks = (uint32_t)options_uint(options, "kv-blocks");
    config->chunk_tokens = (uint32_t)options_uint(options, "chunk-tokens");
    config->max_batch = (uint32_t)options_uint(options, "max-batch");
    config->context = (uint32_t)options_uint(options, "context");
    config->threads = (uint32_t)options_uint(options, "threads");
    config->step_us = (uint32_t)options_uint(options, "step-us");
    config->drain_ns = options_duration_ns(options, "drain");
    config->log_level = (enum log_level)options_choice(options, "log-level");
    config->dry_run = options_bool(options, "dry-run");
    config->json = options_bool(options, "json");
    config->device = options_string(options, "device");
}

enum status config_read(struct config *config, int argc, char **argv, struct buf *errors) {
    memset(config, 0, sizeof *config);
    TRY(options_new(&program, argc, argv, &config->options, errors));
    fill(config);
    unsigned n_routers = options_list_count(config->options, "routers");
    if (n_routers > LINKS_ROUTERS_MAX)
        options_complain(config->options, "routers", "are more than 64", errors);
    for (unsigned i = 0; i < n_routers && i < LINKS_ROUTERS_MAX; i++)
        config->routers[config->n_routers++] = options_list_at(config->options, "routers", i);
    check(config, errors);
    return errors->n > 0 ? STATUS_INVALID : STATUS_OK;
}

void config_fini(struct config *config) {
    options_free(config->options);
    memset(config, 0, sizeof *config);
}
