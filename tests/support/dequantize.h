/* tests/support/dequantize.h: what a quantized tensor's bytes mean, by the formulas of the formats,
 * one weight at a time in double; shares no code with kernels/quant. */
#pragma once

#include "kernels/kernels.h"

/* The weight of one output and input. Aborts the test where the format is unknown. */
double dequantize(const struct weight_tensor *tensor, uint32_t output, uint32_t input);
