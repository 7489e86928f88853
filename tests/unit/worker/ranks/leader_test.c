/* How a leader gathers its followers: by turns, whoever comes with whatever, until all ranks have somebody; and it leaves no
 * descriptor of theirs behind. */
#include "base/log/log.h"
#include "tests/support/suite.h"
#include "worker/ranks/leader.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *const suite_name = "worker leader";
const double suite_timeout_s = 60;

enum { N_RANKS = 4 };

static const uint8_t model_fp[32] = {1, 2, 3};
static const struct group_sizes sizes = {
    .board = {.n_ranks = N_RANKS, .max_tokens = 8, .max_seqs = 2, .max_blocks = 4}, .n_floats = 64};

static char folder[64], address[128];
static struct error error;

static void setup(void) {
    log_init("test", LOG_ERROR);
    snprintf(folder, sizeof folder, "/tmp/tandem-gather-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(address, sizeof address, "ipc://%s/leader", folder);
}

static void teardown(void) {
    ck_assert_int_eq(rmdir(folder), 0); /* the leader took its socket away */
}

/* Called in a thread of its own while the leader gathers, and answers whether all went as it should. */
struct visit {
    bool (*make)(void);
    bool is_right;
    pthread_t leader;
    atomic_bool is_over;
};

static void *visit_main(void *arg) {
    struct visit *visit = arg;
    visit->is_right = visit->make();
    return NULL;
}

static struct rank_message join_of(uint32_t n_ranks) {
    struct rank_message message = {.type = RANK_JOIN, .u.join.n_ranks = n_ranks};
    strcpy(message.u.join.version, TANDEM_VERSION);
    memcpy(message.u.join.model_fp, model_fp, sizeof model_fp);
    return message;
}

static int visit_connect(void) {
    struct error none;
    int fd;
    while (rank_wire_connect(address + strlen("ipc://"), &fd, &none) != STATUS_OK)
        usleep(1000);
    return fd;
}

static bool visit_send(int fd, struct rank_message message) {
    return rank_wire_send(fd, &message, NULL, 0) == STATUS_OK;
}

/* The leader's answer; RANK_MESSAGE_TYPES: there is none. Takes no descriptor but that of the group's memory. */
static struct rank_message visit_receive(int fd) {
    struct rank_message message;
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds = 0;
    if (rank_wire_receive(fd, &message, fds, &n_fds) != STATUS_OK ||
        n_fds != (message.type == RANK_TERMS))
        message.type = RANK_MESSAGE_TYPES;
    rank_wire_close(fds, n_fds);
    return message;
}

static bool visit_is_refused(int fd, const char *why) {
    struct rank_message answer = visit_receive(fd);
    bool is_refused = answer.type == RANK_REFUSED && strstr(answer.u.failed.text, why) &&
                      visit_receive(fd).type == RANK_MESSAGE_TYPES; /* and it hangs up */
    close(fd);
    return is_refused;
}

static bool visit_is_taken(int fd, uint32_t rank_begin, uint32_t n_here) {
    struct rank_message answer = visit_receive(fd);
    close(fd);
    return answer.type == RANK_TERMS && answer.u.terms.rank_begin == rank_begin &&
           answer.u.terms.n_here == n_here && answer.u.terms.n_ranks == N_RANKS;
}

/* Who joins takes as many ranks as it asks for, or all that are left. */
static bool by_turns(void) {
    int fd = visit_connect();
    if (!visit_send(fd, join_of(3)) || !visit_is_taken(fd, 0, 3))
        return false;
    fd = visit_connect();
    if (!visit_send(fd, join_of(2)) || !visit_is_refused(fd, "more ranks (--ranks-here)"))
        return false;
    fd = visit_connect();
    return visit_send(fd, join_of(0)) && visit_is_taken(fd, 3, 1);
}

/* What comes with a question is let go, whether the question is a good one or not. */
static bool with_descriptors(void) {
    int own[2] = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
    struct rank_message wrong = {.type = RANK_READY}, good = join_of(0);
    int fd = visit_connect();
    bool is_right = rank_wire_send(fd, &wrong, own, 2) == STATUS_OK &&
                    visit_is_refused(fd, "not a request to join");
    fd = visit_connect();
    is_right = is_right && rank_wire_send(fd, &good, own, 2) == STATUS_OK &&
               visit_is_taken(fd, 0, N_RANKS);
    close(own[0]);
    close(own[1]);
    return is_right;
}

/* One asks and is gone before the leader, who still waits for another's question, can answer. */
static bool gone_before_the_answer(void) {
    int first = visit_connect(), gone = visit_connect();
    if (!visit_send(gone, join_of(2)))
        return false;
    close(gone);
    if (!visit_send(first, (struct rank_message){.type = RANK_BYE}) ||
        !visit_is_refused(first, "not a request to join"))
        return false;
    int fd = visit_connect();
    return visit_send(fd, join_of(0)) && visit_is_taken(fd, 0, N_RANKS);
}

static bool (*const visits[])(void) = {by_turns, with_descriptors, gone_before_the_answer};

static enum status gather(struct visit *visit, void *(*run)(void *), struct leader *leader) {
    struct leader_options options = {
        .address = address, .terms = {.n_ranks = N_RANKS, .sizes = sizes}, .model_fp = model_fp};
    struct group_memory memory;
    pthread_t thread;
    ck_assert_int_eq(group_memory_make(&memory, &sizes, &error), STATUS_OK);
    options.memory = &memory;
    visit->leader = pthread_self();
    ck_assert_int_eq(pthread_create(&thread, NULL, run, visit), 0);
    enum status status = leader_gather(leader, &options, &error);
    atomic_store(&visit->is_over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    group_memory_fini(&memory);
    return status;
}

START_TEST(a_leader_takes_whom_it_can_and_keeps_nothing_of_others) {
    struct visit visit = {.make = visits[_i]};
    struct leader leader;
    unsigned n_files = suite_count_files();
    ck_assert_int_eq(gather(&visit, visit_main, &leader), STATUS_OK);
    ck_assert(visit.is_right);
    ck_assert_uint_eq(leader.n_followers, _i == 0 ? 2 : 1);
    ck_assert_uint_eq(leader.followers[0].n_ranks, _i == 0 ? 3 : N_RANKS);
    ck_assert_int_eq(leader.followers[0].pid, getpid());
    leader_close(&leader);
    ck_assert_uint_eq(suite_count_files(), n_files);
}
END_TEST

static void notice(int number) {
    (void)number;
}

static void *interrupt(void *arg) {
    struct visit *visit = arg;
    while (!atomic_load(&visit->is_over)) {
        pthread_kill(visit->leader, SIGUSR1);
        usleep(1000);
    }
    return NULL;
}

START_TEST(a_signal_ends_the_wait_for_followers) {
    struct sigaction action = {.sa_handler = notice}; /* as main's of a stop: no restart */
    struct visit visit = {0};
    struct leader leader;
    unsigned n_files = suite_count_files();
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(gather(&visit, interrupt, &leader), STATUS_CLOSED);
    ck_assert_str_eq(error.text, "stopped while waiting for followers");
    ck_assert_uint_eq(leader.n_followers, 0);
    leader_close(&leader);
    ck_assert_uint_eq(suite_count_files(), n_files);
}
END_TEST

/* There is no descriptor left for the next who comes. One may be kept already for the first, who hangs up at once. */
static void *come_when_none_is_left(void *arg) {
    struct visit *visit = arg;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct rlimit limit;
    strcpy(name.sun_path, address + strlen("ipc://"));
    while (access(name.sun_path, F_OK) != 0)
        usleep(1000);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = STDERR_FILENO + 1; /* whatever number is free is beyond it */
    setrlimit(RLIMIT_NOFILE, &limit);
    while (!atomic_load(&visit->is_over)) {
        if (connect(fd, (const struct sockaddr *)&name, sizeof name) == 0)
            shutdown(fd, SHUT_RDWR);
        usleep(1000);
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    close(fd);
    return NULL;
}

START_TEST(a_leader_that_can_take_nobody_in_says_why) {
    struct visit visit = {0};
    struct leader leader;
    unsigned n_files = suite_count_files();
    ck_assert_int_eq(gather(&visit, come_when_none_is_left, &leader), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "/leader: Too many open files"));
    leader_close(&leader);
    ck_assert_uint_eq(suite_count_files(), n_files);
}
END_TEST

START_TEST(an_address_of_another_host_or_no_path_is_refused) {
    static const char *const wrong[] = {"tcp://10.0.0.1:7", "", "ipc://"};
    char longest[sizeof((struct sockaddr_un *)0)->sun_path + 8];
    const char *found;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(rank_wire_path(wrong[i], &found, &error),
                         i == 0 ? STATUS_UNSUPPORTED : STATUS_INVALID);
    strcpy(longest, "ipc://");
    memset(longest + 6, 'x', sizeof longest - 6);
    longest[6 + sizeof((struct sockaddr_un *)0)->sun_path] = '\0';
    ck_assert_int_eq(rank_wire_path(longest, &found, &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "a path of 1 to 107 bytes is needed"));
    longest[6 + sizeof((struct sockaddr_un *)0)->sun_path - 1] = '\0';
    ck_assert_int_eq(rank_wire_path(longest, &found, &error), STATUS_OK);
    ck_assert_ptr_eq(found, longest + 6);
    ck_assert_int_eq(rank_wire_path(longest + 6, &found, &error), STATUS_OK); /* a path alone */
    ck_assert_ptr_eq(found, longest + 6);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_leader_takes_whom_it_can_and_keeps_nothing_of_others, 0,
                        sizeof visits / sizeof *visits);
    tcase_add_test(tests, a_signal_ends_the_wait_for_followers);
    tcase_add_test(tests, a_leader_that_can_take_nobody_in_says_why);
    tcase_add_test(tests, an_address_of_another_host_or_no_path_is_refused);
}
