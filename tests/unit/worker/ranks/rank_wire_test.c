/* Records between a leader and its followers: what is not a record of ours is refused, whole and cut,
 * and leaves no descriptor behind. */
#include "worker/ranks/rank_wire.h"

#include "tests/support/suite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const suite_name = "worker rank wire";
const double suite_timeout_s = 60;

struct wire {
    int ends[2];
    struct rank_message message;
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds;
};

static void wire_open(struct wire *wire) {
    memset(wire, 0, sizeof *wire);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wire->ends), 0);
}

static void wire_close(struct wire *wire) {
    close(wire->ends[0]);
    close(wire->ends[1]);
}

static enum status receive(struct wire *wire) {
    return rank_wire_receive(wire->ends[1], &wire->message, wire->fds, &wire->n_fds);
}

static uint32_t n_open(void) {
    uint32_t n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Bytes of anybody's, with copies of a descriptor. */
static void send_bytes(int fd, const void *bytes, size_t n_bytes, uint32_t n_fds) {
    _Alignas(struct cmsghdr) unsigned char space[CMSG_SPACE(2 * COMM_RANKS_MAX * sizeof(int))] = {
        0};
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n_bytes};
    struct msghdr record = {.msg_iov = &piece, .msg_iovlen = 1};
    ck_assert_uint_le(n_fds, 2 * COMM_RANKS_MAX);
    if (n_fds > 0) {
        record.msg_control = space;
        record.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&record);
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
                                 .cmsg_level = SOL_SOCKET,
                                 .cmsg_type = SCM_RIGHTS};
        for (uint32_t i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(head) + i * sizeof fd, &fd, sizeof fd);
    }
    ck_assert_int_eq(sendmsg(fd, &record, MSG_NOSIGNAL), (ssize_t)n_bytes);
}

START_TEST(a_record_comes_with_its_descriptors) {
    struct wire wire;
    struct rank_message sent = {.type = RANK_JOIN, .u.join.n_ranks = 3};
    wire_open(&wire);
    memset(sent.u.join.version, 'x', sizeof sent.u.join.version); /* has no end */
    int copies[] = {wire.ends[0], wire.ends[0]};
    ck_assert_int_eq(rank_wire_send(wire.ends[0], &sent, copies, 2), STATUS_OK);
    ck_assert_int_eq(receive(&wire), STATUS_OK);
    ck_assert_int_eq(wire.message.type, RANK_JOIN);
    ck_assert_uint_eq(wire.message.u.join.n_ranks, 3);
    ck_assert_uint_eq(strlen(wire.message.u.join.version), sizeof sent.u.join.version - 1);
    ck_assert_uint_eq(wire.n_fds, 2);
    rank_wire_close(wire.fds, wire.n_fds);
    wire_close(&wire);
}
END_TEST

START_TEST(what_is_no_record_is_refused_and_leaves_nothing) {
    struct rank_message good = {.type = RANK_BYE};
    struct wire wire;
    wire_open(&wire);
    /* As it is sent, with its mark. */
    ck_assert_int_eq(rank_wire_send(wire.ends[0], &good, NULL, 0), STATUS_OK);
    ck_assert_int_eq(receive(&wire), STATUS_OK);
    good = wire.message;
    struct rank_message marked = good, typed = good;
    marked.magic ^= 1;
    typed.type = RANK_MESSAGE_TYPES;
    unsigned char longer[sizeof good + 1] = {0};
    memcpy(longer, &good, sizeof good);
    const struct {
        const void *bytes;
        size_t n_bytes;
        uint32_t n_fds;
        enum status status;
    } rows[] = {
        {&good, 0, 3, STATUS_CLOSED},
        {&good, 1, 3, STATUS_CORRUPT},
        {&good, sizeof good - 1, COMM_RANKS_MAX, STATUS_CORRUPT},
        {longer, sizeof longer, 3, STATUS_CORRUPT},
        {&marked, sizeof marked, 3, STATUS_CORRUPT},
        {&typed, sizeof typed, 3, STATUS_CORRUPT},
        {&good, sizeof good, COMM_RANKS_MAX + 9, STATUS_CORRUPT},
    };
    uint32_t n_before = n_open();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wire.n_fds = 0;
        send_bytes(wire.ends[0], rows[i].bytes, rows[i].n_bytes, rows[i].n_fds);
        enum status status = receive(&wire);
        ck_assert_msg(status == rows[i].status, "row %zu: %s", i, status_name(status));
        ck_assert_uint_eq(wire.n_fds, 0);
        ck_assert_msg(n_open() == n_before, "row %zu: %u open, %u before", i, n_open(), n_before);
    }
    wire_close(&wire);
}
END_TEST

START_TEST(an_end_that_is_gone_is_closed) {
    struct wire wire;
    struct rank_message message = {.type = RANK_BYE};
    wire_open(&wire);
    close(wire.ends[0]);
    ck_assert_int_eq(receive(&wire), STATUS_CLOSED);
    ck_assert_int_eq(rank_wire_send(wire.ends[1], &message, NULL, 0), STATUS_CLOSED);
    close(wire.ends[1]);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_record_comes_with_its_descriptors);
    tcase_add_test(tests, what_is_no_record_is_refused_and_leaves_nothing);
    tcase_add_test(tests, an_end_that_is_gone_is_closed);
}
