/* The emulated member of device.h. Streams are lazy: what is put into one is done when somebody waits, or a
 * random part of it (EMU_SEED) when somebody asks for an event. So a missing wait reads old bytes, and
 * memory of the host that is used again too early sends wrong ones.
 *
 * One lock per device covers everything of it, also while its kernels run: a waiting thread may have
 * to run other threads' streams up to an event. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/emulator/arena.h"
#include "kernels/cuda/emulator/machine.h"

#include <deque>
#include <map>
#include <mutex>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vector>

#define DEVICES_MAX  16
#define MEMORY       ((uint64_t)2 << 30) /* where TANDEM_EMU_MEMORY says nothing */
#define PIECES_MAX   4                   /* entries that a query does, at most */
#define LAUNCH_BYTES 4096                /* of a kernel's arguments: the GPU's limit */

enum what { LAUNCH, COPY_IN, COPY_OUT, COPY, FILL, RECORD, ORDER };

/* One piece of work in a stream. */
struct entry {
    enum what what;
    void *to;
    const void *from;
    size_t n_bytes;
    unsigned char byte;
    struct emu_launch launch;
    std::vector<unsigned char> arguments; /* of the launch */
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
    struct device *device;
    std::deque<struct entry> queue;
    struct device_graph *capture; /* between graph_begin and graph_end */
    pthread_t capturer;
    bool broken; /* a rule of the capture */
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

static thread_local struct device *in_use;

static void fail(struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void fail(struct device *device, const char *format, ...) {
    if (device->failed)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(device->failure, sizeof device->failure, format, list);
    va_end(list);
    device->failed = true;
}

/* At the beginning of each call that computes, waits or allocates. */
static void check_use(struct device *device) {
    if (in_use != device)
        fail(device, "a thread that did not use() the device works with it");
}

/* Waiting, allocating and asking end a capture of the same thread. */
static void break_captures(struct device *device) {
    for (struct device_stream *stream : device->streams)
        if (stream->capture && pthread_equal(stream->capturer, pthread_self()))
            stream->broken = true;
}

/* Doing the work. The device's lock is held. */

static bool is_pinned(const struct device *device, const void *p, size_t n_bytes) {
    const unsigned char *at = (const unsigned char *)p;
    auto after = device->pinned.upper_bound(at);
    if (after == device->pinned.begin())
        return false;
    --after;
    return at + n_bytes <= after->first + after->second;
}

static bool check_copy(struct device *device, const struct entry *entry) {
    bool to_host = entry->what == COPY_OUT, from_host = entry->what == COPY_IN;
    if (to_host ? !is_pinned(device, entry->to, entry->n_bytes)
                : !arena_holds(device->arena, entry->to, entry->n_bytes))
        fail(device, "a copy of %zu bytes to %p, which is not %s", entry->n_bytes, entry->to,
             to_host ? "pinned memory" : "memory of the device");
    else if (entry->what != FILL &&
             (from_host ? !is_pinned(device, entry->from, entry->n_bytes)
                        : !arena_holds(device->arena, entry->from, entry->n_bytes)))
        fail(device, "a copy of %zu bytes from %p, which is not %s", entry->n_bytes, entry->from,
             from_host ? "pinned memory" : "memory of the device");
    return !device->failed;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void run_until(struct device_stream *stream, struct device_event *event, uint64_t version);

static void run_entry(struct device *device, struct entry *entry) {
    if (entry->what == RECORD) {
        if (entry->version > entry->event->done) {
            entry->event->done = entry->version;
            entry->event->at_ms = now_ms();
        }
        return;
    }
    if (device->failed)
        return;
    if (entry->what == ORDER) {
        run_until(entry->before, entry->event, entry->version);
        return;
    }
    if (entry->what == LAUNCH) {
        entry->launch.what = entry->arguments.data();
        entry->launch.arena = device->arena;
        char text[400];
        if (!emu_run(&entry->launch, text, sizeof text))
            fail(device, "%s", text);
        return;
    }
    if (entry->n_bytes == 0 || !check_copy(device, entry))
        return;
    if (entry->what == FILL)
        memset(entry->to, entry->byte, entry->n_bytes);
    else
        memmove(entry->to, entry->from, entry->n_bytes);
}

static void run_first(struct device_stream *stream) {
    struct entry entry = std::move(stream->queue.front());
    stream->queue.pop_front();
    run_entry(stream->device, &entry);
}

static void run_all(struct device_stream *stream) {
    arena_open(stream->device->arena);
    while (!stream->queue.empty())
        run_first(stream);
    arena_close(stream->device->arena);
}

static void run_until(struct device_stream *stream, struct device_event *event, uint64_t version) {
    while (event->done < version && !stream->queue.empty())
        run_first(stream);
}

static void run_some(struct device_stream *stream) {
    struct device *device = stream->device;
    device->seed = device->seed * 6364136223846793005ull + 1442695040888963407ull;
    arena_open(device->arena);
    for (uint64_t n = (device->seed >> 33) % PIECES_MAX; n > 0 && !stream->queue.empty(); n--)
        run_first(stream);
    arena_close(device->arena);
}

/* Into the queue, or the graph that is recorded. */
static void put(struct device_stream *stream, struct entry &&entry) {
    check_use(stream->device);
    if (stream->capture)
        stream->capture->entries.push_back(std::move(entry));
    else
        stream->queue.push_back(std::move(entry));
}

/* Opening and facts. */

/* Bytes as a number with k, m or g behind it; 0 where that cannot be read. */
static uint64_t read_bytes(const char *text) {
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    const char *const units = "kmg";
    if (*end != '\0') {
        const char *unit = strchr(units, *end | 0x20);
        if (!unit || end[1] != '\0')
            return 0;
        n <<= 10 * (unit - units + 1);
    }
    return n;
}

static enum status emu_open(uint32_t ordinal, struct device **device, struct error *error) {
    const char *memory = getenv("TANDEM_EMU_MEMORY"), *seed = getenv("EMU_SEED");
    uint64_t n_bytes = memory ? read_bytes(memory) : MEMORY;
    if (ordinal >= DEVICES_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "device %u: the emulator has %d", ordinal,
                         DEVICES_MAX);
    if (n_bytes == 0)
        return error_set(error, STATUS_INVALID,
                         "TANDEM_EMU_MEMORY: '%s' is not a number of bytes (k, m or g may follow)",
                         memory);
    struct arena *arena = arena_new(n_bytes);
    if (!arena)
        return error_set(error, STATUS_NOMEM, "device %u: no addresses for its memory", ordinal);
    struct device *made = new struct device();
    made->arena = arena;
    made->ordinal = ordinal;
    made->n_bytes = n_bytes;
    made->seed = seed ? strtoull(seed, nullptr, 10) : 0;
    *device = made;
    return STATUS_OK;
}

static void emu_close(struct device *device) {
    if (!device)
        return;
    for (struct device_stream *stream : device->streams)
        run_all(stream);
    for (const auto &piece : device->pinned)
        free((void *)piece.first);
    arena_free(device->arena);
    if (in_use == device)
        in_use = nullptr;
    delete device;
}

static void emu_use(struct device *device) {
    in_use = device;
}

static void emu_facts(const struct device *device, struct device_facts *facts) {
    *facts = {};
    snprintf(facts->name, sizeof facts->name, "emulated GPU");
    facts->n_sms = 4;
    facts->capability = 80;
    facts->total_bytes = device->n_bytes;
    facts->shared_bytes = EMU_SHARED_MAX;
}

static uint64_t emu_free_bytes(const struct device *device) {
    std::lock_guard<std::mutex> lock(((struct device *)device)->lock);
    return arena_free_bytes(device->arena);
}

/* Memory. */

static void *emu_alloc(struct device *device, size_t n_bytes) {
    std::lock_guard<std::mutex> lock(device->lock);
    check_use(device);
    break_captures(device);
    return device->failed ? nullptr : arena_take(device->arena, n_bytes);
}

static void emu_dealloc(struct device *device, void *memory) {
    if (!memory)
        return;
    std::lock_guard<std::mutex> lock(device->lock);
    check_use(device);
    break_captures(device);
    const char *wrong = arena_give(device->arena, memory);
    if (wrong)
        fail(device, "%s", wrong);
}

static void *emu_pinned_alloc(struct device *device, size_t n_bytes) {
    std::lock_guard<std::mutex> lock(device->lock);
    check_use(device);
    break_captures(device);
    n_bytes = n_bytes > 0 ? n_bytes : 1;
    void *memory = device->failed ? nullptr : aligned_alloc(4096, (n_bytes + 4095) & ~(size_t)4095);
    if (!memory)
        return nullptr;
    memset(memory, EMU_POISON, n_bytes);
    device->pinned[(const unsigned char *)memory] = n_bytes;
    return memory;
}

static void emu_pinned_free(struct device *device, void *memory) {
    if (!memory)
        return;
    std::lock_guard<std::mutex> lock(device->lock);
    if (device->pinned.erase((const unsigned char *)memory) == 0)
        fail(device, "the memory that is given back is not pinned");
    else
        free(memory);
}

/* Streams. */

static struct device_stream *emu_stream_make(struct device *device) {
    std::lock_guard<std::mutex> lock(device->lock);
    check_use(device);
    struct device_stream *stream = new struct device_stream();
    stream->device = device;
    device->streams.push_back(stream);
    return stream;
}

static void emu_stream_free(struct device_stream *stream) {
    if (!stream)
        return;
    struct device *device = stream->device;
    std::lock_guard<std::mutex> lock(device->lock);
    run_all(stream);
    delete stream->capture;
    for (size_t i = 0; i < device->streams.size(); i++)
        if (device->streams[i] == stream)
            device->streams.erase(device->streams.begin() + (ptrdiff_t)i);
    delete stream;
}

static void put_copy(struct device_stream *stream, enum what what, void *to, const void *from,
                     size_t n_bytes, unsigned char byte) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    struct entry entry = {};
    entry.what = what;
    entry.to = to;
    entry.from = from;
    entry.n_bytes = n_bytes;
    entry.byte = byte;
    put(stream, std::move(entry));
}

static void emu_copy_in(struct device_stream *stream, void *to, const void *from, size_t n_bytes) {
    put_copy(stream, COPY_IN, to, from, n_bytes, 0);
}

static void emu_copy_out(struct device_stream *stream, void *to, const void *from, size_t n_bytes) {
    put_copy(stream, COPY_OUT, to, from, n_bytes, 0);
}

static void emu_copy_within(struct device_stream *stream, void *to, const void *from,
                            size_t n_bytes) {
    put_copy(stream, COPY, to, from, n_bytes, 0);
}

static void emu_fill(struct device_stream *stream, void *to, unsigned char byte, size_t n_bytes) {
    put_copy(stream, FILL, to, nullptr, n_bytes, byte);
}

void emu_enqueue(struct device_stream *stream, dim3 grid, dim3 block, size_t shared_bytes,
                 void (*call)(const void *what), const void *what, size_t what_bytes) {
    struct device *device = stream->device;
    std::lock_guard<std::mutex> lock(device->lock);
    struct entry entry = {};
    entry.what = LAUNCH;
    entry.launch.grid = {grid.x, grid.y, grid.z};
    entry.launch.block = {block.x, block.y, block.z};
    entry.launch.shared_bytes = shared_bytes;
    entry.launch.call = call;
    entry.launch.what_bytes = what_bytes;
    entry.arguments.assign((const unsigned char *)what, (const unsigned char *)what + what_bytes);
    const char *refused = emu_launch_refused(&entry.launch);
    if (refused)
        fail(device, "a launch of %u,%u,%u blocks of %u,%u,%u threads, %zu bytes: %s", grid.x,
             grid.y, grid.z, block.x, block.y, block.z, shared_bytes, refused);
    else if (what_bytes > LAUNCH_BYTES)
        fail(device, "a kernel's arguments take %zu bytes", what_bytes);
    else
        put(stream, std::move(entry));
}

static enum status emu_wait(struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    check_use(stream->device);
    break_captures(stream->device);
    run_all(stream);
    return stream->device->failed ? STATUS_IO : STATUS_OK;
}

static const char *emu_failure(const struct device *device) {
    std::lock_guard<std::mutex> lock(((struct device *)device)->lock);
    return device->failed ? device->failure : nullptr;
}

/* Events. */

static struct device_event *emu_event_make(struct device *device) {
    struct device_event *event = new struct device_event();
    event->device = device;
    return event;
}

static void emu_event_free(struct device_event *event) {
    if (!event)
        return;
    { /* what stands in a queue still names it */
        std::lock_guard<std::mutex> lock(event->device->lock);
        for (struct device_stream *stream : event->device->streams)
            for (const struct entry &entry : stream->queue)
                if (entry.event == event) {
                    run_all(stream);
                    break;
                }
    }
    delete event;
}

static void put_event(struct device_stream *stream, enum what what, struct device_event *event,
                      uint64_t version) {
    struct entry entry = {};
    entry.what = what;
    entry.event = event;
    entry.version = version;
    entry.before = event->stream;
    put(stream, std::move(entry));
}

static void emu_event_record(struct device_event *event, struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(event->device->lock);
    if (stream->capture) {
        stream->broken = true;
        return;
    }
    event->stream = stream;
    put_event(stream, RECORD, event, ++event->recorded);
}

static bool emu_event_done(struct device_event *event) {
    std::lock_guard<std::mutex> lock(event->device->lock);
    break_captures(event->device);
    if (!event->device->failed && event->done < event->recorded)
        run_some(event->stream);
    return event->device->failed || event->done >= event->recorded;
}

static void emu_event_order(struct device_stream *stream, struct device_event *before) {
    std::lock_guard<std::mutex> lock(before->device->lock);
    if (stream->capture)
        stream->broken = true;
    else if (before->done < before->recorded)
        put_event(stream, ORDER, before, before->recorded);
}

static float emu_event_ms(struct device_event *begin, struct device_event *end) {
    std::lock_guard<std::mutex> lock(begin->device->lock);
    return (float)(end->at_ms - begin->at_ms);
}

/* Graphs. */

static void emu_graph_begin(struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    if (stream->capture) {
        stream->broken = true;
        return;
    }
    stream->capture = new struct device_graph();
    stream->capture->device = stream->device;
    stream->capturer = pthread_self();
    stream->broken = false;
}

static struct device_graph *emu_graph_end(struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    struct device_graph *graph = stream->capture;
    stream->capture = nullptr;
    if (graph && stream->broken) {
        delete graph;
        return nullptr;
    }
    return graph;
}

static void emu_graph_launch(struct device_graph *graph, struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    if (stream->capture) {
        stream->broken = true;
        return;
    }
    for (const struct entry &entry : graph->entries)
        put(stream, (struct entry)entry);
}

static void emu_graph_free(struct device_graph *graph) {
    delete graph; /* what was launched has copies of its entries */
}

extern "C" const struct device_kind device_emu;
const struct device_kind device_emu = {
    .name = "cuda-emu",
    .open = emu_open,
    .close = emu_close,
    .use = emu_use,
    .facts = emu_facts,
    .free_bytes = emu_free_bytes,
    .alloc = emu_alloc,
    .dealloc = emu_dealloc,
    .pinned_alloc = emu_pinned_alloc,
    .pinned_free = emu_pinned_free,
    .stream_make = emu_stream_make,
    .stream_free = emu_stream_free,
    .copy_in = emu_copy_in,
    .copy_out = emu_copy_out,
    .copy = emu_copy_within,
    .fill = emu_fill,
    .wait = emu_wait,
    .failure = emu_failure,
    .event_make = emu_event_make,
    .event_free = emu_event_free,
    .event_record = emu_event_record,
    .event_done = emu_event_done,
    .event_order = emu_event_order,
    .event_ms = emu_event_ms,
    .graph_begin = emu_graph_begin,
    .graph_end = emu_graph_end,
    .graph_launch = emu_graph_launch,
    .graph_free = emu_graph_free,
};
