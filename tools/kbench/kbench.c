/* tools/kbench/kbench.c: how fast the kernels are, beside what the machine can do. */
#include "base/exit.h"
#include "tools/kbench/parts.h"
#include "tools/kbench/plan.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kbench_options {
    const char *backend;
    const char *isa;
    uint32_t n_threads;
    const char *format; /* NULL: all */
    bool plan;
    struct plan_options of_plan; /* `only` is for all: NULL: everything */
};

struct kbench_shape {
    const char *format;
    uint32_t n;
    uint32_t k;
};

static const struct kbench_shape products[] = {
    {"q4_1", 960, 576},    {"q4_1", 576, 576},   {"q4_1", 3072, 576},   {"q4_1", 576, 1536},
    {"q8_0", 49152, 576},  {"q4_1", 6144, 4096}, {"q4_1", 28672, 4096}, {"q4_1", 4096, 14336},
    {"q8_0", 4096, 4096},  {"q4_1", 4096, 4096}, {"awq", 4096, 4096},   {"gptq4", 4096, 4096},
    {"gptq8", 4096, 4096}, {"q4_k", 4096, 4096}, {"q5_k", 4096, 4096},  {"q6_k", 4096, 4096},
    {"awq", 28672, 4096},  {"f16", 4096, 4096},  {"bf16", 4096, 4096},  {"f32", 2048, 2048}};
static const uint32_t rows[] = {1, 4, 16, 256};

#define N_SHAPES (sizeof products / sizeof *products)
#define N_ROWS   (sizeof rows / sizeof *rows)

static void kbench_print_shape(const struct machine *machine, const struct kbench_shape *shape,
                               uint32_t m, const struct gemm_figures *figures) {
    double gb_s = figures->bytes / figures->seconds * 1e-9;
    double gmac_s = (double)shape->n * shape->k * m / figures->seconds * 1e-9;
    printf("%-8s %6u x %-6u m %3u %9.3f ms %7.1f GB/s %4.0f%% %8.1f GMAC/s", shape->format,
           shape->n, shape->k, m, figures->seconds * 1e3, gb_s, 100.0 * gb_s / machine->read_gb_s,
           gmac_s);
    if (machine->int8_gmac_s > 0)
        printf(" %4.0f%%\n", 100.0 * gmac_s / machine->int8_gmac_s);
    else
        printf("    -\n");
}

/* The limits are measured anew between the shapes, and the percentages printed at the end: what
 * others do on this machine would else be in the one and not in the other. */
static void kbench_time_shapes(const struct subject *subject, const char *format) {
    static struct gemm_figures figures[N_SHAPES][N_ROWS];
    struct machine machine;
    machine_init(&machine, subject->n_threads, subject->isa);
    for (size_t i = 0; i < N_SHAPES; i++) {
        const struct kbench_shape *shape = &products[i];
        if (format && strcmp(format, shape->format) != 0)
            continue;
        for (size_t j = 0; j < N_ROWS; j++)
            if (!machine_time_gemm(subject, shape->format, shape->n, shape->k, rows[j],
                                   &figures[i][j]))
                figures[i][j].seconds = 0;
        machine_measure(&machine);
    }
    printf("machine: %u threads, read %.1f GB/s, int8 %.0f GMAC/s\n", machine.n_threads,
           machine.read_gb_s, machine.int8_gmac_s);
    for (size_t i = 0; i < N_SHAPES; i++)
        for (size_t j = 0; j < N_ROWS; j++)
            if (figures[i][j].seconds > 0)
                kbench_print_shape(&machine, &products[i], rows[j], &figures[i][j]);
    fflush(stdout);
    machine_fini(&machine);
}

static void kbench_time_attention(const struct subject *subject) {
    static const struct attend_shape shapes[] = {
        {32, 8, 128, 1, 1, 2000, KV_F16},  {32, 8, 128, 1, 1, 2000, KV_F32},
        {32, 8, 128, 16, 1, 500, KV_F16},  {32, 8, 128, 16, 1, 500, KV_F32},
        {32, 8, 128, 1, 256, 256, KV_F16}, {32, 8, 128, 1, 256, 256, KV_F32},
        {9, 3, 64, 1, 1, 512, KV_F16},     {9, 3, 64, 1, 1, 512, KV_F32},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct attend_shape *shape = &shapes[i];
        double seconds = parts_time_attend(subject, shape);
        printf("attend %s  heads %2u/%-2u x %-3u  %2u sequences, %3u tokens from %-4u %9.3f ms\n",
               shape->format == KV_F32 ? "f32" : "f16", shape->n_heads, shape->n_kv_heads,
               shape->head_dim, shape->n_seqs, shape->n_tokens, shape->position, seconds * 1e3);
        fflush(stdout);
    }
}

/* The experts of Qwen2-57B-A14B. */
static void kbench_time_mixture(const struct subject *subject) {
    static const struct moe_shape shape = {64, 8, 3584, 2560};
    static const char *const formats[] = {"q4_1", "f16"};
    static const uint32_t tokens[] = {1, 16, 128};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct kbench_moe *moe = parts_moe_open(subject, &shape, formats[i], 128);
        for (size_t j = 0; moe && j < sizeof tokens / sizeof tokens[0]; j++) {
            struct moe_figures figures = parts_time_moe(moe, tokens[j]);
            printf("moe %-5s T %3u %9.3f ms %7.1f GB/s   its products alone %9.3f ms, x %.3f\n",
                   formats[i], tokens[j], figures.seconds * 1e3,
                   figures.bytes / figures.seconds * 1e-9, figures.linear_seconds * 1e3,
                   figures.seconds / figures.linear_seconds);
            fflush(stdout);
        }
        parts_moe_close(moe);
    }
}

static bool kbench_is_wanted(const struct kbench_options *options, const char *what) {
    return !options->of_plan.only || strcmp(options->of_plan.only, what) == 0;
}

static void kbench_usage(FILE *to) {
    fprintf(to, "kbench [--backend cpu] [--isa scalar|avx2|avx512] [--threads N] "
                "[--only shapes|attend|moe] [--format NAME]\n"
                "       kbench --plan [--device NAME] [--code FILE] [--only PART] [--tp N,...] "
                "[--link nvlink|pcie] [--json]\n"
                "Times the kernels against the machine's read bandwidth and integer peak; --plan "
                "prints what the CUDA\n"
                "backend launches at the shapes of the reference models (FILE: of "
                "tests/gpu/sass.py --registers).\n");
}

static int kbench_print_plan(const struct kbench_options *options) {
#ifdef TANDEM_EMU
    return plan_print(&options->of_plan);
#else
    (void)options;
    fprintf(stderr, "kbench: --plan needs a build with the emulator (preset emu)\n");
    return EXIT_CONFIG;
#endif
}

int main(int argc, char **argv) {
    static const struct option names[] = {{"backend", required_argument, NULL, 'b'},
                                          {"isa", required_argument, NULL, 'i'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"format", required_argument, NULL, 'f'},
                                          {"plan", no_argument, NULL, 'p'},
                                          {"tp", required_argument, NULL, 'n'},
                                          {"link", required_argument, NULL, 'l'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"code", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct kbench_options options = {.backend = "cpu", .of_plan = {.device = "h100", .tp = "1"}};
    exit_checks_stdout();
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'b')
            options.backend = optarg;
        else if (c == 'i')
            options.isa = optarg;
        else if (c == 't')
            options.n_threads = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 'f')
            options.format = optarg;
        else if (c == 'o')
            options.of_plan.only = optarg;
        else if (c == 'p')
            options.plan = true;
        else if (c == 'j')
            options.of_plan.json = true;
        else if (c == 'n')
            options.of_plan.tp = optarg;
        else if (c == 'l')
            options.of_plan.link = optarg;
        else if (c == 'd')
            options.of_plan.device = optarg;
        else if (c == 'c')
            options.of_plan.code = optarg;
        else {
            kbench_usage(c == 'h' ? stdout : stderr);
            return c == 'h' ? EXIT_SUCCESS : EXIT_CONFIG;
        }
    }
    if (options.plan)
        return kbench_print_plan(&options);
    const struct kernels *kernels = kernels_find(options.backend);
    if (!kernels || !kernels_on_host(kernels)) {
        fprintf(stderr,
                kernels
                    ? "kbench: --backend: '%s' computes on a device, only the host is measured\n"
                    : "kbench: no backend '%s'\n",
                options.backend);
        return EXIT_CONFIG;
    }
    struct subject subject = {kernels, options.isa, options.n_threads};
    if (kbench_is_wanted(&options, "shapes"))
        kbench_time_shapes(&subject, options.format);
    if (kbench_is_wanted(&options, "attend"))
        kbench_time_attention(&subject);
    if (kbench_is_wanted(&options, "moe"))
        kbench_time_mixture(&subject);
    return EXIT_SUCCESS;
}
