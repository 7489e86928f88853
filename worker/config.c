#include "worker/config.h"

#include "base/allocator.h"
#include "base/net/address.h"
#include "kernels/kernels.h"
#include "proto/bus.h"
#include "worker/links/links.h"
#include "worker/links/names.h"
#include "worker/ranks/rank_wire.h"
#include "worker/transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of the table, each once: its rows lie together. */
static const char *worker_config_backend_word(unsigned at) {
    for (size_t i = 0; kernels_table[i]; i++)
        if ((i == 0 || strcmp(kernels_table[i]->name, kernels_table[i - 1]->name) != 0) &&
            at-- == 0)
            return kernels_table[i]->name;
    return NULL;
}

static const char *worker_config_transport_word(unsigned at) {
    return transport_table[at] ? transport_table[at]->name : NULL;
}

#define AT(field) offsetof(struct config, field)

/* name, type, field, default, sections, what --help calls the value, help. */
static const struct option_spec table[] = {
    {"name", OPTION_STRING, AT(name), NULL, NULL, "NAME",
     .help = "this worker's name in its cluster; picks [worker.NAME] of the file"},
    {"role", OPTION_CHOICE, AT(role), "mixed", "worker", NULL,
     .help = "what the worker is preferred for; every worker can prefill and decode",
     .words = worker_role_name},
    {"model", OPTION_STRING, AT(model), NULL, "cluster worker", "PATH",
     .help = "a .gguf file, a folder with config.json, safetensors and a tokenizer, ORG/NAME or a "
             "folder of a hub's cache, or \"hash\" for the oracle that needs none; the same for "
             "routers and workers"},
    {"load-format", OPTION_CHOICE, AT(dummy), "auto", "cluster worker", NULL,
     .help = "dummy: a folder's config.json is enough; weights are pseudo-random",
     .choices = "auto dummy"},
    {"routers", OPTION_LIST, AT(routers), NULL, "worker", "ENDPOINT",
     .help = "announce endpoints of the routers to serve (ipc://, tcp:// or dns://NAME:PORT: every "
             "address of the name, resolved again every 2 s)",
     .max = LINKS_ROUTERS_MAX},
    {"dns-server", OPTION_STRING, AT(dns_server), NULL, "worker", "ADDRESS",
     .help = "DNS servers, IP or IP:PORT, several with commas; default: those of /etc/resolv.conf"},
    {"endpoint", OPTION_STRING, AT(endpoint), NULL, "worker", "ENDPOINT",
     .help = "where routers connect to (ipc://FOLDER/NAME, tcp://ADDRESS:PORT or "
             "tcp://INTERFACE:PORT)"},
    {"kv-endpoint", OPTION_STRING, AT(kv_endpoint), NULL, "worker", "ENDPOINT",
     .help =
         "where prefill workers connect to; default: next to the endpoint (ipc), any port (tcp)"},
    {"keys", OPTION_STRING, AT(keys), NULL, "cluster", "DIR",
     .help = "the cluster's CURVE keys; needed beyond this host"},
    {"backend", OPTION_WORD, AT(backend), "cpu", "worker", "NAME", .help = "what computes",
     .words = worker_config_backend_word},
    {"numerics", OPTION_WORD, AT(numerics), "auto", "worker", NULL,
     .help = "exact: the bits of a CPU worker, so that they can continue each other's streams; "
             "fast: the GPU's fastest kernels; auto: fast if the backend has it",
     .choices = "auto exact fast"},
    {"devices", OPTION_UINT, AT(devices), "0", "worker", "N",
     .help = "ordinal of the GPU that the backend computes on; of several ranks, the first one's",
     .max = 63},
    {"gpu-memory", OPTION_STRING, AT(gpu_memory), "0.9", "worker", "SHARE",
     .help = "part of the GPU's free memory that is used, above 0 and at most 1"},
    {"cuda-graphs", OPTION_BOOL, AT(cuda_graphs), "yes", "worker", NULL,
     .help = "on a GPU, steps that decode are launched as one graph instead of kernel by kernel"},
    {"steps-ahead", OPTION_BOOL, AT(steps_ahead), "yes", "worker", NULL,
     .help = "on a GPU, with one rank, a decode step begins before the results of the previous one "
             "are read, if the batch is the same"},
    {"tp", OPTION_UINT, AT(tp), "1", "worker", "N",
     .help = "tensor-parallel size: how many ranks share the model", .min = 1,
     .max = COMM_RANKS_MAX},
    {"sums", OPTION_CHOICE, AT(sums), "auto", "worker", NULL,
     .help = "how sums over the ranks are computed: device: by the GPUs, which must reach each "
             "other's memory; nccl: by the GPUs, from what NCCL gathers; host: by the host; auto: "
             "the first of these that works",
     .choices = "auto device nccl host"},
    {"ranks-here", OPTION_UINT, AT(ranks_here), "0", "worker", "N",
     .help = "ranks that this process holds; 0: all; for a follower, all that are left",
     .max = COMM_RANKS_MAX},
    {"rank-listen", OPTION_STRING, AT(rank_listen), NULL, "worker", "ADDRESS",
     .help = "where the processes with the other ranks connect to (ipc://PATH)"},
    {"follow", OPTION_STRING, AT(follow), NULL, "worker", "ADDRESS",
     .help = "only hold ranks of the worker that listens at this address (its --rank-listen)"},
    {"kv-dtype", OPTION_WORD, AT(kv_dtype), "auto", "worker", NULL,
     .help = "number format of the KV cache; auto: f32 if all matrices are f32, else f16",
     .choices = "auto f16 f32"},
    {"threads", OPTION_UINT, AT(threads), "0", "worker", "N",
     .help = "threads that compute; 0: one per core this process may use", .max = 1024},
    {"kv-blocks", OPTION_UINT, AT(kv_blocks), "0", "worker", "N",
     .help =
         "KV blocks of 16 tokens; 0: 65536 tokens, within a quarter of the free memory; on a GPU "
         "all that fit",
     .max = 1u << 26},
    {"chunk-tokens", OPTION_UINT, AT(chunk_tokens), "0", "worker", "N",
     .help =
         "tokens per step (0: 512); fewer prompt tokens if a step would take longer than 120 ms",
     .max = 65536},
    {"max-batch", OPTION_UINT, AT(max_batch), "0", "worker", "N",
     .help = "sequences of a step; 0: one for each 256 tokens of KV, 64 to 256", .max = 1024},
    {"context", OPTION_UINT, AT(context), "0", "worker", "N",
     .help = "tokens of a sequence, at most; 0: the model's", .max = 1u << 24},
    {"kv-transport", OPTION_WORD, AT(kv_transport), "auto", "worker", NULL,
     .help = "how KV is sent to decode workers; auto: by their host", .choices = "auto",
     .words = worker_config_transport_word},
    {"step-us", OPTION_UINT, AT(step_us), "0", "worker", "N",
     .help = "hash only: how long a step lasts, asleep", .max = 10000000},
    {"admin", OPTION_STRING, AT(admin), NULL, "worker", "ADDRESS",
     .help = "HOST:PORT for /metrics, /livez and /readyz; default: none"},
    {"drain", OPTION_DURATION, AT(drain_ns), "30s", "worker", NULL,
     .help = "how long running answers may take after SIGTERM"},
    {"log-level", OPTION_CHOICE, AT(log_level), "info", "cluster worker", NULL,
     .help = "lines of lower levels are dropped", .words = log_level_word},
    {"dry-run", OPTION_BOOL, AT(dry_run), NULL, NULL, NULL,
     .help = "print the memory plan (of the largest rank) and end"},
    {"json", OPTION_BOOL, AT(json), NULL, NULL, NULL,
     .help = "of --dry-run: as JSON, alone on the output"},
    {"device", OPTION_STRING, AT(device), NULL, NULL, "NAME",
     .help = "of --dry-run: a100-40, a100-80, l20, h100, h200 (with the times of steps there) or "
             "bytes; default: this host"},
};

const struct options_program config_program = {
    .name = "tandem-worker",
    .doc = "Runs a model's sequences for Tandem routers: prefill, decode, or both.",
    .table = table,
    .n_options = sizeof table / sizeof *table,
    .section = "worker",
    .instance = "name",
    .build = allocator_name,
};

static void worker_config_check_address(struct buf *errors, const struct options *options,
                                        const char *name, const char *address) {
    struct error error;
    const char *path;
    if (rank_wire_path(address, &path, &error) != STATUS_OK)
        options_complain(options, name, error.text, errors);
}

/* The unit of a worker that the file does not know was started. */
static void worker_config_miss_section(const struct config *config, struct buf *errors) {
    char words[160];
    snprintf(words, sizeof words,
             "the file has no section [worker.%.63s], and there is no endpoint", config->name);
    options_complain(config->options, "name", words, errors);
}

static void worker_config_check_ranks(const struct config *config, struct buf *errors) {
    const struct options *options = config->options;
    if (config->ranks_here > config->tp)
        options_complain(options, "ranks-here", "are more than the ranks (--tp)", errors);
    bool others = config->ranks_here > 0 && config->ranks_here < config->tp;
    if (others && !config->rank_listen[0] && !config->dry_run)
        options_complain(options, "rank-listen",
                         "is needed: where the processes with the other ranks connect to", errors);
    if (config->rank_listen[0] && !others)
        options_complain(options, "rank-listen",
                         "is for workers that hold fewer ranks (--ranks-here) than --tp has",
                         errors);
    if (config->rank_listen[0])
        worker_config_check_address(errors, options, "rank-listen", config->rank_listen);
}

/* The backend's row for the numerics that are wanted. */
static void worker_config_find_kernels(struct config *config, struct buf *errors) {
    bool is_auto = strcmp(config->numerics, "auto") == 0;
    snprintf(config->kernels, sizeof config->kernels, "%s%s%s", config->backend, is_auto ? "" : ":",
             is_auto ? "" : config->numerics);
    if (!kernels_find(config->kernels)) {
        char why[96];
        snprintf(why, sizeof why, "the backend %s has no %s numerics", config->backend,
                 config->numerics);
        options_complain(config->options, "numerics", why, errors);
    }
}

/* What is for devices, where the backend computes on one. */
static void worker_config_check_device(struct config *config, struct buf *errors) {
    char *end;
    config->memory_share = strtod(config->gpu_memory, &end);
    if (end == config->gpu_memory || *end || !(config->memory_share > 0) ||
        config->memory_share > 1)
        options_complain(config->options, "gpu-memory", "must be above 0 and at most 1", errors);
    if (config->devices > 0 && !config->follow[0] && kernels_on_host(kernels_find(config->backend)))
        options_complain(config->options, "devices",
                         "is for backends that compute on a GPU (--backend)", errors);
}

/* What could never be connected to, a wait for ever. */
static void worker_config_check_router(const struct config *config, const char *endpoint,
                                       struct buf *errors) {
    struct error error;
    enum status status = names_is_one(endpoint) ? names_check(endpoint, &error)
                                                : bus_check(endpoint, config->keys[0] != 0, &error);
    if (status != STATUS_OK)
        options_complain(config->options, "routers", error.text, errors);
}

static void worker_config_check_all(const struct config *config, struct buf *errors) {
    const struct options *options = config->options;
    if (!config->model[0])
        options_complain(options, "model", "is needed: a .gguf file, a model folder, or \"hash\"",
                         errors);
    if (config->name[0] && message_name_fault(config->name))
        options_complain(options, "name", message_name_fault(config->name), errors);
    if (config->follow[0]) {
        worker_config_check_address(errors, options, "follow", config->follow);
        if (config->dry_run)
            options_complain(options, "dry-run",
                             "is for the leader: a follower has no plan of its own", errors);
        return; /* the leader has all else */
    }
    if (config->context == 1)
        options_complain(options, "context",
                         "1 token is too few: it must be at least 2 (0: the model's)", errors);
    worker_config_check_ranks(config, errors);
    if (config->dry_run)
        return;
    if (!config->name[0])
        options_complain(options, "name", "is needed", errors);
    if (!config->endpoint[0] && config->name[0] && options_lack_instance(options))
        worker_config_miss_section(config, errors);
    else if (!config->endpoint[0])
        options_complain(options, "endpoint", "is needed: where routers connect to", errors);
    if (config->endpoint[0] && !config->kv_endpoint[0])
        options_complain(options, "endpoint", "is neither ipc://FOLDER/NAME nor tcp://HOST:PORT",
                         errors);
    if (config->routers.n == 0)
        options_complain(options, "routers", "is needed: at least one announce endpoint", errors);
    for (unsigned i = 0; i < config->routers.n; i++)
        worker_config_check_router(config, config->routers.all[i], errors);
}

/* The endpoint with "-kv" behind it, or any other port of the same address. Routers and workers are
 * told, so it need not be known beforehand. Answers "" where the endpoint is neither. */
static const char *worker_config_kv_endpoint_beside(struct config *config, const char *endpoint) {
    char *text = config->kv_endpoint_text;
    size_t size = sizeof config->kv_endpoint_text;
    struct address at;
    char pair[ADDRESS_TEXT_MAX];
    text[0] = '\0';
    if (strncmp(endpoint, "ipc://", 6) == 0)
        snprintf(text, size, "%s-kv", endpoint);
    else if (strncmp(endpoint, "tcp://", 6) == 0 && address_split(endpoint + 6, &at) && at.host[0])
        snprintf(text, size, "tcp://%s", address_join(at.host, "0", pair));
    return text;
}

enum status config_read(struct config *config, int argc, char **argv, struct buf *errors) {
    memset(config, 0, sizeof *config);
    TRY(options_new(&config_program, argc, argv, config, &config->options, errors));
    if (!config->kv_endpoint[0])
        config->kv_endpoint = worker_config_kv_endpoint_beside(config, config->endpoint);
    worker_config_find_kernels(config, errors);
    worker_config_check_device(config, errors);
    worker_config_check_all(config, errors);
    return errors->n > 0 ? STATUS_INVALID : STATUS_OK;
}

void config_fini(struct config *config) {
    options_free(config->options);
    memset(config, 0, sizeof *config);
}
