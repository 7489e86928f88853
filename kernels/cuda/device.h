/* kernels/cuda/device.h: what a GPU does for its host, behind one table: memory, copies, streams, events and
 * graphs. Two members: gpu/device_cuda.cu calls the CUDA runtime (the only file that sees its headers),
 * tests/emulator/device_emu.cc computes on the CPU so that every check runs the kernels.
 *
 * Work is put into a stream and done in its order, some time later. Nothing but alloc, the pinned
 * memory and the makers can fail at once; the first failure of anything else is kept by the device:
 * wait() and failure() tell it, and from then on the device computes nothing.
 *
 * Threads: each thread that calls makes the device its own first (use()); a stream belongs to one
 * thread at a time. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct device;
struct device_stream;
struct device_event;
struct device_graph;

struct device_facts {
    char name[96];        /* "NVIDIA H100 80GB HBM3" */
    uint32_t n_sms;       /* streaming multiprocessors */
    uint32_t capability;  /* 90 for 9.0 */
    uint64_t total_bytes; /* of its memory */
    size_t shared_bytes;  /* that a block may ask for */
};

/* Memory of another process: plain bytes, which it may send by any means. */
struct device_handle {
    unsigned char bytes[64];
};

struct device_kind {
    const char *name; /* "cuda", "cuda-emu" */
    const char *
        nccl; /* the library that moves bytes between such devices (cuda/nccl.h); NULL: only one that is named does */

    /* Device number `ordinal`. STATUS_UNSUPPORTED with the reason where there is none, or no driver. */
    enum status (*open)(uint32_t ordinal, struct device **device, struct error *error);
    void (*close)(struct device *device); /* NULL is fine; waits for all streams */
    void (*use)(struct device *device);   /* by each thread before its first call */
    void (*facts)(const struct device *device, struct device_facts *facts);
    uint64_t (*free_bytes)(const struct device *device);

    /* Memory of the device, zeroed, 256-byte aligned; NULL when there is none. Ends with dealloc, when
     * no stream uses it. */
    void *(*alloc)(struct device *device, size_t n_bytes);
    void (*dealloc)(struct device *device, void *memory);
    /* Memory of alloc() for other processes of this machine. The owner fills a handle; another process adopts
     * the memory by it (NULL: the handle names none of another process, or none any more) and releases
     * it when no stream uses it, before the owner gives it back. Nothing orders the streams of the two:
     * a stream is waited for before the other process is told. */
    NODISCARD enum status (*share)(struct device *device, void *memory,
                                   struct device_handle *handle);
    void *(*adopt)(struct device *device, const struct device_handle *handle);
    void (*release)(struct device *device, void *memory);
    /* Memory of alloc() of another device of this process, as kernels of this one reach it; NULL: the two have no way to each
     * other. Ends with unreach(), when no stream uses it. Nothing orders the streams of the two but what kernels tell each other
     * (load_acquire() of gpu/ptx.h). */
    void *(*reach)(struct device *device, struct device *other, void *memory);
    void (*unreach)(struct device *device, void *memory); /* what reach() answered */
    /* Memory of the host that copies need not stage; NULL when there is none. */
    void *(*pinned_alloc)(struct device *device, size_t n_bytes);
    void (*pinned_free)(struct device *device, void *memory);

    struct device_stream *(*stream_make)(struct device *device); /* NULL: no memory */
    void (*stream_free)(struct device_stream *stream);           /* waits; NULL is fine */
    /* `from` (copy_in) and `to` (copy_out) are pinned and stay as they are until the copy is done. */
    void (*copy_in)(struct device_stream *stream, void *to, const void *from, size_t n_bytes);
    void (*copy_out)(struct device_stream *stream, void *to, const void *from, size_t n_bytes);
    void (*copy)(struct device_stream *stream, void *to, const void *from, size_t n_bytes);
    void (*fill)(struct device_stream *stream, void *to, unsigned char byte, size_t n_bytes);
    /* Waits until all is done. STATUS_IO when the device failed, then or before. */
    enum status (*wait)(struct device_stream *stream);
    const char *(*failure)(const struct device *device);  /* NULL, or what the first one was */
    void (*fail)(struct device *device, const char *why); /* so does what its work waits for */
    void *(*native)(
        struct device_stream *stream); /* what other libraries call it: a cudaStream_t */

    struct device_event *(*event_make)(struct device *device); /* NULL: no memory */
    void (*event_free)(struct device_event *event);            /* NULL is fine */
    void (*event_record)(struct device_event *event, struct device_stream *stream);
    bool (*event_done)(struct device_event *event); /* true too once the device failed */
    void (*event_order)(struct device_stream *stream, struct device_event *before);
    /* Milliseconds between two that are done. */
    float (*event_ms)(struct device_event *begin, struct device_event *end);

    /* What is put into the stream between begin and end is kept instead of done; launch() does it, with the
     * same arguments. Inside, nothing may wait, allocate or ask. graph_end() answers NULL when a rule was
     * broken. */
    void (*graph_begin)(struct device_stream *stream);
    struct device_graph *(*graph_end)(struct device_stream *stream);
    void (*graph_launch)(struct device_graph *graph, struct device_stream *stream);
    void (*graph_free)(struct device_graph *graph); /* NULL is fine */
};

#ifdef __cplusplus
}
#endif
