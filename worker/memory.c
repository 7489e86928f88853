#include "worker/memory.h"

#include "base/buf.h"
#include "base/memory.h"
#include "model/model.h"
#include "worker/config.h"
#include "worker/device/device.h"
#include "worker/step/forward.h"
#include "worker/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_DEFAULT       65536u /* of the KV cache */
#define CHUNK_TOKENS_DEFAULT 512u
#define BATCH_LEAST          64u        /* sequences of a step by default, where KV is short */
#define BATCH_MOST           256u       /* and where there is room for all of them: */
#define BATCH_TOKENS         256u       /* KV tokens for each */
#define PLAN_TOKENS          2048u      /* a plan fits when this many tokens of KV do */
#define BLOCKS_MAX           (1u << 26) /* as --kv-blocks */
#define MIB                  (1ull << 20)

static uint32_t min_of(uint64_t a, uint32_t b) {
    return a < b ? (uint32_t)a : b;
}

/* Chunks hold the whole model's heads, at any tensor-parallel size. */
static void worker_memory_set_chunks(struct worker_sizes *sizes, const struct family_facts *facts) {
    uint32_t block_bytes = (uint32_t)forward_block_bytes(facts);
    /* About 256 tokens of a group of layers in one chunk, so that a prompt's groups overlap with
     * the computing of the next. */
    sizes->layer_groups = facts->n_layers < 4 ? facts->n_layers : 4;
    uint32_t n_layers = (facts->n_layers + sizes->layer_groups - 1) / sizes->layer_groups;
    uint64_t wanted = (uint64_t)n_layers * block_bytes * 16;
    uint32_t most = block_bytes > MIB ? block_bytes : (uint32_t)MIB;
    sizes->chunk_bytes = wanted < 65536 ? 65536 : min_of(wanted, most);
}

/* Of the devices that the ranks are on, the least that one has free. */
static enum status worker_memory_least_free(const struct config *config,
                                            const struct kernels *kernels, uint64_t *n_bytes,
                                            struct error *error) {
    *n_bytes = UINT64_MAX;
    for (uint32_t rank = 0; rank < config->tp; rank++) {
        uint64_t n_free;
        TRY(kernels->free_bytes(config->devices + rank, &n_free, error));
        *n_bytes = n_free < *n_bytes ? n_free : *n_bytes;
    }
    return STATUS_OK;
}

static bool worker_memory_is_on_device(const struct config *config, const struct model *model) {
    const struct kernels *kernels = kernels_find(config->kernels);
    bool hash = strcmp(model->config.family, "hash") == 0;
    return !hash && kernels && !kernels_on_host(kernels);
}

/* What this worker may take of: of its devices the least that one has free, else what the host has left. */
static enum status worker_memory_look(const struct config *config, const struct model *model,
                                      uint64_t *n_bytes, struct error *error) {
    if (worker_memory_is_on_device(config, model))
        return worker_memory_least_free(config, kernels_find(config->kernels), n_bytes, error);
    *n_bytes = memory_available();
    return STATUS_OK;
}

/* KV blocks by default: on a device all that its free memory has room for, beside weights and
 * activations; on the host what a program that is not alone there may take. A plan for another device
 * is not of this one's. */
static enum status worker_memory_default_blocks(const struct config *config,
                                                const struct model *model,
                                                const struct forward_bytes *bytes,
                                                struct worker_sizes *sizes, struct error *error) {
    const uint32_t least = PLAN_TOKENS / KV_BLOCK_TOKENS;
    uint64_t fixed = (uint64_t)bytes->weights + bytes->scratch;
    if (!worker_memory_is_on_device(config, model) || config->device[0]) {
        sizes->available_bytes = memory_available();
        uint64_t fits = sizes->available_bytes / 4 / bytes->kv_per_token_here / KV_BLOCK_TOKENS;
        sizes->n_blocks = min_of(fits, TOKENS_DEFAULT / KV_BLOCK_TOKENS);
        sizes->n_blocks = sizes->n_blocks < least ? least : sizes->n_blocks;
        return STATUS_OK;
    }
    TRY(worker_memory_look(config, model, &sizes->available_bytes, error));
    uint64_t room = (uint64_t)((double)sizes->available_bytes * config->memory_share);
    uint64_t fits = room > fixed ? (room - fixed) / bytes->kv_per_token / KV_BLOCK_TOKENS : 0;
    if (fits < least)
        return error_field(error, STATUS_NOMEM, "gpu-memory",
                           "weights and activations take %" PRIu64 " of the %" PRIu64 " bytes"
                           " of %s%u%s: that leaves no room for %u tokens of KV",
                           fixed, room, config->tp > 1 ? "each device from " : "device ",
                           config->devices, config->tp > 1 ? " on" : "", PLAN_TOKENS);
    sizes->n_blocks = min_of(fits, BLOCKS_MAX);
    return STATUS_OK;
}

/* How many sequences are computed together by default: as many as KV has room for. */
static uint32_t worker_memory_default_batch(uint32_t n_blocks) {
    uint64_t n_rows = (uint64_t)n_blocks * KV_BLOCK_TOKENS / BATCH_TOKENS;
    return n_rows < BATCH_LEAST ? BATCH_LEAST : min_of(n_rows, BATCH_MOST);
}

/* The plan for steps of n_rows sequences, up to its KV blocks. */
static enum status worker_memory_sizes_for_batch(const struct config *config,
                                                 const struct model *model, uint32_t n_rows,
                                                 struct worker_sizes *sizes,
                                                 struct forward_bytes *bytes, struct error *error) {
    struct worker_sizes found = {
        .chunk_tokens = config->chunk_tokens, .max_batch = n_rows, .n_blocks = config->kv_blocks};
    if (found.chunk_tokens == 0)
        found.chunk_tokens = n_rows > CHUNK_TOKENS_DEFAULT ? n_rows : CHUNK_TOKENS_DEFAULT;
    struct rank_options options = {.model = model,
                                   .backend = config->kernels,
                                   .max_tokens =
                                       found.chunk_tokens > n_rows ? found.chunk_tokens : n_rows,
                                   .max_seqs = n_rows,
                                   .context_max = config->context,
                                   .n_ranks = config->tp,
                                   .n_here = config->ranks_here,
                                   .kv_format = forward_kv_format(model, config->kv_dtype)};
    TRY(forward_measure(&options, bytes, error));
    if (forward_block_bytes(&bytes->facts) > MESSAGE_CHUNK_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s: a KV block of one layer is over %u bytes",
                         model->config.name, MESSAGE_CHUNK_MAX);
    if (found.n_blocks == 0)
        TRY(worker_memory_default_blocks(config, model, bytes, &found, error));
    *sizes = found;
    return STATUS_OK;
}

enum status memory_sizes(const struct config *config, const struct model *model,
                         struct worker_sizes *sizes, struct forward_bytes *bytes,
                         struct error *error) {
    struct worker_sizes found;
    bool hash = strcmp(model->config.family, "hash") == 0;
    uint32_t n_rows = config->max_batch > 0 ? config->max_batch : hash ? BATCH_MOST : BATCH_LEAST;
    TRY(worker_memory_sizes_for_batch(config, model, n_rows, &found, bytes, error));
    n_rows = worker_memory_default_batch(found.n_blocks);
    if (config->max_batch == 0 && n_rows > found.max_batch) /* their scratch leaves fewer blocks */
        TRY(worker_memory_sizes_for_batch(config, model, n_rows, &found, bytes, error));
    found.context = min_of((uint64_t)found.n_blocks * KV_BLOCK_TOKENS, bytes->facts.context);
    found.max_seqs = min_of(4 * (uint64_t)found.max_batch, MESSAGE_ENTRIES_MAX);
    worker_memory_set_chunks(&found, &bytes->facts);
    *sizes = found;
    return STATUS_OK;
}

/* The bytes of the device that --device names; 0: none is named. */
static enum status worker_memory_planned_bytes(const struct config *config, uint64_t *n_bytes,
                                               struct error *error) {
    const struct device *known = device_find(config->device);
    const char *device = config->device;
    char *end;
    *n_bytes = known ? known->memory_bytes : strtoull(device, &end, 10);
    if (device[0] && !known && (device[0] < '0' || device[0] > '9' || *end))
        return error_field(error, STATUS_INVALID, "device",
                           "--device %s: not one of %s, nor a number of bytes", device,
                           device_names());
    return STATUS_OK;
}

bool memory_cuts(const struct config *config, const struct worker_sizes *sizes,
                 const struct forward_bytes *bytes, char *text, size_t size) {
    bool is_default = sizes->n_blocks == TOKENS_DEFAULT / KV_BLOCK_TOKENS;
    if (config->kv_blocks > 0 || is_default || sizes->context >= bytes->facts.context)
        return false;
    snprintf(text, size, "context=%u model=%u kv_bytes_per_token=%zu available_bytes=%" PRIu64,
             sizes->context, bytes->facts.context, bytes->kv_per_token_here,
             sizes->available_bytes);
    return true;
}

static double mib(uint64_t n_bytes) {
    return (double)n_bytes / (1u << 20);
}

bool memory_fits(const struct config *config, const struct forward_bytes *bytes, uint64_t n_bytes,
                 bool is_shared) {
    uint64_t room = (uint64_t)((double)n_bytes * config->memory_share);
    uint64_t fixed = (uint64_t)bytes->weights + bytes->scratch;
    uint64_t n_tokens =
        config->kv_blocks > 0 ? (uint64_t)config->kv_blocks * KV_BLOCK_TOKENS : PLAN_TOKENS;
    uint64_t n_here = config->ranks_here > 0 ? config->ranks_here : config->tp;
    if (is_shared)
        return n_here * fixed + n_tokens * bytes->kv_per_token_here <= room;
    return fixed + n_tokens * bytes->kv_per_token <= room;
}

/* The bytes that a plan is for: of the named device or of what is here. */
static enum status worker_memory_bytes_of_plan(const struct config *config,
                                               const struct model *model, uint64_t planned,
                                               struct worker_sizes *sizes, uint64_t *n_bytes,
                                               struct error *error) {
    if (sizes->available_bytes == 0 &&
        !config->device[0]) /* not asked for: --kv-blocks says how many */
        TRY(worker_memory_look(config, model, &sizes->available_bytes, error));
    *n_bytes = config->device[0] ? planned : sizes->available_bytes;
    return STATUS_OK;
}

enum status memory_print(const struct config *config, const struct model *model,
                         struct error *error) {
    struct worker_sizes sizes;
    struct forward_bytes bytes;
    uint64_t planned, n_bytes;
    struct buf times;
    TRY(worker_memory_planned_bytes(config, &planned, error));
    TRY(memory_sizes(config, model, &sizes, &bytes, error));
    TRY(worker_memory_bytes_of_plan(config, model, planned, &sizes, &n_bytes, error));
    bool is_on_host = !config->device[0] && !worker_memory_is_on_device(config, model);
    bool fits = memory_fits(config, &bytes, n_bytes, is_on_host);
    uint64_t room = (uint64_t)((double)n_bytes * config->memory_share);
    uint64_t fixed = (uint64_t)bytes.weights + bytes.scratch;
    uint64_t n_blocks = sizes.n_blocks;
    if (config->device[0] && config->kv_blocks == 0) /* a device is the worker's alone */
        n_blocks = room > fixed ? (room - fixed) / bytes.kv_per_token / KV_BLOCK_TOKENS : 0;
    uint64_t n_tokens = n_blocks * KV_BLOCK_TOKENS;
    buf_init(&times, 65536);
    times_append(&times, config, model, &bytes);
    if (config->json)
        printf("{\"weights_bytes\":%zu,\"kv_bytes_per_token\":%zu,\"scratch_bytes\":%zu,"
               "\"blocks\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"fits\":%s,"
               "\"available_bytes\":%" PRIu64 "%s}\n",
               bytes.weights, bytes.kv_per_token, bytes.scratch, n_blocks, n_tokens,
               fits ? "true" : "false", is_on_host ? n_bytes : memory_available(),
               times.n > 0 ? times.data : "");
    else
        printf("%sweights %.1f MiB, KV %.1f KiB per token, scratch %.1f MiB; %" PRIu64
               " blocks for %" PRIu64 " tokens (%.1f MiB); %s\n%s",
               config->tp > 1 ? "each rank: " : "", mib(bytes.weights),
               1024 * mib(bytes.kv_per_token), mib(bytes.scratch), n_blocks, n_tokens,
               (double)n_tokens * mib(bytes.kv_per_token), fits ? "fits" : "does not fit",
               times.n > 0 ? times.data : "");
    enum status status = buf_status(&times);
    buf_fini(&times);
    return status;
}
