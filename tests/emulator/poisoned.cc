#include "tests/emulator/poisoned.h"

#include "tests/emulator/machine.h"
#include "tests/emulator/pages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define LARGE ((size_t)256 << 10) /* also the bytes of the file that large pieces are made of */

/* A file of poison that stays open, -1 without one. */
static int poison_file(void) {
    static const int file = [] {
        std::vector<unsigned char> poison(LARGE, EMU_POISON);
        int fd = memfd_create("tandem-emu-poison", MFD_CLOEXEC);
        if (fd >= 0 && write(fd, poison.data(), LARGE) != (ssize_t)LARGE) {
            close(fd);
            fd = -1;
        }
        return fd;
    }();
    return file;
}

static void *map_poison(size_t n_bytes) {
    int file = poison_file();
    size_t room = pages(n_bytes) + PAGE; /* who runs over meets the last page */
    void *memory =
        mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    unsigned char *at = (unsigned char *)memory;
    for (size_t left = pages(n_bytes), n; left > 0; left -= n, at += n) {
        n = left < LARGE ? left : LARGE;
        if (mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) != at) {
            munmap(memory, room);
            return nullptr;
        }
    }
    return memory;
}

void *poisoned_new(size_t n_bytes) {
    if (n_bytes >= LARGE)
        return map_poison(n_bytes);
    void *memory = aligned_alloc(PAGE, pages(n_bytes));
    if (memory)
        memset(memory, EMU_POISON, n_bytes);
    return memory;
}

void poisoned_free(void *memory, size_t n_bytes) {
    if (n_bytes >= LARGE)
        munmap(memory, pages(n_bytes) + PAGE);
    else
        free(memory);
}
