/* A follower alone (worker/ranks/follow.h): it waits for its leader for as long as it takes, and its code says whether a restart
 * would help. */
#include "worker/ranks/follow.h"

#include "base/exit.h"
#include "base/log/log.h"
#include "tests/support/suite.h"
#include "worker/ranks/rank_wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "worker follow";
const double suite_timeout_s = 60;

static char folder[64], address[128];
static struct error error;
static int wake_fd;
static atomic_uint *n_stops; /* shared with the follower */
static FILE *said;           /* by the follower, to standard error */

static void setup(void) {
    snprintf(folder, sizeof folder, "/tmp/tandem-follow-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(address, sizeof address, "%s/leader", folder);
    wake_fd = eventfd(0, EFD_CLOEXEC);
    n_stops =
        mmap(NULL, sizeof *n_stops, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(n_stops, MAP_FAILED);
}

static void teardown(void) {
    fclose(said);
    close(wake_fd);
    munmap(n_stops, sizeof *n_stops);
    (void)unlink(address);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* The model is that of no files: it has a fingerprint, and cannot be cut. */
static pid_t fork_follower(const char *to) {
    int ends[2];
    fflush(stdout);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct follow_options options = {.address = to, .model = "hash", .n_threads = 1};
        dup2(ends[1], STDERR_FILENO);
        log_init("test", LOG_INFO);
        _exit(follow_run(&options, n_stops, wake_fd));
    }
    close(ends[1]);
    said = fdopen(ends[0], "r");
    ck_assert_ptr_nonnull(said);
    return child;
}

/* Reads until the follower has said that. */
static void await(const char *words) {
    char line[1024];
    while (fgets(line, sizeof line, said))
        if (strstr(line, words))
            return;
    ck_abort_msg("it never said \"%s\"", words);
}

static int code_of(pid_t child) {
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "status %x", (unsigned)status);
    return WEXITSTATUS(status);
}

static void stop(void) {
    atomic_store(n_stops, 1);
    ck_assert_int_eq(eventfd_write(wake_fd, 1), 0);
}

/* As the leader: takes the follower's question. Answers its socket. */
static int accept_question(void) {
    struct rank_message question;
    int listener, fds[COMM_RANKS_MAX];
    uint32_t n_fds;
    ck_assert_int_eq(rank_wire_listen(address, &listener, &error), STATUS_OK);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    close(listener);
    ck_assert_int_eq(rank_wire_receive(fd, &question, fds, &n_fds), STATUS_OK);
    ck_assert_int_eq(question.type, RANK_JOIN);
    ck_assert_str_eq(question.u.join.version, TANDEM_VERSION);
    ck_assert_uint_eq(question.u.join.n_ranks, 0);
    ck_assert_uint_eq(n_fds, 0);
    return fd;
}

START_TEST(it_waits_for_a_leader_and_finds_it) {
    pid_t follower = fork_follower(address);
    await("waiting for the leader");
    close(accept_question());
    /* Who leaves before it answers may be followed by another leader. */
    ck_assert_int_eq(code_of(follower), EXIT_FAILURE);
    await("error: the leader closed the connection before it sent its terms");
}
END_TEST

START_TEST(a_stop_ends_the_wait_for_a_leader) {
    pid_t follower = fork_follower(address);
    await("waiting for the leader");
    stop();
    ck_assert_int_eq(code_of(follower), EXIT_SUCCESS);
}
END_TEST

START_TEST(an_address_that_cannot_be_one_is_no_leader_to_wait_for) {
    char below[160];
    snprintf(below, sizeof below, "%s/leader", address);
    int fd = open(address, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* a file and no folder */
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(code_of(fork_follower(below)), EXIT_CONFIG);
    await("Not a directory");
}
END_TEST

/* What the leader says that is no terms, with a descriptor. */
START_TEST(what_is_no_answer_ends_it_and_a_restart_does_not_help) {
    static const struct {
        enum rank_message_type type;
        const char *says;
    } answers[] = {
        {RANK_REFUSED, "error: the leader refuses: no room"},
        {RANK_BYE, "error: the leader's answer is not one of ours"},
        {RANK_TERMS, "error: the leader's terms contradict themselves"}, /* they are all 0 */
    };
    struct rank_message message = {.type = answers[_i].type};
    if (message.type == RANK_REFUSED)
        strcpy(message.u.failed.text, "no room");
    pid_t follower = fork_follower(address);
    int fd = accept_question();
    ck_assert_int_eq(rank_wire_send(fd, &message, &wake_fd, 1), STATUS_OK);
    ck_assert_int_eq(code_of(follower), EXIT_CONFIG);
    await(answers[_i].says);
    close(fd);
}
END_TEST

/* The leader hears why its follower could not open its ranks, and of which rank it is. */
START_TEST(a_rank_that_cannot_be_opened_is_named) {
    const struct group_sizes sizes = {
        .board = {.n_ranks = 2, .max_tokens = 8, .max_seqs = 2, .max_blocks = 4}, .n_floats = 64};
    struct rank_message terms = {.type = RANK_TERMS,
                                 .u.terms = {.rank_begin = 1,
                                             .n_here = 1,
                                             .n_ranks = 2,
                                             .context_max = 64,
                                             .n_blocks = 4,
                                             .sizes = sizes,
                                             .backend = "cpu"}};
    struct rank_message answer;
    struct group_memory memory;
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds;
    ck_assert_int_eq(group_memory_make(&memory, &sizes, &error), STATUS_OK);
    pid_t follower = fork_follower(address);
    int fd = accept_question();
    ck_assert_int_eq(rank_wire_send(fd, &terms, &memory.fd, 1), STATUS_OK);
    ck_assert_int_eq(rank_wire_receive(fd, &answer, fds, &n_fds), STATUS_OK);
    ck_assert_int_eq(answer.type, RANK_FAILED);
    ck_assert_int_eq(answer.u.failed.status, STATUS_UNSUPPORTED);
    ck_assert_ptr_eq(strstr(answer.u.failed.text, "rank 1 of 2: "), answer.u.failed.text);
    ck_assert_int_eq(code_of(follower), EXIT_CONFIG);
    close(fd);
    group_memory_fini(&memory);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, it_waits_for_a_leader_and_finds_it);
    tcase_add_test(tests, a_stop_ends_the_wait_for_a_leader);
    tcase_add_test(tests, an_address_that_cannot_be_one_is_no_leader_to_wait_for);
    tcase_add_loop_test(tests, what_is_no_answer_ends_it_and_a_restart_does_not_help, 0, 3);
    tcase_add_test(tests, a_rank_that_cannot_be_opened_is_named);
}
