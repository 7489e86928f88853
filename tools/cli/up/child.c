#include "tools/cli/up/child.h"

#include "tools/cli/up/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void child_init(struct child *child, struct loop *loop, const char *kind, const char *name) {
    *child = (struct child){.loop = loop, .pipe_fd = -1};
    snprintf(child->kind, sizeof child->kind, "%s", kind);
    snprintf(child->name, sizeof child->name, "%s", name);
}

enum status child_arg(struct child *child, const char *format, ...) {
    va_list args;
    if (child->n_args + 1 >= CHILD_ARGS_MAX)
        return STATUS_LIMIT;
    va_start(args, format);
    int n = vasprintf(&child->argv[child->n_args], format, args);
    va_end(args);
    if (n < 0)
        return STATUS_NOMEM;
    child->n_args++;
    return STATUS_OK;
}

static void up_child_close_pipe(struct child *child) {
    loop_watch_free(child->pipe_watch);
    child->pipe_watch = NULL;
    if (child->pipe_fd >= 0)
        close(child->pipe_fd);
    child->pipe_fd = -1;
}

void child_fini(struct child *child) {
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
    }
    up_child_close_pipe(child);
    for (unsigned i = 0; i < child->n_args; i++)
        free(child->argv[i]);
    *child = (struct child){.pipe_fd = -1};
}

static void up_child_end_line(struct child *child) {
    size_t n = strlen(child->errors);
    child->line[child->n_line] = 0;
    child->n_line = 0;
    if (strncmp(child->line, "error: ", 7) == 0 &&
        n + strlen(child->line) + 2 <= sizeof child->errors)
        snprintf(child->errors + n, sizeof child->errors - n, "%s\n", child->line);
    else
        screen_log(strcmp(child->kind, "router") == 0 ? NULL : child->name, child->line);
}

/* Answers false at the pipe's end. */
static bool up_child_read_words(struct child *child) {
    char bytes[4096];
    ssize_t n = read(child->pipe_fd, bytes, sizeof bytes);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || child->n_line + 1 == sizeof child->line)
            up_child_end_line(child);
        if (bytes[i] != '\n')
            child->line[child->n_line++] = bytes[i];
    }
    return n > 0;
}

static void up_child_on_words(void *user, unsigned events) {
    struct child *child = user;
    (void)events;
    if (!up_child_read_words(child))
        up_child_close_pipe(child);
}

/* In the new process: never returns. */
static void up_child_become(struct child *child, int words, const char *notify_path, pid_t parent) {
    /* Nothing may be left behind, even when `tandem up` itself is killed. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); /* Ctrl-C is for the parent: a second signal would end us without draining */
    signal(SIGPIPE, SIG_DFL); /* which we ignore */
    dup2(words, STDERR_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is the parent's one line */
    setenv("NOTIFY_SOCKET", notify_path, 1);
    execv(child->argv[0], child->argv);
    fprintf(stderr, "error: %s: %s\n", child->argv[0], strerror(errno));
    _exit(127);
}

enum status child_start(struct child *child, const char *notify_path, struct error *error) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(error, STATUS_IO, "pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    child->ready = false;
    child->asked = false;
    child->errors[0] = 0;
    up_child_close_pipe(child);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        up_child_become(child, ends[1], notify_path, parent);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return error_set(error, STATUS_IO, "fork: %s", strerror(errno));
    }
    child->pid = pid;
    child->pipe_fd = ends[0];
    TRY(loop_watch_new(child->loop, ends[0], up_child_on_words, child, &child->pipe_watch));
    return loop_watch_set(child->pipe_watch, LOOP_READ);
}

void child_ended(struct child *child) {
    child->pid = 0;
    child->ready = false;
    while (child->pipe_fd >= 0 && up_child_read_words(child) && errno != EAGAIN)
        errno = 0;
    if (child->n_line > 0)
        up_child_end_line(child);
    up_child_close_pipe(child);
}
