#include "base/log/log.h"

#include "base/clock.h"
#include "base/log/log_writer.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "base_log";
const double suite_timeout_s = 60;

enum { N_MANY = 20000, N_THREADS = 8, N_EACH = 2000 };

/* Standard error becomes a pipe; answers the end to read from. */
static int pipe_stderr(void) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

/* The pipe that standard error is takes nothing more: empty lines fill it. */
static void fill_stderr(void) {
    static char empty[4096];
    int same = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC); /* a flag of its own */
    ck_assert_int_ge(same, 0);
    memset(empty, '\n', sizeof empty);
    while (write(same, empty, sizeof empty) > 0)
        ;
    close(same);
}

/* Takes standard error away from the writer, so that a reader comes to the end. */
static void close_stderr(void) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(dup2(nowhere, STDERR_FILENO), STDERR_FILENO);
    close(nowhere);
}

static void put_numbers(unsigned who, unsigned first, unsigned end) {
    for (unsigned i = first; i < end; i++)
        log_words("line %u %u of a length that makes the pipe full soon enough", who, i);
}

struct seen {
    unsigned n_lines;
    unsigned n_reports;
    unsigned long n_lost; /* by the reports */
    unsigned next[N_THREADS];
    bool after_report; /* a line came behind the last report */
};

/* Every line is whole, and each writer's numbers rise. */
static void look_at(struct seen *seen, const char *line) {
    unsigned who, i;
    unsigned long n;
    const char *report = strstr(line, "msg=\"log lines lost\" n=");
    if (report) {
        ck_assert_int_eq(strncmp(line, "ts=", 3), 0);
        ck_assert_int_eq(sscanf(report, "msg=\"log lines lost\" n=%lu", &n), 1);
        seen->n_lost += n;
        seen->n_reports++;
        seen->after_report = false;
        return;
    }
    int end = 0;
    ck_assert_msg(sscanf(line, "line %u %u of a length that makes the pipe full soon enough%n",
                         &who, &i, &end) == 2 &&
                      (size_t)end == strlen(line),
                  "not a whole line: %s", line);
    ck_assert_uint_lt(who, N_THREADS);
    ck_assert_uint_ge(i, seen->next[who]);
    seen->next[who] = i + 1;
    seen->n_lines++;
    seen->after_report = true;
}

/* Reads until all of `n_put` lines came or were reported, or the pipe ends. */
static void read_lines(int fd, struct seen *seen, unsigned n_put) {
    FILE *in = fdopen(dup(fd), "r");
    setvbuf(in, NULL, _IONBF, 0); /* what is not read stays in the pipe */
    char line[LOG_LINE_MAX + 1];
    while (seen->n_lines + seen->n_lost < n_put && fgets(line, sizeof line, in)) {
        ck_assert_ptr_nonnull(strchr(line, '\n'));
        *strchr(line, '\n') = 0;
        if (line[0]) /* fill_stderr() */
            look_at(seen, line);
    }
    fclose(in);
}

START_TEST(full_pipe_costs_lines_which_are_counted_and_reported_once) {
    struct seen seen = {0};
    int in = pipe_stderr();
    fill_stderr();
    log_writer_start();
    put_numbers(0, 0, N_MANY); /* nobody reads: this must come back */
    ck_assert(!log_writer_flush(20));
    uint64_t n_lost = log_writer_lost();
    ck_assert_uint_gt(n_lost, 0);
    read_lines(in, &seen, N_MANY);
    ck_assert_uint_eq(seen.n_lost, n_lost);
    ck_assert_uint_eq(seen.n_reports, 1);
    ck_assert(!seen.after_report); /* it stands where the lines are missing */
    ck_assert_uint_eq(seen.n_lines + n_lost, N_MANY);
    put_numbers(0, N_MANY, N_MANY + 10);
    read_lines(in, &seen, N_MANY + 10);
    ck_assert_uint_eq(seen.next[0], N_MANY + 10);
    ck_assert_uint_eq(seen.n_reports, 1);
    ck_assert_uint_eq(log_writer_lost(), n_lost);
    close(in);
}
END_TEST

/* SIGPIPE has its default action: it must not reach us. The writer tries again within
 * its second. */
/* The ring gets room before all of it was read: what is put then comes behind the report. */
START_TEST(report_stands_where_the_lines_are_missing) {
    struct seen seen = {0};
    unsigned n_put = N_MANY;
    int in = pipe_stderr();
    fill_stderr();
    log_writer_start();
    put_numbers(0, 0, N_MANY);
    uint64_t n_lost = log_writer_lost(), n_before;
    ck_assert_uint_gt(n_lost, 0);
    read_lines(in, &seen, 1000);
    do {
        n_before = log_writer_lost();
        put_numbers(0, n_put, n_put + 1);
        n_put++;
    } while (log_writer_lost() > n_before);
    read_lines(in, &seen, n_put);
    ck_assert_uint_eq(seen.n_reports, 1);
    ck_assert(seen.after_report);
    ck_assert_uint_eq(seen.n_lines + log_writer_lost(), n_put);
    close(in);
}
END_TEST

START_TEST(closed_pipe_costs_lines_and_the_next_one_gets_the_report) {
    struct seen seen = {0};
    int in = pipe_stderr();
    log_writer_start();
    close(in);
    put_numbers(0, 0, 1);
    while (log_writer_lost() == 0)
        ck_assert(!log_writer_flush(1) || log_writer_lost() > 0);
    put_numbers(0, 1, 4);
    in = pipe_stderr();
    read_lines(in, &seen, 4);
    ck_assert_uint_eq(seen.n_reports, 1);
    ck_assert_uint_eq(seen.n_lost, 1);
    ck_assert_uint_eq(seen.n_lines, 3); /* they waited */
    close(in);
}
END_TEST

/* The ring has gone round: what stands in it beyond the lines that wait are old ones. */
START_TEST(old_lines_do_not_come_again_behind_a_write_that_failed) {
    enum { N_OLD = 6000, N_BATCH = 500 };
    struct seen seen = {0};
    int in = pipe_stderr();
    log_writer_start();
    for (unsigned i = 0; i < N_OLD; i += N_BATCH) {
        put_numbers(0, i, i + N_BATCH);
        read_lines(in, &seen, i + N_BATCH);
    }
    close(in);
    put_numbers(0, N_OLD, N_OLD + 1);
    while (log_writer_lost() == 0)
        ck_assert(!log_writer_flush(1) || log_writer_lost() > 0);
    put_numbers(0, N_OLD + 1, N_OLD + 4);
    in = pipe_stderr();
    read_lines(in, &seen, N_OLD + 4);
    ck_assert_uint_eq(seen.n_reports, 1);
    ck_assert_uint_eq(seen.n_lines, N_OLD + 3);
    ck_assert(seen.after_report);
    close(in);
}
END_TEST

/* Writes that failed, and what the linker puts in the place of write(2) to count them. */
static atomic_uint n_failed;

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);

ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    ssize_t written = __real_write(fd, bytes, n);
    if (written < 0)
        atomic_fetch_add(&n_failed, 1);
    return written;
}

/* While standard error takes nothing, a second lies between two tries. */
START_TEST(writer_rests_behind_a_write_that_failed) {
    close(pipe_stderr());
    log_writer_start();
    uint64_t began_ns = clock_now_ns();
    unsigned n_before = atomic_load(&n_failed);
    put_numbers(0, 0, 1);
    while (atomic_load(&n_failed) < n_before + 2)
        log_writer_flush(1);
    ck_assert_uint_ge(clock_now_ns() - began_ns, NS_PER_S);
    close_stderr();
}
END_TEST

static void *put_many(void *user) {
    unsigned who = *(unsigned *)user;
    put_numbers(who, 0, N_EACH);
    return NULL;
}

START_TEST(lines_of_many_threads_stay_whole_and_in_order) {
    struct seen seen = {0};
    pthread_t threads[N_THREADS];
    unsigned numbers[N_THREADS];
    int in = pipe_stderr();
    log_writer_start();
    for (unsigned i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, put_many, &numbers[i]), 0);
    }
    read_lines(in, &seen, N_THREADS * N_EACH);
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(seen.n_lost, log_writer_lost());
    ck_assert_uint_eq(seen.n_lines + seen.n_lost, N_THREADS * N_EACH);
    close(in);
}
END_TEST

/* A file that may not grow tears a line: the next words begin on a line of their own. */
START_TEST(torn_line_is_ended_before_the_next_one) {
    char path[] = "/tmp/tandem-log-XXXXXX";
    char text[2048] = "";
    int file = mkstemp(path);
    struct rlimit before, limit;
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(fcntl(file, F_SETFL, O_APPEND), 0);
    ck_assert_int_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){.rlim_cur = 100, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    log_writer_start();
    setrlimit(RLIMIT_FSIZE, &limit);
    put_numbers(0, 0, 2);
    while (log_writer_lost() == 0)
        (void)log_writer_flush(1);
    setrlimit(RLIMIT_FSIZE, &before);
    while (!strstr(text, "log lines lost"))
        ck_assert_int_ge(pread(file, text, sizeof text - 1, 0), 0);
    ck_assert_int_eq(text[100], '\n');
    ck_assert_int_eq(strncmp(text + 101, "ts=", 3), 0);
    ck_assert_ptr_nonnull(strchr(text, '\n'));
    close(file);
    unlink(path);
}
END_TEST

START_TEST(long_line_is_cut_and_still_ends) {
    static char line[3 * LOG_LINE_MAX], got[3 * LOG_LINE_MAX];
    int in = pipe_stderr();
    memset(line, 'x', sizeof line);
    log_writer_start();
    log_writer_put(line, sizeof line, LOG_ORDINARY);
    log_writer_put("short\n", 6, LOG_ORDINARY);
    ck_assert(log_writer_flush(10000));
    ssize_t n = read(in, got, sizeof got);
    ck_assert_int_eq(n, LOG_LINE_MAX + 6);
    ck_assert_int_eq(got[LOG_LINE_MAX - 1], '\n');
    ck_assert_int_eq(got[LOG_LINE_MAX - 2], 'x');
    ck_assert_int_eq(memcmp(got + LOG_LINE_MAX, "short\n", 6), 0);
    close(in);
}
END_TEST

/* The child ends by itself; its lines come back. */
static unsigned lines_of_child(void (*act)(void), bool reads, int *code) {
    int ends[2];
    int status;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        act();
        exit(7);
    }
    close(ends[1]);
    struct seen seen = {0};
    if (reads)
        read_lines(ends[0], &seen, UINT32_MAX);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    close(ends[0]);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return seen.n_lines;
}

static void put_and_exit(void) {
    log_writer_start();
    put_numbers(0, 0, 100);
}

static void stuff_and_exit(void) {
    log_writer_start();
    put_numbers(0, 0, N_MANY);
}

START_TEST(program_that_exits_writes_its_lines_first_but_waits_for_nobody) {
    int code;
    ck_assert_uint_eq(lines_of_child(put_and_exit, true, &code), 100);
    ck_assert_int_eq(code, 7);
    lines_of_child(stuff_and_exit, false, &code); /* full for ever: it ends all the same */
    ck_assert_int_eq(code, 7);
}
END_TEST

static void put_last(void) {
    static const char last[] =
        "line 0 500 of a length that makes the pipe full soon enough\n"; /* any number will do */
    log_writer_start();
    put_numbers(0, 0, 500);
    log_writer_last(last, sizeof last - 1);
    _exit(8);
}

static void stuff_and_last(void) {
    log_writer_start();
    put_numbers(0, 0, N_MANY);
    static char last[4000]; /* more than the room that a full pipe may still have */
    memset(last, 'x', sizeof last);
    log_writer_last(last, sizeof last);
    _exit(8);
}

START_TEST(last_line_comes_behind_the_others_and_waits_for_nobody) {
    int code;
    ck_assert_uint_eq(lines_of_child(put_last, true, &code), 501); /* in order: read_lines() */
    ck_assert_int_eq(code, 8);
    lines_of_child(stuff_and_last, false, &code);
    ck_assert_int_eq(code, 8);
}
END_TEST

static void put_from_grandchild(void) {
    int status;
    log_writer_start();
    put_numbers(0, 0, 10);
    ck_assert(log_writer_flush(10000));
    pid_t child = fork();
    if (child == 0) {
        put_numbers(0, 10, 20);
        _exit(0); /* without any handler of exit() */
    }
    waitpid(child, &status, 0);
    put_numbers(0, 20, 30);
}

START_TEST(child_of_fork_has_no_thread_and_writes_by_itself) {
    int code;
    ck_assert_uint_eq(lines_of_child(put_from_grandchild, true, &code), 30);
    ck_assert_int_eq(code, 7);
}
END_TEST

START_TEST(log_line_has_time_level_program_and_fields) {
    char line[512] = "";
    int in = pipe_stderr();
    log_init("tester", LOG_INFO);
    log_debug("nobody sees this", "a=%d", 1);
    log_warn("a thing happened", "name=%s n=%d", "w0", 3);
    close_stderr();
    ssize_t n = read(in, line, sizeof line - 1);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(line[n - 1], '\n');
    ck_assert_int_eq(strncmp(line, "ts=20", 5), 0);
    ck_assert_ptr_nonnull(
        strstr(line, "Z level=warn prog=tester msg=\"a thing happened\" name=w0 n=3\n"));
    ck_assert_ptr_null(strstr(line, "nobody"));
    close(in);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, full_pipe_costs_lines_which_are_counted_and_reported_once);
    tcase_add_test(tests, report_stands_where_the_lines_are_missing);
    tcase_add_test(tests, closed_pipe_costs_lines_and_the_next_one_gets_the_report);
    tcase_add_test(tests, old_lines_do_not_come_again_behind_a_write_that_failed);
    tcase_add_test(tests, writer_rests_behind_a_write_that_failed);
    tcase_add_test(tests, lines_of_many_threads_stay_whole_and_in_order);
    tcase_add_test(tests, torn_line_is_ended_before_the_next_one);
    tcase_add_test(tests, long_line_is_cut_and_still_ends);
    tcase_add_test(tests, program_that_exits_writes_its_lines_first_but_waits_for_nobody);
    tcase_add_test(tests, last_line_comes_behind_the_others_and_waits_for_nobody);
    tcase_add_test(tests, child_of_fork_has_no_thread_and_writes_by_itself);
    tcase_add_test(tests, log_line_has_time_level_program_and_fields);
}
