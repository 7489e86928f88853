#include "kernels/cpu/cpu.h"

#include "base/cores.h"
#include "base/dump.h"
#include "kernels/host.h"
#include "kernels/limits.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE (2u << 20)

static uint32_t cpu_count_cores(void) {
    uint32_t n = cores_usable();
    return n > THREADS_MAX ? THREADS_MAX : n;
}

static void cpu_close(struct kernels_ctx *ctx) {
    if (!ctx)
        return;
    thread_pool_free(ctx->pool);
    if (ctx->samplers)
        for (uint32_t i = 0; i < ctx->n_threads; i++)
            cpu_sampler_fini(&ctx->samplers[i]);
    free(ctx->samplers);
    free(ctx->spans);
    free(ctx->tiles);
    free(ctx->gathered);
    free(ctx);
}

static enum status cpu_open(const struct kernels_options *options, struct kernels_ctx **ctx,
                            struct error *error) {
    TRY(limits_check(options, error));
    const struct path *path = path_find(options->isa);
    if (!path)
        return error_field(error, STATUS_UNSUPPORTED, "isa",
                           "this processor has no instruction set '%s'", options->isa);
    struct kernels_ctx *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for a context");
    made->limits = options->limits;
    made->path = path;
    made->n_threads = options->n_threads ? options->n_threads : cpu_count_cores();
    enum status status = cpu_allocate(made);
    if (status != STATUS_OK)
        status = error_set(error, status, "no memory for the scratch space of a context");
    else
        status = thread_pool_new(made->n_threads, &made->pool, error);
    if (status != STATUS_OK) {
        cpu_close(made);
        return status;
    }
    *ctx = made;
    return STATUS_OK;
}

static size_t round_up(size_t n_bytes) {
    size_t unit = n_bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
    return n_bytes > SIZE_MAX - unit ? 0 : (n_bytes + unit - 1) / unit * unit;
}

static void *cpu_alloc(struct kernels_ctx *ctx, size_t n_bytes) {
    (void)ctx;
    size_t size = round_up(n_bytes);
    if (size == 0)
        return NULL;
    if (size < HUGE_PAGE) {
        void *memory = aligned_alloc(4096, size);
        return memory ? memset(memory, 0, size) : NULL;
    }
    /* Fresh pages are zero; one huge page more than needed, so that the start can be aligned. */
    char *mapped = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)mapped % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        munmap(mapped, before);
    if (before < HUGE_PAGE)
        munmap(mapped + before + size, HUGE_PAGE - before);
    madvise(mapped + before, size, MADV_HUGEPAGE);
    dump_leave_out(mapped + before, size); /* KV, activations, weights */
    return mapped + before;
}

static void cpu_dealloc(struct kernels_ctx *ctx, void *memory, size_t n_bytes) {
    (void)ctx;
    if (!memory)
        return;
    if (round_up(n_bytes) < HUGE_PAGE)
        free(memory);
    else
        munmap(memory, round_up(n_bytes));
}

struct norm_job {
    const struct path *path;
    float *out;
    const float *x;
    const float *gain;
    float eps;
    uint32_t n_rows;
    uint32_t dim;
    uint32_t rows_per_item;
};

static void cpu_norm_item(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct norm_job *job = arg;
    uint32_t end = (item + 1) * job->rows_per_item;
    end = end < job->n_rows ? end : job->n_rows;
    for (uint32_t row = item * job->rows_per_item; row < end; row++)
        job->path->norm(job->out + (size_t)row * job->dim, job->x + (size_t)row * job->dim,
                        job->gain, job->eps, job->dim);
}

#define NORM_ITEM_FLOATS 32768 /* about 5 us of work: less is not worth a second thread */

static void cpu_norm(struct kernels_ctx *ctx, float *out, const float *x, const float *gain,
                     float eps, uint32_t n_rows, uint32_t dim) {
    uint32_t saved = numbers_enter();
    uint32_t per_item = NORM_ITEM_FLOATS / dim + 1;
    struct norm_job job = {ctx->path, out, x, gain, eps, n_rows, dim, per_item};
    thread_pool_run(ctx->pool, (n_rows + per_item - 1) / per_item, cpu_norm_item, &job);
    numbers_leave(saved);
}

static const char *const isas[] = {"scalar", "avx2", "avx512", NULL};

const struct kernels kernels_cpu = {
    .name = "cpu",
    .numerics_kind = "exact",
    .isas = isas,
    .open = cpu_open,
    .close = cpu_close,
    .numerics = host_numerics,
    .alloc = cpu_alloc,
    .dealloc = cpu_dealloc,
    .put = host_put,
    .get = host_get,
    .put_beside = host_put,
    .get_beside = host_get_beside,
    .step_begin = host_step_begin,
    .step_end = host_step_end,
    .weight_size = cpu_weight_size,
    .weight_pack = cpu_weight_pack,
    .embed = cpu_embed,
    .norm = cpu_norm,
    .linear = cpu_linear,
    .silu_mul = cpu_silu_mul,
    .add_gated = cpu_add_gated,
    .moe_route = cpu_moe_route,
    .moe_scratch = host_moe_scratch,
    .moe_ffn = cpu_moe_ffn,
    .rope_kv = cpu_rope_kv,
    .attend = cpu_attend,
    .gather_rows = host_gather_rows,
    .sample = cpu_sample,
};
