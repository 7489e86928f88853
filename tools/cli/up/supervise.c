#include "tools/cli/up/supervise.h"

#include "tools/cli/up/screen.h"
#include "tools/lib/terminal.h"

#include "base/clock.h"
#include "base/exit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX   66
#define BACKOFF_NS_MIN (100 * NS_PER_MS)
#define BACKOFF_NS_MAX (5 * NS_PER_S)
#define DRAIN_NS       (40 * NS_PER_S) /* unless a child asks for more */

struct restart {
    struct supervisor *supervisor;
    struct child *child;
    struct loop_timer *timer; /* owned */
};

struct supervisor {
    struct loop *loop; /* borrowed */
    struct child children[CHILDREN_MAX];
    struct restart restarts[CHILDREN_MAX];
    unsigned n_children;
    char notify_path[108];
    int notify_fd;
    struct loop_watch *notify_watch;
    struct loop_watch *signals[4];
    struct terminal terminal; /* that we were started on */
    struct loop_timer *drain_timer;
    uint64_t end_by_ns; /* what runs on then is killed */
    unsigned n_stops;   /* how often we were asked to stop */
    bool ending;
    int exit_code;
    char last_errors[CHILD_ERRORS_MAX]; /* why it ends: said last */
    struct supervisor_events events;
};

static unsigned up_n_running(const struct supervisor *supervisor) {
    unsigned n = 0;
    for (unsigned i = 0; i < supervisor->n_children; i++)
        n += supervisor->children[i].pid > 0;
    return n;
}

static void up_kill_all(struct supervisor *supervisor) {
    for (unsigned i = 0; i < supervisor->n_children; i++)
        if (supervisor->children[i].pid > 0)
            kill(supervisor->children[i].pid, SIGKILL);
}

static bool up_is_front(const struct supervisor *supervisor, const struct child *child) {
    return strcmp(child->kind, supervisor->children[0].kind) == 0;
}

/* Asks who may end now, each once: asked twice, a daemon drops what it has. The rest serves the
 * front until that is gone; the loop ends with the last child. */
static void up_ask_to_end(struct supervisor *supervisor) {
    bool front_runs = false;
    for (unsigned i = 0; i < supervisor->n_children; i++)
        front_runs |=
            supervisor->children[i].pid > 0 && up_is_front(supervisor, &supervisor->children[i]);
    for (unsigned i = 0; i < supervisor->n_children; i++) {
        struct child *child = &supervisor->children[i];
        if (child->pid <= 0 || child->asked || (front_runs && !up_is_front(supervisor, child)))
            continue;
        child->asked = true;
        kill(child->pid, SIGTERM);
    }
    if (up_n_running(supervisor) == 0)
        loop_stop(supervisor->loop);
}

/* Children have this long to end, or as long as they were given before. */
static void up_wait_for_end(struct supervisor *supervisor, uint64_t ns) {
    uint64_t now_ns = clock_now_ns();
    if (now_ns + ns <= supervisor->end_by_ns)
        return;
    supervisor->end_by_ns = now_ns + ns;
    loop_timer_after(supervisor->drain_timer, ns);
}

static void up_end_all(struct supervisor *supervisor, int exit_code, const char *errors) {
    if (!supervisor->ending) {
        supervisor->ending = true;
        supervisor->exit_code = exit_code;
        snprintf(supervisor->last_errors, sizeof supervisor->last_errors, "%s", errors);
        up_wait_for_end(supervisor, DRAIN_NS);
    }
    up_ask_to_end(supervisor);
}

static void up_on_drain_late(void *user) {
    struct supervisor *supervisor = user;
    up_kill_all(supervisor);
}

static void up_on_stop_signal(void *user, unsigned number) {
    struct supervisor *supervisor = user;
    (void)number;
    if (supervisor->n_stops++ == 0)
        up_end_all(supervisor, 0, "");
    else
        up_kill_all(supervisor);
}

/* Never a second stop: the kernel and a shell may both tell of the same end. */
static void up_on_terminal_gone(void *user) {
    struct supervisor *supervisor = user;
    if (!supervisor->ending)
        up_end_all(supervisor, 0, "");
}

/* A terminal's end, or somebody wants certificates to be read again: the router does that. One that
 * starts reads them anyway, and does not know the signal yet. */
static void up_on_hangup(void *user, unsigned number) {
    struct supervisor *supervisor = user;
    (void)number;
    if (supervisor->terminal.timer) {
        up_on_terminal_gone(supervisor);
        return;
    }
    for (unsigned i = 0; i < supervisor->n_children; i++) {
        const struct child *child = &supervisor->children[i];
        if (child->pid > 0 && child->ready && up_is_front(supervisor, child))
            kill(child->pid, SIGHUP);
    }
}

static bool up_kind_was_ready(const struct supervisor *supervisor, const char *kind) {
    for (unsigned i = 0; i < supervisor->n_children; i++)
        if (strcmp(supervisor->children[i].kind, kind) == 0 && supervisor->children[i].was_ready)
            return true;
    return false;
}

static void up_start_child(struct supervisor *supervisor, struct child *child) {
    struct error error;
    char line[sizeof error.text + 16];
    if (supervisor->ending || child->pid > 0)
        return;
    if (child_start(child, supervisor->notify_path, &error) == STATUS_OK)
        return;
    snprintf(line, sizeof line, "error: %s\n", error.text);
    up_end_all(supervisor, 1, line);
}

static void up_on_restart(void *user) {
    struct restart *restart = user;
    up_start_child(restart->supervisor, restart->child);
}

/* Leaves out the lines that `said` has as well: children often end for the same reason. */
static void up_say_errors(const char *errors, const char *said) {
    for (const char *end; (end = strchr(errors, '\n')) != NULL; errors = end + 1) {
        char line[CHILD_ERRORS_MAX];
        snprintf(line, sizeof line, "%.*s", (int)(end + 1 - errors), errors);
        if (!strstr(said, line))
            screen_say("%s", line);
    }
}

static void up_note_death(struct supervisor *supervisor, struct child *child, int wait_status) {
    bool had_been_ready = child->ready;
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    child_ended(child);
    supervisor->events.settled(supervisor->events.user, child->name, false);
    if (supervisor->ending) {
        up_say_errors(child->errors, supervisor->last_errors);
        up_ask_to_end(supervisor);
        return;
    }
    if (code == EXIT_CONFIG || (!had_been_ready && !up_kind_was_ready(supervisor, child->kind))) {
        char last[128];
        snprintf(last, sizeof last, "error: %s ended with code %d before it was ready\n",
                 child->name, code);
        if (code == EXIT_LATER) /* what is not there is not waited for here */
            code = EXIT_CONFIG;
        up_end_all(supervisor, code ? code : 1, child->errors[0] ? child->errors : last);
        return;
    }
    child->n_early_deaths = had_been_ready ? 0 : child->n_early_deaths + 1;
    up_say_errors(child->errors, "");
    bool is_killed = WIFSIGNALED(wait_status);
    screen_say("%s ended %s %d: starting it again", child->name,
               is_killed ? "by signal" : "with code", is_killed ? WTERMSIG(wait_status) : code);
    if (had_been_ready) {
        up_start_child(supervisor, child);
        return;
    }
    uint64_t wait_ns = BACKOFF_NS_MIN;
    for (unsigned i = 1; i < child->n_early_deaths && wait_ns < BACKOFF_NS_MAX; i++)
        wait_ns *= 2;
    loop_timer_after(supervisor->restarts[child - supervisor->children].timer,
                     wait_ns < BACKOFF_NS_MAX ? wait_ns : BACKOFF_NS_MAX);
}

static struct child *up_child_of_pid(struct supervisor *supervisor, pid_t pid) {
    for (unsigned i = 0; i < supervisor->n_children; i++)
        if (supervisor->children[i].pid == pid)
            return &supervisor->children[i];
    return NULL;
}

static void up_on_child_signal(void *user, unsigned number) {
    struct supervisor *supervisor = user;
    (void)number;
    int wait_status;
    for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
        struct child *child = up_child_of_pid(supervisor, pid);
        if (child)
            up_note_death(supervisor, child, wait_status);
    }
}

static bool up_all_ready(const struct supervisor *supervisor) {
    for (unsigned i = 0; i < supervisor->n_children; i++)
        if (!supervisor->children[i].ready)
            return false;
    return true;
}

static void up_take_notice(struct supervisor *supervisor, struct child *child, char *text) {
    const struct supervisor_events *events = &supervisor->events;
    uint64_t n_done, n_all, extend_us;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "LISTEN=", 7) == 0)
            events->listen(events->user, line + 7);
        if (sscanf(line, "X_TANDEM_LOADED=%" SCNu64 "/%" SCNu64, &n_done, &n_all) == 2)
            events->loaded(events->user, child->name, n_done, n_all);
        if (supervisor->ending && sscanf(line, "EXTEND_TIMEOUT_USEC=%" SCNu64, &extend_us) == 1)
            up_wait_for_end(supervisor, extend_us * NS_PER_US);
        if (strcmp(line, "READY=1") == 0) {
            child->ready = true;
            child->was_ready = true;
            events->settled(events->user, child->name, true);
        }
    }
    if (up_all_ready(supervisor))
        events->listen(events->user, NULL);
}

/* The kernel tells who wrote: a datagram from a stranger is dropped. */
static void up_on_notify(void *user, unsigned events) {
    struct supervisor *supervisor = user;
    (void)events;
    for (;;) {
        char text[1024];
        union {
            char bytes[CMSG_SPACE(sizeof(struct ucred))];
            struct cmsghdr align;
        } control;
        struct iovec piece = {text, sizeof text - 1};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t n = recvmsg(supervisor->notify_fd, &message, MSG_DONTWAIT);
        if (n < 0)
            return;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (!header || header->cmsg_type != SCM_CREDENTIALS)
            continue;
        struct ucred sender;
        memcpy(&sender, CMSG_DATA(header), sizeof sender);
        struct child *child = up_child_of_pid(supervisor, sender.pid);
        text[n] = 0;
        if (child)
            up_take_notice(supervisor, child, text);
    }
}

static enum status up_open_notify(struct supervisor *supervisor, const char *folder,
                                  struct error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(supervisor->notify_path, sizeof supervisor->notify_path, "%s/notify", folder);
    if (n < 0 || (size_t)n >= sizeof address.sun_path)
        return error_set(error, STATUS_INVALID, "%s: path too long for a socket", folder);
    memcpy(address.sun_path, supervisor->notify_path, (size_t)n + 1);
    supervisor->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    if (supervisor->notify_fd < 0 ||
        bind(supervisor->notify_fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(supervisor->notify_fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) < 0)
        return error_set(error, STATUS_IO, "%s: %s", supervisor->notify_path, strerror(errno));
    TRY(loop_watch_new(supervisor->loop, supervisor->notify_fd, up_on_notify, supervisor,
                       &supervisor->notify_watch));
    return loop_watch_set(supervisor->notify_watch, LOOP_READ);
}

/* The first of the standard descriptors that is one. */
static enum status up_watch_terminal(struct supervisor *supervisor) {
    int fd = STDIN_FILENO;
    while (fd < STDERR_FILENO && !isatty(fd))
        fd++;
    return terminal_init(&supervisor->terminal, supervisor->loop, fd, up_on_terminal_gone,
                         supervisor);
}

enum status supervisor_new(struct loop *loop, const char *folder, struct supervisor **supervisor,
                           struct error *error) {
    struct supervisor *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "out of memory");
    made->loop = loop;
    made->notify_fd = -1;
    enum status status = up_open_notify(made, folder, error);
    if (status == STATUS_OK)
        status = loop_signal_new(loop, SIGCHLD, up_on_child_signal, made, &made->signals[0]);
    if (status == STATUS_OK)
        status = loop_signal_new(loop, SIGINT, up_on_stop_signal, made, &made->signals[1]);
    if (status == STATUS_OK)
        status = loop_signal_new(loop, SIGTERM, up_on_stop_signal, made, &made->signals[2]);
    if (status == STATUS_OK)
        status = loop_signal_new(loop, SIGHUP, up_on_hangup, made, &made->signals[3]);
    if (status == STATUS_OK)
        status = up_watch_terminal(made);
    if (status == STATUS_OK)
        status = loop_timer_new(loop, up_on_drain_late, made, &made->drain_timer);
    if (status != STATUS_OK) {
        supervisor_free(made);
        return status;
    }
    *supervisor = made;
    return STATUS_OK;
}

void supervisor_free(struct supervisor *supervisor) {
    if (!supervisor)
        return;
    for (unsigned i = 0; i < supervisor->n_children; i++) {
        child_fini(&supervisor->children[i]);
        loop_timer_free(supervisor->restarts[i].timer);
    }
    for (unsigned i = 0; i < sizeof supervisor->signals / sizeof *supervisor->signals; i++)
        loop_watch_free(supervisor->signals[i]);
    terminal_fini(&supervisor->terminal);
    loop_timer_free(supervisor->drain_timer);
    loop_watch_free(supervisor->notify_watch);
    if (supervisor->notify_fd >= 0) {
        close(supervisor->notify_fd);
        unlink(supervisor->notify_path);
    }
    free(supervisor);
}

struct child *supervisor_add(struct supervisor *supervisor, const char *kind, const char *name) {
    if (supervisor->n_children == CHILDREN_MAX)
        return NULL;
    unsigned i = supervisor->n_children;
    struct restart *restart = &supervisor->restarts[i];
    *restart = (struct restart){.supervisor = supervisor, .child = &supervisor->children[i]};
    if (loop_timer_new(supervisor->loop, up_on_restart, restart, &restart->timer) != STATUS_OK)
        return NULL;
    supervisor->n_children++;
    child_init(&supervisor->children[i], supervisor->loop, kind, name);
    return &supervisor->children[i];
}

bool supervisor_waits(const struct supervisor *supervisor, char *names, size_t size) {
    size_t n = 0;
    for (unsigned i = 0; i < supervisor->n_children && n < size; i++)
        if (!supervisor->children[i].ready)
            n += (size_t)snprintf(names + n, size - n, "%s%s", n > 0 ? ", " : "",
                                  supervisor->children[i].name);
    return n > 0;
}

const struct child *supervisor_victim(const struct supervisor *supervisor) {
    for (unsigned i = supervisor->n_children; i-- > 0;)
        if (supervisor->children[i].pid > 0 && !up_is_front(supervisor, &supervisor->children[i]))
            return &supervisor->children[i];
    return NULL;
}

bool supervisor_ends(const struct supervisor *supervisor) {
    return supervisor->ending;
}

int supervisor_run(struct supervisor *supervisor, const struct supervisor_events *events) {
    supervisor->events = *events;
    for (unsigned i = 0; i < supervisor->n_children; i++)
        up_start_child(supervisor, &supervisor->children[i]);
    loop_run(supervisor->loop);
    up_say_errors(supervisor->last_errors, "");
    return supervisor->exit_code;
}
