#include "kernels/cuda/nccl.h"

#include "base/clock.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/nccl_library.h"
#include "kernels/cuda/nccl_version.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 20000000u /* the watcher looks this often while somebody waits */
#define POLL_NS 100000u   /* an opening group is asked this often, and whether an id has come */

struct nccl_group {
    const struct nccl_library *library;
    const struct device_kind *kind;
    uint32_t rank;
    uint32_t n_ranks;
    uint64_t wait_ns;

    pthread_mutex_t lock; /* every call of NCCL is made under it */
    ncclComm_t comm;      /* NULL: the watcher aborts it */
    char failure[300];    /* under lock, until has_failed */
    atomic_bool has_failed;

    pthread_t watcher;
    bool is_watched;
    pthread_cond_t changed; /* `closes`, or the first of `waits` */
    bool closes;
    struct nccl_wait *waits; /* borrowed: for the device, each measured by itself */
};

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct kernels_group_id), "NCCL's own id");

/* Ends the group, unless it has ended: the watcher aborts it. The lock is held. */
static void nccl_fail(struct nccl_group *group, const char *why) {
    if (group->has_failed)
        return;
    snprintf(group->failure, sizeof group->failure, "NCCL: %s", why);
    atomic_store(&group->has_failed, true);
    pthread_cond_signal(&group->changed);
}

static const char *nccl_text_of(const struct nccl_group *group, ncclResult_t result) {
    const char *last = group->library->GetLastError(group->comm);
    return last && *last ? last : group->library->GetErrorString(result);
}

static void nccl_pause_for(uint64_t ns) {
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* What was asked for has begun, or the group is at an end. The lock is held. */
static void nccl_settle(struct nccl_group *group, ncclResult_t result) {
    uint64_t begin = clock_now_ns();
    while (result == ncclInProgress) {
        if (clock_now_ns() - begin > group->wait_ns) {
            nccl_fail(group, "it did not begin in time what the ranks compute together");
            return;
        }
        nccl_pause_for(POLL_NS);
        if (group->library->CommGetAsyncError(group->comm, &result) != ncclSuccess)
            result = ncclInternalError;
    }
    if (result != ncclSuccess)
        nccl_fail(group, nccl_text_of(group, result));
}

/* The watcher. */

/* What NCCL found since. The lock is held. */
static void nccl_look_for_errors(struct nccl_group *group) {
    ncclResult_t result = ncclSuccess;
    if (group->has_failed)
        return;
    if (group->library->CommGetAsyncError(group->comm, &result) != ncclSuccess)
        result = ncclInternalError;
    if (result != ncclSuccess && result != ncclInProgress)
        nccl_fail(group, nccl_text_of(group, result));
}

static void nccl_look(struct nccl_group *group) {
    nccl_look_for_errors(group);
    for (const struct nccl_wait *wait = group->waits; wait; wait = wait->next)
        if (clock_now_ns() - wait->since > group->wait_ns)
            nccl_fail(group, "a rank did not come to what its group computes together");
}

static void *nccl_watch(void *arg) {
    struct nccl_group *group = arg;
    pthread_mutex_lock(&group->lock);
    while (!group->closes && !group->has_failed) {
        if (!group->waits) {
            pthread_cond_wait(&group->changed, &group->lock);
            continue;
        }
        pthread_mutex_unlock(&group->lock);
        nccl_pause_for(LOOK_NS);
        pthread_mutex_lock(&group->lock);
        if (group->waits)
            nccl_look(group);
    }
    ncclComm_t comm = group->comm;
    group->comm = NULL;
    pthread_mutex_unlock(&group->lock);
    /* It waits for no rank, but for graphs of the group that still live: a thread that is to free them does not wait for it. */
    (void)group->library->CommAbort(comm);
    return NULL;
}

void nccl_wait_begins(struct nccl_group *group, struct nccl_wait *wait) {
    pthread_mutex_lock(&group->lock);
    *wait = (struct nccl_wait){.since = clock_now_ns(), .next = group->waits};
    group->waits = wait;
    if (!wait->next)
        pthread_cond_signal(&group->changed);
    pthread_mutex_unlock(&group->lock);
}

void nccl_wait_ends(struct nccl_group *group, struct nccl_wait *wait) {
    pthread_mutex_lock(&group->lock);
    struct nccl_wait **at = &group->waits;
    while (*at != wait)
        at = &(*at)->next;
    *at = wait->next;
    nccl_look_for_errors(group);
    pthread_mutex_unlock(&group->lock);
}

const char *nccl_failure_now(struct nccl_group *group) {
    pthread_mutex_lock(&group->lock);
    nccl_look_for_errors(group);
    pthread_mutex_unlock(&group->lock);
    return nccl_failure(group);
}

const char *nccl_failure(struct nccl_group *group) {
    return atomic_load(&group->has_failed) ? group->failure : NULL;
}

/* Opening and closing. */

/* An id that is asked for, in a thread of its own: the library looks for a network, and nothing bounds how long that takes. */
struct wanted_id {
    const struct nccl_library *library;
    atomic_uint n_holders; /* the thread, and who waits for it: the last one frees it */
    atomic_bool is_there;  /* what follows is set */
    ncclUniqueId id;
    ncclResult_t result;
    char text[200];
};

static void nccl_let_go(struct wanted_id *wanted) {
    if (atomic_fetch_sub(&wanted->n_holders, 1) == 1)
        free(wanted);
}

static void *nccl_ask_for_id(void *arg) {
    struct wanted_id *wanted = arg;
    wanted->result = wanted->library->GetUniqueId(&wanted->id);
    if (wanted->result != ncclSuccess) {
        const char *last = wanted->library->GetLastError(NULL);
        snprintf(wanted->text, sizeof wanted->text, "%s",
                 last && *last ? last : wanted->library->GetErrorString(wanted->result));
    }
    atomic_store(&wanted->is_there, true);
    nccl_let_go(wanted);
    return NULL;
}

static enum status nccl_wait_for_id(const struct wanted_id *wanted, uint32_t wait_ms,
                                    struct kernels_group_id *id, struct error *error) {
    uint64_t begin = clock_now_ns();
    while (!atomic_load(&wanted->is_there)) {
        if (clock_now_ns() - begin > wait_ms * 1000000ull)
            return error_set(error, STATUS_CLOSED, "NCCL made no id for a group within %u ms",
                             wait_ms);
        nccl_pause_for(POLL_NS);
    }
    if (wanted->result != ncclSuccess)
        return error_set(error, STATUS_UNSUPPORTED, "NCCL makes no id for a group: %s",
                         wanted->text);
    memcpy(id->bytes, &wanted->id, sizeof wanted->id);
    return STATUS_OK;
}

enum status nccl_group_id(const struct device_kind *kind, uint32_t wait_ms,
                          struct kernels_group_id *id, struct error *error) {
    const struct nccl_library *library = nccl_library(kind->nccl, error);
    if (!library)
        return STATUS_UNSUPPORTED;
    struct wanted_id *wanted = calloc(1, sizeof *wanted);
    if (!wanted)
        return error_set(error, STATUS_NOMEM, "no memory for a group of devices");
    wanted->library = library;
    atomic_store(&wanted->n_holders, 2);
    pthread_t thread;
    if (pthread_create(&thread, NULL, nccl_ask_for_id, wanted) != 0) {
        free(wanted);
        return error_set(error, STATUS_NOMEM, "no thread that asks NCCL for an id");
    }
    enum status status = nccl_wait_for_id(wanted, wait_ms, id, error);
    if (status == STATUS_CLOSED)
        pthread_detach(thread);
    else
        pthread_join(thread, NULL);
    nccl_let_go(wanted);
    return status;
}

/* As the least version has it, so that all since take it; calls return before what they begin is done. */
static ncclConfig_t nccl_config_of(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.size = offsetof(ncclConfig_t, splitShare) + sizeof config.splitShare;
    config.version = NCCL_LEAST;
    config.blocking = 0;
    return config;
}

static enum status nccl_begin(struct nccl_group *group, const struct kernels_group_id *id,
                              struct error *error) {
    ncclUniqueId unique;
    ncclConfig_t config = nccl_config_of();
    memcpy(&unique, id->bytes, sizeof unique);
    ncclResult_t result = group->library->CommInitRankConfig(&group->comm, (int)group->n_ranks,
                                                             unique, (int)group->rank, &config);
    if (result != ncclSuccess && result != ncclInProgress)
        return error_set(error, STATUS_UNSUPPORTED, "NCCL does not open rank %u of %u: %s",
                         group->rank, group->n_ranks, nccl_text_of(group, result));
    group->is_watched = pthread_create(&group->watcher, NULL, nccl_watch, group) == 0;
    return group->is_watched
               ? STATUS_OK
               : error_set(error, STATUS_NOMEM, "no thread that watches a group of devices");
}

enum status nccl_open(const struct device_kind *kind, const struct kernels_group_id *id,
                      uint32_t rank, uint32_t n_ranks, uint32_t wait_ms, struct nccl_group **group,
                      struct error *error) {
    const struct nccl_library *library = nccl_library(kind->nccl, error);
    if (!library)
        return STATUS_UNSUPPORTED;
    struct nccl_group *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for a group of devices");
    *made = (struct nccl_group){.library = library,
                                .kind = kind,
                                .rank = rank,
                                .n_ranks = n_ranks,
                                .wait_ns = wait_ms * 1000000ull,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER};
    enum status status = nccl_begin(made, id, error);
    if (status != STATUS_OK)
        nccl_close(made);
    else
        *group = made;
    return status;
}

enum status nccl_ready(struct nccl_group *group, struct error *error) {
    uint64_t begin = clock_now_ns();
    ncclResult_t result = ncclInProgress;
    while (result == ncclInProgress) {
        pthread_mutex_lock(&group->lock);
        if (!group->has_failed &&
            group->library->CommGetAsyncError(group->comm, &result) != ncclSuccess)
            result = ncclInternalError;
        if (result == ncclInProgress && clock_now_ns() - begin > group->wait_ns)
            nccl_fail(group, "not all ranks came to their group");
        else if (result != ncclInProgress && result != ncclSuccess)
            nccl_fail(group, nccl_text_of(group, result));
        pthread_mutex_unlock(&group->lock);
        if (group->has_failed)
            return error_set(error, result == ncclInProgress ? STATUS_CLOSED : STATUS_UNSUPPORTED,
                             "rank %u of %u: %s", group->rank, group->n_ranks, group->failure);
        nccl_pause_for(POLL_NS);
    }
    return STATUS_OK;
}

void nccl_close(struct nccl_group *group) {
    if (!group)
        return;
    pthread_mutex_lock(&group->lock);
    group->closes = true;
    pthread_cond_signal(&group->changed);
    pthread_mutex_unlock(&group->lock);
    if (group->is_watched)
        pthread_join(group->watcher, NULL);
    else if (group->comm)
        (void)group->library->CommAbort(group->comm);
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    free(group);
}

/* What moves bytes. */

/* A stream as NCCL knows it, under the group's lock; false: the group is at an end. */
static bool nccl_enter(struct nccl_group *group, struct device_stream *stream,
                       cudaStream_t *native) {
    pthread_mutex_lock(&group->lock);
    *native = group->kind->native(stream);
    return !group->has_failed;
}

static void nccl_leave(struct nccl_group *group) {
    pthread_mutex_unlock(&group->lock);
}

void nccl_all_gather(struct nccl_group *group, struct device_stream *stream, float *to,
                     const float *from, size_t n) {
    cudaStream_t native;
    if (nccl_enter(group, stream, &native))
        nccl_settle(group, group->library->AllGather(from, to, n, ncclFloat, group->comm, native));
    nccl_leave(group);
}

/* Between GroupStart and GroupEnd, which answers for all: a call that is not taken ends the group all the same. */
static void nccl_send_to(struct nccl_group *group, cudaStream_t native, const float *from, size_t n,
                         uint32_t peer, ncclResult_t *result) {
    if (*result == ncclSuccess)
        *result = group->library->Send(from, n, ncclFloat, (int)peer, group->comm, native);
}

static void nccl_take_from(struct nccl_group *group, cudaStream_t native, float *to, size_t n,
                           uint32_t peer, ncclResult_t *result) {
    if (*result == ncclSuccess)
        *result = group->library->Recv(to, n, ncclFloat, (int)peer, group->comm, native);
}

static void nccl_end_together(struct nccl_group *group, ncclResult_t result) {
    ncclResult_t ended = group->library->GroupEnd();
    nccl_settle(group, result == ncclSuccess || result == ncclInProgress ? ended : result);
}

void nccl_exchange(struct nccl_group *group, struct device_stream *stream, float *to,
                   const float *x, const struct nccl_slices *cut) {
    cudaStream_t native;
    if (nccl_enter(group, stream, &native)) {
        ncclResult_t result = group->library->GroupStart();
        for (uint32_t peer = 0; peer < group->n_ranks; peer++) {
            if (peer == group->rank)
                continue;
            nccl_send_to(group, native, x + peer * cut->slice, nccl_slice_of(cut, peer), peer,
                         &result);
            nccl_take_from(group, native, to + peer * cut->slice, nccl_slice_of(cut, group->rank),
                           peer, &result);
        }
        nccl_end_together(group, result);
    }
    nccl_leave(group);
}

static void nccl_spread_uneven(struct nccl_group *group, cudaStream_t native, float *x,
                               const struct nccl_slices *cut) {
    size_t own = nccl_slice_of(cut, group->rank);
    ncclResult_t result = group->library->GroupStart();
    for (uint32_t peer = 0; peer < group->n_ranks; peer++) {
        if (peer == group->rank)
            continue;
        nccl_send_to(group, native, x + group->rank * cut->slice, own, peer, &result);
        nccl_take_from(group, native, x + peer * cut->slice, nccl_slice_of(cut, peer), peer,
                       &result);
    }
    nccl_end_together(group, result);
}

void nccl_spread(struct nccl_group *group, struct device_stream *stream, float *x,
                 const struct nccl_slices *cut) {
    cudaStream_t native;
    if (nccl_enter(group, stream, &native)) {
        if (cut->slice * group->n_ranks == cut->n)
            nccl_settle(group,
                        group->library->AllGather(x + group->rank * cut->slice, x, cut->slice,
                                                  ncclFloat, group->comm, native));
        else
            nccl_spread_uneven(group, native, x, cut);
    }
    nccl_leave(group);
}

void nccl_to_first(struct nccl_group *group, struct device_stream *stream, float *to,
                   const float *from, size_t n) {
    cudaStream_t native;
    if (nccl_enter(group, stream, &native)) {
        ncclResult_t result = group->library->GroupStart();
        if (group->rank > 0)
            nccl_send_to(group, native, from, n, 0, &result);
        for (uint32_t peer = 1; group->rank == 0 && peer < group->n_ranks; peer++)
            nccl_take_from(group, native, to + peer * n, n, peer, &result);
        nccl_end_together(group, result);
    }
    nccl_leave(group);
}
