/* tests/emulator/native.h: what an emulated stream is for a library that works with streams of CUDA: native() of device.h
 * answers a pointer to this in place of a cudaStream_t. The libraries are those of the tests. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_NATIVE 0x656d756c61746564ull /* what begins with it is such a stream */

struct emu_native {
    uint64_t magic; /* EMU_NATIVE */
    /* Puts a call into the stream, or into the graph that it records: made in its order, each time with these n_bytes of `what`.
     * While it runs, memory of the device is open to it, and the device does nothing else: it may wait, but calls nothing of
     * device.h. */
    void (*put)(struct emu_native *native,
                void (*call)(const struct emu_native *native, const void *what), const void *what,
                size_t n_bytes);
    /* Whether all bytes lie in one piece of the device's memory. Within a call. */
    bool (*holds)(const struct emu_native *native, const void *p, size_t n_bytes);
};
