/* The emulated member of device.h: opening, facts, memory. */
#include "tests/emulator/device_emu.h"

#include "tests/emulator/poisoned.h"

#include <stdio.h>
#include <stdlib.h>

#define DEVICES_MAX 16
#define MEMORY      ((uint64_t)2 << 30) /* where TANDEM_EMU_MEMORY says nothing */

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
        emu_run_all(stream);
    for (const auto &piece : device->pinned)
        poisoned_free((void *)piece.first, piece.second);
    arena_free(device->arena);
    emu_unuse(device);
    delete device;
}

static void emu_facts(const struct device *device, struct device_facts *facts) {
    *facts = {};
    snprintf(facts->name, sizeof facts->name, "emulated GPU");
    facts->n_sms = 4;
    facts->capability = emu_capability();
    facts->total_bytes = device->n_bytes;
    facts->shared_bytes = emu_shared_max();
}

static uint64_t emu_free_bytes(const struct device *device) {
    std::lock_guard<std::mutex> lock(((struct device *)device)->lock);
    return arena_free_bytes(device->arena);
}

/* Memory. */

static void *emu_alloc(struct device *device, size_t n_bytes) {
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    emu_break_captures(device);
    return device->failed ? nullptr : arena_take(device->arena, n_bytes);
}

static void emu_dealloc(struct device *device, void *memory) {
    if (!memory)
        return;
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    emu_break_captures(device);
    const char *wrong = arena_give(device->arena, memory);
    if (wrong)
        emu_device_fail(device, "%s", wrong);
}

static void *emu_pinned_alloc(struct device *device, size_t n_bytes) {
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    emu_break_captures(device);
    n_bytes = n_bytes > 0 ? n_bytes : 1;
    void *memory = device->failed ? nullptr : poisoned_new(n_bytes);
    if (!memory)
        return nullptr;
    device->pinned[(const unsigned char *)memory] = n_bytes;
    return memory;
}

static void emu_pinned_free(struct device *device, void *memory) {
    if (!memory)
        return;
    std::lock_guard<std::mutex> lock(device->lock);
    auto piece = device->pinned.find((const unsigned char *)memory);
    if (piece == device->pinned.end()) {
        emu_device_fail(device, "the memory that is given back is not pinned");
        return;
    }
    poisoned_free(memory, piece->second);
    device->pinned.erase(piece);
}

static const char *emu_failure(const struct device *device) {
    std::lock_guard<std::mutex> lock(((struct device *)device)->lock);
    return device->failed ? device->failure : nullptr;
}

static void emu_fail_with(struct device *device, const char *why) {
    std::lock_guard<std::mutex> lock(device->lock);
    emu_device_fail(device, "%s", why);
}

extern "C" const struct device_kind device_emu;
const struct device_kind device_emu = {
    .name = "cuda-emu",
    .nccl = nullptr,
    .open = emu_open,
    .close = emu_close,
    .use = emu_use,
    .facts = emu_facts,
    .free_bytes = emu_free_bytes,
    .alloc = emu_alloc,
    .dealloc = emu_dealloc,
    .share = emu_share,
    .adopt = emu_adopt,
    .release = emu_release,
    .reach = emu_reach,
    .unreach = emu_unreach,
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
    .fail = emu_fail_with,
    .native = emu_native_of,
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
