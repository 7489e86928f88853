#include "tools/cli/passed.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where they are, who does what, and how many ranks a worker has, `tandem up` says itself. */
static const char *const ours[] = {
    "listen",     "announce",    "routers", "endpoint", "kv-endpoint", "role", "tp",
    "ranks-here", "rank-listen", "follow",  "admin",    "dns-server",  NULL};

/* A program that prints its options. */
struct answering {
    char path[4200];
    pid_t pid;
    int from; /* owned: what it prints, or -1 */
};

static enum status ask_start(struct answering *one, struct error *error) {
    extern char **environ;
    int ends[2];
    char *argv[] = {one->path, (char *)(uintptr_t) "--print-config", NULL};
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, STATUS_IO, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int failure = posix_spawn(&one->pid, one->path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failure != 0) {
        close(ends[0]);
        return error_set(error, STATUS_IO, "%s: %s", one->path, strerror(failure));
    }
    one->from = ends[0];
    return STATUS_OK;
}

/* Waits for what it prints, whole, and for its end. */
static enum status ask_end(struct answering *one, struct buf *out, struct error *error) {
    char bytes[4096];
    for (ssize_t n; (n = read(one->from, bytes, sizeof bytes)) != 0;)
        if (n > 0)
            buf_append(out, bytes, (size_t)n);
        else if (errno != EINTR)
            break;
    close(one->from);
    one->from = -1;
    int end = 0;
    while (waitpid(one->pid, &end, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(end) || WEXITSTATUS(end) != 0)
        return error_set(error, STATUS_INVALID, "%s refuses its environment", one->path);
    return buf_status(out);
}

static bool is_ours(const char *name) {
    for (unsigned i = 0; ours[i]; i++)
        if (strcmp(ours[i], name) == 0)
            return true;
    return false;
}

static enum status passed_add(struct passed *passed, const char *name, const char *help,
                              unsigned to) {
    for (unsigned i = 0; i < passed->n; i++)
        if (strcmp(passed->all[i].name, name) == 0) {
            passed->all[i].to |= to;
            return STATUS_OK;
        }
    if (is_ours(name))
        return STATUS_OK;
    struct passed_option *all = realloc(passed->all, (passed->n + 1) * sizeof *all);
    if (!all)
        return STATUS_NOMEM;
    passed->all = all;
    all[passed->n] = (struct passed_option){.name = strdup(name), .help = strdup(help), .to = to};
    passed->n++;
    return all[passed->n - 1].name && all[passed->n - 1].help ? STATUS_OK : STATUS_NOMEM;
}

/* Lines are "[section]", "# help" and "#key = default" or "key = value", the help
 * before its key. */
static enum status add_all(struct passed *passed, char *text, unsigned to) {
    const char *help = "";
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '[')
            continue;
        if (strncmp(line, "# ", 2) == 0) {
            help = line + 2;
            continue;
        }
        char *name = line + (line[0] == '#');
        char *value = strstr(name, " =");
        if (!value)
            continue;
        *value = '\0';
        value += strlen(" =");
        for (char *at = name; *at; at++)
            *at = *at == '_' ? '-' : *at;
        char words[512];
        snprintf(words, sizeof words, *value ? "%s (default:%s)" : "%s", help, value);
        TRY(passed_add(passed, name, words, to));
    }
    return STATUS_OK;
}

enum status passed_read(struct passed *passed, const char *programs, struct error *error) {
    static const struct {
        const char *name;
        unsigned to;
    } daemons[] = {{"tandem-router", PASSED_ROUTER}, {"tandem-worker", PASSED_WORKER}};
    enum { N = sizeof daemons / sizeof *daemons };
    struct answering asked[N];
    *passed = (struct passed){0};
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < N; i++) {
        asked[i].from = -1;
        snprintf(asked[i].path, sizeof asked[i].path, "%s/%s", programs, daemons[i].name);
        if (status == STATUS_OK)
            status = ask_start(&asked[i], error);
    }
    for (unsigned i = 0; i < N; i++) {
        struct buf text;
        struct error later; /* the first failure is the one that is told */
        if (asked[i].from < 0)
            continue;
        buf_init(&text, 1 << 20);
        enum status ended = ask_end(&asked[i], &text, status == STATUS_OK ? error : &later);
        buf_putc(&text, '\0');
        if (status == STATUS_OK)
            status = ended;
        if (status == STATUS_OK && add_all(passed, text.data, daemons[i].to) != STATUS_OK)
            status = error_set(error, STATUS_NOMEM, "out of memory");
        buf_fini(&text);
    }
    return status;
}

void passed_fini(struct passed *passed) {
    for (unsigned i = 0; i < passed->n; i++) {
        free(passed->all[i].name);
        free(passed->all[i].help);
    }
    free(passed->all);
    free(passed->given);
    *passed = (struct passed){0};
}

enum status passed_give(struct passed *passed, unsigned option, const char *value) {
    struct passed_flag *given =
        realloc(passed->given, (passed->n_given + 1) * sizeof *passed->given);
    if (!given)
        return STATUS_NOMEM;
    passed->given = given;
    given[passed->n_given++] = (struct passed_flag){option, value};
    return STATUS_OK;
}

const char *passed_value(const struct passed *passed, const char *name) {
    for (unsigned i = passed->n_given; i-- > 0;)
        if (strcmp(passed->all[passed->given[i].option].name, name) == 0)
            return passed->given[i].value;
    return NULL;
}
