#include "tools/kbench/model.h"

#include "base/clock.h"
#include "tools/kbench/shapes.h"
#include "tools/kbench/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct model_shape model_smollm2 = {
    .name = "SmolLM2-135M Q4_1",
    .format = "q4_1",
    .head_format = "q8_0",
    .n_layers = 30,
    .dim = 576,
    .n_heads = 9,
    .n_kv_heads = 3,
    .head_dim = 64,
    .ffn = 1536,
    .n_vocab = 49152,
};

enum op { EMBED, NORM, QKV, ROPE, ATTEND, OUT, GATE_UP, DOWN, HEAD, SAMPLE };
const char *const model_op_names[MODEL_OPS] = {"embed", "norm", "qkv",  "rope", "attend",
                                               "out",   "ffn1", "ffn2", "head", "sample"};

struct layer {
    struct weight qkv;
    struct weight out;
    struct weight gate_up;
    struct weight down;
    struct kernels_kv kv;
};

struct block_memory {
    void *memory;
    size_t n_bytes;
};

struct model {
    struct model_shape shape;
    const struct kernels *kernels;
    struct kernels_ctx *ctx;
    uint32_t max_seqs;
    uint32_t max_tokens;
    uint32_t blocks_per_seq;
    struct layer *layers;
    struct weight head;
    float *gain;
    float *x;
    float *normed;
    float *qkv;
    float *mid;
    float *logits;
    float *cosines;
    float *sines;
    uint32_t *ids;
    uint32_t *positions;
    uint32_t *seq_begin;
    uint32_t *tables;
    uint32_t *last;
    struct sample_params *params;
    struct sample_result *results;
    struct block_memory owned[512];
    uint32_t n_owned;
    double seconds[MODEL_OPS];
};

static void own(struct model *model, void *memory, size_t n_bytes) {
    if (!memory || model->n_owned == sizeof model->owned / sizeof model->owned[0])
        abort();
    model->owned[model->n_owned++] = (struct block_memory){memory, n_bytes};
}

static void *take(struct model *model, size_t n_bytes) {
    void *memory = model->kernels->alloc(model->ctx, n_bytes);
    own(model, memory, n_bytes);
    return memory;
}

static struct weight random_weight(struct model *model, const char *format, uint32_t n,
                                   uint32_t k) {
    struct weight_tensor tensor = tensor_random(format, n, k);
    size_t size;
    struct weight weight = tensor_pack(model->kernels, model->ctx, &tensor, &size);
    own(model, (void *)(uintptr_t)weight.data, size);
    tensor_free(&tensor);
    return weight;
}

static void make_layers(struct model *model) {
    const struct model_shape *shape = &model->shape;
    uint32_t q_width = shape->n_heads * shape->head_dim;
    uint32_t qkv_width = q_width + 2 * shape->n_kv_heads * shape->head_dim;
    size_t n_blocks = (size_t)model->max_seqs * model->blocks_per_seq;
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        struct layer *layer = &model->layers[i];
        layer->qkv = random_weight(model, shape->format, qkv_width, shape->dim);
        layer->out = random_weight(model, shape->format, shape->dim, q_width);
        layer->gate_up = random_weight(model, shape->format, 2 * shape->ffn, shape->dim);
        layer->down = random_weight(model, shape->format, shape->dim, shape->ffn);
        layer->kv = shapes_kv(NULL, shape->n_kv_heads, shape->head_dim, KV_F16);
        layer->kv.base = take(model, n_blocks * layer->kv.block_bytes);
    }
    model->head = random_weight(model, shape->head_format, shape->n_vocab, shape->dim);
}

static void make_buffers(struct model *model, uint32_t max_context) {
    const struct model_shape *shape = &model->shape;
    uint32_t width = (shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    size_t n = model->max_tokens;
    size_t angles = (size_t)max_context * (shape->head_dim / 2);
    model->gain = take(model, shape->dim * sizeof(float));
    model->x = take(model, n * shape->dim * sizeof(float));
    model->normed = take(model, n * shape->dim * sizeof(float));
    model->qkv = take(model, n * width * sizeof(float));
    model->mid = take(model, n * shape->ffn * sizeof(float));
    model->logits = take(model, (size_t)model->max_seqs * shape->n_vocab * sizeof(float));
    model->cosines = take(model, angles * sizeof(float));
    model->sines = take(model, angles * sizeof(float));
    model->ids = take(model, n * sizeof(uint32_t));
    model->positions = take(model, n * sizeof(uint32_t));
    model->seq_begin = take(model, (model->max_seqs + 1) * sizeof(uint32_t));
    model->tables = take(model, (size_t)model->max_seqs * model->blocks_per_seq * sizeof(uint32_t));
    model->last = take(model, model->max_seqs * sizeof(uint32_t));
    model->params = take(model, model->max_seqs * sizeof *model->params);
    model->results = take(model, model->max_seqs * sizeof *model->results);
    for (uint32_t i = 0; i < shape->dim; i++)
        model->gain[i] = 1.0f;
    for (size_t i = 0; i < angles; i++) {
        model->cosines[i] = cosf((float)i);
        model->sines[i] = sinf((float)i);
    }
    for (uint32_t i = 0; i < model->max_seqs * model->blocks_per_seq; i++)
        model->tables[i] = i;
    for (uint32_t i = 0; i < model->max_seqs; i++)
        model->params[i] = (struct sample_params){.top_p = 1.0f, .repetition = 1.0f};
}

struct model *model_open(const struct model_shape *shape, const struct subject *subject,
                         uint32_t max_seqs, uint32_t max_context, uint32_t max_tokens) {
    const struct kernels_limits limits = {.max_tokens = max_tokens,
                                          .max_seqs = max_seqs,
                                          .max_context = max_context,
                                          .max_dim = shape->ffn,
                                          .n_vocab = shape->n_vocab,
                                          .n_heads = shape->n_heads,
                                          .n_kv_heads = shape->n_kv_heads,
                                          .head_dim = shape->head_dim};
    struct kernels_ctx *ctx = subject_open(subject, &limits);
    if (!ctx)
        return NULL;
    struct model *made = calloc(1, sizeof *made);
    struct layer *layers = calloc(shape->n_layers, sizeof *layers);
    if (!made || !layers)
        abort();
    *made = (struct model){.shape = *shape,
                           .kernels = subject->kernels,
                           .ctx = ctx,
                           .layers = layers,
                           .max_seqs = max_seqs,
                           .max_tokens = max_tokens,
                           .blocks_per_seq = (max_context + 15) / 16};
    make_layers(made);
    make_buffers(made, max_context);
    return made;
}

void model_close(struct model *model) {
    if (!model)
        return;
    for (uint32_t i = 0; i < model->n_owned; i++)
        model->kernels->dealloc(model->ctx, model->owned[i].memory, model->owned[i].n_bytes);
    model->kernels->close(model->ctx);
    free(model->layers);
    free(model);
}

static void charge(struct model *model, enum op op, uint64_t *since) {
    uint64_t now = clock_now_ns();
    model->seconds[op] += (double)(now - *since) * 1e-9;
    *since = now;
}

static void run_layer(struct model *model, const struct layer *layer,
                      const struct kernels_batch *batch, uint64_t *clock) {
    const struct kernels *k = model->kernels;
    const struct model_shape *shape = &model->shape;
    uint32_t n = batch->n_tokens;
    struct rope rope = shapes_rope(shape->head_dim, model->cosines, model->sines);
    k->norm(model->ctx, model->normed, model->x, model->gain, 1e-5f, n, shape->dim);
    charge(model, NORM, clock);
    k->linear(model->ctx, model->qkv, layer->qkv.n, model->normed, &layer->qkv, n, EPILOGUE_NONE);
    charge(model, QKV, clock);
    k->rope_kv(model->ctx, model->qkv, batch, &rope, &layer->kv);
    charge(model, ROPE, clock);
    k->attend(model->ctx, model->normed, model->qkv, batch, &layer->kv, 0.125f, NULL, 0);
    charge(model, ATTEND, clock);
    k->linear(model->ctx, model->x, shape->dim, model->normed, &layer->out, n, EPILOGUE_ADD);
    charge(model, OUT, clock);
    k->norm(model->ctx, model->normed, model->x, model->gain, 1e-5f, n, shape->dim);
    charge(model, NORM, clock);
    k->linear(model->ctx, model->mid, shape->ffn, model->normed, &layer->gate_up, n,
              EPILOGUE_SILU_MUL);
    charge(model, GATE_UP, clock);
    k->linear(model->ctx, model->x, shape->dim, model->mid, &layer->down, n, EPILOGUE_ADD);
    charge(model, DOWN, clock);
}

void model_step(struct model *model, uint32_t n_seqs, uint32_t n_tokens, uint32_t position) {
    const struct kernels *k = model->kernels;
    const struct model_shape *shape = &model->shape;
    for (uint32_t s = 0; s < n_seqs; s++) {
        model->seq_begin[s + 1] = (s + 1) * n_tokens;
        model->last[s] = (s + 1) * n_tokens - 1;
        for (uint32_t t = 0; t < n_tokens; t++) {
            model->ids[s * n_tokens + t] = (s * 977 + t * 131 + position) % shape->n_vocab;
            model->positions[s * n_tokens + t] = position + t;
        }
    }
    struct kernels_batch batch = {.n_tokens = n_seqs * n_tokens,
                                  .n_seqs = n_seqs,
                                  .ids = model->ids,
                                  .positions = model->positions,
                                  .seq_begin = model->seq_begin,
                                  .block_tables = model->tables,
                                  .block_table_stride = model->blocks_per_seq};
    uint64_t clock = clock_now_ns();
    k->embed(model->ctx, model->x, &model->head, &batch, 0);
    charge(model, EMBED, &clock);
    for (uint32_t i = 0; i < shape->n_layers; i++)
        run_layer(model, &model->layers[i], &batch, &clock);
    k->gather_rows(model->ctx, model->normed, model->x, model->last, n_seqs, shape->dim);
    k->norm(model->ctx, model->x, model->normed, model->gain, 1e-5f, n_seqs, shape->dim);
    charge(model, NORM, &clock);
    k->linear(model->ctx, model->logits, shape->n_vocab, model->x, &model->head, n_seqs,
              EPILOGUE_NONE);
    charge(model, HEAD, &clock);
    k->sample(model->ctx, model->logits, n_seqs, shape->n_vocab, model->params, model->results);
    charge(model, SAMPLE, &clock);
}

void model_times(struct model *model, double seconds[MODEL_OPS]) {
    memcpy(seconds, model->seconds, sizeof model->seconds);
    memset(model->seconds, 0, sizeof model->seconds);
}
