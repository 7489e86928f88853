#include "base/exit.h"
#include "base/log/log.h"
#include "base/log/log_writer.h"
#include "tests/support/suite.h"
#include "tests/support/test_clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

const char *const suite_name = "base_log_end";
const double suite_timeout_s = 60;

enum { N_FEW = 100, N_MANY = 20000, N_THREADS = 8, TEXT_MAX = 1 << 20 };

/* What a child wrote, and how it ended. */
struct end {
    char text[TEXT_MAX];
    size_t n;
    int code; /* -signal when one ended it */
};

static struct end end;

static void put_numbers(unsigned first, unsigned last) {
    for (unsigned i = first; i < last; i++)
        log_words("line %u of a length that makes the pipe full soon enough", i);
}

static void open_pipe(int ends[2]) {
    ck_assert_int_eq(pipe(ends), 0);
}

static void open_socket(int ends[2]) { /* as the journal's */
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void open_terminal(int ends[2]) {
    struct termios mode;
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(ends[0], 0);
    ck_assert_int_eq(grantpt(ends[0]), 0);
    ck_assert_int_eq(unlockpt(ends[0]), 0);
    ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(ends[1], 0);
    ck_assert_int_eq(tcgetattr(ends[1], &mode), 0);
    cfmakeraw(&mode);
    ck_assert_int_eq(tcsetattr(ends[1], TCSANOW, &mode), 0);
}

/* The threads of this process, as /proc names them; the last that is not among `known`. */
static int find_threads(int known[64], unsigned *n_known) {
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;
    unsigned n = *n_known;
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        int tid = atoi(entry->d_name);
        bool is_known = tid == 0;
        for (unsigned i = 0; i < n; i++)
            is_known = is_known || known[i] == tid;
        if (is_known)
            continue;
        found = tid;
        if (*n_known < 64)
            known[(*n_known)++] = tid;
    }
    closedir(tasks);
    return found;
}

static void leave(void) {
    _exit(7); /* before the leak checker, which cannot look at a thread that is being traced */
}

/* Once it waits for lines: stopped before, it might hold the log's mutex for ever. */
static void await_sleep(int tid) {
    char path[64], stat[256], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    while (state != 'S') {
        FILE *file = fopen(path, "r");
        if (!file || !fgets(stat, sizeof stat, file))
            _exit(97);
        fclose(file);
        state = strrchr(stat, ')')[2];
        sched_yield();
    }
}

static void run_child(int err, int told, int go, void (*act)(void)) {
    int known[64];
    unsigned n_known = 0;
    char byte;
    dup2(err, STDERR_FILENO);
    atexit(leave);
    find_threads(known, &n_known);
    log_writer_start();
    int tid = find_threads(known, &n_known);
    await_sleep(tid);
    if (write(told, &tid, sizeof tid) != sizeof tid || read(go, &byte, 1) != 1)
        _exit(99);
    close(told);
    act();
    exit(7);
}

/* From now on the thread gets no processor, as on a crowded machine. */
static void stop_thread(int tid) {
    int status;
    ck_assert_int_eq(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0);
    ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
    ck_assert_int_eq(waitpid(tid, &status, __WALL), tid);
    ck_assert(WIFSTOPPED(status));
}

static void read_end(int in) {
    ssize_t n;
    while (end.n + 1 < sizeof end.text &&
           (n = read(in, end.text + end.n, sizeof end.text - end.n - 1)) > 0)
        end.n += (size_t)n;
    end.text[end.n] = 0;
}

static void await_end(pid_t child) {
    int status;
    pid_t ended;
    do /* a traced thread comes first */
        ended = waitpid(-1, &status, __WALL);
    while (ended > 0 && ended != child);
    ck_assert_int_eq(ended, child);
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

enum reader {
    READER_READS,
    READER_SLEEPS, /* nothing is read before the child has ended */
    READER_GONE,
};

/* Runs act() in a child whose standard error is `ends[1]`, its log's thread stopped if asked for. */
static void end_child(int ends[2], void (*act)(void), bool stopped, enum reader reader) {
    int told[2], go[2], tid;
    end.n = 0;
    ck_assert_int_eq(pipe(told), 0);
    ck_assert_int_eq(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_child(ends[1], told[1], go[0], act);
    }
    close(told[1]);
    ck_assert_int_eq(read(told[0], &tid, sizeof tid), sizeof tid);
    if (stopped)
        stop_thread(tid);
    if (reader == READER_GONE)
        close(ends[0]);
    if (reader != READER_SLEEPS)
        close(ends[1]);
    ck_assert_int_eq(write(go[1], "", 1), 1);
    if (reader == READER_READS)
        read_end(ends[0]);
    await_end(child);
    close(told[0]);
    close(go[0]);
    close(go[1]);
}

/* Lines 0 to n in order, each once and whole; the text behind them. */
static const char *expect_numbers(unsigned n) {
    const char *at = end.text;
    char line[128];
    for (unsigned i = 0; i < n; i++) {
        snprintf(line, sizeof line, "line %u of a length that makes the pipe full soon enough\n",
                 i);
        ck_assert_msg(strncmp(at, line, strlen(line)) == 0, "line %u: %.100s", i, at);
        at += strlen(line);
    }
    return at;
}

static void say_and_end(void) {
    put_numbers(0, N_FEW);
    exit_now(exit_with(EXIT_CONFIG, "the reason\nand its second line"));
}

static void say_and_exit(void) {
    put_numbers(0, N_FEW);
    log_error("the reason", "n=%d", 1);
    exit(1); /* leave() makes a 7 of it */
}

static void say_last(void) {
    static const char last[] = "the reason\n";
    put_numbers(0, N_FEW);
    log_writer_last(last, sizeof last - 1);
    _exit(EXIT_CONFIG);
}

static const struct {
    void (*open)(int ends[2]);
} kinds[] = {{open_pipe}, {open_socket}, {open_terminal}};

START_TEST(reason_is_written_although_the_logs_thread_never_runs) {
    int ends[2];
    kinds[_i].open(ends);
    end_child(ends, say_and_end, true, READER_READS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    ck_assert_str_eq(expect_numbers(N_FEW), "error: the reason\nerror: and its second line\n");
    kinds[_i].open(ends);
    end_child(ends, say_and_exit, true, READER_READS);
    ck_assert_int_eq(end.code, 7);
    const char *rest = expect_numbers(N_FEW);
    ck_assert_ptr_nonnull(strstr(rest, "msg=\"the reason\" n=1\n"));
    ck_assert_ptr_eq(strchr(rest, '\n'), end.text + end.n - 1);
    kinds[_i].open(ends);
    end_child(ends, say_last, true, READER_READS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    ck_assert_str_eq(expect_numbers(N_FEW), "the reason\n");
}
END_TEST

START_TEST(reason_is_written_once_beside_the_logs_thread) {
    int ends[2];
    for (unsigned i = 0; i < 50; i++) {
        kinds[_i].open(ends);
        end_child(ends, say_and_end, false, READER_READS);
        ck_assert_int_eq(end.code, EXIT_CONFIG);
        ck_assert_str_eq(expect_numbers(N_FEW), "error: the reason\nerror: and its second line\n");
        close(ends[0]);
    }
}
END_TEST

#define LONG_REASON                                                                                \
    "the reason, longer than the room that ordinary lines leave in the ring, so that it fits "     \
    "nowhere"

static void stuff_and_end(void) {
    put_numbers(0, N_MANY);
    exit_now(exit_with(EXIT_CONFIG, LONG_REASON));
}

static void stuff_and_say_last(void) {
    static char last[4000]; /* more than the room that a full pipe may still have */
    put_numbers(0, N_MANY);
    memset(last, 'x', sizeof last);
    log_writer_last(last, sizeof last);
    _exit(EXIT_CONFIG);
}

START_TEST(reader_that_sleeps_holds_no_program_for_ever) {
    int ends[2];
    kinds[_i].open(ends);
    end_child(ends, stuff_and_end, false, READER_SLEEPS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    ck_assert_int_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* ours, too: others write there */
    kinds[_i].open(ends);
    end_child(ends, stuff_and_end, true, READER_SLEEPS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    ck_assert_int_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    kinds[_i].open(ends);
    end_child(ends, stuff_and_say_last, true, READER_SLEEPS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
}
END_TEST

static void stuff_a_slow_reader(void) {
    test_clock_stop(); /* it is not given up */
    stuff_and_end();
}

/* The log is longer than pipe and ring: ordinary lines are lost, and the reason is not. */
START_TEST(reader_that_was_slow_gets_the_lines_the_report_and_then_the_reason) {
    int ends[2];
    kinds[_i].open(ends);
    end_child(ends, stuff_a_slow_reader, true, READER_READS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    unsigned n = 0;
    const char *report = strstr(end.text, " msg=\"log lines lost\" n=");
    ck_assert_ptr_nonnull(report);
    for (const char *at = end.text; at < report; at++)
        n += *at == '\n';
    ck_assert_uint_eq(n + strtoul(report + 24, NULL, 10), N_MANY);
    const char *rest = expect_numbers(n);
    ck_assert_int_eq(strncmp(rest, "ts=", 3), 0);
    ck_assert_str_eq(strchr(rest, '\n') + 1, "error: " LONG_REASON "\n");
}
END_TEST

START_TEST(reader_that_is_gone_changes_no_exit_code) {
    int ends[2];
    kinds[_i].open(ends);
    end_child(ends, say_and_end, true, READER_GONE); /* SIGPIPE has its default action */
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    kinds[_i].open(ends);
    end_child(ends, say_last, true, READER_GONE);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
}
END_TEST

static void end_with_little_room(void) {
    exit_now(exit_with(EXIT_CONFIG, "a reason that is longer than the room, or so it should be"));
}

/* poll() says that there is room, and write() would wait for more. */
START_TEST(terminal_with_little_room_holds_no_program_for_ever) {
    int ends[2];
    char some[4096];
    open_terminal(ends);
    int filler = open(ptsname(ends[0]), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    memset(some, '.', sizeof some);
    while (write(filler, some, sizeof some) > 0 || write(filler, some, 1) > 0)
        ;
    struct pollfd ready = {.fd = ends[1], .events = POLLOUT};
    /* What was read is freed by the page; the kernel may also make room by itself, a moment later. */
    while (poll(&ready, 1, 0) == 0)
        ck_assert_int_gt(read(ends[0], some, 16), 0);
    while (write(filler, some, 1) > 0 && poll(&ready, 1, 0) == 1)
        ;
    ck_assert_int_gt(read(ends[0], some, 16), 0);
    end_child(ends, end_with_little_room, true, READER_SLEEPS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    close(filler);
}
END_TEST

static void *put_and_finish(void *user) {
    unsigned who = *(unsigned *)user;
    for (unsigned i = 0; i < N_FEW; i++) {
        log_words("thread %u line %u", who, i);
        if (!log_writer_finish())
            log_words("not finished");
    }
    return NULL;
}

static void finish_from_many(void) {
    pthread_t threads[N_THREADS];
    unsigned numbers[N_THREADS];
    for (unsigned i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, put_and_finish, &numbers[i]) != 0)
            _exit(98);
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    exit_now(0);
}

START_TEST(threads_that_end_the_program_at_once_tear_no_line) {
    int ends[2];
    unsigned next[N_THREADS] = {0}, n_lines = 0, who, i;
    kinds[_i].open(ends);
    end_child(ends, finish_from_many, false, READER_READS);
    ck_assert_int_eq(end.code, 0);
    for (char *line = strtok(end.text, "\n"); line; line = strtok(NULL, "\n")) {
        ck_assert_msg(sscanf(line, "thread %u line %u", &who, &i) == 2 && who < N_THREADS, "%s",
                      line);
        ck_assert_uint_eq(i, next[who]);
        next[who]++;
        n_lines++;
    }
    ck_assert_uint_eq(n_lines, N_THREADS * N_FEW);
}
END_TEST

static void interrupted(int number) {
    static const char last[] = "the reason\n";
    (void)number;
    log_writer_last(last, sizeof last - 1);
    _exit(EXIT_CONFIG);
}

static void interrupt_the_writing(void) {
    struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    for (;;) /* mostly within log_writer_put(), with its mutex or without */
        log_words("line");
}

/* The lines before it are lost when the signal came while the mutex was held: it stands alone. */
START_TEST(signal_handler_says_the_reason_wherever_it_interrupts) {
    static const char last[] = "the reason\n";
    int ends[2];
    kinds[_i].open(ends);
    end_child(ends, interrupt_the_writing, true, READER_READS);
    ck_assert_int_eq(end.code, EXIT_CONFIG);
    ck_assert_uint_ge(end.n, strlen(last));
    size_t at = end.n - strlen(last);
    ck_assert_str_eq(end.text + at, last);
    ck_assert(at == 0 || end.text[at - 1] == '\n');
}
END_TEST

void suite_add(TCase *tests) {
    int n = sizeof kinds / sizeof kinds[0];
    tcase_add_loop_test(tests, reason_is_written_although_the_logs_thread_never_runs, 0, n);
    tcase_add_loop_test(tests, reason_is_written_once_beside_the_logs_thread, 0, 2);
    tcase_add_loop_test(tests, reader_that_sleeps_holds_no_program_for_ever, 0, n);
    tcase_add_loop_test(tests, reader_that_was_slow_gets_the_lines_the_report_and_then_the_reason,
                        0, 2);
    tcase_add_loop_test(tests, reader_that_is_gone_changes_no_exit_code, 0, n);
    tcase_add_test(tests, terminal_with_little_room_holds_no_program_for_ever);
    tcase_add_loop_test(tests, threads_that_end_the_program_at_once_tear_no_line, 0, 2);
    tcase_add_loop_test(tests, signal_handler_says_the_reason_wherever_it_interrupts, 0, 2);
}
