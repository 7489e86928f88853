#include "tools/bench/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status bench_output_fail(const struct output *output, struct error *error) {
    return error_set(error, STATUS_IO, "%s: %s: %s", output->option, output->path, strerror(errno));
}

static bool bench_output_is_stdout(const struct output *output) {
    return strcmp(output->path, "-") == 0;
}

enum status output_open(struct output *output, const char *option, const char *path,
                        struct error *error) {
    *output = (struct output){.option = option, .path = path, .fd = -1};
    if (!path || bench_output_is_stdout(output))
        return STATUS_OK;
    output->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    output->is_new = output->fd >= 0;
    if (output->fd < 0 && errno == EEXIST)
        output->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return output->fd >= 0 ? STATUS_OK : bench_output_fail(output, error);
}

static bool bench_output_begin_file(const struct output *output) {
    struct stat info;
    return output->is_written || fstat(output->fd, &info) != 0 || !S_ISREG(info.st_mode) ||
           ftruncate(output->fd, 0) == 0;
}

static bool bench_output_write_file(struct output *output, const char *bytes, size_t n) {
    if (!bench_output_begin_file(output))
        return false;
    output->is_written = true;
    while (n > 0) {
        ssize_t some = write(output->fd, bytes, n);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return false;
        bytes += some;
        n -= (size_t)some;
    }
    return true;
}

static bool bench_output_write_stdout(const char *bytes, size_t n) {
    return fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0;
}

enum status output_write(struct output *output, struct buf *text, struct error *error) {
    enum status status = buf_status(text);
    const char *bytes = text->data ? text->data : "";
    if (status != STATUS_OK)
        status = error_set(error, status, "%s: out of memory", output->option);
    else if (bench_output_is_stdout(output) ? !bench_output_write_stdout(bytes, text->n)
                                            : !bench_output_write_file(output, bytes, text->n))
        status = bench_output_fail(output, error);
    buf_clear(text);
    return status;
}

void output_close(struct output *output) {
    if (output->path && output->fd >= 0) {
        if (output->is_new && !output->is_written)
            (void)unlink(output->path);
        close(output->fd);
    }
    output->path = NULL;
}

enum status output_print(struct buf *text, struct error *error) {
    struct output output = {.option = "standard output", .path = "-", .fd = -1};
    return output_write(&output, text, error);
}
