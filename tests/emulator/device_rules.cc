/* Rules of the emulated device that each of its calls checks, and what breaking one leaves behind. */
#include "tests/emulator/device_emu.h"

#include <stdarg.h>
#include <stdio.h>

static thread_local struct device *in_use;

void emu_use(struct device *device) {
    in_use = device;
}

void emu_unuse(struct device *device) {
    if (in_use == device)
        in_use = nullptr;
}

void emu_device_fail(struct device *device, const char *format, ...) {
    if (device->failed)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(device->failure, sizeof device->failure, format, list);
    va_end(list);
    device->failed = true;
}

void emu_check_use(struct device *device) {
    if (in_use != device)
        emu_device_fail(device, "a thread that did not use() the device works with it");
}

void emu_break_captures(struct device *device) {
    for (struct device_stream *stream : device->streams)
        if (stream->capture && pthread_equal(stream->capturer, pthread_self()))
            stream->broken = true;
}
