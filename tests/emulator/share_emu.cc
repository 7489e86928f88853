/* Memory of an emulated device in another process, or on another device of this one: the handle says which memfd of which process holds it. The other
 * opens it through /proc/PID/fd/N; the file's number and bytes tell it from another one that came later. */
#include "tests/emulator/device_emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct address {
    uint64_t pid;
    uint64_t fd;
    uint64_t inode;
    uint64_t n_file;
    uint64_t at;
    uint64_t n_bytes;
};
static_assert(sizeof(struct address) <= sizeof(struct device_handle), "it fits");

enum status emu_share(struct device *device, void *memory, struct device_handle *handle) {
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    emu_break_captures(device);
    struct arena_share share;
    struct stat file;
    if (device->failed)
        return STATUS_IO;
    enum status status = arena_lend(device->arena, memory, &share);
    if (status != STATUS_OK)
        return status;
    if (fstat(share.fd, &file) != 0)
        return STATUS_IO;
    struct address address = {(uint64_t)getpid(), (uint64_t)share.fd, file.st_ino,
                              share.n_file,       share.at,           share.n_bytes};
    *handle = {};
    memcpy(handle->bytes, &address, sizeof address);
    return STATUS_OK;
}

/* The file that the address names, or -1. */
static int open_file(const struct address *address) {
    char path[64];
    struct stat file;
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)address->pid,
             (unsigned long long)address->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &file) == 0 && file.st_ino == address->inode &&
        (uint64_t)file.st_size == address->n_file)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void *emu_adopt(struct device *device, const struct device_handle *handle) {
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    emu_break_captures(device);
    struct address address;
    memcpy(&address, handle->bytes, sizeof address);
    if (device->failed || address.pid == (uint64_t)getpid()) /* as CUDA has it */
        return nullptr;
    int fd = open_file(&address);
    if (fd < 0)
        return nullptr;
    struct arena_share share = {fd, address.n_file, address.at, address.n_bytes};
    void *memory = arena_borrow(device->arena, &share);
    close(fd); /* the mapping stays */
    return memory;
}

void emu_release(struct device *device, void *memory) {
    if (!memory)
        return;
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    emu_break_captures(device);
    const char *wrong = arena_return(device->arena, memory);
    if (wrong)
        emu_device_fail(device, "%s", wrong);
}

/* The other device's piece moves to a memfd, which this one maps: each opens and closes its own addresses. */
void *emu_reach(struct device *device, struct device *other, void *memory) {
    struct arena_share share;
    if (device == other)
        return memory;
    {
        std::lock_guard<std::mutex> lock(other->lock);
        if (other->failed || arena_lend(other->arena, memory, &share) != STATUS_OK)
            return nullptr;
    }
    std::lock_guard<std::mutex> lock(device->lock);
    emu_check_use(device);
    emu_break_captures(device);
    return device->failed ? nullptr : arena_borrow(device->arena, &share);
}

void emu_unreach(struct device *device, void *memory) {
    emu_release(device, memory);
}
