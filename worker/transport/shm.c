/* On one machine: a ring in a sealed memfd of the sender, mapped read-only by the receiver.
 *
 * The receiver opens it through /proc/PID/fd/N, which the kernel grants to processes of the same
 * user; where it does not (another container, hidden /proc), the two fall back to tcp. The ring's
 * size is sealed before it is offered, and the pages of its used part are there before a chunk lies
 * in them, so that no access can raise SIGBUS; its name holds 128 random bits, so that a number used again by another process is noticed.
 * Nothing is left behind when either side dies. */
#include "base/dump.h"
#include "base/random.h"
#include "proto/message.h"
#include "worker/transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RING_BYTES_MAX (1ull << 32)
#define SEALS          (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

extern const struct transport transport_shm;

/* What the offer holds, in the byte order of the one machine that both run on. */
struct shm_address {
    uint32_t pid;
    uint32_t fd;
    uint64_t n_bytes;
    uint64_t token[2];
};
_Static_assert(sizeof(struct shm_address) == 32, "no padding on the wire");

struct shm_sender {
    struct transport_sender head;
    struct shm_address address;
    int fd; /* owned */
};

static bool transport_shm_reaches(const struct transport_place *from,
                                  const struct transport_place *to) {
    return from->host == to->host;
}

static void transport_shm_ring_name(const struct shm_address *address, char *name, size_t size) {
    snprintf(name, size, "tandem-kv-%016llx%016llx", (unsigned long long)address->token[0],
             (unsigned long long)address->token[1]);
}

static void transport_shm_sender_close(struct transport_sender *sender) {
    struct shm_sender *shm = (struct shm_sender *)sender;
    if (shm->head.memory)
        munmap(shm->head.memory, shm->address.n_bytes);
    if (shm->fd >= 0)
        close(shm->fd);
    free(shm);
}

static enum status transport_shm_take_pages(const struct shm_sender *shm, uint64_t n_used) {
    int refused;
    do {
        refused = posix_fallocate(shm->fd, 0, (off_t)n_used);
    } while (refused == EINTR);
    errno = refused;
    return refused ? STATUS_NOMEM : STATUS_OK;
}

static enum status transport_shm_sender_grow(struct transport_sender *sender, uint64_t n_used) {
    return transport_shm_take_pages((struct shm_sender *)sender, n_used);
}

static enum status transport_shm_make_ring(struct shm_sender *shm) {
    char name[64];
    transport_shm_ring_name(&shm->address, name, sizeof name);
    shm->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (shm->fd < 0)
        return STATUS_IO;
    if (ftruncate(shm->fd, (off_t)shm->address.n_bytes) != 0)
        return STATUS_IO;
    TRY(transport_shm_take_pages(shm, shm->head.stage.n_used));
    if (fcntl(shm->fd, F_ADD_SEALS, SEALS) != 0)
        return STATUS_IO;
    void *ring = mmap(NULL, shm->address.n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, 0);
    if (ring == MAP_FAILED)
        return STATUS_NOMEM;
    dump_leave_out(ring, shm->address.n_bytes);
    shm->head.memory = ring;
    shm->address.fd = (uint32_t)shm->fd;
    return STATUS_OK;
}

static enum status transport_shm_sender_open(const struct transport_options *options,
                                             struct transport_sender **sender,
                                             struct error *error) {
    struct shm_sender *shm = calloc(1, sizeof *shm);
    if (!shm)
        return error_set(error, STATUS_NOMEM, "shm: no memory for a KV link");
    shm->head.transport = &transport_shm;
    shm->fd = -1;
    shm->address = (struct shm_address){.pid = (uint32_t)getpid(),
                                        .n_bytes = options->ring_bytes,
                                        .token = {random_seed(), random_seed()}};
    stage_init(&shm->head.stage, options->ring_bytes);
    if (options->first_bytes > 0)
        stage_use(&shm->head.stage, options->first_bytes);
    enum status status = transport_shm_make_ring(shm);
    if (status != STATUS_OK) {
        int refused = errno;
        transport_shm_sender_close(&shm->head);
        return error_set(error, status, "shm: a ring of %llu bytes: %s",
                         (unsigned long long)options->ring_bytes, strerror(refused));
    }
    *sender = &shm->head;
    return STATUS_OK;
}

static uint32_t transport_shm_offer(const struct transport_sender *sender,
                                    uint8_t bytes[TRANSPORT_OFFER_MAX]) {
    const struct shm_sender *shm = (const struct shm_sender *)sender;
    memcpy(bytes, &shm->address, sizeof shm->address);
    return sizeof shm->address;
}

/* Is this descriptor the sealed ring that the offer speaks of? */
static enum status transport_shm_check_ring(int fd, const struct shm_address *address,
                                            struct error *error) {
    char wanted[96], name[64], link[64], found[96];
    struct stat info;
    transport_shm_ring_name(address, name, sizeof name);
    snprintf(wanted, sizeof wanted, "/memfd:%s (deleted)", name);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, found, sizeof found);
    if (n < 0 || (size_t)n != strlen(wanted) || memcmp(found, wanted, (size_t)n) != 0)
        return error_set(error, STATUS_CLOSED, "shm: the sender's ring is gone");
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size != address->n_bytes)
        return error_set(error, STATUS_INVALID, "shm: the ring's size differs from its offer");
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return error_set(error, STATUS_INVALID, "shm: the ring could still change its size");
    return STATUS_OK;
}

static enum status opering_bytes(const struct shm_address *address, int *fd, struct error *error) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", address->pid, address->fd);
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened < 0) {
        enum status status = errno == EACCES || errno == EPERM ? STATUS_DENIED : STATUS_CLOSED;
        return error_set(error, status, "shm: the sender's ring: %s", strerror(errno));
    }
    enum status status = transport_shm_check_ring(opened, address, error);
    if (status != STATUS_OK)
        close(opened);
    else
        *fd = opened;
    return status;
}

static enum status transport_shm_receiver_open(const uint8_t *bytes, uint32_t n,
                                               struct transport_receiver **out,
                                               struct error *error) {
    struct shm_address address;
    int fd;
    if (n != sizeof address)
        return error_set(error, STATUS_INVALID, "shm: an offer of %u bytes instead of %zu", n,
                         sizeof address);
    memcpy(&address, bytes, sizeof address);
    if (address.n_bytes == 0 || address.n_bytes > RING_BYTES_MAX || address.pid > INT32_MAX ||
        address.fd > INT32_MAX)
        return error_set(error, STATUS_INVALID, "shm: an impossible offer");
    TRY(opering_bytes(&address, &fd, error));
    void *ring = mmap(NULL, address.n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    int refused = errno;
    close(fd);
    if (ring == MAP_FAILED)
        return error_set(error, STATUS_NOMEM, "shm: mapping the ring: %s", strerror(refused));
    dump_leave_out(ring, address.n_bytes);
    struct transport_receiver *receiver = calloc(1, sizeof *receiver);
    if (!receiver) {
        munmap(ring, address.n_bytes);
        return error_set(error, STATUS_NOMEM, "shm: no memory for a KV link");
    }
    *receiver = (struct transport_receiver){
        .transport = &transport_shm, .ring = ring, .ring_bytes = address.n_bytes};
    *out = receiver;
    return STATUS_OK;
}

static void transport_shm_receiver_close(struct transport_receiver *receiver) {
    munmap((void *)(uintptr_t)receiver->ring, receiver->ring_bytes);
    free(receiver);
}

const struct transport transport_shm = {
    .name = "shm",
    .reaches = transport_shm_reaches,
    .sender_open = transport_shm_sender_open,
    .sender_close = transport_shm_sender_close,
    .sender_grow = transport_shm_sender_grow,
    .offer = transport_shm_offer,
    .receiver_open = transport_shm_receiver_open,
    .receiver_close = transport_shm_receiver_close,
};
