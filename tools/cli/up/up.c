#include "tools/cli/up/up.h"

#include "tools/cli/sibling.h"
#include "tools/cli/up/front.h"
#include "tools/cli/up/passed.h"
#include "tools/cli/up/progress.h"
#include "tools/cli/up/ready.h"
#include "tools/cli/up/screen.h"
#include "tools/cli/up/supervise.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/exit.h"
#include "base/log/log_writer.h"
#include "base/signals.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What concerns the cluster as a whole; all else is what its programs list (passed.h). */
static const struct {
    const char *name;
    const char *arg;
    const char *help;
} table[] = {
    {"listen", "HOST:PORT", "where clients connect (127.0.0.1:8000; port 0: a free one)"},
    {"host", "HOST", "the same in parts: a name, an address or * (127.0.0.1)"},
    {"port", "PORT", "and its port (8000)"},
    {"prefill", "N", "prefill workers"},
    {"decode", "N", "decode workers"},
    {"mixed", "N", "workers that do both"},
    {"tp", "N", "tensor-parallel size of all workers: ranks that share the model (1)"},
    {"prefill-tp", "N", "the same of prefill workers alone"},
    {"decode-tp", "N", "the same of decode workers alone"},
    {"gpus", "N",
     "each rank of the workers has one of the GPUs 0 to N - 1, in turn (without it all workers "
     "begin "
     "at --devices; for one GPU: --mixed 1)"},
    {"config", "FILE", "an INI file for everything not given here"},
    {"log-format", "WORD",
     "words: a short line a request; logfmt: all that the daemons log; auto: words on a terminal, "
     "else logfmt (auto)"},
};
enum { N_TABLE = sizeof table / sizeof *table, OWN_KEY = 256, PASSED_KEY = 512 };

#define DRAW_NS (100 * NS_PER_MS)

/* Names that other servers have for options of ours. */
static const struct {
    const char *name, *of;
} aliases[] = {
    {"served-model-name", "served-model"}, {"ctx-size", "context"}, {"max-model-len", "context"}};
enum { N_ALIASES = sizeof aliases / sizeof *aliases };

static const char *const roles[] = {"prefill", "decode", "mixed"};
enum { N_ROLES = sizeof roles / sizeof *roles };

struct up {
    const char *value[N_TABLE]; /* borrowed from argv */
    struct passed passed;       /* owned */
    char folder[64];            /* owned on disk: sockets of this cluster */
    char programs[4096];        /* folder of our sibling programs */
    char listen[FRONT_MAX];     /* what the flags come to */
    unsigned n_of[N_ROLES], n_workers;
    unsigned n_gpus,
        next_gpu;      /* to spread ranks over, or 0; that of the next worker's first rank */
    struct loop *loop; /* owned */
    struct supervisor *supervisor; /* owned */
    struct ready ready;
    struct progress progress;
    uint64_t drawn_ns; /* when the line of what loads was drawn */
};

static const char *up_value_of(const struct up *up, const char *name) {
    for (unsigned i = 0; i < N_TABLE; i++)
        if (strcmp(table[i].name, name) == 0)
            return up->value[i];
    return passed_value(&up->passed, name);
}

/* The model may be the only word. */
static error_t up_take_model(struct up *up, const char *text) {
    for (unsigned i = 0; i < up->passed.n; i++)
        if (strcmp(up->passed.all[i].name, "model") == 0)
            return passed_give(&up->passed, i, text) == STATUS_OK ? 0 : ENOMEM;
    return 0;
}

static error_t up_parse(int key, char *text, struct argp_state *state) {
    struct up *up = state->input;
    if (key >= OWN_KEY && (unsigned)key - OWN_KEY < N_TABLE)
        up->value[key - OWN_KEY] = text;
    else if (key >= PASSED_KEY && (unsigned)key - PASSED_KEY < up->passed.n)
        return passed_give(&up->passed, (unsigned)key - PASSED_KEY, text) == STATUS_OK ? 0 : ENOMEM;
    else if (key == ARGP_KEY_ARG)
        return up_take_model(up, text);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static bool up_count_of(const struct up *up, const char *name, unsigned *n) {
    const char *text = up_value_of(up, name);
    char *end = NULL;
    if (!text)
        return true;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value > 64)
        return false;
    *n = (unsigned)value;
    return true;
}

static enum status up_pass_on(const struct up *up, struct child *child, unsigned to) {
    const char *config = up_value_of(up, "config");
    if (config)
        TRY(child_arg(child, "--config=%s", config));
    for (unsigned i = 0; i < up->passed.n_given; i++) {
        const struct passed_flag *flag = &up->passed.given[i];
        const struct passed_option *option = &up->passed.all[flag->option];
        if (option->to & to)
            TRY(child_arg(child, "--%s=%s", option->name, flag->value));
    }
    return STATUS_OK;
}

static enum status up_add_router(struct up *up) {
    struct child *child = supervisor_add(up->supervisor, "router", "router");
    if (!child)
        return STATUS_LIMIT;
    TRY(child_arg(child, "%s/tandem-router", up->programs));
    TRY(child_arg(child, "--listen=%s", up->listen));
    TRY(child_arg(child, "--announce=ipc://%s/announce", up->folder));
    TRY(child_arg(child, "--siblings"));
    return up_pass_on(up, child, PASSED_ROUTER);
}

static const char *up_tp_of(const struct up *up, const char *role) {
    char option[16]; /* there is none of mixed workers */
    snprintf(option, sizeof option, "%s-tp", role);
    return up_value_of(up, option) ? up_value_of(up, option) : up_value_of(up, "tp");
}

/* The GPUs of a worker are neighbours: from `next_gpu` on, or from 0 where those left are too few. */
static unsigned up_take_gpus(struct up *up, const char *tp) {
    unsigned n = tp ? (unsigned)strtoul(tp, NULL, 10) : 1;
    unsigned first = up->next_gpu + n <= up->n_gpus ? up->next_gpu : 0;
    up->next_gpu = first + n;
    return first;
}

static enum status up_add_worker(struct up *up, const char *role, unsigned i) {
    const char *tp = up_tp_of(up, role);
    char name[32];
    snprintf(name, sizeof name, "%s%u", role, i);
    struct child *child = supervisor_add(up->supervisor, role, name);
    if (!child)
        return STATUS_LIMIT;
    TRY(child_arg(child, "%s/tandem-worker", up->programs));
    TRY(child_arg(child, "--name=%s", name));
    TRY(child_arg(child, "--role=%s", role));
    TRY(child_arg(child, "--routers=ipc://%s/announce", up->folder));
    TRY(child_arg(child, "--endpoint=ipc://%s/%s", up->folder, name));
    TRY(child_arg(child, "--kv-endpoint=ipc://%s/%s-kv", up->folder, name));
    if (tp)
        TRY(child_arg(child, "--tp=%s", tp));
    if (up->n_gpus > 0)
        TRY(child_arg(child, "--devices=%u", up_take_gpus(up, tp)));
    return up_pass_on(up, child, PASSED_WORKER);
}

static enum status up_add_children(struct up *up) {
    TRY(up_add_router(up));
    for (unsigned r = 0; r < N_ROLES; r++)
        for (unsigned i = 0; i < up->n_of[r]; i++)
            TRY(up_add_worker(up, roles[r], i));
    return STATUS_OK;
}

static enum status up_make_folder(struct up *up, struct error *error) {
    const char *parent = getenv("XDG_RUNTIME_DIR");
    struct stat info;
    if (!parent || strlen(parent) > 30 || stat(parent, &info) != 0)
        parent = "/tmp"; /* socket paths have room for 107 bytes */
    snprintf(up->folder, sizeof up->folder, "%s/tandem-XXXXXX", parent);
    if (!mkdtemp(up->folder))
        return error_set(error, STATUS_IO, "%s: %s", up->folder, strerror(errno));
    return STATUS_OK;
}

static void up_remove_folder(const struct up *up) {
    DIR *folder = up->folder[0] ? opendir(up->folder) : NULL;
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(up->folder);
}

static void up_on_listen(void *user, const char *address) {
    struct up *up = user;
    if (address)
        ready_listens(&up->ready, address);
    else
        ready_all(&up->ready);
}

static void up_show_progress(struct up *up, uint64_t now_ns) {
    char text[512];
    size_t width = screen_width() < sizeof text ? screen_width() : sizeof text;
    const char *line = progress_line(&up->progress, now_ns, text, width);
    screen_status(line[0] ? line : ready_foot(&up->ready, text, width));
}

/* A terminal has one line for all, redrawn; elsewhere each worker has a line every 10 %. */
static void up_on_loaded(void *user, const char *name, uint64_t n_done, uint64_t n_all) {
    struct up *up = user;
    char line[PROGRESS_LINE_MAX];
    uint64_t now_ns = clock_now_ns();
    bool is_due = progress_note(&up->progress, now_ns, name, n_done, n_all, line);
    if (is_due && !screen_redraws())
        screen_say("%s", line);
    if (screen_redraws() && now_ns - up->drawn_ns >= DRAW_NS) {
        up_show_progress(up, now_ns);
        up->drawn_ns = now_ns;
    }
}

static void up_on_settled(void *user, const char *name, bool is_ready) {
    struct up *up = user;
    char line[PROGRESS_LINE_MAX];
    uint64_t now_ns = clock_now_ns();
    bool is_told = progress_end(&up->progress, now_ns, name, line);
    up_show_progress(up, now_ns);
    if (is_told && is_ready)
        screen_say("%s", line);
}

/* 0, or the exit code after a word that is none. */
static int up_choose_format(const struct up *up) {
    const char *word = up_value_of(up, "log-format"),
               *level = passed_value(&up->passed, "log-level");
    bool is_auto = !word || strcmp(word, "auto") == 0,
         is_words = word && strcmp(word, "words") == 0;
    if (!is_auto && !is_words && strcmp(word, "logfmt") != 0)
        return exit_fail(EXIT_CONFIG, "--log-format: must be one of: auto words logfmt");
    if (is_words || (is_auto && screen_redraws()))
        screen_use_words(level && strcmp(level, "debug") == 0);
    return 0;
}

static int up_wait_for_all(struct up *up) {
    const struct supervisor_events events = {up_on_listen, up_on_loaded, up_on_settled, up};
    int code = supervisor_run(up->supervisor, &events);
    screen_status("");
    return code;
}

/* The router has a few files for each worker, and we a pipe for each child. Counted in
 * /proc/PID/fd. */
static enum status up_check_limit(const struct up *up, struct error *error) {
    unsigned ours = 20 + 2 * up->n_workers, routers = 28 + 8 * up->n_workers;
    return descriptors_need(ours > routers ? ours : routers, error);
}

/* Is there a page at /, as far as flags and environment say? */
static bool up_has_page(const struct passed *passed) {
    const char *word = passed_value(passed, "page");
    if (!word)
        word = getenv("TANDEM_PAGE");
    return !word || strcmp(word, "off") != 0;
}

static enum status up_open_all(struct up *up, struct error *error) {
    TRY(up_make_folder(up, error));
    if (loop_new(&up->loop) != STATUS_OK)
        return error_set(error, STATUS_IO, "cannot make an event loop");
    TRY(supervisor_new(up->loop, up->folder, &up->supervisor, error));
    enum status status = up_add_children(up);
    if (status != STATUS_OK)
        return error_set(error, status, "too many workers or options");
    if (ready_begin(&up->ready, up->loop, up->supervisor, up->n_workers) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "out of memory");
    up->ready.has_page = up_has_page(&up->passed);
    return STATUS_OK;
}

static int up_run(struct up *up) {
    struct error error;
    if (up_check_limit(up, &error) != STATUS_OK)
        return exit_fail(EXIT_CONFIG, "%s", error.text);
    int code =
        up_open_all(up, &error) == STATUS_OK ? up_wait_for_all(up) : exit_fail(1, "%s", error.text);
    supervisor_free(up->supervisor);
    ready_fini(&up->ready);
    loop_free(up->loop);
    up_remove_folder(up);
    return code;
}

/* Reads the flags: ours, then the programs'. Ends the program where they are wrong. */
static enum status up_read_flags(struct up *up, int argc, char **argv) {
    struct argp_option *flags = calloc(N_TABLE + up->passed.n + N_ALIASES + 1, sizeof *flags);
    struct argp_option *flag = flags;
    if (!flags)
        return STATUS_NOMEM;
    for (int i = 0; i < N_TABLE; i++)
        *flag++ =
            (struct argp_option){table[i].name, OWN_KEY + i, table[i].arg, 0, table[i].help, 0};
    for (unsigned i = 0; i < up->passed.n; i++) {
        const struct passed_option *option = &up->passed.all[i];
        *flag++ =
            (struct argp_option){option->name, PASSED_KEY + (int)i, "VALUE", 0, option->help, 0};
        for (unsigned j = 0; j < N_ALIASES; j++)
            if (strcmp(option->name, aliases[j].of) == 0)
                *flag++ = (struct argp_option){aliases[j].name, 0, NULL, OPTION_ALIAS, NULL, 0};
    }
    struct argp argp = {
        flags,
        up_parse,
        "[MODEL]",
        "Runs a whole cluster in the foreground: a router and workers that serve MODEL (a .gguf "
        "file, a model folder, "
        "ORG/NAME of a hub's cache, or \"hash\"). Prints `ready http://HOST:PORT` on "
        "standard output when it serves. Ctrl-C drains and stops it. With no "
        "role given: one prefill and one decode worker.",
        NULL,
        NULL,
        NULL};
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&argp, argc, argv, 0, NULL, up);
    free(flags);
    return STATUS_OK;
}

/* What --gpus says, and whether each worker's ranks are as many at most. */
static int up_check_gpus(struct up *up) {
    if (!up_value_of(up, "gpus"))
        return 0;
    if (!up_count_of(up, "gpus", &up->n_gpus) || up->n_gpus == 0)
        return exit_fail(EXIT_CONFIG, "--gpus: \"%s\" is not a number from 1 to 64",
                         up_value_of(up, "gpus"));
    if (passed_value(&up->passed, "devices"))
        return exit_fail(EXIT_CONFIG, "--gpus and --devices contradict each other");
    for (unsigned r = 0; r < N_ROLES; r++) {
        const char *tp = up->n_of[r] > 0 ? up_tp_of(up, roles[r]) : NULL;
        if (tp && strtoul(tp, NULL, 10) > up->n_gpus)
            return exit_fail(EXIT_CONFIG, "--gpus %u: fewer than the %s ranks of a worker",
                             up->n_gpus, tp);
    }
    return 0;
}

/* The numbers of workers, checked. */
static int up_count_workers(struct up *up) {
    if (!up_value_of(up, "model") && !up_value_of(up, "config") && !getenv("TANDEM_MODEL"))
        return exit_fail(
            EXIT_CONFIG,
            "a model is needed: tandem up MODEL (a .gguf file, a model folder, ORG/NAME of "
            "a hub's cache, or \"hash\")");
    const char *model = passed_value(&up->passed, "model");
    for (unsigned i = 0; i < up->passed.n_given; i++) {
        const struct passed_flag *flag = &up->passed.given[i];
        if (strcmp(up->passed.all[flag->option].name, "model") == 0 &&
            strcmp(flag->value, model) != 0)
            return exit_fail(EXIT_CONFIG, "one model is served: %s, or %s?", flag->value, model);
    }
    bool is_given = false;
    for (unsigned r = 0; r < N_ROLES; r++) {
        if (!up_count_of(up, roles[r], &up->n_of[r]))
            return exit_fail(EXIT_CONFIG,
                             "--prefill, --decode and --mixed take numbers from 0 to 64");
        is_given |= up_value_of(up, roles[r]) != NULL;
        up->n_workers += up->n_of[r];
    }
    if (up->n_workers > 64)
        return exit_fail(EXIT_CONFIG, "at most 64 workers");
    if (up->n_workers > 0)
        return 0;
    if (is_given)
        return exit_fail(EXIT_CONFIG, "no worker at all: give --prefill, --decode or --mixed");
    up->n_of[0] = up->n_of[1] = 1; /* prefill and decode */
    up->n_workers = 2;
    return 0;
}

static int up_refuse(int code, struct buf *errors, const struct error *error) {
    buf_putc(errors, 0);
    return exit_fail(code, "%s", errors->n > 1 ? errors->data : error->text);
}

/* What the flags and the file say together, before anything is started. */
static int up_check_all(struct up *up) {
    const struct front_flags front = {up_value_of(up, "listen"), up_value_of(up, "host"),
                                      up_value_of(up, "port")};
    struct error error;
    struct buf errors;
    int code = 0;
    buf_init(&errors, 1 << 20);
    enum status status = STATUS_OK;
    if (up->passed.n_given > 1 || up_value_of(up, "config"))
        status =
            passed_check(&up->passed, up->programs, up_value_of(up, "config"), &errors, &error);
    if (status == STATUS_OK)
        status = front_fold(&front, up->passed.listen, up->listen, &error);
    if (status == STATUS_OK)
        status = front_check(&front, up->listen, &error);
    if (status != STATUS_OK)
        code = up_refuse(EXIT_CONFIG, &errors, &error);
    buf_fini(&errors);
    return code;
}

/* Asks the programs for their options, and then reads ours and theirs. */
static int up_read_all(struct up *up, int argc, char **argv) {
    struct error error;
    struct buf errors;
    int code = 0;
    buf_init(&errors, 1 << 20);
    enum status status = sibling_folder(up->programs, sizeof up->programs, &error);
    if (status == STATUS_OK)
        status = passed_read(&up->passed, up->programs, &errors, &error);
    if (status == STATUS_OK && up_read_flags(up, argc, argv) != STATUS_OK)
        status = error_set(&error, STATUS_NOMEM, "out of memory");
    if (status != STATUS_OK)
        code = up_refuse(status == STATUS_INVALID ? EXIT_CONFIG : 1, &errors, &error);
    buf_fini(&errors);
    return code;
}

int up_command(int argc, char **argv) {
    static struct up up;
    int code = up_read_all(&up, argc, argv);
    if (code == 0)
        code = up_count_workers(&up);
    if (code == 0)
        code = up_check_gpus(&up);
    if (code == 0)
        code = up_choose_format(&up);
    if (code == 0)
        code = up_check_all(&up);
    if (code == 0) {
        signals_ignore_strays(); /* who reads our words may go: the cluster stays */
        log_writer_start();
        code = up_run(&up);
    }
    passed_fini(&up.passed);
    return code;
}
