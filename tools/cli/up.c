#include "tools/cli/cli.h"

#include "tools/cli/passed.h"
#include "tools/cli/supervise.h"
#include "tools/lib/http_client.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/exit.h"
#include "base/log.h"
#include "base/log_writer.h"
#include "base/patience.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
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
    {"prefill", "N", "prefill workers"},
    {"decode", "N", "decode workers"},
    {"mixed", "N", "workers that do both"},
    {"tp", "N", "tensor-parallel size of all workers: ranks that share the model (1)"},
    {"prefill-tp", "N", "the same of prefill workers alone"},
    {"decode-tp", "N", "the same of decode workers alone"},
    {"config", "FILE", "an INI file for everything not given here"},
};
enum { N_TABLE = sizeof table / sizeof *table, OWN_KEY = 256, PASSED_KEY = 512 };

#define PROBE_NS_MIN NS_PER_MS
#define PROBE_NS_MAX (32 * NS_PER_MS)

struct up {
    const char *value[N_TABLE]; /* borrowed from argv */
    struct passed passed;       /* owned */
    char folder[64];            /* owned on disk: sockets of this cluster */
    char programs[4096];        /* folder of our sibling programs */
    char address[300];          /* of the router, once known */
    unsigned n_workers;         /* that the router has to meet */
    struct buf answer;          /* of the probe */
    struct loop *loop;          /* owned */
    struct http_url url;        /* owned: of the router */
    struct http_client *probe;  /* owned: asks /readyz until it says yes */
    struct loop_timer *again;   /* owned: the next probe, */
    uint64_t probe_ns;          /* so long after the last */
    struct loop_timer *look;    /* owned: says what is waited for */
    struct patience patience;
    struct supervisor *supervisor; /* owned */
    struct loop_timer *print;      /* owned: until standard output takes the line */
    bool probing;
    bool printed;
};

static const char *value_of(const struct up *up, const char *name) {
    for (unsigned i = 0; i < N_TABLE; i++)
        if (strcmp(table[i].name, name) == 0)
            return up->value[i];
    return passed_value(&up->passed, name);
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct up *up = state->input;
    if (key >= OWN_KEY && (unsigned)key - OWN_KEY < N_TABLE)
        up->value[key - OWN_KEY] = text;
    else if (key >= PASSED_KEY && (unsigned)key - PASSED_KEY < up->passed.n)
        return passed_give(&up->passed, (unsigned)key - PASSED_KEY, text) == STATUS_OK ? 0 : ENOMEM;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static bool count_of(const struct up *up, const char *name, unsigned *n) {
    const char *text = value_of(up, name);
    char *end = NULL;
    if (!text)
        return true;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value > 64)
        return false;
    *n = (unsigned)value;
    return true;
}

static enum status pass_on(const struct up *up, struct child *child, unsigned to) {
    const char *config = value_of(up, "config");
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

static enum status add_router(struct up *up, struct supervisor *supervisor) {
    const char *listen = value_of(up, "listen");
    struct child *child = supervisor_add(supervisor, "router", "router");
    if (!child)
        return STATUS_LIMIT;
    TRY(child_arg(child, "%s/tandem-router", up->programs));
    TRY(child_arg(child, "--listen=%s", listen ? listen : "127.0.0.1:8000"));
    TRY(child_arg(child, "--announce=ipc://%s/announce", up->folder));
    return pass_on(up, child, PASSED_ROUTER);
}

static enum status add_worker(struct up *up, struct supervisor *supervisor, const char *role,
                              unsigned i, const char *tp) {
    char name[32];
    snprintf(name, sizeof name, "%s%u", role, i);
    struct child *child = supervisor_add(supervisor, role, name);
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
    return pass_on(up, child, PASSED_WORKER);
}

static enum status add_children(struct up *up, struct supervisor *supervisor, unsigned n_prefill,
                                unsigned n_decode, unsigned n_mixed) {
    const char *tp = value_of(up, "tp");
    const char *prefill_tp = value_of(up, "prefill-tp");
    const char *decode_tp = value_of(up, "decode-tp");
    TRY(add_router(up, supervisor));
    for (unsigned i = 0; i < n_prefill; i++)
        TRY(add_worker(up, supervisor, "prefill", i, prefill_tp ? prefill_tp : tp));
    for (unsigned i = 0; i < n_decode; i++)
        TRY(add_worker(up, supervisor, "decode", i, decode_tp ? decode_tp : tp));
    for (unsigned i = 0; i < n_mixed; i++)
        TRY(add_worker(up, supervisor, "mixed", i, tp));
    return STATUS_OK;
}

/* Nobody may be reading, or a terminal may be stopped: the cluster serves, and the line waits. */
static void print_ready(void *user) {
    struct up *up = user;
    up->printed = true;
    char line[sizeof up->address + 32];
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) == 0) {
        loop_timer_after(up->print, 100 * NS_PER_MS);
        return;
    }
    int n = snprintf(line, sizeof line, "ready %s\n", up->address);
    if (write(STDOUT_FILENO, line, (size_t)n) < 0)
        log_words("ready %s (standard output: %s)", up->address, strerror(errno));
    log_words("OpenAI API at %s/v1", up->address);
    log_words("try: tandem chat --server %s \"What is a dog?\"", up->address);
}

/* Once a second until the ready line. */
static void look_at_wait(void *user) {
    struct up *up = user;
    char names[512];
    uint64_t now_ns = clock_now_ns();
    if (up->printed)
        return;
    if (patience_turn(&up->patience, now_ns, true) == PATIENCE_SAY) {
        if (supervisor_waits(up->supervisor, names, sizeof names))
            log_words("still waiting after %u s: not ready yet: %s",
                      patience_s(&up->patience, now_ns), names);
        else
            log_words("still waiting after %u s: all processes are ready, but the router has not "
                      "met %u workers (tandem status shows them; see its lines above)",
                      patience_s(&up->patience, now_ns), up->n_workers);
    }
    loop_timer_after(up->look, NS_PER_S);
}

static void on_probe_body(void *user, const char *bytes, size_t n) {
    struct up *up = user;
    buf_append(&up->answer, bytes, n);
}

/* {"status":"ok","workers":3} */
static bool met_all(const struct up *up) {
    const char *at = up->answer.n ? strstr(up->answer.data, "\"workers\":") : NULL;
    return at && strtoul(at + strlen("\"workers\":"), NULL, 10) >= up->n_workers;
}

static void on_probe_end(void *user, enum status status, int http_status,
                         const struct error *error) {
    struct up *up = user;
    (void)error;
    /* A server that refuses us under TLS wants a certificate: what its own words were has to do. */
    bool is_shut = up->url.is_tls && status == STATUS_IO;
    if (is_shut || (status == STATUS_OK && http_status == 200 && met_all(up)))
        print_ready(up);
    else
        loop_timer_after(up->again, up->probe_ns);
    /* At first workers are met within milliseconds of their readiness; later nobody counts them. */
    up->probe_ns = up->probe_ns < PROBE_NS_MAX ? 2 * up->probe_ns : up->probe_ns;
}

static void probe(void *user) {
    struct up *up = user;
    struct http_events events = {on_probe_body, on_probe_end, up};
    buf_clear(&up->answer);
    http_client_start(up->probe, "GET", "/readyz", NULL, NULL, 0, &events);
}

/* Every child is ready; the router must also have met all its workers before the one line on
 * standard output says that this cluster can serve. */
static void on_listen(void *user, const char *address) {
    struct up *up = user;
    /* Our own child, told by its process id: its certificate names others than this address. */
    static const struct http_trust trust = {.insecure = true};
    struct error error;
    if (address) {
        bool has_scheme = strstr(address, "://") != NULL;
        snprintf(up->address, sizeof up->address, "%s%s", has_scheme ? "" : "http://", address);
        return;
    }
    if (up->probing || !up->address[0])
        return;
    if (http_url_open(up->address, &trust, &up->url, &error) != STATUS_OK ||
        http_client_new(up->loop, &up->url, &up->probe) != STATUS_OK ||
        loop_timer_new(up->loop, probe, up, &up->again) != STATUS_OK ||
        loop_timer_new(up->loop, print_ready, up, &up->print) != STATUS_OK) {
        cli_fail(1, "cannot ask the router whether it is ready");
        return;
    }
    up->probing = true;
    up->probe_ns = PROBE_NS_MIN;
    probe(up);
}

static enum status find_programs(struct up *up, struct error *error) {
    ssize_t n = readlink("/proc/self/exe", up->programs, sizeof up->programs - 1);
    if (n <= 0)
        return error_set(error, STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    up->programs[n] = 0;
    char *slash = strrchr(up->programs, '/');
    if (slash)
        *slash = 0;
    return STATUS_OK;
}

static enum status make_folder(struct up *up, struct error *error) {
    const char *parent = getenv("XDG_RUNTIME_DIR");
    struct stat info;
    if (!parent || strlen(parent) > 30 || stat(parent, &info) != 0)
        parent = "/tmp"; /* socket paths have room for 107 bytes */
    snprintf(up->folder, sizeof up->folder, "%s/tandem-XXXXXX", parent);
    if (!mkdtemp(up->folder))
        return error_set(error, STATUS_IO, "%s: %s", up->folder, strerror(errno));
    return STATUS_OK;
}

static void remove_folder(const struct up *up) {
    DIR *folder = up->folder[0] ? opendir(up->folder) : NULL;
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(up->folder);
}

static int wait_for_all(struct up *up) {
    look_at_wait(up);
    return supervisor_run(up->supervisor, on_listen, up);
}

/* The router has a few files for each worker, and we a pipe for each child. Counted in
 * /proc/PID/fd. */
static enum status check_limit(const struct up *up, struct error *error) {
    unsigned ours = 20 + 2 * up->n_workers, routers = 28 + 8 * up->n_workers;
    return descriptors_need(ours > routers ? ours : routers, error);
}

static int up_run(struct up *up, unsigned n_prefill, unsigned n_decode, unsigned n_mixed) {
    struct error error;
    int code = 1;
    enum status status = check_limit(up, &error);
    code = status == STATUS_OK ? code : EXIT_CONFIG;
    if (status == STATUS_OK)
        status = make_folder(up, &error);
    if (status == STATUS_OK && loop_new(&up->loop) != STATUS_OK)
        status = error_set(&error, STATUS_IO, "cannot make an event loop");
    if (status == STATUS_OK)
        status = supervisor_new(up->loop, up->folder, &up->supervisor, &error);
    if (status == STATUS_OK && loop_timer_new(up->loop, look_at_wait, up, &up->look) != STATUS_OK)
        status = error_set(&error, STATUS_NOMEM, "out of memory");
    if (status == STATUS_OK) {
        status = add_children(up, up->supervisor, n_prefill, n_decode, n_mixed);
        if (status != STATUS_OK)
            error_set(&error, status, "too many workers or options");
    }
    if (status != STATUS_OK)
        cli_fail(code, "%s", error.text);
    else
        code = wait_for_all(up);
    supervisor_free(up->supervisor);
    http_client_free(up->probe);
    http_url_close(&up->url);
    loop_timer_free(up->again);
    loop_timer_free(up->print);
    loop_timer_free(up->look);
    buf_fini(&up->answer);
    loop_free(up->loop);
    remove_folder(up);
    return code;
}

/* Reads the flags: ours, then the programs'. Ends the program where they are wrong. */
static enum status read_flags(struct up *up, int argc, char **argv) {
    struct argp_option *flags = calloc(N_TABLE + up->passed.n + 2, sizeof *flags), *flag = flags;
    if (!flags)
        return STATUS_NOMEM;
    for (int i = 0; i < N_TABLE; i++)
        *flag++ =
            (struct argp_option){table[i].name, OWN_KEY + i, table[i].arg, 0, table[i].help, 0};
    for (unsigned i = 0; i < up->passed.n; i++) {
        const struct passed_option *option = &up->passed.all[i];
        *flag++ =
            (struct argp_option){option->name, PASSED_KEY + (int)i, "VALUE", 0, option->help, 0};
        if (strcmp(option->name, "served-model") == 0)
            *flag++ = (struct argp_option){"served-model-name", 0, NULL, OPTION_ALIAS, NULL, 0};
    }
    struct argp argp = {
        flags,
        parse,
        "",
        "Runs a whole cluster in the foreground. Prints `ready http://HOST:PORT` on "
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

/* The numbers of workers, checked. */
static int count_workers(struct up *up, unsigned *n_prefill, unsigned *n_decode,
                         unsigned *n_mixed) {
    if (!value_of(up, "model") && !value_of(up, "config"))
        return cli_fail(EXIT_CONFIG,
                        "--model is needed (a .gguf file, a model folder, or \"hash\")");
    if (!count_of(up, "prefill", n_prefill) || !count_of(up, "decode", n_decode) ||
        !count_of(up, "mixed", n_mixed))
        return cli_fail(EXIT_CONFIG, "--prefill, --decode and --mixed take numbers from 0 to 64");
    if (*n_prefill + *n_decode + *n_mixed > 64)
        return cli_fail(EXIT_CONFIG, "at most 64 workers");
    if (*n_prefill + *n_decode + *n_mixed == 0) {
        if (value_of(up, "prefill") || value_of(up, "decode") || value_of(up, "mixed"))
            return cli_fail(EXIT_CONFIG, "no worker at all: give --prefill, --decode or --mixed");
        *n_prefill = 1;
        *n_decode = 1;
    }
    up->n_workers = *n_prefill + *n_decode + *n_mixed;
    return 0;
}

int cli_up(int argc, char **argv) {
    struct up up = {0};
    struct error error;
    unsigned n_prefill = 0, n_decode = 0, n_mixed = 0;
    enum status status = find_programs(&up, &error);
    if (status == STATUS_OK)
        status = passed_read(&up.passed, up.programs, &error);
    if (status == STATUS_OK && read_flags(&up, argc, argv) != STATUS_OK)
        status = error_set(&error, STATUS_NOMEM, "out of memory");
    int code = 0;
    if (status != STATUS_OK)
        code = cli_fail(status == STATUS_INVALID ? EXIT_CONFIG : 1, "%s", error.text);
    else
        code = count_workers(&up, &n_prefill, &n_decode, &n_mixed);
    if (code == 0) {
        signal(SIGPIPE, SIG_IGN); /* who reads our words may go: the cluster stays */
        log_writer_start();
        code = up_run(&up, n_prefill, n_decode, n_mixed);
    }
    passed_fini(&up.passed);
    return code;
}
