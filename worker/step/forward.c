#include "worker/step/forward.h"

#include "base/assert.h"
#include "base/exit.h"
#include "base/log/log.h"
#include "model/model.h"
#include "model/weights/checkpoint/checkpoint.h"
#include "worker/family/shard.h"
#include "worker/ranks/meeting.h"
#include "worker/ranks/staged.h"
#include "worker/step/batch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 20000 /* marks are asked for this often */

static uint32_t forward_n_here_of(const struct rank_options *options) {
    return options->n_here > 0 ? options->n_here : options->n_ranks;
}

static struct rank_options forward_options_of_rank(const struct rank_options *options,
                                                   uint32_t rank) {
    struct rank_options own = *options;
    own.rank = rank;
    own.n_ranks = own.n_ranks > 0 ? own.n_ranks : 1;
    if (own.n_ranks > 1)
        own.n_threads = group_threads_each(own.n_threads, forward_n_here_of(options), own.n_ranks);
    return own;
}

static size_t max_of(size_t a, size_t b) {
    return a > b ? a : b;
}

enum status forward_measure(const struct rank_options *options, struct forward_bytes *bytes,
                            struct error *error) {
    struct forward_bytes sum = {0};
    uint32_t n_ranks = options->n_ranks > 0 ? options->n_ranks : 1;
    if (n_ranks > COMM_RANKS_MAX)
        return error_field(error, STATUS_UNSUPPORTED, "tp", "%u ranks are more than %u", n_ranks,
                           COMM_RANKS_MAX);
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        struct rank_options own = forward_options_of_rank(options, rank);
        struct rank_bytes one;
        TRY(rank_measure(&own, &one, error));
        sum.weights = max_of(sum.weights, one.weights);
        sum.scratch = max_of(sum.scratch, one.scratch);
        sum.kv_per_token = max_of(sum.kv_per_token, one.kv_per_token);
        if (rank == 0 || rank < forward_n_here_of(options))
            sum.kv_per_token_here += one.kv_per_token;
        if (rank == 0)
            sum.facts = one.facts;
    }
    *bytes = sum;
    return STATUS_OK;
}

static struct group_sizes forward_group_sizes_of(const struct rank_options *options,
                                                 const struct family_facts *facts) {
    uint32_t n_blocks = facts->context / KV_BLOCK_TOKENS + (facts->context % KV_BLOCK_TOKENS != 0);
    return (struct group_sizes){.board = {.n_ranks = options->n_ranks,
                                          .max_tokens = options->max_tokens,
                                          .max_seqs = options->max_seqs,
                                          .max_blocks = n_blocks},
                                .n_floats = (uint64_t)options->max_tokens * facts->dim};
}

/* The other processes, if some ranks are not held here. */
static enum status forward_gather(struct forward *forward, const struct rank_options *options,
                                  const struct group_sizes *sizes, uint32_t n_here,
                                  struct error *error) {
    struct leader_options leader = {.address = options->rank_listen,
                                    .terms = {.rank_begin = n_here,
                                              .n_ranks = options->n_ranks,
                                              .context_max = options->context_max,
                                              .n_blocks = options->n_blocks,
                                              .kv_format = options->kv_format,
                                              .sizes = *sizes},
                                    .model_fp = options->model->config.fingerprint,
                                    .memory = &forward->memory};
    ASSERT(options->rank_listen && strlen(options->backend) < sizeof leader.terms.backend);
    strcpy(leader.terms.backend, options->backend);
    return leader_gather(&forward->leader, &leader, error);
}

static enum status forward_open_ranks(struct forward *forward, const struct rank_options *options,
                                      uint32_t n_here, struct error *error) {
    struct rank_options own = forward_options_of_rank(options, 0),
                        others = forward_options_of_rank(options, 1);
    TRY(comm_kind_of_host()->open(forward->memory.collectives, forward->memory.n_collectives, 0,
                                  &forward->comm, error));
    own.comm = forward->comm;
    TRY(rank_threads_start(&forward->others, &others, n_here - 1, &forward->memory, error));
    enum status status = rank_open(&forward->rank, &own, error);
    struct error other;
    enum status other_status = rank_threads_wait(&forward->others, &other);
    if (status != STATUS_OK)
        return status;
    if (other_status != STATUS_OK)
        *error = other;
    return other_status;
}

/* What followers said of their pools has to be what their share of the model makes. */
static enum status forward_check_pools(const struct forward *forward,
                                       const struct rank_options *options, uint32_t n_here,
                                       struct error *error) {
    const struct family_facts *facts = &forward->rank.model->facts;
    uint64_t head_bytes = forward_block_bytes(facts) / facts->n_kv_heads_all;
    for (uint32_t rank = n_here; rank < options->n_ranks; rank++) {
        const struct transport_rank *kv = &forward->kv_of_ranks[rank];
        struct shard shard;
        TRY(shard_of(&options->model->config, rank, options->n_ranks, &shard, error));
        if (kv->head_begin != shard.kv_heads.begin || kv->n_heads != shard.kv_heads.n ||
            kv->block_bytes != kv->n_heads * head_bytes ||
            kv->layer_bytes != (uint64_t)kv->block_bytes * options->n_blocks ||
            forward->leader.pools[rank].n_bytes != kv->layer_bytes * facts->n_layers)
            return error_set(error, STATUS_CORRUPT, "rank %u of %u: its KV pool has another shape",
                             rank, options->n_ranks);
    }
    return STATUS_OK;
}

static const struct rank *forward_rank_here(const struct forward *forward, uint32_t rank) {
    return rank == 0 ? &forward->rank : &forward->others.threads[rank - 1].rank;
}

/* Where devices may add up and can, they do from then on, in the way *how; else `why` says what keeps them from it. */
static enum status forward_let_devices_add(struct forward *forward,
                                           const struct rank_options *options, uint32_t n_here,
                                           enum sums *how, struct error *why) {
    const struct kernels *kernels = forward->rank.kernels;
    struct meeting meeting = {
        .kernels = kernels, .n_ranks = options->n_ranks, .sums = options->sums};
    if (!kernels || kernels_on_host(kernels))
        return error_set(why, STATUS_UNSUPPORTED, "the ranks compute on the host");
    if (options->sums == SUMS_HOST)
        return error_set(why, STATUS_UNSUPPORTED, "requested by --sums");
    if (n_here < options->n_ranks)
        return error_set(why, STATUS_UNSUPPORTED, "some ranks are in other processes");
    if (!kernels->meet)
        return error_set(why, STATUS_UNSUPPORTED, "the backend \"%s\" cannot", kernels->name);
    for (uint32_t rank = 0; rank < options->n_ranks; rank++)
        meeting.all[rank] = forward_rank_here(forward, rank)->ctx;
    TRY(meeting_hold(&meeting, how, why));
    for (uint32_t rank = 0; rank < options->n_ranks; rank++)
        comm_staged_meet(forward_rank_here(forward, rank)->staged);
    return STATUS_OK;
}

static enum status forward_choose_sums(struct forward *forward, const struct rank_options *options,
                                       uint32_t n_here, struct error *error) {
    struct error why = {0};
    enum sums how = SUMS_AUTO;
    char text[ERROR_TEXT_MAX];
    bool on_devices = forward->rank.kernels && !kernels_on_host(forward->rank.kernels);
    enum status status = forward_let_devices_add(forward, options, n_here, &how, &why);
    if (status != STATUS_OK && (options->sums == SUMS_DEVICE || options->sums == SUMS_NCCL))
        return error_field(error, status, "sums", "the devices cannot add up: %s", why.text);
    if (status == STATUS_OK && how == SUMS_DEVICE)
        log_info("devices compute the sums over the ranks", "ranks=%u", options->n_ranks);
    else if (status == STATUS_OK)
        log_info("devices compute the sums over the ranks from what NCCL gathers",
                 "ranks=%u why=%s", options->n_ranks,
                 log_text(text, sizeof text, *why.text ? why.text : "requested by --sums"));
    else if (on_devices)
        log_info("sums over the ranks go through the host", "ranks=%u why=%s", options->n_ranks,
                 log_text(text, sizeof text, why.text));
    forward->sums = status == STATUS_OK ? how : on_devices ? SUMS_HOST : SUMS_AUTO;
    return STATUS_OK;
}

const char *forward_sums(const struct forward *forward) {
    static const char *const names[] = {"", "device", "nccl", "host"};
    return names[forward->sums];
}

static bool forward_devices_add(const struct forward *forward) {
    return forward->sums == SUMS_DEVICE || forward->sums == SUMS_NCCL;
}

static enum status forward_open_group(struct forward *forward, const struct rank_options *options,
                                      struct error *error) {
    uint32_t n_here = forward_n_here_of(options);
    struct forward_bytes bytes;
    char numerics[RANK_WIRE_NUMERICS_MAX];
    TRY(forward_measure(options, &bytes, error)); /* says so before anybody waits for anybody */
    struct group_sizes sizes = forward_group_sizes_of(options, &bytes.facts);
    TRY(group_memory_make(&forward->memory, &sizes, error));
    if (n_here < options->n_ranks)
        TRY(forward_gather(forward, options, &sizes, n_here, error));
    TRY(forward_open_ranks(forward, options, n_here, error));
    TRY(forward_choose_sums(forward, options, n_here, error));
    for (uint32_t i = 0; i + 1 < n_here; i++)
        forward->kv_of_ranks[i + 1] = rank_kv_of(&forward->others.threads[i].rank);
    rank_numerics(&forward->rank, numerics, sizeof numerics);
    if (n_here < options->n_ranks)
        TRY(leader_ready(&forward->leader, numerics, forward->kv_of_ranks, error));
    TRY(forward_check_pools(forward, options, n_here, error));
    forward->patience = event_count_patience(options->n_ranks);
    return STATUS_OK;
}

enum status forward_open(struct forward *forward, const struct rank_options *options,
                         struct error *error) {
    struct rank_options one = forward_options_of_rank(options, 0);
    *forward = (struct forward){.n_ranks = one.n_ranks};
    enum status status = one.n_ranks > 1 ? forward_open_group(forward, options, error)
                                         : rank_open(&forward->rank, &one, error);
    if (status != STATUS_OK) {
        forward_close(forward);
        return status;
    }
    forward->kv_of_ranks[0] = rank_kv_of(&forward->rank);
    return STATUS_OK;
}

void forward_close(struct forward *forward) {
    leader_close(&forward->leader);
    rank_threads_stop(&forward->others, &forward->memory);
    rank_close(&forward->rank);
    comm_close(forward->comm);
    group_memory_fini(&forward->memory);
    memset(forward, 0, sizeof *forward);
}

enum kv_format forward_kv_format(const struct model *model, const char *dtype) {
    bool any = false;
    if (strcmp(dtype, "auto") != 0)
        return strcmp(dtype, "f32") == 0 ? KV_F32 : KV_F16;
    if (tensors_are_dummy(&model->tensors)) /* its tensors come when asked for */
        return strcmp(model->config.dtype, "f32") == 0 &&
                       model->config.quant.method == CONFIG_METHOD_NONE
                   ? KV_F32
                   : KV_F16;
    const struct tensor *tensor;
    for (uint32_t i = 0; (tensor = tensors_nth(&model->tensors, i)) != NULL; i++) {
        if (tensor->n_dims < 2)
            continue;
        if (strcmp(tensor->format, "f32") != 0)
            return KV_F16;
        any = true;
    }
    return any ? KV_F32 : KV_F16;
}

uint64_t forward_block_bytes(const struct family_facts *facts) {
    if (facts->forced)
        return facts->block_bytes;
    return (uint64_t)2 * facts->n_kv_heads_all * facts->head_dim * KV_BLOCK_TOKENS *
           kv_format_bytes(facts->kv_format);
}

_Noreturn static void forward_end_without_ranks(const struct forward *forward) {
    log_error("the ranks cannot go on: the worker ends", "why=%s",
              status_name(forward->comm->kind->health(forward->comm)));
    exit_now(EXIT_FAILURE);
}

/* Nothing is there yet: messages that came between layers get their turn. */
static void forward_look_again(forward_layers *layers_done, void *context, uint32_t n_done) {
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    layers_done(context, n_done, n_done);
}

/* The operations run elsewhere: their layers are done as their marks are. A graph's are done all at once. */
static void forward_follow_marks(const struct forward *forward, forward_layers *layers_done,
                                 void *context) {
    uint32_t n_layers = forward->rank.model->facts.n_layers, n_done = 0;
    while (n_done < n_layers) {
        uint32_t marked = forward->rank.kernels->marked(forward->rank.ctx);
        if (marked == UINT32_MAX)
            forward_end(forward); /* the device failed: the process ends there */
        marked = marked < n_layers ? marked : n_layers; /* or of the step's end */
        if (marked == n_done)
            forward_look_again(layers_done, context, n_done);
        else
            layers_done(context, n_done, marked);
        n_done = marked;
    }
}

/* Devices that add up go on only together, and may do so only while somebody waits for each: this one is waited for here, up to
 * the mark behind all that its step computes. No layer is told meanwhile, for other threads work with the others. */
static void forward_await_end(const struct forward *forward) {
    const struct rank *rank = &forward->rank;
    uint32_t marked = 0, end = rank->model->facts.n_layers + 1;
    while (marked < end) {
        marked = rank->kernels->marked(rank->ctx);
        if (marked == UINT32_MAX)
            forward_end(forward); /* the device failed: the process ends there */
        if (marked < end)
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

bool forward_launches(const struct forward *forward) {
    return forward->n_ranks == 1 && rank_marks(&forward->rank);
}

void forward_begin(struct forward *forward, const struct batch *batch, forward_layers *layers_done,
                   void *context) {
    struct board_step step = {.batch = batch->view, .rows = batch->rows, .n_rows = batch->n_rows};
    bool several = forward->n_ranks > 1;
    if (several && !board_publish(forward->memory.board, &step, &forward->patience))
        forward_end_without_ranks(forward);
    rank_run(&forward->rank, &step.batch, step.rows, step.n_rows, layers_done, context);
    if (forward_devices_add(forward) && layers_done)
        forward->rank.kernels->mark(forward->rank.ctx, forward->rank.model->facts.n_layers + 1);
    if (several && forward->comm->kind->health(forward->comm) != STATUS_OK)
        forward_end_without_ranks(forward);
}

/* Until this thread may work with the devices of all ranks: not while others give them work. */
static void forward_await_ranks(struct forward *forward) {
    if (forward->n_ranks > 1 && !board_settled(forward->memory.board, &forward->patience))
        forward_end_without_ranks(forward);
}

void forward_follow(struct forward *forward, forward_layers *layers_done, void *context) {
    if (!layers_done || !rank_marks(&forward->rank))
        return;
    if (forward_devices_add(forward))
        forward_await_end(forward);
    forward_await_ranks(forward); /* KV of all devices is copied from this thread */
    forward_follow_marks(forward, layers_done, context);
}

void forward_run(struct forward *forward, const struct batch *batch, forward_layers *layers_done,
                 void *context) {
    forward_begin(forward, batch, layers_done, context);
    forward_follow(forward, layers_done, context);
}

bool forward_goes_ahead(const struct forward *forward) {
    return forward_launches(forward) && forward->rank.kernels->sample_begin;
}

uint32_t forward_rehearse(struct forward *forward, uint32_t n_seqs) {
    const struct kernels *kernels = forward->rank.kernels;
    uint32_t n = 0;
    if (!kernels || !kernels->rehearse)
        return 0;
    forward_await_ranks(forward); /* of a step whose layers were not followed */
    for (uint32_t rank = 0; rank < forward->n_ranks; rank++) /* of a device all are here */
        n = kernels->rehearse(forward_rank_here(forward, rank)->ctx, n_seqs);
    return n;
}

bool forward_await_choice(struct forward *forward, forward_layers *layers_done, void *context) {
    const struct kernels *kernels = forward->rank.kernels;
    bool waited = false;
    while (!kernels->sample_done(forward->rank.ctx)) {
        waited = true;
        forward_look_again(layers_done, context, 0);
    }
    return waited;
}

void forward_end(const struct forward *forward) {
    rank_end(&forward->rank);
}
