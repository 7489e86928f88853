#include "worker/device/device.h"

#include <string.h>

#define GIB (1ull << 30)
#define KIB 1024u

/* NVIDIA's data sheets: A100 (nvidia-a100-datasheet-nvidia-us-2188504), L20, H100 SXM and H200. Rates of tensor cores
 * are dense ones. What mma.sync does: 1,024 multiplications and additions a clock and SM on A100 and H100, 512 on L20. */
const struct device device_table[] = {
    {.name = "a100-40",
     .published = "A100-40GB",
     .arch = "80",
     .memory_bytes = 40 * GIB,
     .read_bytes_s = 1.555e12,
     .copy_bytes_s = 1.35e12,
     .tensor_ops_s = 312e12,
     .mma_ops_s = 312e12,
     .int8_ops_s = 624e12,
     .float_ops_s = 19.5e12,
     .kernel_us = 4.8,
     .link = DEVICE_NVLINK,
     .link_bytes_s = 600e9,
     .n_sms = 108,
     .shared_bytes = 164 * KIB,
     .source = "data sheet; copy rate (0.87 of it) and kernel_us are assumed"},
    {.name = "a100-80",
     .published = "A100-80GB",
     .arch = "80",
     .memory_bytes = 80 * GIB,
     .read_bytes_s = 2.039e12,
     .copy_bytes_s = 1.77e12,
     .tensor_ops_s = 312e12,
     .mma_ops_s = 312e12,
     .int8_ops_s = 624e12,
     .float_ops_s = 19.5e12,
     .kernel_us = 4.8,
     .link = DEVICE_NVLINK,
     .link_bytes_s = 600e9,
     .n_sms = 108,
     .shared_bytes = 164 * KIB,
     .source = "data sheet; copy rate (0.87 of it) and kernel_us are assumed"},
    {.name = "l20",
     .published = "L20-48GB",
     .arch = "80",
     .memory_bytes = 48 * GIB,
     .read_bytes_s = 864e9,
     .copy_bytes_s = 778e9,
     .tensor_ops_s = 119.5e12,
     .mma_ops_s = 119.5e12,
     .int8_ops_s = 239e12,
     .float_ops_s = 59.8e12,
     .kernel_us = 3.5,
     .link = DEVICE_PCIE,
     .link_bytes_s = 64e9,
     .n_sms = 92,
     .shared_bytes = 100 * KIB,
     .source = "data sheet; copy rate (0.90 of it) and kernel_us are assumed"},
    {.name = "h100",
     .published = "",
     .arch = "90a",
     .memory_bytes = 80 * GIB,
     .read_bytes_s = 3.35e12,
     .copy_bytes_s = 2.99e12,
     .tensor_ops_s = 989e12,
     .mma_ops_s = 474e12,
     .int8_ops_s = 1979e12,
     .float_ops_s = 67e12,
     .kernel_us = 3.2,
     .link = DEVICE_NVLINK,
     .link_bytes_s = 900e9,
     .n_sms = 132,
     .shared_bytes = 228 * KIB,
     .source =
         "data sheet of the SXM module; copy rate and kernel_us by docs/results/2026-11-23-gpu.md"},
    {.name = "h200",
     .published = "",
     .arch = "90a",
     .memory_bytes = 141 * GIB,
     .read_bytes_s = 4.8e12,
     .copy_bytes_s = 4.28e12,
     .tensor_ops_s = 989e12,
     .mma_ops_s = 474e12,
     .int8_ops_s = 1979e12,
     .float_ops_s = 67e12,
     .kernel_us = 3.2,
     .link = DEVICE_NVLINK,
     .link_bytes_s = 900e9,
     .n_sms = 132,
     .shared_bytes = 228 * KIB,
     .source = "data sheet; copy rate (the H100's share of it) is assumed, kernel_us the H100's"},
    {0}};

const struct device *device_find(const char *name) {
    for (const struct device *device = device_table; name[0] && device->name; device++)
        if (strcmp(device->name, name) == 0 || strcmp(device->published, name) == 0)
            return device;
    return NULL;
}

const char *device_names(void) {
    return "a100-40, a100-80, l20, h100, h200"; /* tests/unit/worker/device/device_test.c compares it with the table */
}
