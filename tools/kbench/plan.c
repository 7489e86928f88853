#include "tools/kbench/plan.h"

#include "base/exit.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"
#include "tools/kbench/launches.h"
#include "tools/kbench/plan_shapes.h"
#include "tools/kbench/shapes.h"
#include "tools/kbench/tensor.h"
#include "worker/device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Links that a device has not by its row: of PCIe 4, and of an A100. */
#define PCIE_BYTES_S   64e9
#define NVLINK_BYTES_S 600e9

#define RANKS_MAX  8
#define CONTEXT    2048
#define TOKENS_MAX PLAN_TOKENS_MAX
#define SEQS_MAX   PLAN_SEQS_MAX

struct kbench_packed {
    struct weight weight;
    size_t n_bytes; /* of 64 x 512 weights */
};

struct kbench_plan {
    const struct device *gpu;
    const struct plan_shape *shape; /* of a rank */
    const struct kernels *kernels;
    struct kernels_ctx *ctx; /* rank 0's, the first of `all` */
    struct kernels_ctx *all[RANKS_MAX];
    struct kbench_packed packed, head; /* the model's matrices, and its head */
    uint32_t tp;
    double link_bytes_s; /* between the ranks' devices, both directions together */
    struct launches launches;
    bool json;     /* a line for each step of fast numerics, and nothing else */
    bool goes_on;  /* operations wait for the next one, as in a step: nothing is said of them */
    bool failed;   /* the emulated device: a launch that no GPU takes */
    double bytes;  /* that the operation must move */
    double floats; /* multiplications and additions on FP32 units */
    double ints;   /* on tensor cores */
    double linked; /* bytes that cross the link, both ways */
    /* Of a layer, or of all layers of a step: times at best, and bytes as `linked`. */
    double sums_s, products_s, crossed;
};

/* Arrays of a step, which lie apart; they are never read or written. */
enum place { X, PART, NORMED, QKV, ATTENDED, INNER, LOGITS, TABLES };

static float *kbench_plan_at(enum place place) {
    return (float *)((uintptr_t)(place + 1) << 40);
}

/* Fast numerics, those of a step in a row, multiply on tensor cores of 16 bits with weights of any format. */
static double kbench_plan_compute_s(const struct kbench_plan *plan) {
    const struct device *gpu = plan->gpu;
    return plan->goes_on ? (plan->floats + plan->ints) / gpu->tensor_ops_s
                         : plan->floats / gpu->float_ops_s + plan->ints / gpu->int8_ops_s;
}

static void kbench_plan_end_operation(struct kbench_plan *plan, const char *name) {
    double memory = plan->bytes / plan->gpu->read_bytes_s, compute = kbench_plan_compute_s(plan);
    double link = plan->linked / plan->link_bytes_s, best = fmax(fmax(memory, compute), link);
    *(plan->linked > 0 ? &plan->sums_s : &plan->products_s) += best;
    plan->crossed += plan->linked;
    if (plan->goes_on) {
        plan->bytes = plan->floats = plan->ints = plan->linked = 0;
        return;
    }
    if (plan->kernels->step_end(plan->ctx) != STATUS_OK)
        plan->failed = true;
    printf("  %-8s %9.3f MB  at best %8.2f us by %s\n", name, plan->bytes * 1e-6, best * 1e6,
           link >= best     ? "the link"
           : memory >= best ? "memory"
           : plan->ints > 0 ? "tensor cores"
                            : "FP32 units");
    plan->bytes = plan->floats = plan->ints = plan->linked = 0;
}

/* One of a format, packed, whose memory is none any more. */
static struct kbench_packed kbench_plan_pack(struct kbench_plan *plan, const char *format) {
    struct weight_tensor tensor = tensor_random(format, 64, 512);
    struct kbench_packed packed;
    packed.weight = tensor_pack(plan->kernels, plan->ctx, &tensor, &packed.n_bytes);
    plan->kernels->dealloc(plan->ctx, (void *)(uintptr_t)packed.weight.data, packed.n_bytes);
    tensor_free(&tensor);
    return packed;
}

/* A matrix of a real one's shape. */
static struct weight kbench_plan_matrix(struct kbench_plan *plan,
                                        const struct kbench_packed *packed, uint32_t n,
                                        uint32_t k) {
    struct weight weight = packed->weight;
    weight.n = n;
    weight.k = weight.k_stored = k;
    plan->bytes = (double)packed->n_bytes / (64 * 512) * n * k;
    return weight;
}

static void kbench_plan_product(struct kbench_plan *plan, const char *name,
                                const struct kbench_packed *packed, enum place out, uint32_t n,
                                enum place x, uint32_t k, uint32_t n_rows, enum epilogue epilogue) {
    struct weight weight = kbench_plan_matrix(plan, packed, n, k);
    double work = 2.0 * n * k * n_rows;
    bool ints = weight.format == WEIGHT_I4G || weight.format == WEIGHT_I8G;
    *(ints ? &plan->ints : &plan->floats) = work;
    plan->bytes += 4.0 * n_rows * ((double)k + n);
    plan->kernels->linear(plan->ctx, kbench_plan_at(out), epilogue == EPILOGUE_SILU_MUL ? n / 2 : n,
                          kbench_plan_at(x), &weight, n_rows, epilogue);
    kbench_plan_end_operation(plan, name);
}

static void kbench_plan_norm(struct kbench_plan *plan, uint32_t n_rows) {
    plan->bytes = 8.0 * n_rows * plan->shape->dim;
    plan->kernels->norm(plan->ctx, kbench_plan_at(NORMED), kbench_plan_at(X),
                        kbench_plan_at(TABLES), 1e-5f, n_rows, plan->shape->dim);
    kbench_plan_end_operation(plan, "norm");
}

static void kbench_plan_attention(struct kbench_plan *plan, const struct kernels_step *step,
                                  const struct plan_load *load) {
    const struct plan_shape *shape = plan->shape;
    uint32_t n = step->batch.n_tokens;
    double seen_keys = 0, keys = (double)load->n_seqs * (load->position + load->n_tokens);
    for (uint32_t i = 0; i < load->n_tokens; i++)
        seen_keys += (double)load->n_seqs * (load->position + i + 1);
    struct kernels_kv kv =
        shapes_kv(kbench_plan_at(TABLES), shape->n_kv_heads, shape->head_dim, KV_F16);
    struct rope rope = shapes_rope(shape->head_dim, kbench_plan_at(TABLES), kbench_plan_at(TABLES));
    double width = (double)(shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    plan->bytes = 8.0 * n * width;
    plan->kernels->rope_kv(plan->ctx, kbench_plan_at(QKV), &step->batch, &rope, &kv);
    kbench_plan_end_operation(plan, "rope");
    plan->bytes =
        keys * shape->n_kv_heads * shape->head_dim * 4 + 8.0 * n * shape->n_heads * shape->head_dim;
    plan->floats = 4.0 * seen_keys * shape->n_heads * shape->head_dim;
    plan->kernels->attend(plan->ctx, kbench_plan_at(ATTENDED), kbench_plan_at(QKV), &step->batch,
                          &kv, 0.088f, NULL, 0);
    kbench_plan_end_operation(plan, "attend");
}

/* Whether what a rank adds to the rows crosses rounded, and lies beside them until then. */
static bool kbench_plan_rounds(const struct kbench_plan *plan) {
    return plan->tp > 1 && plan->kernels->add_parts;
}

static void kbench_plan_experts(struct kbench_plan *plan, enum place out, uint32_t n_rows) {
    static uint32_t ids[1];
    const struct plan_shape *shape = plan->shape;
    struct weight gate_up[64], down[64];
    double touched = fmin(shape->n_experts, (double)n_rows * shape->n_active);
    for (uint32_t e = 0; e < shape->n_experts; e++) {
        gate_up[e] = kbench_plan_matrix(plan, &plan->packed, 2 * shape->expert_inner, shape->dim);
        double bytes = plan->bytes;
        down[e] = kbench_plan_matrix(plan, &plan->packed, shape->dim, shape->expert_inner);
        plan->bytes = (bytes + plan->bytes) * touched;
    }
    plan->floats = 6.0 * n_rows * shape->n_active * shape->dim * shape->expert_inner;
    plan->kernels->moe_ffn(plan->ctx, kbench_plan_at(out), kbench_plan_at(NORMED), ids,
                           kbench_plan_at(TABLES), n_rows, shape->n_active, gate_up, down,
                           shape->n_experts, kbench_plan_at(INNER));
    kbench_plan_end_operation(plan, "experts");
}

/* What a rank brings to the others and takes of them; the way by memory, whose bytes are those of NCCL's. */
static void kbench_plan_add_up(struct kbench_plan *plan, uint32_t n_rows) {
    const double n = (double)n_rows * plan->shape->dim, others = plan->tp - 1;
    if (plan->tp < 2)
        return;
    bool whole = n <= (double)gpu_sum_whole(plan->tp, kbench_plan_rounds(plan));
    plan->linked =
        (kbench_plan_rounds(plan) ? 2.0 : 4.0) * n * (whole ? 2 * others : 4 * others / plan->tp);
    plan->bytes = 4.0 * n * 3;
    if (kbench_plan_rounds(plan))
        plan->kernels->add_parts(plan->ctx, kbench_plan_at(X), kbench_plan_at(PART), (size_t)n);
    else
        plan->kernels->sum(plan->ctx, kbench_plan_at(X), (size_t)n);
    kbench_plan_end_operation(plan, "sum");
}

static void kbench_plan_layer(struct kbench_plan *plan, const struct kernels_step *step,
                              const struct plan_load *load) {
    const struct plan_shape *shape = plan->shape;
    uint32_t n = step->batch.n_tokens, width = shape->n_heads * shape->head_dim;
    uint32_t qkv = width + 2 * shape->n_kv_heads * shape->head_dim;
    enum place part = kbench_plan_rounds(plan) ? PART : X;
    enum epilogue epilogue = kbench_plan_rounds(plan) ? EPILOGUE_NONE : EPILOGUE_ADD;
    kbench_plan_norm(plan, n);
    kbench_plan_product(plan, "qkv", &plan->packed, QKV, qkv, NORMED, shape->dim, n, EPILOGUE_NONE);
    kbench_plan_attention(plan, step, load);
    kbench_plan_product(plan, "out", &plan->packed, part, shape->dim, ATTENDED, width, n, epilogue);
    kbench_plan_add_up(plan, n);
    kbench_plan_norm(plan, n);
    kbench_plan_product(plan, "gate_up", &plan->packed, INNER, 2 * shape->inner, NORMED, shape->dim,
                        n, EPILOGUE_SILU_MUL);
    kbench_plan_product(plan, "down", &plan->packed, part, shape->dim, INNER, shape->inner, n,
                        epilogue);
    if (shape->n_experts > 0)
        kbench_plan_experts(plan, part, n);
    kbench_plan_add_up(plan, n);
}

static void kbench_plan_layer_and_head(struct kbench_plan *plan, const struct kernels_step *step,
                                       const struct plan_load *load) {
    const struct plan_shape *shape = plan->shape;
    plan->sums_s = plan->products_s = 0;
    kbench_plan_layer(plan, step, load);
    printf("  the layer: at best %.1f us, and %.1f us of sums over %u ranks\n",
           plan->products_s * 1e6, plan->sums_s * 1e6, plan->tp);
    kbench_plan_product(plan, "head", &plan->head, LOGITS, shape->n_vocab, NORMED, shape->dim,
                        load->n_seqs, EPILOGUE_NONE);
}

/* What a step of so many layers launches. */
static uint32_t kbench_plan_launch_chain(struct kbench_plan *plan, struct kernels_step step,
                                         const struct plan_load *load, uint32_t n_layers) {
    plan->launches.n_names = 0;
    plan->sums_s = plan->products_s = plan->crossed = 0;
    plan->kernels->step_begin(plan->ctx, &step);
    for (uint32_t i = 0; i < n_layers; i++)
        kbench_plan_layer(plan, &step, load);
    if (plan->kernels->step_end(plan->ctx) != STATUS_OK)
        plan->failed = true;
    return plan->launches.n_names;
}

/* What the roofs and the launches of a step come to, for whoever measures one (tests/gpu/run). */
static void print_predicted(struct kbench_plan *plan, const struct plan_load *load,
                            uint32_t n_launches) {
    const struct plan_shape *shape = plan->shape;
    double layer_us = (plan->products_s + plan->sums_s) / 3 * 1e6, begun = plan->products_s;
    kbench_plan_product(plan, "head", &plan->head, LOGITS, shape->n_vocab, NORMED, shape->dim,
                        load->n_seqs, EPILOGUE_NONE);
    if (plan->kernels->step_end(plan->ctx) != STATUS_OK)
        plan->failed = true;
    double head_us = (plan->products_s - begun) * 1e6, n_layers = shape->n_layers;
    double launches_us = n_layers * n_launches * plan->gpu->kernel_us;
    printf("{\"measure\": \"predicted\", \"device\": \"%s\", \"model\": \"%s\", \"load\": "
           "\"%s\", \"ranks\": %u, \"launches\": %u, \"floor_ms\": %.3f, \"predicted_ms\": "
           "%.3f}\n",
           plan->gpu->name, shape->name, load->name, plan->tp, n_launches,
           (n_layers * layer_us + head_us) * 1e-3,
           (n_layers * layer_us + head_us + launches_us) * 1e-3);
}

/* A layer within a step, whose operations wait for each other: as it is in a graph. */
static void kbench_plan_print_chain(struct kbench_plan *plan, const struct kernels_step *step,
                                    const struct plan_load *load) {
    uint32_t n_two = kbench_plan_launch_chain(plan, *step, load, 2);
    uint32_t n = kbench_plan_launch_chain(plan, *step, load, 3) - n_two;
    if (plan->json) {
        print_predicted(plan, load, n);
        return;
    }
    printf("%s, %s, of %u ranks, in a step of fast numerics: %u launches a layer:",
           plan->shape->name, load->name, plan->tp, n);
    for (uint32_t i = 0; i < n && n + i < CHAIN_MAX; i++)
        printf(" %s", plan->launches.names[n + i]);
    printf("; at best %.1f us", plan->products_s / 3 * 1e6);
    if (plan->tp > 1)
        printf("; sums: %.3f MB over the link, at best %.2f us", plan->crossed / 3 * 1e-6,
               plan->sums_s / 3 * 1e6);
    printf("\n");
}

static void kbench_plan_print_load(struct kbench_plan *plan, const struct plan_load *load) {
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
    if (plan->goes_on) {
        kbench_plan_print_chain(plan, &step, load);
        return;
    }
    printf("%s, %s, on %s, of %u ranks: a layer and the head; each operation below its launches\n",
           plan->shape->name, load->name, plan->gpu->name, plan->tp);
    plan->kernels->step_begin(plan->ctx, &step);
    kbench_plan_layer_and_head(plan, &step, load);
}

static uint32_t kbench_plan_share_of(const struct kbench_plan *plan, uint32_t n) {
    return (n + plan->tp - 1) / plan->tp;
}

/* Of the first rank, which has no less than any other. */
static struct plan_shape kbench_plan_cut(const struct kbench_plan *plan,
                                         const struct plan_shape *whole) {
    struct plan_shape shape = *whole;
    shape.n_heads = kbench_plan_share_of(plan, whole->n_heads);
    shape.n_kv_heads = kbench_plan_share_of(plan, whole->n_kv_heads);
    shape.inner = kbench_plan_share_of(plan, whole->inner);
    shape.n_vocab = kbench_plan_share_of(plan, whole->n_vocab);
    shape.expert_inner = kbench_plan_share_of(plan, whole->expert_inner);
    return shape;
}

static enum status kbench_plan_open_ranks(struct kbench_plan *plan, struct error *error) {
    const struct plan_shape *shape = plan->shape;
    struct kernels_options options = {
        .n_threads = 1,
        .no_graphs = true, /* launches are shown as they are called */
        .n_ranks = plan->tp,
        .together = (size_t)TOKENS_MAX * shape->dim,
        .limits = {.max_tokens = TOKENS_MAX,
                   .max_seqs = SEQS_MAX,
                   .max_context = CONTEXT,
                   .max_dim = shape->inner > shape->dim ? shape->inner : shape->dim,
                   .n_vocab = shape->n_vocab,
                   .n_heads = shape->n_heads,
                   .n_kv_heads = shape->n_kv_heads,
                   .head_dim = shape->head_dim,
                   .kv_format = KV_F16}};
    for (options.device = 0; options.device < plan->tp; options.device++)
        TRY(plan->kernels->open(&options, &plan->all[options.device], error));
    for (uint32_t rank = 0; plan->tp > 1 && rank < plan->tp; rank++)
        TRY(plan->kernels->meet(plan->all[rank], rank, plan->tp, plan->all, NULL, error));
    plan->ctx = plan->all[0];
    plan->packed = kbench_plan_pack(plan, shape->format);
    plan->head = kbench_plan_pack(plan, shape->head_format);
    return STATUS_OK;
}

/* Operations one by one in exact numerics, then in a row in fast ones. */
static bool kbench_plan_print_shape(struct kbench_plan *plan, const struct plan_shape *whole,
                                    bool goes_on) {
    struct plan_shape shape = kbench_plan_cut(plan, whole);
    struct emu_watch watch = {goes_on ? launches_name : launches_seen, &plan->launches};
    struct error error = {0};
    plan->shape = &shape;
    plan->goes_on = goes_on;
    plan->kernels = kernels_find(goes_on ? "cuda-emu:fast" : "cuda-emu:exact");
    emu_watch_launches(&watch);
    bool good = kbench_plan_open_ranks(plan, &error) == STATUS_OK;
    if (!good)
        fprintf(stderr, "kbench: %s: %s\n", shape.name, error.text);
    for (size_t i = 0; good && i < PLAN_LOADS; i++)
        kbench_plan_print_load(plan, &plan_loads[i]);
    for (uint32_t rank = 0; rank < plan->tp; rank++) {
        if (plan->all[rank])
            plan->kernels->close(plan->all[rank]);
        plan->all[rank] = NULL;
    }
    emu_watch_launches(NULL);
    return good;
}

/* "1,2,4": in rising order of the text; false: not that. */
static bool kbench_plan_read_sizes(const char *text, uint32_t sizes[RANKS_MAX], uint32_t *n) {
    char *end = (char *)(uintptr_t)text;
    *n = 0;
    do {
        unsigned long size = strtoul(*n > 0 ? end + 1 : end, &end, 10);
        if (size < 1 || size > RANKS_MAX || *n == RANKS_MAX)
            return false;
        sizes[(*n)++] = (uint32_t)size;
    } while (*end == ',');
    return *end == '\0';
}

/* 0: no such link. */
static double kbench_plan_rate_of(const struct device *gpu, const char *link) {
    bool own = (gpu->link == DEVICE_NVLINK) == (strcmp(link, "nvlink") == 0);
    if (strcmp(link, "nvlink") != 0 && strcmp(link, "pcie") != 0)
        return 0;
    return own ? gpu->link_bytes_s : strcmp(link, "pcie") == 0 ? PCIE_BYTES_S : NVLINK_BYTES_S;
}

static int print_device(const struct plan_options *options, const struct device *gpu) {
    static struct kbench_plan plan;
    uint32_t sizes[RANKS_MAX], n_sizes;
    bool good = true;
    plan.gpu = gpu;
    plan.link_bytes_s =
        options->link ? kbench_plan_rate_of(plan.gpu, options->link) : plan.gpu->link_bytes_s;
    if (!kbench_plan_read_sizes(options->tp, sizes, &n_sizes) || plan.link_bytes_s == 0) {
        fprintf(stderr, "kbench: --tp: numbers up to %d (1,2,4); --link: nvlink or pcie\n",
                RANKS_MAX);
        return EXIT_CONFIG;
    }
    if (options->code && !launches_read_codes(&plan.launches, options->code)) {
        fprintf(stderr, "kbench: --code: '%s' is not a file of tests/gpu/sass.py --registers\n",
                options->code);
        return EXIT_CONFIG;
    }
    plan.launches.gpu = plan.gpu;
    plan.json = options->json;
    setenv("TANDEM_EMU_MEMORY", "16g", 0);
    for (size_t i = 0; good && i < n_sizes * PLAN_SHAPES; i++) {
        const struct plan_shape *shape = &plan_shapes[i / n_sizes];
        plan.tp = sizes[i % n_sizes];
        if (!options->only || strstr(shape->name, options->only))
            good = (plan.json || kbench_plan_print_shape(&plan, shape, false)) &&
                   kbench_plan_print_shape(&plan, shape, true);
    }
    if (plan.json)
        return good && !plan.failed ? EXIT_SUCCESS : EXIT_FAILURE;
    printf("%u launches, of which %u cannot reach 80 %% of what the device does at best\n",
           plan.launches.n, plan.launches.n_short);
    return good && !plan.failed && plan.launches.n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int plan_print(const struct plan_options *options) {
    const struct device *gpu = device_find(options->device);
    int status = EXIT_SUCCESS;
    if (strcmp(options->device, "all") == 0) {
        for (gpu = device_table; gpu->name && status == EXIT_SUCCESS; gpu++)
            status = print_device(options, gpu);
        return status;
    }
    if (gpu)
        return print_device(options, gpu);
    fprintf(stderr, "kbench: --device: '%s' is not one of all, %s\n", options->device,
            device_names());
    return EXIT_CONFIG;
}
