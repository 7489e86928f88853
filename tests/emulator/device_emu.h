/* tests/emulator/device_emu.h: an emulated device from the inside: what device_emu.cc (opening, memory, the
 * table) and stream_emu.cc (streams, events, graphs) share.
 *
 * Streams are lazy: what is put into one is done when somebody waits, or a random part of it
 * (EMU_SEED) when somebody asks for an event. So a missing wait reads old bytes, and memory of the
 * host that is used again too early sends wrong ones.
 *
 * One lock per device covers everything of it, also while its kernels run: a waiting thread may have
 * to run other threads' streams up to an event. Functions of this header are called with it held. */
#pragma once

#include "kernels/cuda/device.h"
#include "tests/emulator/arena.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/native.h"

#include <deque>
#include <map>
#include <mutex>
#include <pthread.h>
#include <vector>

enum what { LAUNCH, CALL, COPY_IN, COPY_OUT, COPY, FILL, RECORD, ORDER };

/* One piece of work in a stream. */
struct entry {
    enum what what;
    void *to;
    const void *from;
    size_t n_bytes;
    unsigned char byte;
    struct emu_launch launch;
    void (*call)(const struct emu_native *native, const void *what); /* CALL */
    std::vector<unsigned char> arguments;                            /* of the launch, or call */
    struct device_stream *stream;                                    /* CALL: where it is put */
    struct device_event *event;
    uint64_t version;             /* of the event: which record */
    struct device_stream *before; /* ORDER: where that record stands */
};

struct device {
    std::mutex lock;
    struct arena *arena;
    uint32_t ordinal;
    uint64_t n_bytes;
    uint64_t seed;
    std::map<const unsigned char *, size_t> pinned;
    std::vector<struct device_stream *> streams;
    bool failed;
    char failure[512];
};

struct device_stream {
    struct emu_native native;
    struct device *device;
    std::deque<struct entry> queue;
    struct device_graph *capture; /* between graph_begin and graph_end */
    pthread_t capturer;
    bool broken;   /* a rule of the capture */
    bool launched; /* what was done last is a launch */
};

struct device_event {
    struct device *device;
    struct device_stream *stream; /* of the last record */
    uint64_t recorded, done;      /* how many records were asked for, and are done */
    double at_ms;
};

struct device_graph {
    struct device *device;
    std::vector<struct entry> entries;
};

/* The first failure stays; from then on nothing is computed. */
void emu_device_fail(struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The calling thread works with this device from now on, or no longer. */
void emu_use(struct device *device);
void emu_unuse(struct device *device);

/* At the beginning of each call that computes, waits or allocates. */
void emu_check_use(struct device *device);

/* Waiting, allocating and asking break a capture of the same thread. */
void emu_break_captures(struct device *device);

/* Does all that stands in the stream. */
void emu_run_all(struct device_stream *stream);

/* The table's functions of share_emu.cc and stream_emu.cc, which take the lock themselves. */
enum status emu_share(struct device *device, void *memory, struct device_handle *handle);
void *emu_adopt(struct device *device, const struct device_handle *handle);
void emu_release(struct device *device, void *memory);
void *emu_reach(struct device *device, struct device *other, void *memory);
void emu_unreach(struct device *device, void *memory);
struct device_stream *emu_stream_make(struct device *device);
void emu_stream_free(struct device_stream *stream);
void emu_copy_in(struct device_stream *stream, void *to, const void *from, size_t n_bytes);
void emu_copy_out(struct device_stream *stream, void *to, const void *from, size_t n_bytes);
void emu_copy_within(struct device_stream *stream, void *to, const void *from, size_t n_bytes);
void emu_fill(struct device_stream *stream, void *to, unsigned char byte, size_t n_bytes);
enum status emu_wait(struct device_stream *stream);
void *emu_native_of(struct device_stream *stream);
struct device_event *emu_event_make(struct device *device);
void emu_event_free(struct device_event *event);
void emu_event_record(struct device_event *event, struct device_stream *stream);
bool emu_event_done(struct device_event *event);
void emu_event_order(struct device_stream *stream, struct device_event *before);
float emu_event_ms(struct device_event *begin, struct device_event *end);
void emu_graph_begin(struct device_stream *stream);
struct device_graph *emu_graph_end(struct device_stream *stream);
void emu_graph_launch(struct device_graph *graph, struct device_stream *stream);
void emu_graph_free(struct device_graph *graph);
