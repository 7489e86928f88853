/* kernels/cuda/gpu/gpu.h: the one header of a file of kernels. They are written in CUDA C++; nvcc compiles them for
 * a GPU, and any C++17 compiler compiles the same files for the emulator, where each CUDA thread is a
 * fiber. Each compilation lies in a namespace of its own, so that both can be linked together. What
 * plain C++ cannot say has one spelling here:
 *   SHARED(type, name)    the block's shared memory, one struct; its size is the launch's
 *   SHARED_BYTES(name)    the same as bytes, as many as the launch gives
 *   gpu_launch(stream, grid, block, shared_bytes, kernel, arguments...), gpu_launch_together(the same),
 *   gpu_launch_ahead(the same)
 * Tensor-core and copy instructions are the inline functions of ptx.h.
 *
 * Numbers: no contraction, flush-to-zero, IEEE division and square root (-fmad=false -ftz=true
 * -prec-div=true -prec-sqrt=true): the operations of kernels/numbers.h, in their order. */
#pragma once

#include "kernels/cuda/device.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define GPU_NAMESPACE gpu_cuda
#define SHARED(type, name)                                                                         \
    extern __shared__ __align__(1024) unsigned char shared_bytes[];                                \
    type &name = *reinterpret_cast<type *>(shared_bytes)
#define SHARED_BYTES(name) extern __shared__ __align__(1024) unsigned char name[]
bool device_cuda_works(const struct device_stream *stream); /* false once its device has failed */
bool device_cuda_overlaps(
    const struct device_stream *stream); /* its device knows gpu_launch_ahead() */
size_t device_cuda_shared_bytes(const struct device_stream *stream);
cudaStream_t device_cuda_stream(struct device_stream *stream);
void device_cuda_launched(struct device_stream *stream, cudaError_t error);
#else
#define GPU_NAMESPACE gpu_emu
#include GPU_EMULATOR /* tests/emulator/emu.h; the build names it, for the emulator is the tests' */
#endif

namespace GPU_NAMESPACE {

enum gpu_order { GPU_BEHIND, GPU_TOGETHER, GPU_AHEAD };

/* Bytes of shared memory that a block may have. */
static inline size_t gpu_shared_bytes(const struct device_stream *stream) {
#ifdef __CUDACC__
    return device_cuda_shared_bytes(stream);
#else
    (void)stream;
    return emu_shared_max();
#endif
}

#ifdef __CUDACC__
template <typename... P, typename... A>
static void gpu_put(enum gpu_order order, struct device_stream *stream, dim3 grid, dim3 block,
                    size_t shared_bytes, void (*kernel)(P...), A... arguments) {
    if (!device_cuda_works(stream))
        return;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    config.attrs = &attribute;
    if (order == GPU_TOGETHER) {
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
        config.numAttrs = 1;
    }
    if (order == GPU_AHEAD && device_cuda_overlaps(stream)) {
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        config.numAttrs = 1;
    }
    config.gridDim = grid, config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes, config.stream = device_cuda_stream(stream);
    if (shared_bytes > 48 * 1024)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shared_bytes);
    device_cuda_launched(stream, cudaLaunchKernelEx(&config, kernel, P(arguments)...));
}
#else
template <typename... P, typename... A>
static void gpu_put(enum gpu_order order, struct device_stream *stream, dim3 grid, dim3 block,
                    size_t shared_bytes, void (*kernel)(P...), A... arguments) {
    auto call = [=] { kernel(P(arguments)...); };
    static_assert(std::is_trivially_copyable<decltype(call)>::value, "plain arguments");
    emu_enqueue(
        stream, grid, block, shared_bytes,
        [](const void *what) { (*(const decltype(call) *)what)(); }, &call, sizeof call,
        order == GPU_TOGETHER, (void (*)())kernel, order == GPU_AHEAD);
}
#endif

/* Puts the launch into the stream; its arguments are copied now. */
template <typename... P, typename... A>
static void gpu_launch(struct device_stream *stream, dim3 grid, dim3 block, size_t shared_bytes,
                       void (*kernel)(P...), A... arguments) {
    gpu_put(GPU_BEHIND, stream, grid, block, shared_bytes, kernel, arguments...);
}

/* The same for blocks that wait for each other: all are alive at once, or the launch fails. */
template <typename... P, typename... A>
static void gpu_launch_together(struct device_stream *stream, dim3 grid, dim3 block,
                                size_t shared_bytes, void (*kernel)(P...), A... arguments) {
    gpu_put(GPU_TOGETHER, stream, grid, block, shared_bytes, kernel, arguments...);
}

/* The same for a kernel that may begin while those before it run: it calls griddep_launch(), may fetch what
 * no kernel writes (weights, tables, the arrays of a step but for its ids), and each of its threads calls griddep_wait()
 * before it touches anything else, and before it ends. */
template <typename... P, typename... A>
static void gpu_launch_ahead(struct device_stream *stream, dim3 grid, dim3 block,
                             size_t shared_bytes, void (*kernel)(P...), A... arguments) {
    gpu_put(GPU_AHEAD, stream, grid, block, shared_bytes, kernel, arguments...);
}

} // namespace GPU_NAMESPACE

#include "kernels/cuda/gpu/ptx.h"
