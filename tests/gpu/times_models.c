/* tests/gpu/times_models.c: whole steps of a model, all layers and the head. */
#include "tests/gpu/times.h"

#include <stdio.h>
#include <string.h>

/* TIMES_LAYERS of them take turns, so that no weights are still in a cache. */
struct model {
    struct {
        struct weight qkv, out, gate_up, down;
    } layers[TIMES_LAYERS];
    struct weight head;
    uint32_t n_layers;
};

static void run_layer(struct times_bench *bench, const struct kernels_step *step,
                      const struct model *model, uint32_t index) {
    const struct times_shape *shape = bench->shape;
    const struct kernels *k = bench->side.kernels;
    struct kernels_ctx *ctx = bench->side.ctx;
    struct kernels_kv kv = times_kv(bench);
    struct rope rope = times_rope(bench);
    uint32_t n = step->batch.n_tokens, turn = index % TIMES_LAYERS;
    const struct weight *qkv = &model->layers[turn].qkv, *out = &model->layers[turn].out;
    const struct weight *gate_up = &model->layers[turn].gate_up, *down = &model->layers[turn].down;
    kv.base = bench->kv + turn * bench->n_blocks * bench->block_bytes;
    k->norm(ctx, bench->normed, bench->x, bench->gain, 1e-5f, n, shape->dim);
    k->linear(ctx, bench->qkv, qkv->n, bench->normed, qkv, n, EPILOGUE_NONE);
    k->rope_kv(ctx, bench->qkv, &step->batch, &rope, &kv);
    k->attend(ctx, bench->attn, bench->qkv, &step->batch, &kv, 0.088f, NULL, 0);
    k->linear(ctx, bench->x, shape->dim, bench->attn, out, n, EPILOGUE_ADD);
    k->norm(ctx, bench->normed, bench->x, bench->gain, 1e-5f, n, shape->dim);
    k->linear(ctx, bench->inner, shape->inner, bench->normed, gate_up, n, EPILOGUE_SILU_MUL);
    k->linear(ctx, bench->x, shape->dim, bench->inner, down, n, EPILOGUE_ADD);
}

static void run_model(struct times_bench *bench, const struct kernels_step *step, void *context) {
    const struct model *model = context;
    const struct times_shape *shape = bench->shape;
    const struct kernels *k = bench->side.kernels;
    struct kernels_ctx *ctx = bench->side.ctx;
    for (uint32_t i = 0; i < model->n_layers; i++)
        run_layer(bench, step, model, i);
    k->gather_rows(ctx, bench->normed, bench->x, step->rows, step->n_rows, shape->dim);
    k->linear(ctx, bench->logits, shape->n_vocab, bench->normed, &model->head, step->n_rows,
              EPILOGUE_NONE);
}

static void make_model(struct times_bench *bench, struct model *model) {
    const struct times_shape *shape = bench->shape;
    struct side *side = &bench->side;
    uint32_t width = shape->n_heads * shape->head_dim;
    size_t unused;
    for (uint32_t i = 0; i < TIMES_LAYERS; i++) {
        const char *format = shape->format;
        model->layers[i].qkv = times_weight(side, format, times_qkv(shape), shape->dim, &unused);
        model->layers[i].out = times_weight(side, format, shape->dim, width, &unused);
        model->layers[i].gate_up =
            times_weight(side, format, 2 * shape->inner, shape->dim, &unused);
        model->layers[i].down = times_weight(side, format, shape->dim, shape->inner, &unused);
    }
    model->head = times_weight(side, shape->head_format, shape->n_vocab, shape->dim, &unused);
}

static void time_load(struct times_bench *bench, const struct times_wish *wish, struct model *model,
                      const struct times_load *load) {
    double seconds = times_steps_median(bench, wish, load, run_model, model);
    printf("{\"measure\": \"whole step\", \"backend\": \"%s\", \"model\": \"%s\", \"load\": "
           "\"%s\", \"layers\": %u, \"graphs\": %s, ",
           wish->backend, bench->shape->name, load->name, model->n_layers,
           wish->no_graphs ? "false" : "true");
    if (wish->emulated)
        printf("\"ms\": null, \"tokens_s\": null}\n");
    else
        printf("\"ms\": %.3f, \"tokens_s\": %.0f}\n", seconds * 1e3,
               load->n_seqs * load->n_tokens / seconds);
}

uint32_t times_models(const struct times_wish *wish) {
    uint32_t n_measures = 0;
    static const struct times_load loads[] = {
        {"decode, 1 at 512", 1, 1, 512},   {"decode, 16 at 512", 16, 1, 512},
        {"decode, 64 at 512", 64, 1, 512}, {"prefill, 2048", 1, 2048, 0},
        {"decode, 1 at 4000", 1, 1, 4000}, {"prefill, 512", 1, 512, 0}};
    static const struct times_load tiny[] = {{"decode, 3 at 300", 3, 1, 300},
                                             {"prefill, 70", 1, 70, 0}};
    const struct times_load *all = wish->emulated ? tiny : loads;
    size_t n = wish->emulated ? sizeof tiny / sizeof *tiny : sizeof loads / sizeof *loads;
    for (const struct times_shape *shape = times_shapes; shape->name; shape++) {
        struct times_bench bench;
        struct model model = {.n_layers = wish->n_layers > 0 ? wish->n_layers : shape->n_layers};
        if (!times_wants(wish, shape))
            continue;
        times_open(&bench, wish, shape);
        make_model(&bench, &model);
        for (size_t i = 0; i < n; i++)
            if (!wish->load || strstr(all[i].name, wish->load)) {
                time_load(&bench, wish, &model, &all[i]);
                n_measures++;
            }
        times_close(&bench);
    }
    return n_measures;
}
