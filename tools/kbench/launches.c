#include "tools/kbench/launches.h"

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

bool launches_read_codes(struct launches *launches, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    while (launches->n_codes < CODES_MAX) {
        struct code *code = &launches->codes[launches->n_codes];
        if (fscanf(file, "%7s %159s %u %u %u %u", code->arch, code->name, &code->registers,
                   &code->load_bytes, &code->load_registers, &code->copy_bytes) != 6)
            break;
        launches->n_codes++;
    }
    fclose(file);
    return launches->n_codes > 0;
}

/* The symbol of a kernel is that of the GPU's code but for its namespace. */
static const struct code *kbench_find_code(const struct launches *launches, const char *symbol) {
    static const char emulated[] = "_ZN7gpu_emu", real[] = "_ZN8gpu_cuda";
    char first[160], name[200];
    if (strncmp(symbol, emulated, sizeof emulated - 1) != 0)
        return NULL;
    snprintf(first, sizeof first, "%s", symbol + sizeof emulated - 1);
    snprintf(name, sizeof name, "%s%s", real, first);
    for (uint32_t i = 0; i < launches->n_codes; i++)
        if (strcmp(launches->codes[i].arch, launches->gpu->arch) == 0 &&
            strcmp(launches->codes[i].name, name) == 0)
            return &launches->codes[i];
    return NULL;
}

static const char *kbench_symbol_of(const struct emu_seen *launch) {
    Dl_info info = {0};
    void *address;
    memcpy(&address, &launch->kernel, sizeof address);
    return dladdr(address, &info) && info.dli_sname ? info.dli_sname : "?";
}

/* few_kernel of _ZN7gpu_emu10few_kernelILi4E... */
static void kbench_short_name(char *name, size_t n_bytes, const char *symbol) {
    const char *at = strstr(symbol, "gpu_emu");
    char *end;
    long n = at ? strtol(at + 7, &end, 10) : 0;
    if (n > 0)
        snprintf(name, n_bytes, "%.*s", (int)n, end);
    else
        snprintf(name, n_bytes, "%s", symbol);
}

void launches_name(void *context, const struct emu_seen *launch) {
    struct launches *launches = context;
    if (launches->n_names < CHAIN_MAX)
        kbench_short_name(launches->names[launches->n_names], sizeof *launches->names,
                          kbench_symbol_of(launch));
    launches->n_names++;
}

static uint32_t kbench_blocks_of_sm(const struct device *gpu, const struct emu_seen *launch,
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
static double kbench_under_way(const struct emu_seen *launch, const struct code *code,
                               double n_blocks) {
    double n_threads = launch->block[0] * launch->block[1] * launch->block[2];
    double held = fmin(1.0, code->registers / fmax(code->load_registers, 1.0));
    double loaded = code->load_bytes * held * n_threads;
    double copies = fmin(code->copy_bytes * n_threads, (double)launch->shared_bytes);
    return (loaded + copies) * n_blocks;
}

void launches_seen(void *context, const struct emu_seen *launch) {
    struct launches *launches = context;
    const struct device *gpu = launches->gpu;
    const char *symbol = kbench_symbol_of(launch);
    char name[32];
    const struct code *code = kbench_find_code(launches, symbol);
    double n = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint32_t of_sm = kbench_blocks_of_sm(gpu, launch, code);
    double at_once = (double)of_sm * gpu->n_sms, waves = ceil(n / at_once);
    /* The share of the SMs' time that has work, when all blocks take as long. */
    double busy = n < gpu->n_sms ? n / gpu->n_sms : n / (waves * at_once);
    if (n >= gpu->n_sms && n < at_once) /* an SM with fewer blocks than it holds is not idle */
        busy = n / (ceil(n / gpu->n_sms) * gpu->n_sms);
    double of_each = fmin(of_sm, ceil(n / gpu->n_sms)),
           wanted = gpu->read_bytes_s * LATENCY_S / gpu->n_sms;
    launches->n++;
    kbench_short_name(name, sizeof name, symbol);
    printf("    %-16s CTAs %6.0f x %4u threads  shared %6.1f KiB", name, n,
           launch->block[0] * launch->block[1] * launch->block[2],
           (double)launch->shared_bytes / 1024);
    if (code)
        printf("  registers %3u", code->registers);
    printf("  of an SM %2u  busy %3.0f %%", of_sm, 100 * busy);
    bool starves = code && kbench_under_way(launch, code, of_each) < ENOUGH * wanted;
    if (code)
        printf("  under way at most %6.1f KiB", kbench_under_way(launch, code, of_each) / 1024);
    if (busy < ENOUGH || starves)
        printf("  CANNOT REACH 80 %%:%s%s", busy < ENOUGH ? " SMs idle" : "",
               starves ? " too few bytes under way" : "");
    printf("\n");
    launches->n_short += busy < ENOUGH || starves;
}
