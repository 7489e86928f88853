#include "worker/ranks/leader.h"

#include "base/dump.h"
#include "base/exit.h"
#include "base/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define STOP_MS 1000 /* a stop of all processes reaches them one after the other */
#define JOIN_S  5    /* who connects and says nothing keeps the others waiting for this long */

static const char *leader_ranks_text(const struct follower *follower, char text[32]) {
    snprintf(text, 32, follower->n_ranks > 1 ? "%u-%u" : "%u", follower->rank_begin,
             follower->rank_begin + follower->n_ranks - 1);
    return text;
}

static void leader_refuse(int fd, pid_t pid, const char *why) {
    struct rank_message message = {.type = RANK_REFUSED, .u.failed.status = STATUS_INVALID};
    char text[ERROR_TEXT_MAX];
    snprintf(message.u.failed.text, sizeof message.u.failed.text, "%s", why);
    log_error("follower refused", "pid=%d why=%s", (int)pid, log_text(text, sizeof text, why));
    enum status told = rank_wire_send(fd, &message, NULL, 0);
    (void)told; /* it sees the socket close in any case */
    close(fd);
}

/* Answers NULL, or why it cannot join. */
static const char *leader_misfit(const struct rank_join *join, const struct leader_options *options,
                                 uint32_t n_left) {
    if (strcmp(join->version, TANDEM_VERSION) != 0)
        return "it is another version of tandem-worker";
    if (memcmp(join->model_fp, options->model_fp, sizeof join->model_fp) != 0)
        return "its model differs from the leader's";
    if (join->n_ranks > n_left)
        return "it asks for more ranks (--ranks-here) than are left";
    return NULL;
}

/* One who connected: gets a share of the ranks from *next on, or is refused. */
static void leader_take_in(struct leader *leader, const struct leader_options *options, int fd,
                           uint32_t *next) {
    struct follower *follower = &leader->followers[leader->n_followers];
    struct timeval limit = {.tv_sec = JOIN_S}, none = {0};
    struct rank_message message;
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds = 0, n_left = options->terms.n_ranks - *next;
    pid_t pid = 0;
    if (rank_wire_peer(fd, &pid) != STATUS_OK) {
        leader_refuse(fd, pid, "it belongs to another user");
        return;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (rank_wire_receive(fd, &message, fds, &n_fds) != STATUS_OK || message.type != RANK_JOIN) {
        rank_wire_close(fds, n_fds);
        leader_refuse(fd, pid, "its first message is not a request to join");
        return;
    }
    rank_wire_close(fds, n_fds);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    const char *why = leader_misfit(&message.u.join, options, n_left);
    if (why) {
        leader_refuse(fd, pid, why);
        return;
    }
    *follower = (struct follower){.fd = fd, .pid = pid, .rank_begin = *next};
    follower->n_ranks = message.u.join.n_ranks > 0 ? message.u.join.n_ranks : n_left;
    message = (struct rank_message){.type = RANK_TERMS, .u.terms = options->terms};
    message.u.terms.rank_begin = follower->rank_begin;
    message.u.terms.n_here = follower->n_ranks;
    if (rank_wire_send(fd, &message, &options->memory->fd, 1) != STATUS_OK) {
        close(fd); /* it left again: its ranks are still to be had */
        return;
    }
    char text[32];
    log_info("follower joins", "ranks=%s of=%u pid=%d", leader_ranks_text(follower, text),
             options->terms.n_ranks, (int)pid);
    leader->n_followers++;
    *next += follower->n_ranks;
}

enum status leader_gather(struct leader *leader, const struct leader_options *options,
                          struct error *error) {
    const char *path;
    int listener;
    uint32_t next = options->terms.rank_begin;
    *leader = (struct leader){.wake_fd = -1};
    TRY(rank_wire_path(options->address, &path, error));
    TRY(rank_wire_listen(path, &listener, error));
    log_info("waiting for followers", "ranks=%u-%u address=%s", next, options->terms.n_ranks - 1,
             options->address);
    enum status status = STATUS_OK;
    while (status == STATUS_OK && next < options->terms.n_ranks) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            leader_take_in(leader, options, fd, &next);
        else if (errno == EINTR)
            status = error_set(error, STATUS_CLOSED, "stopped while waiting for followers");
        else if (errno != ECONNABORTED)
            status = error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    (void)unlink(path); /* complete: no other process can join */
    close(listener);
    return status;
}

/* Is this what a pool of such a rank looks like? Then maps it. */
static enum status leader_map_pool(struct leader *leader, uint32_t rank,
                                   const struct rank_pool *pool, int fd,
                                   struct transport_rank *kv) {
    struct stat info;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int found = fcntl(fd, F_GET_SEALS);
    if (found < 0 || (found & seals) != seals || fstat(fd, &info) != 0 ||
        (uint64_t)info.st_size != pool->n_bytes || pool->n_bytes == 0 ||
        pool->n_bytes > SIZE_MAX / 2 || pool->layer_bytes > pool->n_bytes)
        return STATUS_CORRUPT;
    void *memory = mmap(NULL, (size_t)pool->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return STATUS_NOMEM;
    dump_leave_out(memory, (size_t)pool->n_bytes);
    leader->pools[rank].memory = memory;
    leader->pools[rank].n_bytes = (size_t)pool->n_bytes;
    *kv = (struct transport_rank){.base = memory,
                                  .layer_bytes = (size_t)pool->layer_bytes,
                                  .block_bytes = pool->block_bytes,
                                  .head_begin = pool->head_begin,
                                  .n_heads = pool->n_heads};
    return STATUS_OK;
}

static enum status leader_take_ready(struct leader *leader, const struct follower *follower,
                                     const struct rank_ready *ready, const int *fds, uint32_t n_fds,
                                     const char *numerics, struct transport_rank *kv,
                                     struct error *error) {
    if (ready->n_pools != follower->n_ranks || n_fds != follower->n_ranks)
        return error_set(error, STATUS_CORRUPT, "%u KV pools instead of %u", n_fds,
                         follower->n_ranks);
    if (strcmp(ready->numerics, numerics) != 0)
        return error_set(error, STATUS_CONFLICT, "its numerics differ: \"%s\", the leader \"%s\"",
                         ready->numerics, numerics);
    for (uint32_t i = 0; i < n_fds; i++) {
        uint32_t rank = follower->rank_begin + i;
        enum status status = leader_map_pool(leader, rank, &ready->pools[i], fds[i], &kv[rank]);
        if (status != STATUS_OK)
            return error_set(error, status, "its KV pool of rank %u cannot be mapped", rank);
    }
    return STATUS_OK;
}

static enum status leader_await_one(struct leader *leader, const struct follower *follower,
                                    const char *numerics, struct transport_rank *kv,
                                    struct error *error) {
    struct rank_message message;
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds = 0;
    enum status status = rank_wire_receive(follower->fd, &message, fds, &n_fds);
    if (status != STATUS_OK)
        return error_set(error, STATUS_CLOSED, "it ended while it loaded");
    if (message.type == RANK_BYE)
        status = error_set(error, STATUS_CLOSED, "it was stopped while it loaded");
    else if (message.type == RANK_READY)
        status =
            leader_take_ready(leader, follower, &message.u.ready, fds, n_fds, numerics, kv, error);
    else if (message.type == RANK_FAILED && (unsigned)message.u.failed.status < STATUS_COUNT &&
             message.u.failed.status != STATUS_OK)
        status = error_set(error, message.u.failed.status, "%s", message.u.failed.text);
    else
        status = error_set(error, STATUS_CORRUPT, "its answer is malformed");
    rank_wire_close(fds, n_fds);
    return status;
}

static const atomic_uint *stops; /* main's; NULL: not asked */

void leader_heed_stops(const atomic_uint *n_stops) {
    stops = n_stops;
}

/* Whether the follower said goodbye, as one does that was asked to end, and so were we. */
static bool leader_was_stopped(const struct follower *follower) {
    struct rank_message message;
    int fds[COMM_RANKS_MAX];
    uint32_t n_fds = 0;
    if (!stops || rank_wire_receive(follower->fd, &message, fds, &n_fds) != STATUS_OK)
        return false;
    rank_wire_close(fds, n_fds);
    for (unsigned ms = 0; message.type == RANK_BYE && ms < STOP_MS; ms++) {
        if (atomic_load(stops) > 0)
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

_Noreturn static void leader_end_with(const struct follower *follower) {
    char text[32];
    if (leader_was_stopped(follower)) {
        log_info("ranks were stopped: the worker ends", "ranks=%s pid=%d",
                 leader_ranks_text(follower, text), (int)follower->pid);
        exit_now(EXIT_SUCCESS);
    }
    log_error("rank lost: the worker ends", "ranks=%s pid=%d", leader_ranks_text(follower, text),
              (int)follower->pid);
    exit_now(EXIT_FAILURE);
}

static void *leader_watch(void *arg) {
    const struct leader *leader = arg;
    struct pollfd polled[COMM_RANKS_MAX + 1];
    for (;;) {
        for (uint32_t i = 0; i < leader->n_followers; i++)
            polled[i] = (struct pollfd){.fd = leader->followers[i].fd, .events = POLLIN};
        polled[leader->n_followers] = (struct pollfd){.fd = leader->wake_fd, .events = POLLIN};
        if (poll(polled, leader->n_followers + 1, -1) < 0)
            continue;
        if (polled[leader->n_followers].revents)
            return NULL; /* leader_close() */
        for (uint32_t i = 0; i < leader->n_followers; i++)
            if (polled[i].revents) /* they have nothing more to say: it is the end of one */
                leader_end_with(&leader->followers[i]);
    }
}

enum status leader_ready(struct leader *leader, const char *numerics,
                         struct transport_rank kv[COMM_RANKS_MAX], struct error *error) {
    char text[32];
    for (uint32_t i = 0; i < leader->n_followers; i++) {
        const struct follower *follower = &leader->followers[i];
        enum status status = leader_await_one(leader, follower, numerics, kv, error);
        if (status != STATUS_OK) {
            error_prefix(error, "follower with ranks %s, pid %d", leader_ranks_text(follower, text),
                         (int)follower->pid);
            return status;
        }
    }
    leader->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (leader->wake_fd < 0 || pthread_create(&leader->watcher, NULL, leader_watch, leader) != 0)
        return error_set(error, STATUS_NOMEM, "no thread that watches the followers");
    leader->watching = true;
    return STATUS_OK;
}

void leader_close(struct leader *leader) {
    struct rank_message bye = {.type = RANK_BYE};
    eventfd_t one = 1;
    if (leader->watching && write(leader->wake_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(leader->watcher, NULL);
    for (uint32_t i = 0; i < leader->n_followers; i++) {
        enum status told = STATUS_OK;
        if (leader->watching)
            told = rank_wire_send(leader->followers[i].fd, &bye, NULL, 0);
        (void)told; /* who is gone already needs no goodbye */
        close(leader->followers[i].fd);
    }
    for (uint32_t rank = 0; rank < COMM_RANKS_MAX; rank++)
        if (leader->pools[rank].memory)
            munmap(leader->pools[rank].memory, leader->pools[rank].n_bytes);
    if (leader->wake_fd > 0)
        close(leader->wake_fd);
    memset(leader, 0, sizeof *leader);
}
