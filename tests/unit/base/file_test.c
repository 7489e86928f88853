/* Row M05 of the catalogue of hostile input: what is not a regular file, and files that are cut. */
#include "tests/support/suite.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/signals.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const suite_name = "base_file";
const double suite_timeout_s = 60;

static void make_file(char path[32], size_t n) {
    char bytes[16384];
    strcpy(path, "/tmp/tandem-file-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    memset(bytes, 'x', sizeof bytes);
    ck_assert_uint_le(n, sizeof bytes);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

START_TEST(file_is_read_whole_within_its_bound) {
    char path[32];
    struct buf out;
    struct error error;
    make_file(path, 10000);
    buf_init(&out, 0);
    ck_assert_int_eq(file_read(path, 10000, &out, &error), STATUS_OK);
    ck_assert_uint_eq(out.n, 10000);
    buf_clear(&out);
    ck_assert_int_eq(file_read(path, 9999, &out, &error), STATUS_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    ck_assert_ptr_nonnull(strstr(error.text, "more than 9999 bytes"));
    buf_fini(&out);
    unlink(path);
}
END_TEST

START_TEST(m05_what_is_no_regular_file_is_refused) {
    char path[32];
    struct file_map map;
    struct error error;
    ck_assert_int_eq(file_map("/nonexistent/file", &map, &error), STATUS_NOT_FOUND);
    ck_assert_int_eq(file_map("/tmp", &map, &error), STATUS_IO);
    ck_assert_str_eq(error.text, "/tmp: no regular file");
    ck_assert_int_eq(file_map("/dev/zero", &map, &error), STATUS_IO);
    make_file(path, 0);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(file_map(path, &map, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "no regular file"));
    unlink(path);
}
END_TEST

START_TEST(empty_file_maps_to_nothing) {
    char path[32];
    struct file_map map;
    struct error error;
    make_file(path, 0);
    ck_assert_int_eq(file_map(path, &map, &error), STATUS_OK);
    ck_assert_ptr_null(map.bytes);
    ck_assert_int_eq(file_map_check(&map, path, &error), STATUS_OK);
    file_unmap(&map);
    file_unmap(&map);
    unlink(path);
}
END_TEST

START_TEST(m05_file_that_was_cut_short_is_noticed) {
    char path[32];
    struct file_map map;
    struct error error;
    make_file(path, 16384);
    ck_assert_int_eq(file_map(path, &map, &error), STATUS_OK);
    ck_assert_uint_eq(map.n_bytes, 16384);
    ck_assert_int_eq(map.bytes[16383], 'x');
    ck_assert_int_eq(file_map_check(&map, path, &error), STATUS_OK);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_int_eq(file_map_check(&map, path, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "cut short to 100 of 16384 bytes"));
    file_unmap(&map);
    unlink(path);
}
END_TEST

/* The child touches a page that is gone; its exit code and its one line come back. */
START_TEST(m05_touch_of_lost_bytes_ends_with_a_line) {
    char path[32];
    char line[512] = "";
    int pipe_fds[2];
    int status;
    make_file(path, 16384);
    ck_assert_int_eq(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        struct file_map map;
        struct error error;
        dup2(pipe_fds[1], STDERR_FILENO);
        file_guard("model.gguf");
        if (file_map(path, &map, &error) != STATUS_OK || truncate(path, 0) != 0)
            _exit(1);
        volatile unsigned char byte = map.bytes[8192];
        _exit(byte ? 2 : 3);
    }
    close(pipe_fds[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ssize_t n = read(pipe_fds[0], line, sizeof line - 1);
    close(pipe_fds[0]);
    unlink(path);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 74);
    ck_assert_int_gt(n, 0);
    ck_assert_str_eq(
        line, "error: model.gguf: a file was cut short or cannot be read while it is in use\n");
}
END_TEST

static void *touch(void *user) {
    const struct file_map *map = user;
    volatile unsigned char byte = map->bytes[8192];
    _exit(byte ? 2 : 3);
}

/* Weights are packed in threads that leave all other signals to the main thread. */
START_TEST(m05_touch_of_lost_bytes_in_a_helper_thread_ends_with_the_line_too) {
    char path[32], line[512] = "";
    int pipe_fds[2], status;
    make_file(path, 16384);
    ck_assert_int_eq(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        struct file_map map;
        struct error error;
        pthread_t thread;
        sigset_t before;
        dup2(pipe_fds[1], STDERR_FILENO);
        file_guard("model.gguf");
        if (file_map(path, &map, &error) != STATUS_OK || truncate(path, 0) != 0)
            _exit(1);
        signals_leave(&before);
        pthread_create(&thread, NULL, touch, &map);
        pthread_join(thread, NULL);
        _exit(4);
    }
    close(pipe_fds[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ssize_t n = read(pipe_fds[0], line, sizeof line - 1);
    close(pipe_fds[0]);
    unlink(path);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 74);
    ck_assert_int_gt(n, 0);
    ck_assert_ptr_nonnull(strstr(line, "error: model.gguf: a file was cut short"));
}
END_TEST

/* Both ways to read a file. */
static enum status read_and_map(const char *path, struct error *error) {
    struct file_map map = {0};
    struct buf out;
    struct error other;
    buf_init(&out, 0);
    buf_puts(&out, "before");
    enum status status = file_read(path, 1000, &out, error);
    ck_assert_int_eq(file_map(path, &map, &other), status);
    if (status == STATUS_OK)
        file_unmap(&map);
    else
        ck_assert_str_eq(error->text, other.text);
    buf_fini(&out);
    return status;
}

START_TEST(a_pointer_of_git_lfs_is_named) {
    static const struct {
        const char *text;
        bool is_pointer;
    } rows[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n", true},
        {"version https://git-lfs.github.com/spec/v1", true},
        {"version https://git-lfs.github.com/spec/v", false},
        {" version https://git-lfs.github.com/spec/v1\n", false},
        {"{\"a\": \"version https://git-lfs.github.com/spec/v1\"}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[32];
        struct error error;
        make_file(path, 0);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fputs(rows[i].text, file);
        fclose(file);
        enum status status = read_and_map(path, &error);
        ck_assert_msg(status == (rows[i].is_pointer ? STATUS_CORRUPT : STATUS_OK), "%s",
                      rows[i].text);
        if (rows[i].is_pointer)
            ck_assert_msg(strstr(error.text, path) && strstr(error.text, "Git LFS") &&
                              strstr(error.text, "`git lfs pull`"),
                          "%s", error.text);
        unlink(path);
    }
}
END_TEST

START_TEST(a_link_that_leads_nowhere_says_where) {
    char path[32], shown[64];
    struct error error;
    make_file(path, 0);
    unlink(path);
    ck_assert_int_eq(symlink("../blobs/8a6f", path), 0);
    ck_assert(file_is_there("/tmp", path + 5, shown, sizeof shown));
    ck_assert_int_eq(read_and_map(path, &error), STATUS_NOT_FOUND);
    ck_assert_msg(strstr(error.text, "it is a link to ../blobs/8a6f, which does not exist"), "%s",
                  error.text);
    unlink(path);
    ck_assert(!file_is_there("/tmp", path + 5, shown, sizeof shown));
    ck_assert_int_eq(read_and_map(path, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "No such file"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, file_is_read_whole_within_its_bound);
    tcase_add_test(tests, m05_what_is_no_regular_file_is_refused);
    tcase_add_test(tests, empty_file_maps_to_nothing);
    tcase_add_test(tests, a_pointer_of_git_lfs_is_named);
    tcase_add_test(tests, a_link_that_leads_nowhere_says_where);
    tcase_add_test(tests, m05_file_that_was_cut_short_is_noticed);
    tcase_add_test(tests, m05_touch_of_lost_bytes_ends_with_a_line);
    tcase_add_test(tests, m05_touch_of_lost_bytes_in_a_helper_thread_ends_with_the_line_too);
}
