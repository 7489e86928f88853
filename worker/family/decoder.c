#include "worker/family/decoder.h"

#include "base/assert.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct family_network family_decoder;

static uint32_t max_of(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static uint32_t decoder_qkv_dim(const struct decoder *decoder) {
    return (decoder->shard.heads.n + 2 * decoder->shard.kv_heads.n) * decoder->config.head_dim;
}

static void decoder_close_model(struct family_model *model) {
    struct decoder *decoder = (struct decoder *)model;
    for (uint32_t i = 0; i < decoder->config.n_layers; i++) {
        struct experts *experts = decoder->layers[i].experts;
        if (!experts)
            continue;
        free(experts->gate_up);
        free(experts->down);
        free(experts);
    }
    rotary_fini(&decoder->rotary);
    slots_fini(&decoder->head.slots);
    constants_fini(&decoder->slopes);
    constants_fini(&decoder->head_scale);
    free(decoder);
}

static void decoder_widest_feed_forward(struct decoder *decoder, const struct feed_forward *ffn) {
    decoder->ffn_max = max_of(decoder->ffn_max, ffn->inner.n);
    if (ffn->gate_up.n_parts > 1)
        decoder->split_max = max_of(decoder->split_max, ffn->inner.n);
}

static enum status decoder_fill_facts(struct decoder *decoder, const struct family_options *options,
                                      struct error *error) {
    const struct model_config *config = &decoder->config;
    const struct shard *shard = &decoder->shard;
    uint64_t block_bytes = (uint64_t)2 * shard->kv_heads.n * config->head_dim * KV_BLOCK_TOKENS *
                           kv_format_bytes(options->kv_format); /* config_check(): no overflow */
    if (block_bytes > UINT32_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s: a KV block of one layer is over 4 GiB",
                         config->name);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const struct decoder_layer *layer = &decoder->layers[i];
        if (!layer->experts)
            decoder_widest_feed_forward(decoder, &layer->ffn);
        else if (config->moe.shared_dim)
            decoder_widest_feed_forward(decoder, &layer->experts->shared);
    }
    uint32_t inner = max_of(decoder->ffn_max, decoder->expert_inner.n);
    uint32_t context = config->context;
    if (options->context_max && options->context_max < context)
        context = options->context_max;
    decoder->head.facts = (struct family_facts){
        .n_vocab = config->n_vocab,
        .n_layers = config->n_layers,
        .block_bytes = (uint32_t)block_bytes,
        .context = context,
        .max_dim = max_of(max_of(config->dim, inner), decoder_qkv_dim(decoder)),
        .dim = config->dim,
        .n_heads = shard->heads.n,
        .n_kv_heads = shard->kv_heads.n,
        .kv_head_begin = shard->kv_heads.begin,
        .n_kv_heads_all = config->n_kv_heads,
        .head_dim = config->head_dim,
        .vocab_begin = shard->vocab.begin,
        .vocab_n = shard->vocab.n,
        .kv_format = options->kv_format,
    };
    return rotary_variants(config, context, &decoder->head.facts, error);
}

static enum status decoder_open_model(const struct family *family,
                                      const struct family_options *options,
                                      struct family_model **model, struct error *error) {
    const struct model_config *config = &options->model->config;
    TRY(model_check_tensors(options->model, error));
    struct decoder *decoder =
        calloc(1, sizeof *decoder + config->n_layers * sizeof decoder->layers[0]);
    if (!decoder)
        return error_set(error, STATUS_NOMEM, "%s: no memory for the model", config->name);
    decoder->head.family = family;
    decoder->config = *config;
    decoder->max_tokens = options->max_tokens;
    decoder->names = decoder_names_of(config);
    ASSERT(decoder->names);
    slots_init(&decoder->head.slots);
    uint32_t n_ranks = options->n_ranks ? options->n_ranks : 1;
    enum status status = shard_of(config, options->rank, n_ranks, &decoder->shard, error);
    if (status == STATUS_OK)
        status = decoder_list(decoder, options->model, error);
    if (status == STATUS_OK)
        status = decoder_fill_facts(decoder, options, error);
    if (status != STATUS_OK)
        decoder_close_model(&decoder->head);
    else
        *model = &decoder->head;
    return status;
}

/* Room for what decoder_normalise_head() works with, of n rows at once. */
struct head_rows {
    uint32_t n;
    float *scale;        /* owned (vocab.n) */
    float *rows;         /* owned (n, dim) */
    uint32_t *ids;       /* owned (n), as the next two */
    uint32_t *seq_begin; /* (n + 1) */
    uint32_t *zeros;
    struct constants placed; /* (n, dim) */
};

static void decoder_head_rows_fini(struct head_rows *work) {
    constants_fini(&work->placed);
    free(work->scale);
    free(work->rows);
    free(work->ids);
    free(work->seq_begin);
    free(work->zeros);
}

static enum status decoder_head_rows_init(struct head_rows *work, const struct decoder *decoder) {
    size_t dim = decoder->config.dim;
    uint32_t n = decoder->max_tokens < 64 ? decoder->max_tokens : 64;
    ASSERT(n > 0);
    *work = (struct head_rows){.n = n,
                               .scale = malloc(decoder->shard.vocab.n * sizeof(float)),
                               .rows = calloc(n * dim, sizeof(float)),
                               .ids = calloc(n, sizeof(uint32_t)),
                               .seq_begin = calloc((size_t)n + 1, sizeof(uint32_t)),
                               .zeros = calloc(n, sizeof(uint32_t))};
    if (!work->scale || !work->rows || !work->ids || !work->seq_begin || !work->zeros)
        return STATUS_NOMEM;
    return constants_put(&work->placed, decoder->kernels, decoder->ctx, work->rows, n * dim);
}

/* The lengths of rows [begin, begin + n), turned over. One sequence holds them all: they are no
 * tokens that anything is computed for. */
static enum status decoder_scale_rows(const struct decoder *decoder, const struct weight *head,
                                      struct head_rows *work, uint32_t begin, uint32_t n) {
    const struct kernels *kernels = decoder->kernels;
    size_t dim = decoder->config.dim;
    for (uint32_t i = 0; i < n; i++)
        work->ids[i] = begin + i;
    work->seq_begin[1] = n;
    struct kernels_step step = {.batch = {.n_tokens = n,
                                          .n_seqs = 1,
                                          .ids = work->ids,
                                          .positions = work->zeros,
                                          .seq_begin = work->seq_begin,
                                          .block_tables = work->zeros,
                                          .block_table_stride = 1}};
    kernels->step_begin(decoder->ctx, &step);
    kernels->embed(decoder->ctx, work->placed.at, head, &step.batch, 0);
    TRY(kernels->step_end(decoder->ctx));
    kernels->get(decoder->ctx, work->rows, work->placed.at, n * dim * sizeof *work->rows);
    for (uint32_t i = 0; i < n; i++) {
        const float *row = work->rows + i * dim;
        double sum = 0;
        for (size_t j = 0; j < dim; j++)
            sum += (double)row[j] * row[j];
        work->scale[begin + i] = (float)(1 / fmax(sqrt(sum), 1e-12));
    }
    return STATUS_OK;
}

/* Baichuan 2's head: logits are of rows of length 1. The rows stay as the file has them; the
 * outputs are divided by their lengths instead. */
static enum status decoder_normalise_head(struct decoder *decoder, struct error *error) {
    const struct model_config *config = &decoder->config;
    struct weight *head = config->tied_head ? &decoder->embedding : &decoder->own_head;
    uint32_t n_rows = decoder->shard.vocab.n;
    struct head_rows work;
    enum status status = decoder_head_rows_init(&work, decoder);
    for (uint32_t begin = 0, n; status == STATUS_OK && begin < n_rows; begin += n) {
        n = n_rows - begin < work.n ? n_rows - begin : work.n;
        status = decoder_scale_rows(decoder, head, &work, begin, n);
    }
    if (status == STATUS_OK)
        status =
            constants_put(&decoder->head_scale, decoder->kernels, decoder->ctx, work.scale, n_rows);
    decoder_head_rows_fini(&work);
    if (status != STATUS_OK)
        return error_set(error, status, "%s: the head's norms: %s", config->name,
                         status_name(status));
    head->scale = decoder->head_scale.at;
    return STATUS_OK;
}

static enum status decoder_place_slopes(struct decoder *decoder) {
    const struct range *heads = &decoder->shard.heads;
    float *slopes = calloc(heads->n, sizeof *slopes);
    if (!slopes)
        return STATUS_NOMEM;
    alibi_slopes(slopes, decoder->config.n_heads, heads->begin, heads->n);
    enum status status =
        constants_put(&decoder->slopes, decoder->kernels, decoder->ctx, slopes, heads->n);
    free(slopes);
    return status;
}

static enum status decoder_prepare(struct family_model *model, const struct kernels *kernels,
                                   struct kernels_ctx *ctx, struct comm *comm,
                                   struct error *error) {
    struct decoder *decoder = (struct decoder *)model;
    const struct model_config *config = &decoder->config;
    decoder->kernels = kernels;
    decoder->ctx = ctx;
    decoder->comm = comm;
    TRY(rotary_init(&decoder->rotary, config, &model->facts, error));
    decoder->rotary.rope.norm_eps = config->norm_eps;
    if (rotary_put(&decoder->rotary, kernels, ctx) != STATUS_OK ||
        (config->alibi && decoder_place_slopes(decoder) != STATUS_OK))
        return error_set(error, STATUS_NOMEM, "%s: no memory for its positions", config->name);
    if (config->head_norm)
        TRY(decoder_normalise_head(decoder, error));
    snprintf(model->numerics, sizeof model->numerics, "%s v1 kv %s rope %016llx",
             model->family->name, model->facts.kv_format == KV_F32 ? "f32" : "f16",
             (unsigned long long)decoder->rotary.hash);
    return STATUS_OK;
}

const struct family_network family_decoder = {
    .open = decoder_open_model,
    .close = decoder_close_model,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
