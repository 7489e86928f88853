/* kernels/cuda/gpu/device_cuda.cu: the device seam over the CUDA runtime. */
#include "kernels/cuda/gpu/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device {
    int ordinal;
    bool overlaps;    /* a kernel may begin before the last one has ended */
    int shared_bytes; /* that a block may have */
    pthread_mutex_t lock;
    bool failed;       /* atomic; set under lock, after `failure` */
    char failure[256]; /* what the first failure was; written once, under lock */
};
struct device_stream {
    struct device *device;
    cudaStream_t stream;
    bool spoiled; /* what is recorded broke a rule that CUDA itself forgives */
};
struct device_event {
    struct device *device;
    cudaEvent_t event;
};
struct device_graph {
    struct device *device;
    cudaGraphExec_t graph;
};

/* What breaks a rule of recording spoils the recording, which graph_end() tells, and not the device. */
static bool is_of_recording(cudaError_t error) {
    return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorCapturedEvent;
}

static void keep_failure(struct device *device, const char *text) {
    pthread_mutex_lock(&device->lock);
    if (!device->failed)
        snprintf(device->failure, sizeof device->failure, "%s", text);
    __atomic_store_n(&device->failed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&device->lock);
}

/* Keeps the first failure; answers whether the call was fine. */
static bool is_fine(struct device *device, cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return true;
    if (is_of_recording(error)) {
        cudaGetLastError();
        return false;
    }
    char text[sizeof device->failure];
    snprintf(text, sizeof text, "%s: %s (%s)", what, cudaGetErrorString(error),
             cudaGetErrorName(error));
    keep_failure(device, text);
    return false;
}

static bool has_failed(const struct device *device) {
    return __atomic_load_n(&device->failed, __ATOMIC_ACQUIRE);
}

bool device_cuda_works(const struct device_stream *stream) {
    return !has_failed(stream->device);
}

bool device_cuda_overlaps(const struct device_stream *stream) {
    return stream->device->overlaps;
}

size_t device_cuda_shared_bytes(const struct device_stream *stream) {
    return (size_t)stream->device->shared_bytes;
}

cudaStream_t device_cuda_stream(struct device_stream *stream) {
    return stream->stream;
}

void device_cuda_launched(struct device_stream *stream, cudaError_t error) {
    is_fine(stream->device, error, "a kernel's launch");
}

static void device_close(struct device *device) {
    if (!device)
        return;
    cudaDeviceSynchronize();
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static void device_use(struct device *device) {
    is_fine(device, cudaSetDevice(device->ordinal), "choosing the device");
}

static enum status device_open(uint32_t ordinal, struct device **device, struct error *error) {
    int n = 0;
    cudaError_t answer = cudaGetDeviceCount(&n);
    if (answer != cudaSuccess) /* at boot the driver may still be on its way */
        return error_passing(error, STATUS_UNSUPPORTED, "there is no GPU to compute on: %s",
                             cudaGetErrorString(answer));
    if (ordinal >= (uint32_t)n)
        return error_set(error, STATUS_UNSUPPORTED, "there is no GPU %u: this machine has %d",
                         ordinal, n);
    struct device *made = (struct device *)calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for a device");
    made->ordinal = (int)ordinal;
    pthread_mutex_init(&made->lock, NULL);
    device_use(made);
    /* Waiting threads sleep instead of spinning: the cores have other work. */
    cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
    if (!is_fine(made, cudaFree(NULL), "opening the device")) {
        enum status status = error_passing(error, STATUS_UNSUPPORTED, "GPU %u does not open: %s",
                                           ordinal, made->failure);
        device_close(made);
        return status;
    }
    is_fine(made,
            cudaDeviceGetAttribute(&made->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                   made->ordinal),
            "asking for its shared memory");
    int major = 0;
    made->overlaps = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                            made->ordinal) == cudaSuccess &&
                     major >= 9;
    *device = made;
    return STATUS_OK;
}

static void device_facts_of(const struct device *device, struct device_facts *facts) {
    cudaDeviceProp found;
    memset(facts, 0, sizeof *facts);
    if (cudaGetDeviceProperties(&found, device->ordinal) != cudaSuccess)
        return;
    snprintf(facts->name, sizeof facts->name, "%s", found.name);
    facts->n_sms = (uint32_t)found.multiProcessorCount;
    facts->capability = (uint32_t)(found.major * 10 + found.minor);
    facts->total_bytes = found.totalGlobalMem;
    facts->shared_bytes = found.sharedMemPerBlockOptin;
}

static uint64_t device_free_bytes(const struct device *device) {
    (void)device;
    size_t n_free = 0, n_all = 0;
    return cudaMemGetInfo(&n_free, &n_all) == cudaSuccess ? n_free : 0;
}

static void *device_alloc(struct device *device, size_t n_bytes) {
    void *memory = NULL;
    if (cudaMalloc(&memory, n_bytes > 0 ? n_bytes : 1) != cudaSuccess) {
        cudaGetLastError(); /* having no memory is no failure of the device */
        return NULL;
    }
    is_fine(device, cudaMemset(memory, 0, n_bytes), "zeroing memory");
    is_fine(device, cudaDeviceSynchronize(), "zeroing memory");
    return memory;
}

static void device_dealloc(struct device *device, void *memory) {
    if (memory)
        is_fine(device, cudaFree(memory), "freeing memory");
}

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(device_handle), "a handle is CUDA's own");

static enum status device_share(struct device *device, void *memory, struct device_handle *handle) {
    cudaIpcMemHandle_t made;
    (void)device;
    if (cudaIpcGetMemHandle(&made, memory) != cudaSuccess) {
        cudaGetLastError(); /* a container may not allow it: no failure of the device */
        return STATUS_UNSUPPORTED;
    }
    memcpy(handle->bytes, &made, sizeof made);
    return STATUS_OK;
}

static void *device_adopt(struct device *device, const struct device_handle *handle) {
    cudaIpcMemHandle_t from;
    void *memory = NULL;
    (void)device;
    memcpy(&from, handle->bytes, sizeof from);
    if (cudaIpcOpenMemHandle(&memory, from, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
        return memory;
    cudaGetLastError();
    return NULL;
}

static void device_release(struct device *device, void *memory) {
    if (memory)
        is_fine(device, cudaIpcCloseMemHandle(memory), "releasing another process's memory");
}

static void *device_reach(struct device *device, struct device *other, void *memory) {
    int can = 0;
    if (device->ordinal == other->ordinal)
        return memory;
    cudaError_t answer = cudaDeviceCanAccessPeer(&can, device->ordinal, other->ordinal);
    if (answer == cudaSuccess && can)
        answer = cudaDeviceEnablePeerAccess(other->ordinal, 0);
    cudaGetLastError(); /* having no way is no failure of the device */
    bool open = answer == cudaSuccess || answer == cudaErrorPeerAccessAlreadyEnabled;
    return can && open ? memory : NULL;
}

static void device_unreach(struct device *device, void *memory) {
    (void)device, (void)memory; /* the way stays open: other memory may use it */
}

static void *device_pinned_alloc(struct device *device, size_t n_bytes) {
    void *memory = NULL;
    (void)device;
    if (cudaHostAlloc(&memory, n_bytes > 0 ? n_bytes : 1, cudaHostAllocDefault) == cudaSuccess)
        return memory;
    cudaGetLastError();
    return NULL;
}

static void device_pinned_free(struct device *device, void *memory) {
    if (memory)
        is_fine(device, cudaFreeHost(memory), "freeing pinned memory");
}

static struct device_stream *device_stream_make(struct device *device) {
    struct device_stream *made = (struct device_stream *)calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->device = device;
    if (is_fine(device, cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking),
                "making a stream"))
        return made;
    free(made);
    return NULL;
}

static void device_stream_free(struct device_stream *stream) {
    if (!stream)
        return;
    is_fine(stream->device, cudaStreamSynchronize(stream->stream), "waiting for a stream");
    is_fine(stream->device, cudaStreamDestroy(stream->stream), "ending a stream");
    free(stream);
}

static void copy_any(struct device_stream *stream, void *to, const void *from, size_t n_bytes,
                     cudaMemcpyKind kind) {
    if (n_bytes > 0 && !has_failed(stream->device))
        is_fine(stream->device, cudaMemcpyAsync(to, from, n_bytes, kind, stream->stream), "a copy");
}

static void device_copy_in(struct device_stream *stream, void *to, const void *from,
                           size_t n_bytes) {
    copy_any(stream, to, from, n_bytes, cudaMemcpyHostToDevice);
}

static void device_copy_out(struct device_stream *stream, void *to, const void *from,
                            size_t n_bytes) {
    copy_any(stream, to, from, n_bytes, cudaMemcpyDeviceToHost);
}

static void device_copy(struct device_stream *stream, void *to, const void *from, size_t n_bytes) {
    copy_any(stream, to, from, n_bytes, cudaMemcpyDeviceToDevice);
}

static void device_fill(struct device_stream *stream, void *to, unsigned char byte,
                        size_t n_bytes) {
    if (n_bytes > 0 && !has_failed(stream->device))
        is_fine(stream->device, cudaMemsetAsync(to, byte, n_bytes, stream->stream), "a fill");
}

static enum status device_wait(struct device_stream *stream) {
    is_fine(stream->device, cudaStreamSynchronize(stream->stream), "the device's work");
    return has_failed(stream->device) ? STATUS_IO : STATUS_OK;
}

static const char *device_failure(const struct device *device) {
    return has_failed(device) ? device->failure : NULL;
}

static void device_fail(struct device *device, const char *why) {
    keep_failure(device, why);
}

static void *device_native(struct device_stream *stream) {
    return stream->stream;
}

static struct device_event *device_event_make(struct device *device) {
    struct device_event *made = (struct device_event *)calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->device = device;
    if (is_fine(device, cudaEventCreate(&made->event), "making an event"))
        return made;
    free(made);
    return NULL;
}

static void device_event_free(struct device_event *event) {
    if (!event)
        return;
    is_fine(event->device, cudaEventDestroy(event->event), "ending an event");
    free(event);
}

static void device_event_record(struct device_event *event, struct device_stream *stream) {
    is_fine(event->device, cudaEventRecord(event->event, stream->stream), "recording an event");
}

static bool device_event_done(struct device_event *event) {
    if (has_failed(event->device))
        return true;
    cudaError_t answer = cudaEventQuery(event->event);
    return answer != cudaErrorNotReady &&
           (is_fine(event->device, answer, "the device's work"), true);
}

static void device_event_order(struct device_stream *stream, struct device_event *before) {
    is_fine(stream->device, cudaStreamWaitEvent(stream->stream, before->event, 0),
            "ordering two streams");
}

static float device_event_ms(struct device_event *begin, struct device_event *end) {
    float ms = 0.0f;
    is_fine(begin->device, cudaEventElapsedTime(&ms, begin->event, end->event), "timing");
    return ms;
}

static void device_graph_begin(struct device_stream *stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    is_fine(stream->device, cudaStreamIsCapturing(stream->stream, &status), "beginning a graph");
    stream->spoiled = status != cudaStreamCaptureStatusNone;
    if (!stream->spoiled)
        is_fine(stream->device,
                cudaStreamBeginCapture(stream->stream, cudaStreamCaptureModeThreadLocal),
                "beginning a graph");
}

static struct device_graph *device_graph_end(struct device_stream *stream) {
    cudaGraph_t drawn = NULL;
    struct device_graph *made = (struct device_graph *)calloc(1, sizeof *made);
    bool whole = cudaStreamEndCapture(stream->stream, &drawn) == cudaSuccess && drawn;
    cudaGetLastError();
    if (!whole || stream->spoiled || !made) {
        if (drawn)
            cudaGraphDestroy(drawn);
        stream->spoiled = false;
        free(made);
        return NULL;
    }
    made->device = stream->device;
    cudaError_t answer = cudaGraphInstantiate(&made->graph, drawn, 0);
    cudaGraphDestroy(drawn);
    if (answer == cudaSuccess) {
        cudaGraphUpload(made->graph, stream->stream); /* else its first launch does */
        cudaGetLastError();
        return made;
    }
    cudaGetLastError();
    free(made);
    return NULL;
}

static void device_graph_launch(struct device_graph *graph, struct device_stream *stream) {
    if (!has_failed(graph->device))
        is_fine(graph->device, cudaGraphLaunch(graph->graph, stream->stream), "launching a graph");
}

static void device_graph_free(struct device_graph *graph) {
    if (!graph)
        return;
    cudaGraphExecDestroy(graph->graph);
    free(graph);
}

extern "C" const struct device_kind device_cuda;
const struct device_kind device_cuda = {
    "cuda",
    "libnccl.so.2",
    device_open,
    device_close,
    device_use,
    device_facts_of,
    device_free_bytes,
    device_alloc,
    device_dealloc,
    device_share,
    device_adopt,
    device_release,
    device_reach,
    device_unreach,
    device_pinned_alloc,
    device_pinned_free,
    device_stream_make,
    device_stream_free,
    device_copy_in,
    device_copy_out,
    device_copy,
    device_fill,
    device_wait,
    device_failure,
    device_fail,
    device_native,
    device_event_make,
    device_event_free,
    device_event_record,
    device_event_done,
    device_event_order,
    device_event_ms,
    device_graph_begin,
    device_graph_end,
    device_graph_launch,
    device_graph_free,
};
