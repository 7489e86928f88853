/* Ranks of one process open at once, each in its thread, from one model. Listing its tensors may
 * make some (dummies, GPTQ's orders), so families open one after the other, under model_lock; what
 * takes long, packing, only reads. */
#include "worker/ranks/rank.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/dump.h"
#include "base/exit.h"
#include "base/log/log.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "worker/family/shard.h"
#include "worker/ranks/staged.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER;

static void *rank_memory_take(const struct rank *rank, size_t n_bytes) {
    if (rank->kernels)
        return rank->kernels->alloc(rank->ctx, n_bytes);
    void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    dump_leave_out(memory, n_bytes);
    return memory;
}

static void rank_memory_give(const struct rank *rank, void *memory, size_t n_bytes) {
    if (!memory)
        return;
    if (rank->kernels)
        rank->kernels->dealloc(rank->ctx, memory, n_bytes);
    else
        munmap(memory, n_bytes);
}

/* The KV pool; one that another process maps too comes from a memfd. */
static void *rank_kv_take(struct rank *rank, bool shared) {
    if (!shared)
        return rank_memory_take(rank, rank->kv_bytes);
    rank->kv_fd = memfd_create("tandem-kv-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (rank->kv_fd < 0 || ftruncate(rank->kv_fd, (off_t)rank->kv_bytes) != 0 ||
        fcntl(rank->kv_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return NULL;
    void *memory = mmap(NULL, rank->kv_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rank->kv_fd, 0);
    if (memory == MAP_FAILED)
        return NULL;
    dump_leave_out(memory, rank->kv_bytes);
    return memory;
}

static void rank_kv_give(struct rank *rank) {
    if (rank->kv_fd < 0) {
        rank_memory_give(rank, rank->kv.base, rank->kv_bytes);
        return;
    }
    if (rank->kv.base)
        munmap(rank->kv.base, rank->kv_bytes);
    close(rank->kv_fd);
}

static enum status rank_open_family(const struct rank_options *options, struct family_model **model,
                                    struct error *error) {
    const struct model_config *config = &options->model->config;
    const struct family *family = family_find(config->family);
    if (!family)
        return error_set(error, STATUS_UNSUPPORTED, "%s: no model family \"%s\" here", config->name,
                         config->family);
    struct family_options family_options = {.model = options->model,
                                            .rank = options->rank,
                                            .n_ranks = options->n_ranks,
                                            .kv_format = options->kv_format,
                                            .max_tokens = options->max_tokens,
                                            .context_max = options->context_max,
                                            .step_us = options->step_us};
    pthread_mutex_lock(&model_lock);
    enum status status = family->network->open(family, &family_options, model, error);
    pthread_mutex_unlock(&model_lock);
    return status;
}

static enum status rank_find_kernels(const struct rank_options *options,
                                     const struct family_facts *facts,
                                     const struct kernels **kernels, struct error *error) {
    *kernels = NULL;
    if (facts->forced)
        return STATUS_OK;
    *kernels = kernels_find(options->backend);
    if (!*kernels)
        return error_field(error, STATUS_NOT_FOUND, "backend", "unknown backend \"%s\"",
                           options->backend);
    bool elsewhere =
        options->kv_shared || (options->n_here > 0 && options->n_here < options->n_ranks);
    if (elsewhere && !kernels_on_host(*kernels))
        return error_field(error, STATUS_UNSUPPORTED, "ranks-here",
                           "with the backend \"%s\" one process has all ranks, each on a device",
                           options->backend);
    return STATUS_OK;
}

static size_t rank_logits_bytes_of(const struct rank_options *options,
                                   const struct family_facts *facts) {
    return facts->forced || options->rank > 0
               ? 0
               : (size_t)options->max_seqs * facts->n_vocab * sizeof(float);
}

enum status rank_measure(const struct rank_options *options, struct rank_bytes *bytes,
                         struct error *error) {
    const struct kernels *kernels;
    struct family_model *model;
    struct rank_bytes result = {0};
    TRY(rank_open_family(options, &model, error));
    enum status status = rank_find_kernels(options, &model->facts, &kernels, error);
    if (status == STATUS_OK && kernels)
        status = weights_measure(&model->slots, kernels, &result.weights, error);
    if (status == STATUS_OK) {
        result.facts = model->facts;
        result.scratch = model->family->network->scratch_bytes(model, kernels, options->max_tokens,
                                                               options->max_seqs) +
                         rank_logits_bytes_of(options, &model->facts);
        result.kv_per_token =
            (size_t)model->facts.n_layers * model->facts.block_bytes / KV_BLOCK_TOKENS;
        *bytes = result;
    }
    family_close(model);
    return status;
}

/* Of the logits: the first rank has as many as any other. */
static uint32_t rank_columns_of(const struct rank_options *options) {
    struct shard first;
    struct error none;
    return shard_of(&options->model->config, 0, options->n_ranks, &first, &none) == STATUS_OK
               ? first.vocab.n
               : 0;
}

static enum status rank_open_kernels(struct rank *rank, const struct rank_options *options,
                                     struct error *error) {
    const struct family_facts *facts = &rank->model->facts;
    TRY(rank_find_kernels(options, facts, &rank->kernels, error));
    if (!rank->kernels)
        return STATUS_OK;
    struct kernels_options kernels_options = {
        .n_threads = options->n_threads,
        .isa = options->isa,
        .device = options->device + options->rank,
        .no_graphs = options->no_graphs,
        .n_ranks = options->n_ranks,
        .together = (size_t)options->max_tokens * facts->dim,
        .columns = rank_columns_of(options),
        .limits = {.max_tokens = options->max_tokens,
                   .max_seqs = options->max_seqs,
                   .max_context = facts->context,
                   .max_dim = facts->max_dim,
                   .n_vocab = facts->n_vocab,
                   .n_heads = facts->n_heads,
                   .n_kv_heads = facts->n_kv_heads,
                   .head_dim = facts->head_dim,
                   .kv_format = facts->kv_format},
    };
    enum status status = rank->kernels->open(&kernels_options, &rank->ctx, error);
    if (status != STATUS_OK)
        rank->kernels = NULL; /* there is no context to close */
    return status;
}

static enum status rank_take_memory(struct rank *rank, const struct rank_options *options,
                                    struct error *error) {
    const struct family_model *model = rank->model;
    const struct family_facts *facts = &model->facts;
    uint64_t kv_bytes;
    rank->kv = (struct family_kv){.layer_bytes = (size_t)options->n_blocks * facts->block_bytes,
                                  .block_bytes = facts->block_bytes,
                                  .n_layers = facts->n_layers,
                                  .n_blocks = options->n_blocks};
    if (!checked_mul(rank->kv.layer_bytes, facts->n_layers, &kv_bytes) || kv_bytes > SIZE_MAX / 2)
        return error_field(error, STATUS_LIMIT, "kv-blocks",
                           "%u KV blocks are more than memory can be", options->n_blocks);
    rank->kv_bytes = (size_t)kv_bytes;
    rank->kv.base = rank_kv_take(rank, options->kv_shared);
    rank->scratch_bytes = model->family->network->scratch_bytes(
        model, rank->kernels, options->max_tokens, options->max_seqs);
    rank->scratch = rank_memory_take(rank, rank->scratch_bytes);
    rank->logits_bytes = rank_logits_bytes_of(options, facts);
    if (facts->forced)
        rank->forced = calloc(options->max_seqs, sizeof *rank->forced);
    else if (rank->logits_bytes > 0)
        rank->logits = rank_memory_take(rank, rank->logits_bytes);
    bool results = rank->logits || rank->forced || options->rank > 0;
    if (!rank->kv.base || !rank->scratch || !results)
        return error_set(error, STATUS_NOMEM,
                         "no memory for %zu bytes of KV cache and %zu of activations",
                         rank->kv_bytes, rank->scratch_bytes + rank->logits_bytes);
    return STATUS_OK;
}

/* The most that ranks tell each other at once: activations, or logits. */
static size_t rank_floats_of(const struct rank_options *options, const struct family_facts *facts) {
    size_t n_activations = (size_t)options->max_tokens * facts->dim;
    size_t n_logits = (size_t)options->max_seqs * facts->n_vocab;
    return n_activations > n_logits ? n_activations : n_logits;
}

static enum status rank_open_all(struct rank *rank, const struct rank_options *options,
                                 struct error *error) {
    TRY(rank_open_family(options, &rank->model, error));
    TRY(rank_open_kernels(rank, options, error));
    /* Packing reads every byte of the files: the last look at their sizes. */
    TRY(model_check_files(options->model, error));
    if (rank->kernels)
        TRY(weights_load(&rank->weights, &rank->model->slots, rank->kernels, rank->ctx, error));
    TRY(rank_take_memory(rank, options, error));
    struct comm *comm = options->comm;
    if (comm && rank->kernels && !kernels_on_host(rank->kernels)) {
        TRY(comm_staged_open(comm, rank->kernels, rank->ctx,
                             rank_floats_of(options, &rank->model->facts), &rank->staged, error));
        comm = rank->staged;
    }
    return rank->model->family->network->prepare(rank->model, rank->kernels, rank->ctx, comm,
                                                 error);
}

enum status rank_open(struct rank *rank, const struct rank_options *options, struct error *error) {
    ASSERT(options->max_tokens > 0 && options->max_seqs > 0 && options->n_blocks > 0);
    ASSERT(options->rank < options->n_ranks);
    *rank = (struct rank){.kv_fd = -1,
                          .max_tokens = options->max_tokens,
                          .max_seqs = options->max_seqs,
                          .n_ranks = options->n_ranks};
    enum status status = rank_open_all(rank, options, error);
    if (status != STATUS_OK)
        rank_close(rank);
    return status;
}

void rank_close(struct rank *rank) {
    if (!rank->model)
        return; /* nothing else is there without it */
    rank_kv_give(rank);
    rank_memory_give(rank, rank->scratch, rank->scratch_bytes);
    rank_memory_give(rank, rank->logits, rank->logits_bytes);
    free(rank->forced);
    weights_fini(&rank->weights);
    family_close(rank->model);
    comm_close(rank->staged);
    if (rank->kernels)
        rank->kernels->close(rank->ctx);
    memset(rank, 0, sizeof *rank);
}

bool rank_marks(const struct rank *rank) {
    return rank->kernels && rank->kernels->mark;
}

static void rank_mark_layers(void *context, uint32_t layer_begin, uint32_t layer_end) {
    const struct rank *rank = context;
    (void)layer_begin;
    rank->kernels->mark(rank->ctx, layer_end);
}

void rank_run(struct rank *rank, const struct kernels_batch *batch, const uint32_t *rows,
              uint32_t n_rows,
              void (*layers_done)(void *context, uint32_t layer_begin, uint32_t layer_end),
              void *context) {
    struct kernels_step begun = {.batch = *batch, .rows = rows, .n_rows = n_rows};
    bool marks = layers_done && rank_marks(rank);
    ASSERT(batch->n_tokens <= rank->max_tokens);
    ASSERT(n_rows <= rank->max_seqs);
    if (rank->kernels)
        rank->kernels->step_begin(rank->ctx, &begun);
    ASSERT(begun.batch.n_tokens <= rank->max_tokens && begun.n_rows <= rank->max_seqs);
    struct family_step step = {
        .batch = &begun.batch,
        .kv = &rank->kv,
        .rows = begun.rows,
        .n_rows = begun.n_rows,
        .logits = rank->logits,
        .forced = rank->forced,
        .scratch = rank->scratch,
        .layers_done = marks ? rank_mark_layers : layers_done,
        .context = marks ? rank : context,
    };
    rank->model->family->network->forward(rank->model, &step);
}

void rank_end(const struct rank *rank) {
    rank_check(rank, rank->kernels ? rank->kernels->step_end(rank->ctx) : STATUS_OK);
}

void rank_check(const struct rank *rank, enum status status) {
    const struct kernels *kernels = rank->kernels;
    char text[ERROR_TEXT_MAX];
    if (status == STATUS_OK)
        return;
    const char *why = kernels->failure ? kernels->failure(rank->ctx) : NULL;
    log_error("the device failed: the worker ends", "backend=%s why=%s", kernels->name,
              log_text(text, sizeof text, why ? why : status_name(status)));
    exit_now(EXIT_FAILURE);
}

struct transport_rank rank_kv_of(const struct rank *rank) {
    const struct family_facts *facts = &rank->model->facts;
    return (struct transport_rank){.base = rank->kv.base,
                                   .ctx = rank->ctx,
                                   .layer_bytes = rank->kv.layer_bytes,
                                   .block_bytes = facts->block_bytes,
                                   .head_begin = facts->kv_head_begin,
                                   .n_heads = facts->n_kv_heads};
}

void rank_numerics(const struct rank *rank, char *text, size_t size) {
    const char *kernels = rank->kernels ? rank->kernels->numerics(rank->ctx) : "no arithmetic";
    snprintf(text, size, "%s; %s%s", kernels, rank->model->numerics,
             rank->n_ranks > 1 ? "; " COMM_NUMERICS : "");
}
