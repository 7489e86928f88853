/* What is put into a stream, and when it is done. */
#include "tests/emulator/device_emu.h"

#include <time.h>

#define PIECES_MAX   4    /* entries that a query does, at most */
#define LAUNCH_BYTES 4096 /* of a kernel's arguments: the GPU's limit */

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
        emu_device_fail(device, "a copy of %zu bytes to %p, which is not %s", entry->n_bytes,
                        entry->to, to_host ? "pinned memory" : "memory of the device");
    else if (entry->what != FILL &&
             (from_host ? !is_pinned(device, entry->from, entry->n_bytes)
                        : !arena_holds(device->arena, entry->from, entry->n_bytes)))
        emu_device_fail(device, "a copy of %zu bytes from %p, which is not %s", entry->n_bytes,
                        entry->from, from_host ? "pinned memory" : "memory of the device");
    return !device->failed;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Who is told of launches instead of running them; NULL: they run. */
static void (*watch)(void *watcher, const struct emu_launch *launch);
static void *watcher;

static void watch_launch(void *seen, const struct emu_launch *launch) {
    const struct emu_launch &l = *launch;
    struct emu_seen what = {(void (*)(void))l.kernel,
                            {l.grid.x, l.grid.y, l.grid.z},
                            {l.block.x, l.block.y, l.block.z},
                            l.shared_bytes};
    const struct emu_watch *own = (const struct emu_watch *)seen;
    own->seen(own->context, &what);
}

void emu_watch_launches(const struct emu_watch *with) {
    watch = with ? watch_launch : nullptr;
    watcher = (void *)with;
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
    if (entry->what == LAUNCH && watch) {
        watch(watcher, &entry->launch);
        return;
    }
    if (entry->what == LAUNCH) {
        entry->launch.what = entry->arguments.data();
        entry->launch.arena = device->arena;
        char text[400];
        if (!emu_run(&entry->launch, text, sizeof text))
            emu_device_fail(device, "%s", text);
        return;
    }
    if (entry->what == CALL) {
        entry->call(&entry->stream->native, entry->arguments.data());
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
    entry.launch.overlaps = entry.launch.ahead && stream->launched;
    if (entry.what != RECORD)
        stream->launched = entry.what == LAUNCH;
    run_entry(stream->device, &entry);
}

void emu_run_all(struct device_stream *stream) {
    if (stream->queue.empty())
        return; /* opening memory takes its time */
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
    emu_check_use(stream->device);
    if (stream->capture)
        stream->capture->entries.push_back(std::move(entry));
    else
        stream->queue.push_back(std::move(entry));
}

/* What a library calls a stream. */

static struct device_stream *stream_of(const struct emu_native *native) {
    return (struct device_stream *)native; /* its first member */
}

static void native_put(struct emu_native *native,
                       void (*call)(const struct emu_native *native, const void *what),
                       const void *what, size_t n_bytes) {
    struct device_stream *stream = stream_of(native);
    std::lock_guard<std::mutex> lock(stream->device->lock);
    struct entry entry = {};
    entry.what = CALL;
    entry.stream = stream;
    entry.call = call;
    entry.arguments.assign((const unsigned char *)what, (const unsigned char *)what + n_bytes);
    put(stream, std::move(entry));
}

static bool native_holds(const struct emu_native *native, const void *p, size_t n_bytes) {
    return arena_holds(stream_of(native)->device->arena, p, n_bytes);
}

void *emu_native_of(struct device_stream *stream) {
    return &stream->native;
}

/* Streams. */

struct device_stream *emu_stream_make(struct device *device) {
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    struct device_stream *stream = new struct device_stream();
    stream->native = {EMU_NATIVE, native_put, native_holds};
    stream->device = device;
    device->streams.push_back(stream);
    return stream;
}

void emu_stream_free(struct device_stream *stream) {
    if (!stream)
        return;
    struct device *device = stream->device;
    std::lock_guard<std::mutex> lock(device->lock);
    emu_run_all(stream);
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

void emu_copy_in(struct device_stream *stream, void *to, const void *from, size_t n_bytes) {
    put_copy(stream, COPY_IN, to, from, n_bytes, 0);
}

void emu_copy_out(struct device_stream *stream, void *to, const void *from, size_t n_bytes) {
    put_copy(stream, COPY_OUT, to, from, n_bytes, 0);
}

void emu_copy_within(struct device_stream *stream, void *to, const void *from, size_t n_bytes) {
    put_copy(stream, COPY, to, from, n_bytes, 0);
}

void emu_fill(struct device_stream *stream, void *to, unsigned char byte, size_t n_bytes) {
    put_copy(stream, FILL, to, nullptr, n_bytes, byte);
}

void emu_enqueue(struct device_stream *stream, dim3 grid, dim3 block, size_t shared_bytes,
                 void (*call)(const void *what), const void *what, size_t what_bytes, bool together,
                 void (*kernel)(), bool ahead) {
    struct device *device = stream->device;
    std::lock_guard<std::mutex> lock(device->lock);
    struct entry entry = {};
    entry.what = LAUNCH;
    entry.launch.grid = {grid.x, grid.y, grid.z};
    entry.launch.block = {block.x, block.y, block.z};
    entry.launch.shared_bytes = shared_bytes;
    entry.launch.call = call;
    entry.launch.what_bytes = what_bytes;
    entry.launch.together = together;
    entry.launch.ahead = ahead;
    entry.launch.kernel = kernel;
    entry.arguments.assign((const unsigned char *)what, (const unsigned char *)what + what_bytes);
    const char *refused = emu_launch_refused(&entry.launch);
    if (refused)
        emu_device_fail(device, "a launch of %u,%u,%u blocks of %u,%u,%u threads, %zu bytes: %s",
                        grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes, refused);
    else if (what_bytes > LAUNCH_BYTES)
        emu_device_fail(device, "a kernel's arguments take %zu bytes", what_bytes);
    else
        put(stream, std::move(entry));
}

enum status emu_wait(struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    emu_check_use(stream->device);
    emu_break_captures(stream->device);
    emu_run_all(stream);
    return stream->device->failed ? STATUS_IO : STATUS_OK;
}

/* Events. */

struct device_event *emu_event_make(struct device *device) {
    struct device_event *event = new struct device_event();
    event->device = device;
    return event;
}

void emu_event_free(struct device_event *event) {
    if (!event)
        return;
    { /* what stands in a queue still names it */
        std::lock_guard<std::mutex> lock(event->device->lock);
        for (struct device_stream *stream : event->device->streams)
            for (const struct entry &entry : stream->queue)
                if (entry.event == event) {
                    emu_run_all(stream);
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

void emu_event_record(struct device_event *event, struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(event->device->lock);
    if (stream->capture) {
        stream->broken = true;
        return;
    }
    event->stream = stream;
    put_event(stream, RECORD, event, ++event->recorded);
}

bool emu_event_done(struct device_event *event) {
    std::lock_guard<std::mutex> lock(event->device->lock);
    emu_break_captures(event->device);
    if (!event->device->failed && event->done < event->recorded)
        run_some(event->stream);
    return event->device->failed || event->done >= event->recorded;
}

void emu_event_order(struct device_stream *stream, struct device_event *before) {
    std::lock_guard<std::mutex> lock(before->device->lock);
    if (stream->capture)
        stream->broken = true;
    else if (before->done < before->recorded)
        put_event(stream, ORDER, before, before->recorded);
}

float emu_event_ms(struct device_event *begin, struct device_event *end) {
    std::lock_guard<std::mutex> lock(begin->device->lock);
    return (float)(end->at_ms - begin->at_ms);
}

/* Graphs. */

void emu_graph_begin(struct device_stream *stream) {
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

struct device_graph *emu_graph_end(struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    struct device_graph *graph = stream->capture;
    stream->capture = nullptr;
    if (graph && stream->broken) {
        delete graph;
        return nullptr;
    }
    return graph;
}

void emu_graph_launch(struct device_graph *graph, struct device_stream *stream) {
    std::lock_guard<std::mutex> lock(stream->device->lock);
    if (stream->capture) {
        stream->broken = true;
        return;
    }
    for (const struct entry &entry : graph->entries)
        put(stream, (struct entry)entry);
}

void emu_graph_free(struct device_graph *graph) {
    delete graph; /* what was launched has copies of its entries */
}
