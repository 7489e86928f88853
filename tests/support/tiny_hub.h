/* tests/support/tiny_hub.h: tiny models of every hub family, with random weights in the shapes of a
 * config.json. */
#pragma once

struct model;

/* A dummy of the family ("qwen2", "chatglm" ...), plain or quantized ("awq", "gptq4", "gptq8"), or
 * plain as "f32", "f16", "bf16". Aborts the test on failure; the caller closes it. */
struct model *tiny_hub_open(const char *family, const char *format);
