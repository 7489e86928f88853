/* Shared memory of another process: what stands under the offered descriptor is looked at before it
 * is mapped. */
#include "tests/support/suite.h"
#include "worker/transport/transport.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const suite_name = "transport_ring";
const double suite_timeout_s = 60;

enum { RING_BYTES = 16384, CHUNK_BYTES = 8192 };

/* The descriptor of our ring, and its name. */
static int ring_fd(char name[128]) {
    for (int fd = 3; fd < 256; fd++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, name, 127);
        if (n <= 0 || strncmp(name, "/memfd:tandem-kv-", 17) != 0)
            continue;
        name[n] = 0;
        memmove(name, name + 7, strlen(name + 7) + 1); /* without "/memfd:" */
        *strchr(name, ' ') = 0;                        /* nor " (deleted)" */
        return fd;
    }
    ck_abort_msg("there is no ring");
}

/* Another file under the descriptor that was offered: of the ring's name or not, sealed or not. */
START_TEST(a_file_that_only_looks_like_the_ring_is_refused) {
    static const int all_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    static const struct {
        const char *name; /* NULL: the ring's own */
        off_t n_bytes;
        int seals;
        enum status status;
    } cases[] = {{NULL, RING_BYTES, all_seals, STATUS_OK},
                 {NULL, RING_BYTES, F_SEAL_GROW, STATUS_INVALID},
                 {NULL, RING_BYTES, F_SEAL_SHRINK | F_SEAL_SEAL, STATUS_INVALID},
                 {NULL, RING_BYTES, 0, STATUS_INVALID},
                 {NULL, RING_BYTES / 2, all_seals, STATUS_INVALID},
                 {"tandem-kv-somebody-elses", RING_BYTES, all_seals, STATUS_CLOSED}};
    const struct transport *transport = transport_find("shm");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct transport_options options = {.ring_bytes = RING_BYTES, .chunk_bytes = CHUNK_BYTES};
        struct transport_sender *sender;
        struct transport_receiver *receiver = NULL;
        struct error error;
        uint8_t offer[TRANSPORT_OFFER_MAX];
        char name[128];
        ck_assert_int_eq(transport->sender_open(&options, &sender, &error), STATUS_OK);
        uint32_t n = transport->offer(sender, offer);
        int fd = ring_fd(name);
        int other = memfd_create(cases[i].name ? cases[i].name : name, MFD_ALLOW_SEALING);
        ck_assert_int_ge(other, 0);
        ck_assert_int_eq(ftruncate(other, cases[i].n_bytes), 0);
        ck_assert_int_eq(fcntl(other, F_ADD_SEALS, cases[i].seals), 0);
        ck_assert_int_eq(dup2(other, fd), fd);
        close(other);
        ck_assert_int_eq(transport->receiver_open(offer, n, &receiver, &error), cases[i].status);
        transport_receiver_close(receiver);
        transport_sender_close(sender);
    }
}
END_TEST

/* Bytes that the ring really takes. */
static uint64_t taken_bytes(void) {
    char name[128];
    struct stat info;
    ck_assert_int_eq(fstat(ring_fd(name), &info), 0);
    ck_assert_int_eq(info.st_size, RING_BYTES);
    return (uint64_t)info.st_blocks * 512;
}

START_TEST(a_ring_takes_the_memory_of_its_used_part_alone) {
    const struct transport *transport = transport_find("shm");
    struct transport_options options = {
        .ring_bytes = RING_BYTES, .first_bytes = RING_BYTES / 4, .chunk_bytes = RING_BYTES / 4};
    struct transport_sender *sender;
    struct error error;
    ck_assert_int_eq(transport->sender_open(&options, &sender, &error), STATUS_OK);
    ck_assert_uint_eq(taken_bytes(), RING_BYTES / 4);
    ck_assert_int_eq(transport_grow(sender, RING_BYTES / 2), STATUS_OK);
    ck_assert_uint_eq(taken_bytes(), RING_BYTES / 2);
    ck_assert_uint_eq(sender->stage.n_used, RING_BYTES / 2);
    transport_sender_close(sender);
    options.first_bytes = 0;
    ck_assert_int_eq(transport->sender_open(&options, &sender, &error), STATUS_OK);
    ck_assert_uint_eq(taken_bytes(), RING_BYTES);
    transport_sender_close(sender);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_ring_takes_the_memory_of_its_used_part_alone);
    tcase_add_test(tests, a_file_that_only_looks_like_the_ring_is_refused);
}
