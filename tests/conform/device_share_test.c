/* Memory of a device in two processes, on every member of kernels/cuda/device.h: the program starts itself once more as
 * the lender, which owns the memory and tells its handle through a pipe. */
#include "tests/support/device_members.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "conform_device_share";
const double suite_timeout_s = 60;

#define LENDER "TANDEM_DEVICE_LENDER" /* in the environment of the lender: the number of a member */
enum { FROM = 3, TO = 4 };            /* its ends of the pipes */
enum { N = 9000 };

extern char **environ;

static bool is_all(const unsigned char *bytes, unsigned char byte, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

static void tell(int to) {
    ck_assert_int_eq(write(to, "x", 1), 1);
}

/* False when the other process has ended. */
static bool hear(int from) {
    char word;
    return read(from, &word, 1) == 1;
}

/* The other process's program: a test of its own, whose failure ends it. */
START_TEST(memory_is_lent) {
    unsigned char got[N];
    struct device_handle handle;
    void *pieces[3]; /* what is lent stands between two others, on the same pages */
    device_member_open(_i);
    for (int i = 0; i < 3; i++) {
        pieces[i] = kind->alloc(device, N);
        ck_assert_ptr_nonnull(pieces[i]);
        kind->fill(stream, pieces[i], (unsigned char)(0x11 * (i + 1)), N);
    }
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    ck_assert_int_eq(kind->share(device, pieces[1], &handle), STATUS_OK);
    ck_assert_ptr_null(kind->adopt(device, &handle)); /* one's own */
    ck_assert_int_eq(write(TO, &handle, sizeof handle), sizeof handle);
    ck_assert(hear(FROM)); /* it was written */
    device_member_down(got, pieces[1], N);
    uint32_t count;
    memcpy(&count, got, sizeof count);
    ck_assert_uint_eq(count, 5);
    ck_assert(is_all(got + 4, 0, N - 4));
    kind->fill(stream, pieces[1], 0x55, N);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    tell(TO);
    ck_assert(hear(FROM)); /* it was released */
    for (int i = 0; i < 3; i++) {
        device_member_down(got, pieces[i], N);
        ck_assert(is_all(got, i == 1 ? 0x55 : (unsigned char)(0x11 * (i + 1)), N));
        kind->dealloc(device, pieces[i]);
    }
    ck_assert_ptr_null(kind->failure(device));
    device_member_close();
}
END_TEST

struct lender {
    pid_t pid;
    int from;
    int to;
};

static struct lender start_lender(int number) {
    struct lender lender;
    char text[16], *arguments[] = {"lender", NULL};
    int there[2], back[2];
    posix_spawn_file_actions_t actions;
    snprintf(text, sizeof text, "%d", number);
    ck_assert(pipe2(there, O_CLOEXEC) == 0 && pipe2(back, O_CLOEXEC) == 0);
    ck_assert_int_eq(setenv(LENDER, text, 1), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, there[0], FROM + 20); /* 3 and 4 may be among them */
    posix_spawn_file_actions_adddup2(&actions, back[1], TO + 20);
    posix_spawn_file_actions_adddup2(&actions, FROM + 20, FROM);
    posix_spawn_file_actions_adddup2(&actions, TO + 20, TO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, FROM + 20);
    posix_spawn_file_actions_addclose(&actions, TO + 20);
    ck_assert_int_eq(posix_spawn(&lender.pid, "/proc/self/exe", &actions, NULL, arguments, environ),
                     0);
    posix_spawn_file_actions_destroy(&actions);
    unsetenv(LENDER);
    close(there[0]);
    close(back[1]);
    lender.from = back[0];
    lender.to = there[1];
    return lender;
}

static void end_lender(const struct lender *lender) {
    int status;
    close(lender->from);
    close(lender->to);
    ck_assert_int_eq(waitpid(lender->pid, &status, 0), lender->pid);
    ck_assert_int_eq(status, 0);
}

START_TEST(memory_of_another_process_is_read_and_written) {
    struct lender lender = start_lender(_i);
    struct device_handle handle;
    unsigned char got[N];
    device_member_open(_i);
    void *own = kind->alloc(device, 300);
    ck_assert_int_eq(read(lender.from, &handle, sizeof handle), sizeof handle);
    unsigned char *lent = kind->adopt(device, &handle);
    ck_assert_ptr_nonnull(lent);
    device_member_down(got, lent, N);
    ck_assert(is_all(got, 0x22, N));
    kind->fill(stream, lent, 0, N);
    kernels->count(stream, (uint32_t *)(void *)lent, 5);
    kind->fill(stream, own, 0x77, 300);
    ck_assert_int_eq(kind->wait(stream), STATUS_OK);
    tell(lender.to);
    ck_assert(hear(lender.from));
    device_member_down(got, lent, N);
    ck_assert(is_all(got, 0x55, N));
    kind->release(device, lent);
    kind->release(device, NULL);
    void *later = kind->alloc(device, 2 * N); /* where it was, perhaps */
    kind->fill(stream, later, 0x99, 2 * N);
    device_member_down(got, own, 300);
    ck_assert(is_all(got, 0x77, 300));
    tell(lender.to);
    ck_assert(!hear(lender.from)); /* it ends, and its memory with it */
    end_lender(&lender);
    ck_assert_ptr_null(kind->adopt(device, &handle));
    ck_assert_ptr_null(kind->failure(device));
    device_member_close();
}
END_TEST

START_TEST(what_names_no_memory_is_not_adopted) {
    device_member_open(_i);
    struct device_handle handle;
    memset(&handle, 0x5a, sizeof handle);
    ck_assert_ptr_null(kind->adopt(device, &handle));
    ck_assert_ptr_null(kind->failure(device));
    device_member_close();
}
END_TEST

void suite_add(TCase *tests) {
    const char *number = getenv(LENDER);
    if (number) {
        tcase_add_loop_test(tests, memory_is_lent, atoi(number), atoi(number) + 1);
        return;
    }
    DEVICE_MEMBER_TEST(tests, memory_of_another_process_is_read_and_written);
    DEVICE_MEMBER_TEST(tests, what_names_no_memory_is_not_adopted);
}
