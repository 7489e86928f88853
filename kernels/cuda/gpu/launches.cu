#include "kernels/cuda/gpu/kernels.h"

using namespace GPU_NAMESPACE;

#ifdef __CUDACC__
#define LAUNCHES launches_cuda
#else
#define LAUNCHES launches_emu
#endif

extern "C" const struct gpu_launches LAUNCHES;
const struct gpu_launches LAUNCHES = {
#define X(name, type) name,
    GPU_LAUNCHES(X)
#undef X
};
