/* What a leader and a follower believe of each other's messages while they find together: each wrong
 * one is refused, before anything of it is used. */
#include "base/log/log.h"
#include "tests/support/suite.h"
#include "worker/ranks/follow.h"
#include "worker/ranks/leader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "worker rank join";
const double suite_timeout_s = 60;

enum { SEALED = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, POOL_BYTES = 8192 };

static char folder[64], address[128];
static struct error error;

static void setup(void) {
    log_init("test", LOG_ERROR);
    snprintf(folder, sizeof folder, "/tmp/tandem-join-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(address, sizeof address, "%s/leader", folder);
}

static void teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static int make_memory(size_t n_bytes, int seals) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)n_bytes), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* READY, as the leader reads it: one follower, with rank 1 of two. */

struct ready {
    struct rank_message message;
    size_t n_bytes; /* of the descriptor that comes along */
    int seals;
    uint32_t n_fds;
    bool closes; /* instead */
};

static void other_numerics(struct ready *ready) {
    strcpy(ready->message.u.ready.numerics, "bits!");
}
static void longer_numerics(struct ready *ready) {
    strcpy(ready->message.u.ready.numerics, "bits and more");
}
static void no_pool(struct ready *ready) {
    ready->message.u.ready.n_pools = 0;
}
static void two_pools(struct ready *ready) {
    ready->message.u.ready.n_pools = 2;
}
static void no_descriptor(struct ready *ready) {
    ready->n_fds = 0;
}
static void two_descriptors(struct ready *ready) {
    ready->n_fds = 2;
}
static void not_sealed(struct ready *ready) {
    ready->seals = 0;
}
static void may_shrink(struct ready *ready) {
    ready->seals = F_SEAL_GROW | F_SEAL_SEAL;
}
static void may_be_unsealed(struct ready *ready) {
    ready->seals = F_SEAL_GROW | F_SEAL_SHRINK;
}
static void shorter_pool(struct ready *ready) {
    ready->n_bytes = POOL_BYTES - 4096;
}
static void longer_pool(struct ready *ready) {
    ready->n_bytes = POOL_BYTES + 4096;
}
static void empty_pool(struct ready *ready) {
    ready->n_bytes = ready->message.u.ready.pools[0].n_bytes = 0;
}
static void larger_than_memory(struct ready *ready) {
    ready->n_bytes = ready->message.u.ready.pools[0].n_bytes = (size_t)1 << 50;
}
static void long_layers(struct ready *ready) {
    ready->message.u.ready.pools[0].layer_bytes = POOL_BYTES + 1;
}
static void another_type(struct ready *ready) {
    ready->message.type = RANK_TERMS;
}
static void failed_with_nothing(struct ready *ready) {
    ready->message.type = RANK_FAILED;
    ready->message.u.failed.status = STATUS_OK;
}
static void failed_with_what_is_no_status(struct ready *ready) {
    ready->message.type = RANK_FAILED;
    ready->message.u.failed.status = (enum status)STATUS_COUNT;
}
static void failed(struct ready *ready) {
    ready->message.type = RANK_FAILED;
    ready->message.u.failed.status = STATUS_NOMEM;
    strcpy(ready->message.u.failed.text, "no memory at all");
}
static void gone(struct ready *ready) {
    ready->closes = true;
}

static const struct {
    void (*make)(struct ready *ready);
    enum status status;
    const char *says;
} readies[] = {
    {NULL, STATUS_OK, ""},
    {other_numerics, STATUS_CONFLICT, "its numerics differ"},
    {longer_numerics, STATUS_CONFLICT, "its numerics differ"},
    {no_pool, STATUS_CORRUPT, "KV pools"},
    {two_pools, STATUS_CORRUPT, "KV pools"},
    {no_descriptor, STATUS_CORRUPT, "0 KV pools instead of 1"},
    {two_descriptors, STATUS_CORRUPT, "2 KV pools instead of 1"},
    {not_sealed, STATUS_CORRUPT, "cannot be mapped"},
    {may_shrink, STATUS_CORRUPT, "cannot be mapped"},
    {may_be_unsealed, STATUS_CORRUPT, "cannot be mapped"},
    {shorter_pool, STATUS_CORRUPT, "cannot be mapped"},
    {longer_pool, STATUS_CORRUPT, "cannot be mapped"},
    {empty_pool, STATUS_CORRUPT, "cannot be mapped"},
    {larger_than_memory, STATUS_NOMEM, "its KV pool of rank 1 cannot be mapped"},
    {long_layers, STATUS_CORRUPT, "cannot be mapped"},
    {another_type, STATUS_CORRUPT, "malformed"},
    {failed_with_nothing, STATUS_CORRUPT, "malformed"},
    {failed_with_what_is_no_status, STATUS_CORRUPT, "malformed"},
    {failed, STATUS_NOMEM, "no memory at all"},
    {gone, STATUS_CLOSED, "it ended while it loaded"},
};

START_TEST(the_leader_maps_what_is_ready_and_nothing_else) {
    struct ready ready = {.n_bytes = POOL_BYTES, .seals = SEALED, .n_fds = 1};
    struct rank_ready *said = &ready.message.u.ready;
    struct transport_rank kv[COMM_RANKS_MAX] = {{0}};
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    struct leader leader = {.followers = {{.fd = ends[0], .pid = 7, .rank_begin = 1, .n_ranks = 1}},
                            .n_followers = 1,
                            .wake_fd = -1};
    ready.message.type = RANK_READY;
    strcpy(said->numerics, "bits");
    said->n_pools = 1;
    said->pools[0] = (struct rank_pool){.n_bytes = POOL_BYTES,
                                        .layer_bytes = POOL_BYTES,
                                        .block_bytes = 64,
                                        .head_begin = 1,
                                        .n_heads = 1};
    if (readies[_i].make)
        readies[_i].make(&ready);
    int fds[2] = {make_memory(ready.n_bytes, ready.seals), -1};
    fds[1] = fds[0];
    if (!ready.closes)
        ck_assert_int_eq(rank_wire_send(ends[1], &ready.message, fds, ready.n_fds), STATUS_OK);
    else
        close(ends[1]);
    enum status status = leader_ready(&leader, "bits", kv, &error);
    ck_assert_msg(status == readies[_i].status, "%s: %s", status_name(status), error.text);
    if (status == STATUS_OK) {
        ck_assert_uint_eq(kv[1].layer_bytes, POOL_BYTES);
        ck_assert_uint_eq(kv[1].head_begin, 1);
        memset(kv[1].base, 1, POOL_BYTES); /* all of it is there */
    } else {
        ck_assert_ptr_nonnull(strstr(error.text, readies[_i].says));
        ck_assert_ptr_nonnull(strstr(error.text, "ranks 1, pid 7"));
        ck_assert_ptr_null(kv[1].base);
    }
    leader_close(&leader);
    close(fds[0]);
    if (!ready.closes)
        close(ends[1]);
}
END_TEST

/* JOIN, as the leader reads it. */

static const uint8_t model_fp[32] = {1, 2, 3};
static const struct group_sizes sizes = {
    .board = {.n_ranks = 2, .max_tokens = 8, .max_seqs = 2, .max_blocks = 4}, .n_floats = 64};

struct caller {
    struct rank_message message; /* that it sends; type RANK_MESSAGE_TYPES: nothing */
    enum rank_message_type answer;
};

static void good_join(struct rank_message *message) {
    *message = (struct rank_message){.type = RANK_JOIN};
    strcpy(message->u.join.version, TANDEM_VERSION);
    memcpy(message->u.join.model_fp, model_fp, sizeof model_fp);
}

/* One after the other, each when the one before was answered. Answers the last one's socket. */
static int call(struct caller *callers, size_t n) {
    int fd = -1, fds[COMM_RANKS_MAX];
    uint32_t n_fds;
    for (size_t i = 0; i < n; i++) {
        struct rank_message answer;
        while (rank_wire_connect(address, &fd, &error) != STATUS_OK)
            usleep(1000);
        if (callers[i].message.type != RANK_MESSAGE_TYPES &&
            rank_wire_send(fd, &callers[i].message, NULL, 0) != STATUS_OK)
            return -1;
        if (rank_wire_receive(fd, &answer, fds, &n_fds) != STATUS_OK)
            return -1;
        callers[i].answer = answer.type;
        rank_wire_close(fds, n_fds);
        if (i + 1 < n)
            close(fd);
    }
    return fd;
}

struct calls {
    struct caller *callers;
    size_t n;
    int fd;
};

static void *make_calls(void *arg) {
    struct calls *calls = arg;
    calls->fd = call(calls->callers, calls->n);
    return NULL;
}

static void gather(struct leader *leader, struct caller *callers, size_t n) {
    struct leader_options options = {.address = address,
                                     .terms = {.rank_begin = 1, .n_ranks = 2, .sizes = sizes},
                                     .model_fp = model_fp};
    struct group_memory memory;
    struct calls calls = {.callers = callers, .n = n};
    pthread_t thread;
    ck_assert_int_eq(group_memory_make(&memory, &sizes, &error), STATUS_OK);
    options.memory = &memory;
    ck_assert_int_eq(pthread_create(&thread, NULL, make_calls, &calls), 0);
    enum status status = leader_gather(leader, &options, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_ge(calls.fd, 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(callers[i].answer, i + 1 < n ? RANK_REFUSED : RANK_TERMS);
    ck_assert_uint_eq(leader->n_followers, 1);
    ck_assert_uint_eq(leader->followers[0].rank_begin, 1);
    ck_assert_uint_eq(leader->followers[0].n_ranks, 1);
    close(calls.fd);
    group_memory_fini(&memory);
}

START_TEST(who_does_not_fit_is_refused_and_the_next_one_taken) {
    struct caller callers[5];
    struct leader leader;
    for (int i = 0; i < 5; i++)
        good_join(&callers[i].message);
    callers[0].message.u.join.version[0] ^= 1;
    callers[1].message.u.join.model_fp[31] ^= 1;
    callers[2].message.u.join.n_ranks = 2; /* one is left */
    callers[3].message.type = RANK_READY;
    gather(&leader, callers, 5);
    leader_close(&leader);
}
END_TEST

START_TEST(who_connects_and_says_nothing_is_refused_in_the_end) {
    struct caller callers[2];
    struct leader leader;
    callers[0].message.type = RANK_MESSAGE_TYPES;
    good_join(&callers[1].message);
    gather(&leader, callers, 2);
    leader_close(&leader);
}
END_TEST

/* The limit holds for the question alone: a model may load for as long as it takes. */
START_TEST(a_follower_may_load_for_as_long_as_it_takes) {
    struct caller caller;
    struct leader leader;
    struct timeval limit = {.tv_sec = 1};
    socklen_t n = sizeof limit;
    good_join(&caller.message);
    gather(&leader, &caller, 1);
    ck_assert_int_eq(getsockopt(leader.followers[0].fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &n), 0);
    ck_assert_int_eq(limit.tv_sec, 0);
    ck_assert_int_eq(limit.tv_usec, 0);
    leader_close(&leader);
}
END_TEST

/* TERMS, as a follower reads them. */

static void one_rank(struct rank_terms *terms) {
    terms->n_ranks = terms->rank_begin = 1;
}
static void too_many_ranks(struct rank_terms *terms) {
    terms->n_ranks = terms->sizes.board.n_ranks = COMM_RANKS_MAX + 1;
}
static void none_here(struct rank_terms *terms) {
    terms->n_here = 0;
}
static void two_here(struct rank_terms *terms) {
    terms->n_here = 2;
}
static void begins_behind(struct rank_terms *terms) {
    terms->rank_begin = 2;
}
static void another_board(struct rank_terms *terms) {
    terms->n_ranks = 3;
}
static void no_blocks(struct rank_terms *terms) {
    terms->n_blocks = 0;
}
static void no_kv_format(struct rank_terms *terms) {
    terms->kv_format = KV_F32 + 1;
}
static void no_tokens(struct rank_terms *terms) {
    terms->sizes.board.max_tokens = 0;
}
static void no_seqs(struct rank_terms *terms) {
    terms->sizes.board.max_seqs = 0;
}
static void other_tokens(struct rank_terms *terms) {
    terms->sizes.board.max_tokens--;
}
static void other_floats(struct rank_terms *terms) {
    terms->sizes.n_floats = 1 << 20;
}
static void sound(struct rank_terms *terms) {
    (void)terms;
}

static void (*const wrong_terms[])(struct rank_terms *) = {
    sound,     one_rank,     too_many_ranks, none_here, two_here,     begins_behind, another_board,
    no_blocks, no_kv_format, no_tokens,      no_seqs,   other_tokens, other_floats,
};

/* A process of its own that follows; it answers follow_run()'s code. */
static pid_t fork_follower(void) {
    fflush(stdout);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0)
        return child;
    atomic_uint stop = 0;
    struct follow_options options = {.address = address, .model = "hash", .n_threads = 1};
    struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core);
    _exit(follow_run(&options, &stop, eventfd(0, EFD_CLOEXEC)));
}

static int accept_follower(void) {
    int listener;
    ck_assert_int_eq(rank_wire_listen(address, &listener, &error), STATUS_OK);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    close(listener);
    return fd;
}

/* What a follower says to these terms: RANK_FAILED when it took them, since hash cannot be cut; else
 * RANK_MESSAGE_TYPES, when it left. */
static enum rank_message_type answer_to(struct rank_message *terms, int memory_fd, int *code) {
    struct rank_message message;
    int fds[COMM_RANKS_MAX], status;
    uint32_t n_fds;
    pid_t child = fork_follower();
    int fd = accept_follower();
    ck_assert_int_eq(rank_wire_receive(fd, &message, fds, &n_fds), STATUS_OK);
    ck_assert_int_eq(message.type, RANK_JOIN);
    ck_assert_str_eq(message.u.join.version, TANDEM_VERSION);
    ck_assert_int_eq(rank_wire_send(fd, terms, &memory_fd, memory_fd >= 0), STATUS_OK);
    enum rank_message_type said = RANK_MESSAGE_TYPES;
    if (rank_wire_receive(fd, &message, fds, &n_fds) == STATUS_OK) {
        said = message.type;
        rank_wire_close(fds, n_fds);
    }
    close(fd);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "status %x", status);
    *code = WEXITSTATUS(status);
    return said;
}

static struct rank_message good_terms(void) {
    return (struct rank_message){.type = RANK_TERMS,
                                 .u.terms = {.rank_begin = 1,
                                             .n_here = 1,
                                             .n_ranks = 2,
                                             .context_max = 64,
                                             .n_blocks = 4,
                                             .kv_format = KV_F32,
                                             .sizes = sizes,
                                             .backend = "cpu"}};
}

START_TEST(a_follower_takes_sound_terms_and_no_others) {
    struct group_memory memory;
    struct rank_message terms = good_terms();
    int code;
    ck_assert_int_eq(group_memory_make(&memory, &sizes, &error), STATUS_OK);
    wrong_terms[_i](&terms.u.terms);
    enum rank_message_type said = answer_to(&terms, memory.fd, &code);
    ck_assert_int_eq(said, _i == 0 ? RANK_FAILED : RANK_MESSAGE_TYPES);
    ck_assert_int_ne(code, 0);
    group_memory_fini(&memory);
}
END_TEST

START_TEST(terms_without_memory_and_other_answers_are_refused) {
    struct rank_message terms = good_terms();
    int code;
    ck_assert_int_eq(answer_to(&terms, -1, &code), RANK_MESSAGE_TYPES);
    ck_assert_int_ne(code, 0);
    terms = (struct rank_message){.type = RANK_BYE};
    ck_assert_int_eq(answer_to(&terms, -1, &code), RANK_MESSAGE_TYPES);
    ck_assert_int_ne(code, 0);
    terms = (struct rank_message){.type = RANK_REFUSED};
    strcpy(terms.u.failed.text, "no");
    ck_assert_int_eq(answer_to(&terms, -1, &code), RANK_MESSAGE_TYPES);
    ck_assert_int_ne(code, 0);
}
END_TEST

/* The group's memory, as a follower maps it. */
START_TEST(memory_is_mapped_that_is_whole_sealed_and_of_this_group) {
    struct group_memory made, mapped;
    ck_assert_int_eq(group_memory_make(&made, &sizes, &error), STATUS_OK);
    const struct {
        size_t n_bytes;
        int seals;
        enum status status;
    } rows[] = {
        {made.n_bytes, SEALED, STATUS_OK},
        {made.n_bytes, 0, STATUS_INVALID},
        {made.n_bytes, F_SEAL_GROW | F_SEAL_SEAL, STATUS_INVALID},
        {made.n_bytes, F_SEAL_GROW | F_SEAL_SHRINK, STATUS_INVALID},
        {made.n_bytes - 4096, SEALED, STATUS_INVALID},
        {made.n_bytes + 4096, SEALED, STATUS_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = make_memory(rows[i].n_bytes, 0);
        size_t n = rows[i].n_bytes < made.n_bytes ? rows[i].n_bytes : made.n_bytes;
        ck_assert_int_eq(pwrite(fd, made.memory, n, 0), (ssize_t)n);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, rows[i].seals), 0);
        int given = fd;
        enum status status = group_memory_map(&mapped, &given, &sizes, &error);
        ck_assert_msg(status == rows[i].status, "row %zu: %s", i, status_name(status));
        ck_assert_int_eq(given, -1); /* consumed, in each case */
        if (status == STATUS_OK) {   /* it is that memory */
            ck_assert_mem_eq(mapped.memory, made.memory, made.n_bytes);
            ck_assert(board_fits(mapped.board, &sizes.board));
        }
        group_memory_fini(&mapped);
        ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    }
    group_memory_fini(&made);
}
END_TEST

/* A board that fills its pages takes no page more. */
START_TEST(memory_is_as_many_pages_as_are_needed) {
    struct group_sizes full = {
        .board = {.n_ranks = 2, .max_tokens = 1, .max_seqs = 1, .max_blocks = 4}, .n_floats = 64};
    struct group_memory made;
    for (size_t more = 0; more < 2; more++) {
        size_t n_board = 1;
        while (n_board % 4096 != 8 * more) {
            full.board.max_tokens++;
            ck_assert_int_eq(board_bytes(&full.board, &n_board), STATUS_OK);
        }
        ck_assert_int_eq(group_memory_make(&made, &full, &error), STATUS_OK);
        size_t board_at = (size_t)((unsigned char *)made.board - (unsigned char *)made.memory);
        ck_assert_uint_eq(made.n_bytes, board_at + n_board + more * (4096 - 8));
        group_memory_fini(&made);
    }
}
END_TEST

/* --rank-listen */

START_TEST(a_plain_file_at_the_address_stays_and_the_listen_is_refused) {
    struct stat info;
    int fd = open(address, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "mine", 4), 4);
    close(fd);
    ck_assert_int_eq(rank_wire_listen(address, &fd, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, address));
    ck_assert_int_eq(stat(address, &info), 0);
    ck_assert_int_eq(info.st_size, 4);
}
END_TEST

START_TEST(a_link_to_a_socket_at_the_address_stays) {
    char other[160];
    struct stat info;
    int fd;
    snprintf(other, sizeof other, "%s.other", address);
    ck_assert_int_eq(rank_wire_listen(other, &fd, &error), STATUS_OK);
    close(fd); /* stale now */
    ck_assert_int_eq(symlink(other, address), 0);
    ck_assert_int_eq(rank_wire_listen(address, &fd, &error), STATUS_IO);
    ck_assert_int_eq(lstat(address, &info), 0);
    ck_assert(S_ISLNK(info.st_mode));
}
END_TEST

START_TEST(the_socket_of_a_dead_leader_is_replaced_and_a_living_ones_is_not) {
    struct stat info;
    int first, second;
    ck_assert_int_eq(rank_wire_listen(address, &first, &error), STATUS_OK);
    ck_assert_int_eq(stat(address, &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777, 0600);
    ck_assert_int_eq(rank_wire_listen(address, &second, &error), STATUS_EXISTS);
    close(first);
    ck_assert_int_eq(rank_wire_listen(address, &second, &error), STATUS_OK);
    close(second);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, the_leader_maps_what_is_ready_and_nothing_else, 0,
                        sizeof readies / sizeof *readies);
    tcase_add_test(tests, who_does_not_fit_is_refused_and_the_next_one_taken);
    tcase_add_test(tests, who_connects_and_says_nothing_is_refused_in_the_end);
    tcase_add_test(tests, a_follower_may_load_for_as_long_as_it_takes);
    tcase_add_loop_test(tests, a_follower_takes_sound_terms_and_no_others, 0,
                        sizeof wrong_terms / sizeof *wrong_terms);
    tcase_add_test(tests, terms_without_memory_and_other_answers_are_refused);
    tcase_add_test(tests, memory_is_mapped_that_is_whole_sealed_and_of_this_group);
    tcase_add_test(tests, memory_is_as_many_pages_as_are_needed);
    tcase_add_test(tests, a_plain_file_at_the_address_stays_and_the_listen_is_refused);
    tcase_add_test(tests, a_link_to_a_socket_at_the_address_stays);
    tcase_add_test(tests, the_socket_of_a_dead_leader_is_replaced_and_a_living_ones_is_not);
}
