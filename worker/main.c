/* tandem-worker: config, pieces up, the loop, drain, pieces down. */
#include "base/buf.h"
#include "base/descriptors.h"
#include "base/exit.h"
#include "base/file.h"
#include "base/log/log.h"
#include "base/log/log_writer.h"
#include "base/notify.h"
#include "base/signals.h"
#include "model/model.h"
#include "worker/config.h"
#include "worker/links/names.h"
#include "worker/memory.h"
#include "worker/ranks/follow.h"
#include "worker/ranks/leader.h"
#include "worker/worker.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Open files that a worker with hardly any work has: libzmq's threads, both buses, the model; an
 * announcing and a serving link of each router, a few KV links. Counted in /proc/PID/fd. */
#define FILES_OWN        38
#define FILES_PER_ROUTER 10
#define FILES_PER_NAME   (4 * FILES_PER_ROUTER + 8) /* a few routers behind it, and who is asked */

static atomic_uint n_stops;  /* how often somebody asked us to end */
static atomic_bool starting; /* nothing has been sent yet */
static int wake_fd = -1;

static void worker_on_stop(int signal) {
    (void)signal;
    if (atomic_fetch_add(&n_stops, 1) > 0 || atomic_load(&starting))
        _exit(EXIT_SUCCESS); /* asked twice, or before there is anything to drain: at once */
    eventfd_t one = 1;
    ssize_t n = write(wake_fd, &one, sizeof one);
    (void)n; /* the loop wakes for its next deadline at the latest */
}

static void worker_take_signals(void) {
    struct sigaction stop = {.sa_handler = worker_on_stop}, ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&stop.sa_mask);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    signals_ignore_strays();
    if (!isatty(STDIN_FILENO)) /* it is no terminal's end, and a worker has nothing to read again */
        sigaction(SIGHUP, &ignore, NULL);
}

static int worker_dry_run(const struct config *config) {
    struct error error;
    struct model *model;
    /* The plan is made without talking to the model. */
    struct model_options how = {.dummy = config->dummy, .any_tokenizer = true};
    if (model_open(config->model, &how, &model, &error) != STATUS_OK)
        return exit_with(EXIT_CONFIG, error.text);
    enum status status = memory_print(config, model, &error);
    model_close(model);
    return status == STATUS_OK ? EXIT_SUCCESS : exit_with(EXIT_CONFIG, error.text);
}

static int worker_serve(const struct config *config) {
    static struct worker worker;
    struct error error;
    worker_take_signals();
    atomic_store(&starting, true);
    leader_heed_stops(&n_stops);
    enum status status = worker_open(&worker, config, &error);
    atomic_store(&starting, false);
    if (status == STATUS_CLOSED && atomic_load(&n_stops) > 0)
        return EXIT_SUCCESS;
    if (status == STATUS_CLOSED) /* a follower died: a restart may help */
        return exit_with(EXIT_FAILURE, error.text);
    if (status != STATUS_OK)
        return exit_of(&error);
    char name[2 * MESSAGE_NAME_MAX], endpoint[2 * MESSAGE_ENDPOINT_MAX];
    log_info("worker ready",
             "name=%s endpoint=%s blocks=%u context=%u chunk_tokens=%u batch=%u admin=%u",
             log_text(name, sizeof name, config->name),
             log_text(endpoint, sizeof endpoint, links_endpoint(&worker.links)),
             worker.sizes.n_blocks, worker.sizes.context, worker.sizes.chunk_tokens,
             worker.sizes.max_batch, admin_port(worker.admin));
    notify_send("READY=1");
    status = worker_run(&worker, &n_stops, wake_fd, &error);
    log_info("worker ends", "name=%s", log_text(name, sizeof name, config->name));
    worker_close(&worker);
    return status == STATUS_OK ? EXIT_SUCCESS : exit_with(EXIT_CONFIG, error.text);
}

static int worker_follow(const struct config *config) {
    worker_take_signals();
    struct follow_options options = {.address = config->follow,
                                     .model = config->model,
                                     .dummy = config->dummy,
                                     .n_ranks = config->ranks_here,
                                     .n_threads = config->threads};
    return follow_run(&options, &n_stops, wake_fd);
}

int main(int argc, char **argv) {
    struct config config;
    struct buf errors;
    int code = EXIT_CONFIG;
    buf_init(&errors, 65536);
    exit_checks_stdout();
    log_init("tandem-worker", LOG_INFO);
    log_writer_start();
    if (config_read(&config, argc, argv, &errors) == STATUS_OK) {
        log_init("tandem-worker", config.log_level);
        file_guard(config.model);
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        struct error error;
        unsigned n_files = FILES_OWN;
        for (unsigned i = 0; i < config.routers.n; i++)
            n_files += names_is_one(config.routers.all[i]) ? FILES_PER_NAME : FILES_PER_ROUTER;
        if (!config.dry_run && descriptors_need(n_files, &error) != STATUS_OK)
            code = exit_with(EXIT_CONFIG, error.text);
        else
            code = options_only_checks(config.options) ? EXIT_SUCCESS
                   : config.dry_run                    ? worker_dry_run(&config)
                   : config.follow[0]                  ? worker_follow(&config)
                                                       : worker_serve(&config);
    } else {
        exit_with(EXIT_CONFIG, errors.n > 0 ? errors.data : "out of memory");
    }
    config_fini(&config);
    buf_fini(&errors);
    return code;
}
