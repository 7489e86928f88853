/* kernels/cpu/linear.c: y = x W^T, of one matrix or several. Rows are quantized once, then panels
 * are shared out; each item takes all rows through its few panels, so weights are read from memory
 * once. */
#include "kernels/cpu/cpu.h"

#include "base/assert.h"

#define ITEMS_PER_THREAD 4
#define THREAD_WORK      (4u << 20)   /* multiplications of a thread that are worth another item */
#define ITEM_BYTES       (128u << 10) /* weights that several tiles read: they stay in the L2 cache */
#define ITEM_WORK_MIN    (96u << 10) /* multiplications worth waking a thread for */
#define QUANTIZE_FLOATS  4096        /* about 1.5 us of work: less is not worth a second thread */

struct linear_job {
    const struct path *path;
    const struct weight *weight;
    const float *x;  /* (n_rows, k) */
    uint8_t *tiles;  /* activations as the format wants them */
    float *gathered; /* (threads, TILE_ROWS_MAX, max_stored) scratch: rows in the matrix's order */
    uint32_t max_stored;
    bool fine; /* activations come in two terms */
    float *out;
    size_t out_stride;
    uint32_t n_rows;
    uint32_t tile_rows;       /* of x: with two terms, half of the path's */
    uint32_t tiles_per_item;  /* of the quantizing pass */
    uint32_t n_tile_items;    /* 0: the format takes floats as they are */
    uint32_t panels_per_item; /* of the product */
    uint32_t n_panel_items;
    enum epilogue epilogue;
};

static uint32_t cpu_linear_rows_at(const struct linear_job *job, uint32_t tile) {
    uint32_t left = job->n_rows - tile * job->tile_rows;
    return left < job->tile_rows ? left : job->tile_rows;
}

/* Of one row in a tile, or of both of its terms. */
static uint32_t count_terms(const struct linear_job *job) {
    return job->fine ? 2 : 1;
}

static uint8_t *cpu_linear_tile_at(const struct linear_job *job, uint32_t tile) {
    size_t n_rows = (size_t)tile * job->tile_rows * count_terms(job);
    return job->tiles + n_rows * (job->weight->k_stored / GROUP) * TILE_ROW_BYTES;
}

/* The tile's rows in the order of the matrix. */
static const float *cpu_linear_gather_rows(const struct linear_job *job, uint32_t tile,
                                           size_t scratch) {
    const struct weight *weight = job->weight;
    const float *x = job->x + (size_t)tile * job->tile_rows * weight->k;
    if (!weight->order)
        return x;
    float *gathered = job->gathered + scratch;
    float *out = gathered;
    for (uint32_t r = 0; r < cpu_linear_rows_at(job, tile); r++, x += weight->k)
        for (uint32_t i = 0; i < weight->k_stored; i++)
            *out++ = weight->order[i] == WEIGHT_NO_INPUT ? 0.0f : x[weight->order[i]];
    return gathered;
}

static void cpu_linear_quantize_tile(const struct linear_job *job, uint32_t tile, uint32_t thread) {
    size_t scratch = (size_t)thread * TILE_ROWS_MAX * job->max_stored;
    const float *x = cpu_linear_gather_rows(job, tile, scratch);
    job->path->quantize(cpu_linear_tile_at(job, tile), x, cpu_linear_rows_at(job, tile),
                        job->weight->k_stored, job->fine);
}

/* Rows become bfloat16, each filled up to k_stored. */
static void cpu_linear_round_rows(const struct linear_job *job, size_t row, uint32_t n_rows) {
    uint32_t k = job->weight->k;
    uint32_t k_stored = job->weight->k_stored;
    const float *x = job->x + row * k;
    float *out = (float *)job->tiles + row * k_stored;
    for (uint32_t r = 0; r < n_rows; r++, x += k, out += k_stored) {
        job->path->round_bf16(out, x, k);
        memset(out + k, 0, (k_stored - k) * sizeof *out);
    }
}

static void cpu_linear_quantize_item(const struct linear_job *job, uint32_t item, uint32_t thread) {
    for (uint32_t i = 0; i < job->tiles_per_item; i++) {
        uint32_t tile = item * job->tiles_per_item + i;
        size_t row = (size_t)tile * job->tile_rows;
        if (row >= job->n_rows)
            return;
        if (job->weight->format == WEIGHT_BF16)
            cpu_linear_round_rows(job, row, cpu_linear_rows_at(job, tile));
        else
            cpu_linear_quantize_tile(job, tile, thread);
    }
}

static const void *cpu_linear_activations(const struct linear_job *job, uint32_t tile) {
    size_t offset = (size_t)tile * job->tile_rows * job->weight->k_stored;
    switch (job->weight->format) {
    case WEIGHT_F32:
    case WEIGHT_F16:
        return job->x + offset;
    case WEIGHT_BF16:
        return (const float *)job->tiles + offset;
    default:
        return cpu_linear_tile_at(job, tile);
    }
}

static uint32_t cpu_linear_count_panels(const struct weight *weight) {
    return (weight->n + PANEL - 1) / PANEL;
}

static void cpu_linear_panels_item(const struct linear_job *job, uint32_t item) {
    uint32_t n_panels = cpu_linear_count_panels(job->weight);
    uint32_t begin = item * job->panels_per_item;
    uint32_t end = begin + job->panels_per_item;
    struct gemm_job gemm = {.weight = job->weight,
                            .panel_begin = begin,
                            .panel_end = end < n_panels ? end : n_panels,
                            .epilogue = job->epilogue,
                            .fine = job->fine,
                            .out_stride = job->out_stride};
    for (uint32_t tile = 0; tile * job->tile_rows < job->n_rows; tile++) {
        gemm.x = cpu_linear_activations(job, tile);
        gemm.n_rows = cpu_linear_rows_at(job, tile) * count_terms(job);
        gemm.out = job->out + (size_t)tile * job->tile_rows * job->out_stride;
        job->path->gemm(&gemm);
    }
}

/* n_panels: of all products of the set, which the threads share. Items beside the first of a thread
 * let the others help one that is late, but each costs a claim: in products of ten microseconds a
 * tenth. What only one tile reads need not stay in a cache: the longer the piece, the better the
 * processor knows what is read next. */
static uint32_t cpu_linear_panels_per_item(const struct kernels_ctx *ctx,
                                           const struct linear_job *job, uint32_t n_panels) {
    const struct weight *weight = job->weight;
    uint64_t panel_work = (uint64_t)PANEL * weight->k_stored * job->n_rows;
    uint64_t of_thread = n_panels * panel_work / ctx->n_threads / THREAD_WORK;
    uint32_t per_thread = of_thread < ITEMS_PER_THREAD ? (uint32_t)of_thread + 1 : ITEMS_PER_THREAD;
    uint32_t n_items = ctx->n_threads * per_thread;
    uint32_t share = (n_panels + n_items - 1) / n_items;
    uint32_t most =
        job->n_rows <= job->tile_rows ? UINT32_MAX : (uint32_t)(ITEM_BYTES / panel_bytes(weight));
    uint32_t least = (uint32_t)(ITEM_WORK_MIN / panel_work) + 1;
    share = share > most ? most : share;
    return share < least ? least : share;
}

/* Products that share the pool. Which one an item belongs to is counted off: they are few. */
struct linear_set {
    struct linear_job jobs[LINEAR_TASKS_MAX];
    uint32_t n_jobs;
    uint32_t n_rows; /* of all of them */
};

static void cpu_linear_set_quantize(void *arg, uint32_t item, uint32_t thread) {
    const struct linear_set *set = arg;
    const struct linear_job *job = set->jobs;
    for (; item >= job->n_tile_items; job++)
        item -= job->n_tile_items;
    cpu_linear_quantize_item(job, item, thread);
}

static void cpu_linear_set_panels(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct linear_set *set = arg;
    const struct linear_job *job = set->jobs;
    for (; item >= job->n_panel_items; job++)
        item -= job->n_panel_items;
    cpu_linear_panels_item(job, item);
}

static void cpu_linear_set_run(struct kernels_ctx *ctx, struct linear_set *set) {
    uint32_t n_panels = 0;
    uint32_t n_tile_items = 0;
    uint32_t n_panel_items = 0;
    for (uint32_t i = 0; i < set->n_jobs; i++)
        n_panels += cpu_linear_count_panels(set->jobs[i].weight);
    for (uint32_t i = 0; i < set->n_jobs; i++) {
        struct linear_job *job = &set->jobs[i];
        enum weight_format format = job->weight->format;
        uint32_t n_tiles = (job->n_rows + job->tile_rows - 1) / job->tile_rows;
        uint32_t share = n_tiles / (ctx->n_threads * ITEMS_PER_THREAD);
        uint32_t least = QUANTIZE_FLOATS / (job->tile_rows * job->weight->k_stored) + 1;
        job->tiles_per_item = share > least ? share : least;
        job->n_tile_items = format == WEIGHT_F32 || format == WEIGHT_F16
                                ? 0
                                : (n_tiles + job->tiles_per_item - 1) / job->tiles_per_item;
        job->panels_per_item = cpu_linear_panels_per_item(ctx, job, n_panels);
        job->n_panel_items = (cpu_linear_count_panels(job->weight) + job->panels_per_item - 1) /
                             job->panels_per_item;
        n_tile_items += job->n_tile_items;
        n_panel_items += job->n_panel_items;
    }
    thread_pool_run(ctx->pool, n_tile_items, cpu_linear_set_quantize, set);
    thread_pool_run(ctx->pool, n_panel_items, cpu_linear_set_panels, set);
    set->n_jobs = 0;
    set->n_rows = 0;
}

/* Some rows of a task; what does not fit beside the others waits until they are done. */
static void cpu_linear_set_add(struct kernels_ctx *ctx, struct linear_set *set,
                               const struct linear_task *task, uint32_t row, uint32_t n_rows) {
    const struct weight *weight = task->weight;
    if (set->n_jobs == LINEAR_TASKS_MAX || set->n_rows + n_rows > ctx->tiles_rows)
        cpu_linear_set_run(ctx, set);
    const bool fine = numbers_fine(weight, task->epilogue);
    set->jobs[set->n_jobs++] = (struct linear_job){
        .path = ctx->path,
        .weight = weight,
        .x = task->x + (size_t)row * weight->k,
        .tiles = ctx->tiles + (size_t)set->n_rows * ctx->max_stored * sizeof(float),
        .gathered = ctx->gathered,
        .max_stored = ctx->max_stored,
        .fine = fine,
        .out = task->out + row * task->out_stride,
        .out_stride = task->out_stride,
        .n_rows = n_rows,
        .tile_rows = ctx->path->tile_rows / (fine ? 2 : 1),
        .epilogue = task->epilogue,
    };
    set->n_rows += n_rows;
}

void cpu_linears(struct kernels_ctx *ctx, const struct linear_task *tasks, uint32_t n_tasks) {
    uint32_t saved = numbers_enter();
    struct linear_set set __attribute__((uninitialized)); /* large, and written before read */
    set.n_jobs = 0;
    set.n_rows = 0;
    for (uint32_t i = 0; i < n_tasks; i++) {
        const struct linear_task *task = &tasks[i];
        ASSERT(task->weight->k <= ctx->limits.max_dim);
        ASSERT(task->weight->k_stored <= ctx->max_stored);
        ASSERT(!task->weight->order || ctx->gathered);
        ASSERT(task->epilogue != EPILOGUE_SILU_MUL || task->weight->n % 2 == 0);
        for (uint32_t row = 0; row < task->n_rows; row += ctx->tiles_rows) {
            uint32_t left = task->n_rows - row;
            cpu_linear_set_add(ctx, &set, task, row,
                               left < ctx->tiles_rows ? left : ctx->tiles_rows);
        }
    }
    if (set.n_jobs > 0)
        cpu_linear_set_run(ctx, &set);
    numbers_leave(saved);
}

void cpu_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                const struct weight *weight, uint32_t n_rows, enum epilogue epilogue) {
    struct linear_task task = {.weight = weight,
                               .x = x,
                               .out = out,
                               .out_stride = out_stride,
                               .n_rows = n_rows,
                               .epilogue = epilogue};
    cpu_linears(ctx, &task, 1);
}
