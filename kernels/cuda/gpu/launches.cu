#include "kernels/cuda/gpu/kernels.h"

using namespace GPU_NAMESPACE;

#ifdef __CUDACC__
#define LAUNCHES launches_cuda
#else
#define LAUNCHES launches_emu
#endif

extern "C" const struct gpu_launches LAUNCHES;
const struct gpu_launches LAUNCHES = {
    embed,         norm,      silu_mul, add_gated, gather_rows, quantize, linear_ints,
    linear_floats, moe_route, moe_add,  rope_kv,   attend,      sample,
};
