#include "tools/cli/up/passed.h"

#include "tools/cli/sibling.h"

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where they are, who does what, and how many ranks a worker has, `tandem up` says itself. */
static const char *const ours[] = {
    "listen",     "announce",    "routers", "endpoint", "kv-endpoint", "role", "tp",
    "ranks-here", "rank-listen", "follow",  "admin",    "dns-server",  NULL};

/* A program that is started to be asked, and what: its options, or whether it would start. */
struct passed_question {
    const char *program;
    unsigned to;
    bool checks;
};
#define QUESTIONS_MAX 3

static const struct passed_question listing[] = {{"tandem-router", PASSED_ROUTER, false},
                                                 {"tandem-worker", PASSED_WORKER, false}};
static const struct passed_question checking[] = {{"tandem-router", PASSED_ROUTER, false},
                                                  {"tandem-router", PASSED_ROUTER, true},
                                                  {"tandem-worker", PASSED_WORKER, true}};

/* Adds the lines that are not there yet: both programs complain of what both of them read. */
static void up_passed_add_errors(struct buf *errors, const char *text) {
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        const char *said = strncmp(line, "error: ", 7) == 0 ? line + 7 : line;
        size_t n_said = n - (size_t)(said - line);
        if (n_said > 0 && (errors->n == 0 || !memmem(errors->data, errors->n, said, n_said))) {
            buf_append(errors, said, n_said);
            buf_putc(errors, '\n');
        }
        line += n + (line[n] == '\n');
    }
}

/* Waits for what it prints, whole, and for its end. */
static enum status up_passed_ask_end(struct sibling *one, struct buf *out, struct buf *errors,
                                     struct error *error) {
    struct buf complaints;
    int code = 0;
    buf_init(&complaints, 1 << 20);
    enum status status = sibling_end(one, out, &complaints, &code, error);
    buf_putc(&complaints, 0);
    if (code != 0 && buf_status(&complaints) == STATUS_OK)
        up_passed_add_errors(errors, complaints.data);
    buf_fini(&complaints);
    if (code != 0)
        return error_set(error, STATUS_INVALID, "%s does not say its options", one->path);
    return status;
}

static bool up_passed_is_ours(const char *name) {
    for (unsigned i = 0; ours[i]; i++)
        if (strcmp(ours[i], name) == 0)
            return true;
    return false;
}

static enum status up_passed_add(struct passed *passed, const char *name, const char *help,
                                 unsigned to) {
    for (unsigned i = 0; i < passed->n; i++)
        if (strcmp(passed->all[i].name, name) == 0) {
            passed->all[i].to |= to;
            return STATUS_OK;
        }
    if (up_passed_is_ours(name))
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
static enum status up_passed_add_all(struct passed *passed, char *text, unsigned to) {
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
        TRY(up_passed_add(passed, name, words, to));
    }
    return STATUS_OK;
}

/* What is asked, and with which arguments. */
struct asking {
    struct passed *passed;
    const struct passed_question *questions; /* (n) */
    unsigned n;
    char **args[QUESTIONS_MAX];
    struct buf *errors;
};

/* "#listen = 127.0.0.1:8000" or "listen = ..." */
static void up_passed_take_listen(struct passed *passed, const char *text) {
    const char *at = strstr(text, "\nlisten = ");
    at = at ? at : strstr(text, "\n#listen = ");
    if (!at)
        return;
    at = strstr(at, " = ") + 3;
    snprintf(passed->listen, sizeof passed->listen, "%.*s", (int)strcspn(at, "\n"), at);
}

/* What one of them has printed. */
static enum status up_passed_take_answer(const struct asking *asking,
                                         const struct passed_question *question, char *text) {
    if (question->checks)
        return STATUS_OK;
    if (question->to == PASSED_ROUTER)
        up_passed_take_listen(asking->passed, text);
    return asking->questions == listing ? up_passed_add_all(asking->passed, text, question->to)
                                        : STATUS_OK;
}

/* Starts all, and then waits for all. */
static enum status up_passed_ask_all(const struct asking *asking, const char *programs,
                                     struct error *error) {
    struct sibling asked[QUESTIONS_MAX] = {0};
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < asking->n && status == STATUS_OK; i++)
        status = sibling_start(&asked[i], programs, asking->questions[i].program,
                               (const char **)(uintptr_t)asking->args[i], error);
    for (unsigned i = 0; i < asking->n; i++) {
        struct buf text;
        struct error later; /* the first failure is the one that is told */
        if (asked[i].pid == 0)
            continue;
        buf_init(&text, 1 << 20);
        enum status ended = up_passed_ask_end(&asked[i], &text, asking->errors,
                                              status == STATUS_OK ? error : &later);
        buf_putc(&text, '\0');
        if (status == STATUS_OK)
            status = ended;
        if (status == STATUS_OK &&
            up_passed_take_answer(asking, &asking->questions[i], text.data) != STATUS_OK)
            status = error_set(error, STATUS_NOMEM, "out of memory");
        buf_fini(&text);
    }
    return status;
}

enum status passed_read(struct passed *passed, const char *programs, struct buf *errors,
                        struct error *error) {
    char print[] = "--print-config";
    char *args[] = {NULL, print, NULL};
    struct asking asking = {.passed = passed,
                            .questions = listing,
                            .n = sizeof listing / sizeof *listing,
                            .args = {args, args},
                            .errors = errors};
    *passed = (struct passed){0};
    return up_passed_ask_all(&asking, programs, error);
}

static void up_passed_free_args(char **args) {
    for (size_t i = 1; args && args[i]; i++)
        free(args[i]);
    free(args);
}

/* A worker's that `tandem up` gives it by itself; nothing of this is opened. */
static const char *const places[] = {"--name=worker0", "--endpoint=ipc:///nowhere/worker0",
                                     "--routers=ipc:///nowhere/announce"};
enum { N_PLACES = sizeof places / sizeof *places };

/* Room for the program's path, then its arguments, NULL; freed by up_passed_free_args(). NULL: no memory. */
static char **up_passed_make_args(const struct passed *passed,
                                  const struct passed_question *question, const char *config) {
    size_t n = 1;
    char **args = calloc(passed->n_given + N_PLACES + 4, sizeof *args);
    if (!args)
        return NULL;
    bool ok = !config || asprintf(&args[n++], "--config=%s", config) > 0;
    for (unsigned i = 0; i < N_PLACES && ok && question->to == PASSED_WORKER; i++)
        ok = (args[n++] = strdup(places[i])) != NULL;
    for (unsigned i = 0; i < passed->n_given && ok; i++) {
        const struct passed_flag *flag = &passed->given[i];
        const struct passed_option *option = &passed->all[flag->option];
        if (option->to & question->to)
            ok = asprintf(&args[n++], "--%s=%s", option->name, flag->value) > 0;
    }
    if (ok && (args[n] = strdup(question->checks ? "--check-config" : "--print-config")) != NULL)
        return args;
    args[n > 1 ? n - 1 : 1] = NULL;
    up_passed_free_args(args);
    return NULL;
}

enum status passed_check(struct passed *passed, const char *programs, const char *config,
                         struct buf *errors, struct error *error) {
    struct asking asking = {.passed = passed,
                            .questions = checking,
                            .n = sizeof checking / sizeof *checking,
                            .errors = errors};
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < asking.n; i++) {
        asking.args[i] = up_passed_make_args(passed, &checking[i], config);
        if (!asking.args[i])
            status = error_set(error, STATUS_NOMEM, "out of memory");
    }
    if (status == STATUS_OK)
        status = up_passed_ask_all(&asking, programs, error);
    for (unsigned i = 0; i < asking.n; i++)
        up_passed_free_args(asking.args[i]);
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
