#include "tools/kbench/plan.h"

#include "base/exit.h"
#include "kernels/cuda/emulator/figures.h"
#include "kernels/kernels.h"
#include "tools/kbench/shapes.h"
#include "tools/kbench/tensor.h"
#include "worker/device/device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SM_THREADS   2048
#define SM_BLOCKS    32
#define SM_REGISTERS 65536
#define BLOCK_SHARED 1024   /* that the driver takes of each block */
#define LATENCY_S    800e-9 /* assumed, of memory under load: rate times latency must be under way */
#define ENOUGH       0.8

struct shape {
    const char *name, *format, *head_format;
    uint32_t dim, n_heads, n_kv_heads, head_dim, inner, n_vocab;
    uint32_t n_experts, n_active, expert_inner;
};
static const struct shape shapes[] = {
    {"Mistral-7B AWQ", "awq", "f16", 4096, 32, 8, 128, 14336, 32000, 0, 0, 0},
    {"Baichuan2-13B GPTQ", "gptq4", "f16", 5120, 40, 40, 128, 13696, 125696, 0, 0, 0},
    {"Qwen-14B F16", "f16", "f16", 5120, 40, 40, 128, 13696, 152064, 0, 0, 0},
    {"ChatGLM3-6B F16", "f16", "f16", 4096, 32, 2, 128, 13696, 65024, 0, 0, 0},
    {"Qwen2-57B-A14B F16", "f16", "f16", 3584, 28, 4, 128, 20480, 151936, 64, 8, 2560},
    {"Qwen2-72B F16", "f16", "f16", 8192, 64, 8, 128, 29568, 152064, 0, 0, 0},
    {"Qwen2-72B AWQ", "awq", "f16", 8192, 64, 8, 128, 29568, 152064, 0, 0, 0},
    {"Qwen2-72B GPTQ-Int8", "gptq8", "f16", 8192, 64, 8, 128, 29568, 152064, 0, 0, 0},
};

static const struct load {
    const char *name;
    uint32_t n_seqs, n_tokens, position; /* tokens of each sequence, the first one's position */
} loads[] = {{"decode, 1 at 512", 1, 1, 512},
             {"decode, 16 at 512", 16, 1, 512},
             {"decode, 64 at 512", 64, 1, 512},
             {"prefill, 2048", 1, 2048, 0}};

#define CONTEXT    2048
#define TOKENS_MAX 2048
#define SEQS_MAX   64
#define CODES_MAX  512

/* A kernel of the GPU's code, from sass.py. */
struct code {
    char arch[8], name[160];
    uint32_t registers, load_bytes, load_registers,
        copy_bytes; /* of a thread: loads, and what they fill; cp.async */
};

struct plan {
    const struct device *gpu;
    const struct shape *shape;
    const struct kernels *kernels;
    struct kernels_ctx *ctx;
    struct code codes[CODES_MAX];
    uint32_t n_codes, n_launches, n_short;
    bool failed;   /* the emulated device: a launch that no GPU takes */
    double bytes;  /* that the operation must move */
    double floats; /* multiplications and additions on FP32 units */
    double ints;   /* on tensor cores */
};

static bool read_codes(struct plan *plan, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    while (plan->n_codes < CODES_MAX) {
        struct code *code = &plan->codes[plan->n_codes];
        if (fscanf(file, "%7s %159s %u %u %u %u", code->arch, code->name, &code->registers,
                   &code->load_bytes, &code->load_registers, &code->copy_bytes) != 6)
            break;
        plan->n_codes++;
    }
    fclose(file);
    return plan->n_codes > 0;
}

/* The symbol of a kernel is that of the GPU's code but for its namespace. */
static const struct code *find_code(const struct plan *plan, const char *symbol) {
    static const char emulated[] = "_ZN7gpu_emu", real[] = "_ZN8gpu_cuda";
    char first[160], name[200];
    if (strncmp(symbol, emulated, sizeof emulated - 1) != 0)
        return NULL;
    snprintf(first, sizeof first, "%s", symbol + sizeof emulated - 1);
    snprintf(name, sizeof name, "%s%s", real, first);
    for (uint32_t i = 0; i < plan->n_codes; i++)
        if (strcmp(plan->codes[i].arch, plan->gpu->arch) == 0 &&
            strcmp(plan->codes[i].name, name) == 0)
            return &plan->codes[i];
    return NULL;
}

/* few_kernel of _ZN7gpu_emu10few_kernelILi4E... */
static void print_short_name(const char *symbol) {
    const char *at = strstr(symbol, "gpu_emu");
    char *end;
    long n = at ? strtol(at + 7, &end, 10) : 0;
    if (n > 0)
        printf("    %-16.*s", (int)n, end);
    else
        printf("    %-16s", symbol);
}

static uint32_t blocks_of_sm(const struct device *gpu, const struct emu_seen *launch,
                             const struct code *code) {
    uint32_t n_threads = launch->block[0] * launch->block[1] * launch->block[2];
    uint32_t n = SM_THREADS / n_threads < SM_BLOCKS ? SM_THREADS / n_threads : SM_BLOCKS;
    size_t by_shared = gpu->shared_bytes / (launch->shared_bytes + BLOCK_SHARED);
    n = by_shared < n ? (uint32_t)by_shared : n;
    if (code) { /* given to a warp in pieces of 256 */
        uint32_t of_warp = (code->registers * 32 + 255) / 256 * 256,
                 n_warps = (n_threads + 31) / 32;
        uint32_t by_registers = SM_REGISTERS / of_warp / n_warps;
        n = by_registers < n ? by_registers : n;
    }
    return n;
}

/* Bytes that the blocks of an SM can have under way: what a thread's code fetches, as far as registers (a narrow load
 * takes a whole one) and shared memory hold it. */
static double under_way(const struct emu_seen *launch, const struct code *code, double n_blocks) {
    double n_threads = launch->block[0] * launch->block[1] * launch->block[2];
    double held = fmin(1.0, code->registers / fmax(code->load_registers, 1.0));
    double loaded = code->load_bytes * held * n_threads;
    double copies = fmin(code->copy_bytes * n_threads, (double)launch->shared_bytes);
    return (loaded + copies) * n_blocks;
}

static void seen(void *context, const struct emu_seen *launch) {
    struct plan *plan = context;
    const struct device *gpu = plan->gpu;
    Dl_info info = {0};
    const char *symbol = "?";
    void *address;
    memcpy(&address, &launch->kernel, sizeof address);
    if (dladdr(address, &info) && info.dli_sname)
        symbol = info.dli_sname;
    const struct code *code = find_code(plan, symbol);
    double n = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint32_t of_sm = blocks_of_sm(gpu, launch, code);
    double at_once = (double)of_sm * gpu->n_sms, waves = ceil(n / at_once);
    /* The share of the SMs' time that has work, when all blocks take as long. */
    double busy = n < gpu->n_sms ? n / gpu->n_sms : n / (waves * at_once);
    if (n >= gpu->n_sms && n < at_once) /* an SM with fewer blocks than it holds is not idle */
        busy = n / (ceil(n / gpu->n_sms) * gpu->n_sms);
    double of_each = fmin(of_sm, ceil(n / gpu->n_sms)),
           wanted = gpu->read_bytes_s * LATENCY_S / gpu->n_sms;
    plan->n_launches++;
    print_short_name(symbol);
    printf(" CTAs %6.0f x %4u threads  shared %6.1f KiB", n,
           launch->block[0] * launch->block[1] * launch->block[2],
           (double)launch->shared_bytes / 1024);
    if (code)
        printf("  registers %3u", code->registers);
    printf("  of an SM %2u  busy %3.0f %%", of_sm, 100 * busy);
    bool starves = code && under_way(launch, code, of_each) < ENOUGH * wanted;
    if (code)
        printf("  under way at most %6.1f KiB", under_way(launch, code, of_each) / 1024);
    if (busy < ENOUGH || starves)
        printf("  CANNOT REACH 80 %%:%s%s", busy < ENOUGH ? " SMs idle" : "",
               starves ? " too few bytes under way" : "");
    printf("\n");
    plan->n_short += busy < ENOUGH || starves;
}

static void end_operation(struct plan *plan, const char *name) {
    const struct device *gpu = plan->gpu;
    double memory = plan->bytes / gpu->read_bytes_s;
    double compute = plan->floats / gpu->float_ops_s + plan->ints / gpu->int8_ops_s;
    if (plan->kernels->step_end(plan->ctx) != STATUS_OK)
        plan->failed = true;
    printf("  %-8s %9.3f MB  at best %8.2f us by %s\n", name, plan->bytes * 1e-6,
           fmax(memory, compute) * 1e6,
           memory >= compute ? "memory"
           : plan->ints > 0  ? "tensor cores"
                             : "FP32 units");
    plan->bytes = plan->floats = plan->ints = 0;
}

/* A matrix of a real one's shape and format; its memory is no memory. */
static struct weight matrix(struct plan *plan, const char *format, uint32_t n, uint32_t k) {
    struct weight_tensor tensor = tensor_random(format, 64, 512);
    size_t n_bytes;
    struct weight weight = tensor_pack(plan->kernels, plan->ctx, &tensor, &n_bytes);
    plan->kernels->dealloc(plan->ctx, (void *)(uintptr_t)weight.data, n_bytes);
    tensor_free(&tensor);
    double per_weight = (double)n_bytes / (64 * 512);
    weight.n = n;
    weight.k = weight.k_stored = k;
    plan->bytes = per_weight * n * k;
    return weight;
}

static void product(struct plan *plan, const char *name, const char *format, uint32_t n, uint32_t k,
                    uint32_t n_rows, enum epilogue epilogue) {
    static float nothing[1];
    struct weight weight = matrix(plan, format, n, k);
    double work = 2.0 * n * k * n_rows;
    bool ints = weight.format == WEIGHT_I4G || weight.format == WEIGHT_I8G;
    *(ints ? &plan->ints : &plan->floats) = work;
    plan->bytes += 4.0 * n_rows * ((double)k + n);
    plan->kernels->linear(plan->ctx, nothing, n, nothing, &weight, n_rows, epilogue);
    end_operation(plan, name);
}

static void norm(struct plan *plan, uint32_t n_rows) {
    static _Alignas(16) float nothing[1];
    plan->bytes = 8.0 * n_rows * plan->shape->dim;
    plan->kernels->norm(plan->ctx, nothing, nothing, nothing, 1e-5f, n_rows, plan->shape->dim);
    end_operation(plan, "norm");
}

static void attention(struct plan *plan, const struct kernels_step *step, const struct load *load) {
    static float nothing[1];
    const struct shape *shape = plan->shape;
    uint32_t n = step->batch.n_tokens;
    double seen_keys = 0, keys = (double)load->n_seqs * (load->position + load->n_tokens);
    for (uint32_t i = 0; i < load->n_tokens; i++)
        seen_keys += (double)load->n_seqs * (load->position + i + 1);
    struct kernels_kv kv = shapes_kv(nothing, shape->n_kv_heads, shape->head_dim, KV_F16);
    struct rope rope = shapes_rope(shape->head_dim, nothing, nothing);
    double width = (double)(shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    plan->bytes = 8.0 * n * width;
    plan->kernels->rope_kv(plan->ctx, nothing, &step->batch, &rope, &kv);
    end_operation(plan, "rope");
    plan->bytes =
        keys * shape->n_kv_heads * shape->head_dim * 4 + 8.0 * n * shape->n_heads * shape->head_dim;
    plan->floats = 4.0 * seen_keys * shape->n_heads * shape->head_dim;
    plan->kernels->attend(plan->ctx, nothing, nothing, &step->batch, &kv, 0.088f, NULL, 0);
    end_operation(plan, "attend");
}

static void experts(struct plan *plan, uint32_t n_rows) {
    static float nothing[1];
    static uint32_t ids[1];
    const struct shape *shape = plan->shape;
    struct weight gate_up[64], down[64];
    double touched = fmin(shape->n_experts, (double)n_rows * shape->n_active);
    for (uint32_t e = 0; e < shape->n_experts; e++) {
        gate_up[e] = matrix(plan, shape->format, 2 * shape->expert_inner, shape->dim);
        double bytes = plan->bytes;
        down[e] = matrix(plan, shape->format, shape->dim, shape->expert_inner);
        plan->bytes = (bytes + plan->bytes) * touched;
    }
    plan->floats = 6.0 * n_rows * shape->n_active * shape->dim * shape->expert_inner;
    plan->kernels->moe_ffn(plan->ctx, nothing, nothing, ids, nothing, n_rows, shape->n_active,
                           gate_up, down, shape->n_experts, nothing);
    end_operation(plan, "experts");
}

static void layer_and_head(struct plan *plan, const struct kernels_step *step,
                           const struct load *load) {
    const struct shape *shape = plan->shape;
    uint32_t n = step->batch.n_tokens, width = shape->n_heads * shape->head_dim;
    norm(plan, n);
    product(plan, "qkv", shape->format, width + 2 * shape->n_kv_heads * shape->head_dim, shape->dim,
            n, EPILOGUE_NONE);
    attention(plan, step, load);
    product(plan, "out", shape->format, shape->dim, width, n, EPILOGUE_ADD);
    product(plan, "gate_up", shape->format, 2 * shape->inner, shape->dim, n, EPILOGUE_SILU_MUL);
    product(plan, "down", shape->format, shape->dim, shape->inner, n, EPILOGUE_ADD);
    if (shape->n_experts > 0)
        experts(plan, n);
    product(plan, "head", shape->head_format, shape->n_vocab, shape->dim, load->n_seqs,
            EPILOGUE_NONE);
}

static void print_load(struct plan *plan, const struct load *load) {
    static uint32_t ids[TOKENS_MAX], positions[TOKENS_MAX], begins[SEQS_MAX + 1], rows[SEQS_MAX];
    static uint32_t blocks[SEQS_MAX * CONTEXT / KV_BLOCK_TOKENS];
    for (uint32_t s = 0; s < load->n_seqs; s++) {
        begins[s + 1] = (s + 1) * load->n_tokens;
        for (uint32_t i = 0; i < load->n_tokens; i++)
            positions[s * load->n_tokens + i] = load->position + i;
    }
    struct kernels_step step = {.batch = {.n_tokens = load->n_seqs * load->n_tokens,
                                          .n_seqs = load->n_seqs,
                                          .ids = ids,
                                          .positions = positions,
                                          .seq_begin = begins,
                                          .block_tables = blocks,
                                          .block_table_stride = CONTEXT / KV_BLOCK_TOKENS},
                                .rows = rows,
                                .n_rows = load->n_seqs};
    printf("%s, %s, on %s: a layer and the head; each operation below its launches\n",
           plan->shape->name, load->name, plan->gpu->name);
    plan->kernels->step_begin(plan->ctx, &step);
    layer_and_head(plan, &step, load);
}

static bool print_shape(struct plan *plan) {
    const struct shape *shape = plan->shape;
    struct error error = {0};
    struct kernels_options options = {.n_threads = 1,
                                      .no_graphs = true, /* launches are shown as they are called */
                                      .limits = {.max_tokens = TOKENS_MAX,
                                                 .max_seqs = SEQS_MAX,
                                                 .max_context = CONTEXT,
                                                 .max_dim = shape->inner,
                                                 .n_vocab = shape->n_vocab,
                                                 .n_heads = shape->n_heads,
                                                 .n_kv_heads = shape->n_kv_heads,
                                                 .head_dim = shape->head_dim}};
    if (plan->kernels->open(&options, &plan->ctx, &error) != STATUS_OK) {
        fprintf(stderr, "kbench: %s: %s\n", shape->name, error.text);
        return false;
    }
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        print_load(plan, &loads[i]);
    plan->kernels->close(plan->ctx);
    return true;
}

int plan_print(const char *device, const char *code, const char *only) {
    static struct plan plan;
    struct emu_watch watch = {seen, &plan};
    bool good = true;
    plan.gpu = device_find(device);
    if (!plan.gpu) {
        fprintf(stderr, "kbench: --device: '%s' is none of %s\n", device, device_names());
        return EXIT_CONFIG;
    }
    if (code && !read_codes(&plan, code)) {
        fprintf(stderr, "kbench: --code: '%s' is no file of tests/gpu/sass.py --registers\n", code);
        return EXIT_CONFIG;
    }
    plan.kernels = kernels_find("cuda-emu:exact");
    setenv("TANDEM_EMU_MEMORY", "16g", 0);
    emu_watch_launches(&watch);
    for (size_t i = 0; good && i < sizeof shapes / sizeof *shapes; i++) {
        plan.shape = &shapes[i];
        if (!only || strstr(shapes[i].name, only))
            good = print_shape(&plan);
    }
    emu_watch_launches(NULL);
    printf("%u launches, of which %u cannot reach 80 %% of what the device does at best\n",
           plan.n_launches, plan.n_short);
    return good && !plan.failed && plan.n_launches > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
