/* The backend `far` of the tests: the arithmetic of ref, on memory that the host cannot touch.
 *
 * alloc() answers addresses of pages without any access; the bytes lie in a second mapping, a fixed
 * distance behind. Operations add that distance to each pointer, put() and get() too. So whoever
 * reads or writes such memory himself dies there, and an operation that is given other memory, or a
 * batch outside of a step, aborts with its name. A step's arrays are copies with counts of their own
 * and hold nonsense once it has ended. Marks are answered late, one for two questions; what
 * sample_begin() chose at the third.
 *
 * TANDEM_FAR_FAIL_STEP=N makes the device fail in step N, TANDEM_FAR_PACK_MS=N lets each matrix take
 * so many milliseconds to load. */
#include "kernels/host.h"
#include "kernels/kernels.h"
#include "kernels/limits.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FREE_BYTES (256ull << 20)
#define PAGE       4096u
#define POISON     0xee

#define FAR_CHOICE_MAX 12 /* rows that sample_begin() takes */

extern const struct kernels kernels_ref, kernels_far;

/* One alloc(): pages without access at `far`, as many with it behind them, and one more without. */
struct piece {
    struct piece *next;
    unsigned char *far;
    size_t n_bytes; /* as asked for */
    size_t distance;
};

/* The step's arrays in memory of alloc(). */
struct arrays {
    uint32_t *ids;
    uint32_t *positions;
    uint32_t *seq_begin;
    uint32_t *tables;
    uint32_t *variants;
    uint32_t *rows;
};

/* What a sample_begin() chose and nobody has read. */
struct choice {
    struct sample_result *results; /* owned (max_seqs) */
    uint32_t n;
    uint32_t n_asked;
};

struct kernels_ctx {
    struct kernels_ctx *ref; /* owned: of that backend */
    struct kernels_limits limits;
    struct piece *pieces; /* owned */
    struct arrays arrays;
    struct kernels_batch real; /* of the step: near pointers, counts as they were */
    bool in_step;
    uint32_t n_steps;
    uint32_t fails_at; /* 0: never */
    uint32_t mark;
    uint32_t answered;
    bool asked;
    struct choice choices[2]; /* the older one first */
    uint32_t n_choices;
    bool has_chosen; /* in the running step */
};

_Noreturn __attribute__((format(printf, 2, 3))) static void die(const char *operation,
                                                                const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "far: %s: ", operation);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static void *near_of(const struct kernels_ctx *ctx, const char *operation, const void *memory,
                     size_t n_bytes) {
    uintptr_t at = (uintptr_t)memory;
    for (const struct piece *piece = ctx->pieces; piece; piece = piece->next) {
        uintptr_t begin = (uintptr_t)piece->far;
        if (at < begin || at - begin > piece->n_bytes)
            continue;
        if (n_bytes > piece->n_bytes - (at - begin))
            die(operation, "%zu bytes at %zu of an allocation of %zu", n_bytes,
                (size_t)(at - begin), piece->n_bytes);
        return piece->far + piece->distance + (at - begin);
    }
    die(operation, "%p is not memory of this context", memory);
}

static float *floats_of(const struct kernels_ctx *ctx, const char *operation, const float *memory,
                        size_t n) {
    return near_of(ctx, operation, memory, n * sizeof *memory);
}

static float *floats_or_null(const struct kernels_ctx *ctx, const char *operation,
                             const float *memory, size_t n) {
    return memory ? floats_of(ctx, operation, memory, n) : NULL;
}

static void *far_alloc(struct kernels_ctx *ctx, size_t n_bytes) {
    if (n_bytes > SIZE_MAX / 4)
        return NULL;
    size_t distance = n_bytes / PAGE * PAGE + PAGE;
    struct piece *piece = malloc(sizeof *piece);
    unsigned char *memory = mmap(NULL, 2 * distance + PAGE, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!piece || memory == MAP_FAILED ||
        mprotect(memory + distance, distance, PROT_READ | PROT_WRITE) != 0) {
        free(piece);
        return NULL;
    }
    *piece = (struct piece){ctx->pieces, memory, n_bytes, distance};
    ctx->pieces = piece;
    return memory;
}

static void far_dealloc(struct kernels_ctx *ctx, void *memory, size_t n_bytes) {
    struct piece **at = &ctx->pieces;
    if (!memory)
        return;
    while (*at && (*at)->far != memory)
        at = &(*at)->next;
    if (!*at || (*at)->n_bytes != n_bytes)
        die("dealloc", "%p with %zu bytes was not allocated here", memory, n_bytes);
    struct piece *piece = *at;
    *at = piece->next;
    munmap(piece->far, 2 * piece->distance + PAGE);
    free(piece);
}

static void far_close(struct kernels_ctx *ctx) {
    if (!ctx)
        return;
    while (ctx->pieces)
        far_dealloc(ctx, ctx->pieces->far, ctx->pieces->n_bytes);
    kernels_ref.close(ctx->ref);
    for (int i = 0; i < 2; i++)
        free(ctx->choices[i].results);
    free(ctx);
}

static size_t blocks_max(const struct kernels_limits *limits) {
    return limits->max_context / KV_BLOCK_TOKENS + 1;
}

static uint32_t *array_of(struct kernels_ctx *ctx, size_t n) {
    return far_alloc(ctx, n * sizeof(uint32_t));
}

static enum status far_open(const struct kernels_options *options, struct kernels_ctx **ctx,
                            struct error *error) {
    const struct kernels_limits *limits = &options->limits;
    struct kernels_options of_ref = {.n_threads = options->n_threads, .limits = *limits};
    struct kernels_ctx *ref;
    uint64_t n_free;
    TRY(kernels_far.free_bytes(options->device, &n_free, error));
    TRY(kernels_ref.open(&of_ref, &ref, error));
    struct kernels_ctx *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    const char *fails_at = getenv("TANDEM_FAR_FAIL_STEP");
    made->ref = ref;
    made->limits = *limits;
    made->fails_at = fails_at ? (uint32_t)strtoul(fails_at, NULL, 10) : 0;
    made->arrays = (struct arrays){
        .ids = array_of(made, limits->max_tokens),
        .positions = array_of(made, limits->max_tokens),
        .seq_begin = array_of(made, (size_t)limits->max_seqs + 1),
        .tables = array_of(made, limits->max_seqs * blocks_max(limits)),
        .variants = array_of(made, limits->max_seqs),
        .rows = array_of(made, limits->max_seqs),
    };
    for (int i = 0; i < 2; i++)
        if (!(made->choices[i].results = calloc(limits->max_seqs, sizeof(struct sample_result))))
            abort();
    *ctx = made;
    return STATUS_OK;
}

static const char *far_numerics(const struct kernels_ctx *ctx) {
    return kernels_ref.numerics(ctx->ref);
}

static enum status far_free_bytes(uint32_t device, uint64_t *n_bytes, struct error *error) {
    if (device > 1)
        return error_set(error, STATUS_NOT_FOUND, "there is no device %u: far has 0 and 1", device);
    *n_bytes = FREE_BYTES;
    return STATUS_OK;
}

static bool has_failed(const struct kernels_ctx *ctx) {
    return ctx->fails_at > 0 && ctx->n_steps >= ctx->fails_at;
}

static void far_put(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    memcpy(near_of(ctx, "put", to, n_bytes), from, n_bytes);
}

static void far_get(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    memcpy(to, near_of(ctx, "get", from, n_bytes), n_bytes);
}

static enum status far_get_beside(struct kernels_ctx *ctx, void *to, const void *from,
                                  size_t n_bytes) {
    far_get(ctx, to, from, n_bytes);
    return has_failed(ctx) ? STATUS_IO : STATUS_OK;
}

/* Copies n numbers into a step's array; the others become nonsense. Answers the bytes. */
static const uint32_t *take(const struct kernels_ctx *ctx, uint32_t *array, size_t n_max,
                            const uint32_t *from, size_t n) {
    uint32_t *to = near_of(ctx, "step", array, n_max * sizeof *array);
    if (n > n_max)
        die("step", "%zu numbers; the limits say %zu", n, n_max);
    memset(to, POISON, n_max * sizeof *to);
    if (n > 0)
        memcpy(to, from, n * sizeof *to);
    return to;
}

static uint32_t padded(uint32_t n, uint32_t unit, uint32_t n_max) {
    n = (n + unit - 1) / unit * unit;
    return n < n_max ? n : n_max;
}

/* The ids of a step ahead. */
static void take_chosen(const struct kernels_ctx *ctx, const struct kernels_batch *batch) {
    const struct choice *choice = &ctx->choices[0];
    uint32_t *ids = near_of(ctx, "step_begin", ctx->arrays.ids, batch->n_tokens * sizeof *ids);
    if (choice->n != batch->n_tokens || batch->n_seqs != batch->n_tokens)
        die("step_begin", "%u tokens after %u were chosen", batch->n_tokens, choice->n);
    for (uint32_t i = 0; i < choice->n; i++)
        ids[i] = choice->results[i].valid ? choice->results[i].id : UINT32_MAX;
}

static void far_step_begin(struct kernels_ctx *ctx, struct kernels_step *step) {
    const struct kernels_limits *limits = &ctx->limits;
    const struct arrays *arrays = &ctx->arrays;
    struct kernels_batch *batch = &step->batch, *real = &ctx->real;
    if (batch->ids ? ctx->in_step : !ctx->in_step || !ctx->has_chosen || ctx->n_choices != 1)
        die("step_begin", "the last step has not ended, or has not chosen");
    ctx->in_step = true;
    ctx->has_chosen = false;
    ctx->n_steps++;
    ctx->mark = ctx->answered = 0;
    *real = *batch;
    real->ids =
        take(ctx, arrays->ids, limits->max_tokens, batch->ids, batch->ids ? batch->n_tokens : 0);
    if (!batch->ids)
        take_chosen(ctx, batch);
    real->positions =
        take(ctx, arrays->positions, limits->max_tokens, batch->positions, batch->n_tokens);
    real->seq_begin = take(ctx, arrays->seq_begin, (size_t)limits->max_seqs + 1, batch->seq_begin,
                           (size_t)batch->n_seqs + 1);
    real->block_tables =
        take(ctx, arrays->tables, limits->max_seqs * blocks_max(limits), batch->block_tables,
             (size_t)batch->n_seqs * batch->block_table_stride);
    if (batch->variants)
        real->variants =
            take(ctx, arrays->variants, limits->max_seqs, batch->variants, batch->n_seqs);
    (void)take(ctx, arrays->rows, limits->max_seqs, step->rows, step->n_rows);
    uint32_t n_rows = step->n_rows == 0 ? 0 : padded(step->n_rows, 2, limits->max_seqs);
    memset(near_of(ctx, "step_begin", arrays->rows + step->n_rows, 0), 0,
           (n_rows - step->n_rows) * sizeof *arrays->rows); /* some token of the batch */
    *batch = (struct kernels_batch){.n_tokens = padded(batch->n_tokens, 8, limits->max_tokens),
                                    .n_seqs = batch->n_seqs,
                                    .ids = arrays->ids,
                                    .positions = arrays->positions,
                                    .seq_begin = arrays->seq_begin,
                                    .block_tables = arrays->tables,
                                    .block_table_stride = batch->block_table_stride,
                                    .variants = batch->variants ? arrays->variants : NULL};
    step->rows = arrays->rows;
    step->n_rows = n_rows;
}

static enum status far_step_end(struct kernels_ctx *ctx) {
    const struct arrays *arrays = &ctx->arrays;
    const struct kernels_limits *limits = &ctx->limits;
    if (!ctx->in_step)
        die("step_end", "no step has begun");
    if (ctx->n_choices > 0)
        die("step_end", "nobody has read what was chosen");
    ctx->in_step = ctx->has_chosen = false;
    (void)take(ctx, arrays->ids, limits->max_tokens, NULL, 0);
    (void)take(ctx, arrays->positions, limits->max_tokens, NULL, 0);
    (void)take(ctx, arrays->rows, limits->max_seqs, NULL, 0);
    return has_failed(ctx) ? STATUS_IO : STATUS_OK;
}

static void far_mark(struct kernels_ctx *ctx, uint32_t number) {
    if (!ctx->in_step || number <= ctx->mark)
        die("mark", "number %u in a step after %u", number, ctx->mark);
    ctx->mark = number;
}

static uint32_t far_marked(struct kernels_ctx *ctx) {
    ctx->asked = !ctx->asked;
    if (!ctx->asked && ctx->answered < ctx->mark)
        ctx->answered++;
    return has_failed(ctx) ? UINT32_MAX : ctx->answered;
}

static size_t far_weight_size(const struct weight_source *source, struct error *error) {
    return kernels_ref.weight_size(source, error);
}

/* `near` lies where `far` would be. */
static const void *moved(const void *pointer, const void *near, const void *far) {
    return pointer ? (const unsigned char *)far +
                         ((const unsigned char *)pointer - (const unsigned char *)near)
                   : NULL;
}

static enum status far_weight_pack(struct kernels_ctx *ctx, const struct weight_source *source,
                                   void *memory, struct weight *weight, struct error *error) {
    struct error ignored;
    const char *lasts_ms = getenv("TANDEM_FAR_PACK_MS");
    if (lasts_ms)
        poll(NULL, 0, (int)strtol(lasts_ms, NULL, 10));
    void *near = near_of(ctx, "weight_pack", memory, kernels_ref.weight_size(source, &ignored));
    TRY(kernels_ref.weight_pack(ctx->ref, source, near, weight, error));
    weight->data = moved(weight->data, near, memory);
    weight->order = moved(weight->order, near, memory);
    return STATUS_OK;
}

static struct weight weight_of(const struct kernels_ctx *ctx, const char *operation,
                               const struct weight *weight) {
    struct weight near = *weight;
    if (weight->data)
        near.data = near_of(ctx, operation, weight->data, 1);
    if (weight->order)
        near.order = near_of(ctx, operation, weight->order, weight->k_stored * sizeof(uint32_t));
    near.scale = floats_or_null(ctx, operation, weight->scale, weight->n);
    near.bias = floats_or_null(ctx, operation, weight->bias, weight->n);
    return near;
}

/* The batch of the step, as it was before it was padded. */
static const struct kernels_batch *batch_of(const struct kernels_ctx *ctx, const char *operation,
                                            const struct kernels_batch *batch) {
    if (!ctx->in_step || batch->ids != ctx->arrays.ids)
        die(operation, "the batch is not that of a step");
    return &ctx->real;
}

static void far_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
                      const struct kernels_batch *batch, uint32_t id_begin) {
    const struct kernels_batch *real = batch_of(ctx, "embed", batch);
    struct weight near = weight_of(ctx, "embed", table);
    kernels_ref.embed(ctx->ref, floats_of(ctx, "embed", out, (size_t)real->n_tokens * table->k),
                      &near, real, id_begin);
}

static void far_norm(struct kernels_ctx *ctx, float *out, const float *x, const float *gain,
                     float eps, uint32_t n_rows, uint32_t dim) {
    size_t n = (size_t)n_rows * dim;
    kernels_ref.norm(ctx->ref, floats_of(ctx, "norm", out, n), floats_of(ctx, "norm", x, n),
                     floats_of(ctx, "norm", gain, dim), eps, n_rows, dim);
}

static void far_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                       const struct weight *weight, uint32_t n_rows, enum epilogue epilogue) {
    struct weight near = weight_of(ctx, "linear", weight);
    size_t width = epilogue == EPILOGUE_SILU_MUL ? weight->n / 2 : weight->n;
    size_t n_out = n_rows ? (n_rows - 1) * out_stride + width : 0;
    kernels_ref.linear(ctx->ref, floats_of(ctx, "linear", out, n_out), out_stride,
                       floats_of(ctx, "linear", x, (size_t)n_rows * weight->k), &near, n_rows,
                       epilogue);
}

static void far_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                         size_t n) {
    kernels_ref.silu_mul(ctx->ref, floats_of(ctx, "silu_mul", out, n),
                         floats_of(ctx, "silu_mul", gate, n), floats_of(ctx, "silu_mul", up, n), n);
}

static void far_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                          uint32_t n_rows, uint32_t dim) {
    size_t n = (size_t)n_rows * dim;
    kernels_ref.add_gated(ctx->ref, floats_of(ctx, "add_gated", out, n),
                          floats_of(ctx, "add_gated", x, n),
                          floats_or_null(ctx, "add_gated", gate, n_rows), n_rows, dim);
}

static void far_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights,
                          const float *logits, uint32_t n_rows, uint32_t n_experts,
                          uint32_t n_active, bool normalise) {
    size_t n_pairs = (size_t)n_rows * n_active;
    kernels_ref.moe_route(ctx->ref, near_of(ctx, "moe_route", ids, n_pairs * sizeof *ids),
                          floats_of(ctx, "moe_route", weights, n_pairs),
                          floats_of(ctx, "moe_route", logits, (size_t)n_rows * n_experts), n_rows,
                          n_experts, n_active, normalise);
}

static void far_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                        const float *weights, uint32_t n_rows, uint32_t n_active,
                        const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                        float *scratch) {
    const char *const name = "moe_ffn";
    size_t n_pairs = (size_t)n_rows * n_active;
    uint32_t dim = down[0].n;
    struct weight *near = calloc(2 * (size_t)n_experts, sizeof *near);
    if (!near)
        abort();
    for (uint32_t e = 0; e < n_experts; e++) {
        near[e] = weight_of(ctx, name, &gate_up[e]);
        near[n_experts + e] = weight_of(ctx, name, &down[e]);
    }
    kernels_ref.moe_ffn(
        ctx->ref, floats_of(ctx, name, out, (size_t)n_rows * dim),
        floats_of(ctx, name, x, (size_t)n_rows * dim),
        near_of(ctx, name, ids, n_pairs * sizeof *ids), floats_of(ctx, name, weights, n_pairs),
        n_rows, n_active, near, near + n_experts, n_experts,
        floats_of(ctx, name, scratch, host_moe_scratch(n_rows, n_active, dim, down[0].k)));
    free(near);
}

static struct kernels_kv kv_of(const struct kernels_ctx *ctx, const char *operation,
                               const struct kernels_kv *kv) {
    struct kernels_kv near = *kv;
    near.base = near_of(ctx, operation, kv->base, kv->block_bytes);
    return near;
}

static size_t qkv_floats(const struct kernels_ctx *ctx, const struct kernels_batch *batch,
                         const struct kernels_kv *kv) {
    return (size_t)batch->n_tokens * (ctx->limits.n_heads + 2 * kv->n_kv_heads) * kv->head_dim;
}

static void far_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                        const struct rope *rope, const struct kernels_kv *kv) {
    const char *const name = "rope_kv";
    const struct kernels_batch *real = batch_of(ctx, name, batch);
    size_t n_positions = ctx->limits.max_context;
    size_t n_angles = rope->n_variants * n_positions * (rope->dims / 2);
    struct rope near = *rope;
    near.cos = floats_or_null(ctx, name, rope->cos, n_angles);
    near.sin = floats_or_null(ctx, name, rope->sin, n_angles);
    near.q_scale = floats_or_null(ctx, name, rope->q_scale, n_positions);
    near.q_norm = floats_or_null(ctx, name, rope->q_norm, kv->head_dim);
    near.k_norm = floats_or_null(ctx, name, rope->k_norm, kv->head_dim);
    struct kernels_kv near_kv = kv_of(ctx, name, kv);
    kernels_ref.rope_kv(ctx->ref, floats_of(ctx, name, qkv, qkv_floats(ctx, real, kv)), real, &near,
                        &near_kv);
}

static void far_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                       const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                       const float *alibi, uint32_t window) {
    const char *const name = "attend";
    const struct kernels_batch *real = batch_of(ctx, name, batch);
    uint32_t n_heads = ctx->limits.n_heads;
    struct kernels_kv near_kv = kv_of(ctx, name, kv);
    kernels_ref.attend(ctx->ref,
                       floats_of(ctx, name, out, (size_t)real->n_tokens * n_heads * kv->head_dim),
                       floats_of(ctx, name, qkv, qkv_floats(ctx, real, kv)), real, &near_kv, scale,
                       floats_or_null(ctx, name, alibi, n_heads), window);
}

static void far_gather_rows(struct kernels_ctx *ctx, float *out, const float *x,
                            const uint32_t *rows, uint32_t n_rows, uint32_t dim) {
    const char *const name = "gather_rows";
    kernels_ref.gather_rows(ctx->ref, floats_of(ctx, name, out, (size_t)n_rows * dim),
                            floats_of(ctx, name, x, dim),
                            near_of(ctx, name, rows, n_rows * sizeof *rows), n_rows, dim);
}

static void far_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                       const struct sample_params *params, struct sample_result *results) {
    kernels_ref.sample(ctx->ref, floats_of(ctx, "sample", logits, (size_t)n_rows * n_vocab), n_rows,
                       n_vocab, params, results);
}

static enum status far_sample_begin(struct kernels_ctx *ctx, float *logits, uint32_t n_rows,
                                    uint32_t n_vocab, const struct sample_params *params) {
    struct choice *choice = &ctx->choices[ctx->n_choices];
    if (!ctx->in_step || ctx->has_chosen || ctx->n_choices == 2)
        die("sample_begin", "%u are begun and not ended", ctx->n_choices);
    if (n_rows > FAR_CHOICE_MAX)
        return STATUS_BUSY;
    far_sample(ctx, logits, n_rows, n_vocab, params, choice->results);
    choice->n = n_rows;
    choice->n_asked = 0;
    ctx->n_choices++;
    ctx->has_chosen = true;
    return STATUS_OK;
}

static bool far_sample_done(struct kernels_ctx *ctx) {
    if (ctx->n_choices == 0)
        die("sample_done", "nothing was begun");
    return has_failed(ctx) || ++ctx->choices[0].n_asked > 2;
}

static enum status far_sample_end(struct kernels_ctx *ctx, struct sample_result *results) {
    if (ctx->n_choices == 0)
        die("sample_end", "nothing was begun");
    struct choice oldest = ctx->choices[0];
    memcpy(results, oldest.results, oldest.n * sizeof *results);
    ctx->choices[0] = ctx->choices[1];
    ctx->choices[1] = oldest;
    ctx->n_choices--;
    return has_failed(ctx) ? STATUS_IO : STATUS_OK;
}

const struct kernels kernels_far = {
    .name = "far",
    .numerics_kind = "exact",
    .open = far_open,
    .close = far_close,
    .numerics = far_numerics,
    .free_bytes = far_free_bytes,
    .alloc = far_alloc,
    .dealloc = far_dealloc,
    .put = far_put,
    .get = far_get,
    .put_beside = far_put,
    .get_beside = far_get_beside,
    .step_begin = far_step_begin,
    .step_end = far_step_end,
    .mark = far_mark,
    .marked = far_marked,
    .weight_size = far_weight_size,
    .weight_pack = far_weight_pack,
    .embed = far_embed,
    .norm = far_norm,
    .linear = far_linear,
    .silu_mul = far_silu_mul,
    .add_gated = far_add_gated,
    .moe_route = far_moe_route,
    .moe_scratch = host_moe_scratch,
    .moe_ffn = far_moe_ffn,
    .rope_kv = far_rope_kv,
    .attend = far_attend,
    .gather_rows = far_gather_rows,
    .sample = far_sample,
    .sample_begin = far_sample_begin,
    .sample_done = far_sample_done,
    .sample_end = far_sample_end,
};
