#include "worker/ranks/follow.h"

#include "base/error.h"
#include "base/exit.h"
#include "base/log/log.h"
#include "base/notify.h"
#include "model/model.h"
#include "worker/ranks/group.h"
#include "worker/ranks/rank_wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_MS 100

struct follow {
    const struct follow_options *options; /* borrowed */
    const atomic_uint *stop;              /* borrowed */
    int wake_fd;                          /* borrowed */
    struct model *model;                  /* owned until the ranks are loaded */
    int fd;                               /* owned: to the leader; 0: none */
    struct rank_terms terms;
    struct group_memory memory;
    struct rank_threads ranks;
    pthread_t watcher;
    bool watching;
};

/* STATUS_CLOSED: a stop was requested. */
static enum status follow_find_leader(struct follow *follow, struct error *error) {
    const char *path;
    TRY(rank_wire_path(follow->options->address, &path, error));
    for (bool said = false;; said = true) {
        struct pollfd wake = {.fd = follow->wake_fd, .events = POLLIN};
        if (atomic_load(follow->stop) > 0)
            return STATUS_CLOSED;
        enum status status = rank_wire_connect(path, &follow->fd, error);
        if (status != STATUS_NOT_FOUND)
            return status;
        if (!said)
            log_info("waiting for the leader", "address=%s", follow->options->address);
        (void)poll(&wake, 1, RETRY_MS);
    }
}

static bool follow_terms_sound(const struct rank_terms *terms) {
    return terms->n_ranks > 1 && terms->n_ranks <= COMM_RANKS_MAX && terms->n_here > 0 &&
           terms->rank_begin < terms->n_ranks &&
           terms->n_here <= terms->n_ranks - terms->rank_begin &&
           terms->sizes.board.n_ranks == terms->n_ranks && terms->n_blocks > 0 &&
           terms->kv_format <= KV_F32 && terms->sizes.board.max_tokens > 0 &&
           terms->sizes.board.max_seqs > 0;
}

/* Asks for ranks. STATUS_BUSY: the leader left before it answered; a later start may find another. */
static enum status follow_join(struct follow *follow, struct error *error) {
    struct rank_message message = {.type = RANK_JOIN, .u.join.n_ranks = follow->options->n_ranks};
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds = 0;
    pid_t pid;
    TRY(follow_find_leader(follow, error));
    if (rank_wire_peer(follow->fd, &pid) != STATUS_OK)
        return error_set(error, STATUS_DENIED, "%s: the leader belongs to another user",
                         follow->options->address);
    snprintf(message.u.join.version, sizeof message.u.join.version, "%s", TANDEM_VERSION);
    memcpy(message.u.join.model_fp, follow->model->config.fingerprint,
           sizeof message.u.join.model_fp);
    enum status status = rank_wire_send(follow->fd, &message, NULL, 0);
    if (status == STATUS_OK)
        status = rank_wire_receive(follow->fd, &message, fds, &n_fds);
    if (status != STATUS_OK)
        return error_set(error, STATUS_BUSY,
                         "the leader closed the connection before it sent its terms");
    if (message.type == RANK_TERMS && n_fds == 1) {
        follow->terms = message.u.terms;
        if (!follow_terms_sound(&follow->terms)) {
            rank_wire_close(fds, n_fds);
            return error_set(error, STATUS_CORRUPT, "the leader's terms contradict themselves");
        }
        return group_memory_map(&follow->memory, &fds[0], &follow->terms.sizes, error);
    }
    rank_wire_close(fds, n_fds);
    if (message.type == RANK_REFUSED)
        return error_set(error, STATUS_INVALID, "the leader refuses: %s", message.u.failed.text);
    return error_set(error, STATUS_CORRUPT, "the leader's answer is not one of ours");
}

/* Waits for the leader's goodbye, its death, or a stop of our own. A rank may hang in a collective
 * meanwhile, so the two latter end the process from here. */
static void *follow_watch(void *arg) {
    struct follow *follow = arg;
    struct pollfd polled[2] = {{.fd = follow->fd, .events = POLLIN},
                               {.fd = follow->wake_fd, .events = POLLIN}};
    struct rank_message message;
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds = 0;
    for (;;) {
        if (poll(polled, 2, -1) < 0)
            continue;
        if (polled[1].revents && atomic_load(follow->stop) > 0) {
            struct rank_message bye = {.type = RANK_BYE};
            (void)!rank_wire_send(follow->fd, &bye, NULL, 0); /* or it would be a rank lost */
            log_info("follower ends: a stop was requested", "ranks=%u", follow->terms.n_here);
            exit_now(EXIT_SUCCESS);
        }
        if (!polled[0].revents)
            continue;
        if (rank_wire_receive(follow->fd, &message, fds, &n_fds) != STATUS_OK ||
            message.type != RANK_BYE) {
            log_error("leader lost: the follower ends", "ranks=%u-%u of=%u",
                      follow->terms.rank_begin, follow->terms.rank_begin + follow->terms.n_here - 1,
                      follow->terms.n_ranks);
            exit_now(EXIT_FAILURE);
        }
        board_close(follow->memory.board);
        return NULL;
    }
}

static enum status follow_load(struct follow *follow, struct error *error) {
    const struct rank_terms *terms = &follow->terms;
    struct rank_options options = {
        .model = follow->model,
        .backend = terms->backend,
        .n_threads = group_threads_each(follow->options->n_threads, terms->n_here, terms->n_ranks),
        .rank = terms->rank_begin,
        .n_ranks = terms->n_ranks,
        .max_tokens = terms->sizes.board.max_tokens,
        .max_seqs = terms->sizes.board.max_seqs,
        .context_max = terms->context_max,
        .n_blocks = terms->n_blocks,
        .kv_format = terms->kv_format,
        .kv_shared = true,
    };
    TRY(rank_threads_start(&follow->ranks, &options, terms->n_here, &follow->memory, error));
    return rank_threads_wait(&follow->ranks, error);
}

static enum status follow_say_ready(struct follow *follow, struct error *error) {
    struct rank_message message = {.type = RANK_READY, .u.ready.n_pools = follow->terms.n_here};
    int fds[COMM_RANKS_MAX];
    for (uint32_t i = 0; i < follow->terms.n_here; i++) {
        const struct rank *rank = &follow->ranks.threads[i].rank;
        struct transport_rank kv = rank_kv_of(rank);
        fds[i] = rank->kv_fd;
        message.u.ready.pools[i] = (struct rank_pool){.n_bytes = rank->kv_bytes,
                                                      .layer_bytes = kv.layer_bytes,
                                                      .block_bytes = kv.block_bytes,
                                                      .head_begin = kv.head_begin,
                                                      .n_heads = kv.n_heads};
    }
    rank_numerics(&follow->ranks.threads[0].rank, message.u.ready.numerics,
                  sizeof message.u.ready.numerics);
    if (rank_wire_send(follow->fd, &message, fds, follow->terms.n_here) != STATUS_OK)
        return error_set(error, STATUS_BUSY, "the leader left while the ranks were loaded");
    return STATUS_OK;
}

static enum status follow_open_all(struct follow *follow, struct error *error) {
    struct model_options how = {.dummy = follow->options->dummy};
    TRY(model_open(follow->options->model, &how, &follow->model, error));
    TRY(follow_join(follow, error));
    if (pthread_create(&follow->watcher, NULL, follow_watch, follow) != 0)
        return error_set(error, STATUS_NOMEM, "no thread that watches the leader");
    follow->watching = true;
    enum status status = follow_load(follow, error);
    if (status != STATUS_OK) {
        struct rank_message failed = {.type = RANK_FAILED, .u.failed.status = status};
        snprintf(failed.u.failed.text, sizeof failed.u.failed.text, "%s", error->text);
        enum status told = rank_wire_send(follow->fd, &failed, NULL, 0);
        return told == STATUS_OK ? status : STATUS_BUSY;
    }
    return follow_say_ready(follow, error);
}

static int follow_has_ended(enum status status, const struct error *error) {
    if (status == STATUS_CLOSED)
        return EXIT_SUCCESS; /* stopped before there was a leader */
    return status == STATUS_BUSY ? exit_with(EXIT_FAILURE, error->text) : exit_of(error);
}

int follow_run(const struct follow_options *options, const atomic_uint *stop, int wake_fd) {
    static struct follow follow;
    struct error error;
    follow.options = options;
    follow.stop = stop;
    follow.wake_fd = wake_fd;
    enum status status = follow_open_all(&follow, &error);
    model_close(follow.model);
    if (status != STATUS_OK && follow.watching)
        exit_now(
            follow_has_ended(status, &error)); /* the watcher still reads what would be freed */
    if (status != STATUS_OK)
        return follow_has_ended(status, &error);
    log_info("follower ready", "ranks=%u-%u of=%u", follow.terms.rank_begin,
             follow.terms.rank_begin + follow.terms.n_here - 1, follow.terms.n_ranks);
    notify_send("READY=1");
    pthread_join(follow.watcher, NULL);
    rank_threads_stop(&follow.ranks, &follow.memory);
    group_memory_fini(&follow.memory);
    close(follow.fd);
    log_info("follower ends", "ranks=%u", follow.terms.n_here);
    return EXIT_SUCCESS;
}
