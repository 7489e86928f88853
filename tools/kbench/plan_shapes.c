#include "tools/kbench/plan_shapes.h"

const struct plan_shape plan_shapes[PLAN_SHAPES] = {
    {"Mistral-7B AWQ", "awq", "f16", 4096, 32, 8, 128, 14336, 32, 32000, 0, 0, 0},
    {"Baichuan2-13B GPTQ", "gptq4", "f16", 5120, 40, 40, 128, 13696, 40, 125696, 0, 0, 0},
    {"Qwen-14B F16", "f16", "f16", 5120, 40, 40, 128, 13696, 40, 152064, 0, 0, 0},
    {"ChatGLM3-6B F16", "f16", "f16", 4096, 32, 2, 128, 13696, 28, 65024, 0, 0, 0},
    {"Qwen2-57B-A14B F16", "f16", "f16", 3584, 28, 4, 128, 20480, 28, 151936, 64, 8, 2560},
    {"Qwen2-72B F16", "f16", "f16", 8192, 64, 8, 128, 29568, 80, 152064, 0, 0, 0},
    {"Qwen2-72B AWQ", "awq", "f16", 8192, 64, 8, 128, 29568, 80, 152064, 0, 0, 0},
    {"Qwen2-72B GPTQ-Int8", "gptq8", "f16", 8192, 64, 8, 128, 29568, 80, 152064, 0, 0, 0},
};

const struct plan_load plan_loads[PLAN_LOADS] = {{"decode, 1 at 512", 1, 1, 512},
                                                 {"decode, 16 at 512", 16, 1, 512},
                                                 {"decode, 64 at 512", 64, 1, 512},
                                                 {"prefill, 2048", 1, 2048, 0}};
