/* tests/support/fake_nccl.c: a library with NCCL's functions for emulated devices of one process, built as one to load at run time
 * (TANDEM_NCCL=...). What a stream is to it says tests/emulator/native.h. It holds the caller to NCCL's rules as far as they
 * can be seen: the same operations in the same order at all ranks, sends and receives in a group, memory that the device has.
 *
 * FAKE_NCCL in the environment makes it another one, by words separated by commas:
 *   version=N          the version that it tells (22809)
 *   absent=R           rank R never comes to its group, though it is told that it did
 *   refuse=R           rank R cannot open its end
 *   twice              two ranks have the same GPU, which all are told when they have come
 *   nosocket           there is no id, for the interface that NCCL_SOCKET_IFNAME names is none
 *   noid=MS            there is one, so much later than it is asked for
 *   late=N             the N-th operation of rank 1 never begins (from 1)
 *   broken=N           the N-th operation fails at rank 1, which is told later
 *   cut=PATH           the same of the first operation after there is such a file
 *   hung=N             as broken=N, and streams stand still from then on until the group is aborted
 *   slow=N             the N-th operation begins later than it is asked for
 *   stalled=N          at rank 1 it never does
 *   untaken=N          the first send of the N-th operation is refused at rank 1
 *   mute=N             the N-th operation brings nothing
 *   mixed              parts of the ranks come in another order */
#include "tests/emulator/native.h"

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX  16
#define PARTS_MAX  (2 * RANKS_MAX)
#define WORLDS_MAX 64

static long fault(const char *name) {
    const char *all = getenv("FAKE_NCCL"), *at = all ? strstr(all, name) : NULL;
    if (!at)
        return -1;
    at += strlen(name);
    return *at == '=' ? atol(at + 1) : 0;
}

static bool is_cut(void) {
    const char *all = getenv("FAKE_NCCL"), *at = all ? strstr(all, "cut=") : NULL;
    char path[256];
    return at && sscanf(at, "cut=%255[^,]", path) == 1 && access(path, F_OK) == 0;
}

/* One send or receive of a rank, or its share of a gathering (peer -1). */
struct part {
    const float *from;
    float *to;
    size_t n;
    int peer;
};

/* What a rank's stream does at once. */
struct operation {
    struct ncclComm *comm;
    struct part parts[PARTS_MAX];
    uint32_t n_parts;
};

/* What the ranks of a group share. */
struct world {
    ncclUniqueId id;
    int n_ranks;
    uint32_t n_open;
    struct ncclComm *ranks[RANKS_MAX];
};

struct ncclComm {
    struct world *world;
    int rank;
    ncclResult_t result; /* CommGetAsyncError's */
    char text[200];
    bool is_aborted;
    uint64_t n_turns; /* operations that it came to, and that it is done with */
    uint64_t n_done;
    uint64_t n_put; /* operations that were put into its stream */
    long n_asks;    /* until what was put there has begun; below 0: it never does */
    const struct operation *now;
    struct ncclComm *next; /* of all that there ever were */
};

static struct ncclComm *all_comms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct world worlds[WORLDS_MAX];
static atomic_int n_left; /* fake_nccl_left() */
static _Thread_local char last_error[200];
static _Thread_local uint32_t depth;
static _Thread_local struct operation open_group;
static _Thread_local struct emu_native *group_stream;

/* Groups of ranks, and of calls, that were begun and not ended. For tests. */
int fake_nccl_left(void);

int fake_nccl_left(void) {
    return n_left;
}

static ncclResult_t refuse(const char *why) {
    snprintf(last_error, sizeof last_error, "%s", why);
    return ncclInvalidUsage;
}

/* The lock is held. */
static void break_world(struct ncclComm *comm, const char *why) {
    for (int i = 0; i < comm->world->n_ranks; i++) {
        struct ncclComm *other = comm->world->ranks[i];
        if (!other || (other->result != ncclSuccess && other->result != ncclInProgress))
            continue;
        other->result = ncclRemoteError;
        snprintf(other->text, sizeof other->text, "%s", why);
    }
    pthread_cond_broadcast(&changed);
}

ncclResult_t ncclGetVersion(int *version) {
    long asked = fault("version");
    *version = asked >= 0 ? (int)asked : 22809;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static atomic_uint n_ids;
    if (fault("nosocket") >= 0)
        return refuse("Bootstrap : no socket interface found");
    if (fault("noid") > 0)
        usleep((useconds_t)fault("noid") * 1000);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "fake %u", ++n_ids);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess ? "no error" : "an error of the fake NCCL";
}

const char *ncclGetLastError(ncclComm_t comm) {
    return comm && comm->text[0] ? comm->text : last_error;
}

/* The group of this id, or a place for it. */
static struct world *find_world(const ncclUniqueId *id, int n_ranks) {
    struct world *empty = NULL;
    for (uint32_t i = 0; i < WORLDS_MAX; i++) {
        if (worlds[i].n_ranks > 0 && memcmp(&worlds[i].id, id, sizeof *id) == 0)
            return &worlds[i];
        if (worlds[i].n_ranks == 0 && !empty)
            empty = &worlds[i];
    }
    if (empty)
        *empty = (struct world){.id = *id, .n_ranks = n_ranks};
    return empty;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
    *comm = NULL;
    if (fault("refuse") == rank)
        return refuse("CUDA driver version is insufficient for CUDA runtime version");
    if (config->magic != 0xcafebeef || config->size > sizeof *config || config->blocking != 0 ||
        config->version > NCCL_VERSION_CODE)
        return refuse("a config that is none");
    if (rank < 0 || rank >= n_ranks || n_ranks > RANKS_MAX)
        return refuse("a rank that is none");
    pthread_mutex_lock(&lock);
    struct world *world = find_world(&id, n_ranks);
    ncclResult_t result = ncclInProgress;
    if (!world || world->n_ranks != n_ranks || world->ranks[rank])
        result = refuse("no group of so many ranks, or it has this rank");
    if (result == ncclInProgress) {
        struct ncclComm *made = calloc(1, sizeof *made);
        made->world = world;
        made->rank = rank;
        made->result = ncclInProgress;
        made->next = all_comms;
        all_comms = made;
        world->ranks[rank] = made;
        world->n_open += fault("absent") != rank;
        *comm = made;
        n_left++;
        for (int i = 0; (int)world->n_open == n_ranks && i < n_ranks; i++)
            world->ranks[i]->result = ncclSuccess;
        if ((int)world->n_open == n_ranks && fault("twice") >= 0)
            break_world(made,
                        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000");
    }
    pthread_mutex_unlock(&lock);
    return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result) {
    pthread_mutex_lock(&lock);
    *result = comm->n_asks != 0 ? ncclInProgress : comm->result;
    comm->n_asks -= comm->n_asks > 0;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* What a stream still has to do names the comm: it stays, as the last thing that is known of it. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    pthread_mutex_lock(&lock);
    struct world *world = comm->world;
    if (comm->is_aborted) {
        fprintf(stderr, "a group of NCCL's is closed twice\n");
        abort();
    }
    n_left--;
    comm->is_aborted = true;
    world->ranks[comm->rank] = NULL;
    bool empty = true;
    for (int i = 0; i < world->n_ranks; i++)
        empty &= !world->ranks[i];
    if (empty)
        world->n_ranks = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* The stream's work. */

/* What `of` sends to the rank, the `nth` of these: NULL where it does not. */
static const struct part *sent_to(const struct operation *of, int rank, uint32_t nth) {
    for (uint32_t i = 0; i < of->n_parts; i++)
        if (of->parts[i].from && of->parts[i].peer == rank && nth-- == 0)
            return &of->parts[i];
    return NULL;
}

static bool is_open(const struct ncclComm *comm) {
    return !comm->is_aborted && comm->n_asks == 0 && comm->result == ncclSuccess;
}

/* All ranks have come as far as `turn` by this count of theirs. The lock is held. False: the group is at an end. */
static bool await(struct ncclComm *comm, uint64_t turn, bool done) {
    for (;;) {
        bool all = true;
        while (fault("hung") >= 0 && !is_open(comm) && !comm->is_aborted)
            pthread_cond_wait(&changed, &lock);
        if (!is_open(comm))
            return false;
        for (int i = 0; i < comm->world->n_ranks; i++) {
            const struct ncclComm *other = comm->world->ranks[i];
            all &= done ? !other || other->n_done >= turn /* or has left since */
                        : other && other->n_turns >= turn;
        }
        if (all)
            return true;
        pthread_cond_wait(&changed, &lock);
    }
}

static const char *gather(const struct ncclComm *comm, const struct part *own) {
    const struct world *world = comm->world;
    bool mixed = fault("mixed") >= 0;
    for (int i = 0; i < world->n_ranks; i++) {
        const struct operation *now = world->ranks[mixed ? world->n_ranks - 1 - i : i]->now;
        if (now->n_parts != 1 || now->parts[0].peer >= 0 || now->parts[0].n != own->n)
            return "ranks gather different things";
        memmove(own->to + (size_t)i * own->n, now->parts[0].from, own->n * sizeof *own->to);
    }
    return NULL;
}

static const char *receive(const struct ncclComm *comm, const struct operation *own) {
    uint32_t n_of[RANKS_MAX] = {0};
    for (uint32_t i = 0; i < own->n_parts; i++) {
        const struct part *part = &own->parts[i];
        if (!part->to)
            continue;
        const struct operation *now = comm->world->ranks[part->peer]->now;
        const struct part *sent = sent_to(now, comm->rank, n_of[part->peer]++);
        if (!sent || sent->n != part->n)
            return "a rank receives what another one does not send";
        memmove(part->to, sent->from, part->n * sizeof *part->to);
    }
    return NULL;
}

static bool holds(const struct emu_native *native, const struct operation *own) {
    bool all = true;
    for (uint32_t i = 0; i < own->n_parts; i++) {
        const struct part *part = &own->parts[i];
        size_t n = part->peer < 0 ? (size_t)own->comm->world->n_ranks * part->n : part->n;
        all &= !part->from || native->holds(native, part->from, part->n * sizeof *part->from);
        all &= !part->to || native->holds(native, part->to, n * sizeof *part->to);
    }
    return all;
}

/* Copies of what a rank brings: its memory is open to its own thread, while it waits here for the others to read it. */
static bool copy_own(struct operation *own) {
    bool all = true;
    for (uint32_t i = 0; i < own->n_parts; i++) {
        struct part *part = &own->parts[i];
        float *copy = part->from ? malloc(part->n * sizeof *copy) : NULL;
        if (copy)
            memcpy(copy, part->from, part->n * sizeof *copy);
        all &= !part->from || copy;
        part->from = copy;
    }
    return all;
}

static void drop_own(struct operation *own) {
    for (uint32_t i = 0; i < own->n_parts; i++)
        free((void *)own->parts[i].from);
}

static void meet(struct ncclComm *comm, struct operation *own) {
    while (fault("late") == (long)comm->n_turns + 1 && comm->rank == 1 && is_open(comm))
        pthread_cond_wait(&changed, &lock);
    uint64_t turn = ++comm->n_turns;
    const char *wrong = NULL;
    comm->now = own;
    pthread_cond_broadcast(&changed);
    if (await(comm, turn, false)) {
        if (comm->rank == 1 &&
            (fault("broken") == (long)turn || fault("hung") == (long)turn || is_cut()))
            wrong = "a link is down";
        else if (fault("mute") == (long)turn)
            wrong = NULL;
        else if (own->n_parts == 1 && own->parts[0].peer < 0)
            wrong = gather(comm, &own->parts[0]);
        else
            wrong = receive(comm, own);
    }
    if (wrong)
        break_world(comm, wrong);
    comm->n_done = turn;
    pthread_cond_broadcast(&changed);
    (void)await(comm, turn, true); /* nobody reads what this rank brought any more */
    comm->now = NULL;
}

static void work(const struct emu_native *native, const void *what) {
    struct operation own;
    memcpy(&own, what, sizeof own);
    bool is_held = holds(native, &own);
    pthread_mutex_lock(&lock);
    if (!is_held)
        break_world(own.comm, "memory that is none of the device's");
    else if (is_open(own.comm) && copy_own(&own)) {
        meet(own.comm, &own);
        drop_own(&own);
    }
    pthread_mutex_unlock(&lock);
}

/* Putting it there. */

ncclResult_t ncclGroupStart(void); /* nccl.h leaves open what they take */
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void) {
    n_left++;
    if (depth++ == 0)
        open_group = (struct operation){0}, group_stream = NULL;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    if (depth == 0)
        return refuse("a group ends that has not begun");
    n_left--;
    if (--depth > 0 || open_group.n_parts == 0)
        return ncclSuccess;
    struct ncclComm *comm = open_group.comm;
    pthread_mutex_lock(&lock);
    long turn = (long)++comm->n_put;
    bool stalls = fault("stalled") == turn && comm->rank == 1, is_slow = fault("slow") == turn;
    comm->n_asks = stalls ? -1 : is_slow ? 3 : 0;
    pthread_mutex_unlock(&lock);
    group_stream->put(group_stream, work, &open_group, sizeof open_group);
    return stalls || is_slow ? ncclInProgress : ncclSuccess;
}

static ncclResult_t add(struct ncclComm *comm, cudaStream_t stream, const struct part *part) {
    struct emu_native *native = (struct emu_native *)stream;
    if (!comm || !native || native->magic != EMU_NATIVE)
        return refuse("a stream that is none");
    if (open_group.n_parts == PARTS_MAX || (open_group.comm && open_group.comm != comm) ||
        (group_stream && group_stream != native))
        return refuse("a group of too much, or of several");
    open_group.comm = comm;
    open_group.parts[open_group.n_parts++] = *part;
    group_stream = native;
    return ncclSuccess;
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    if (type != ncclFloat)
        return refuse("only floats");
    ncclGroupStart();
    ncclResult_t result = add(comm, stream, &(struct part){from, to, n, -1});
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    if (type != ncclFloat || depth == 0 || peer < 0 || !comm || peer >= comm->world->n_ranks)
        return refuse("floats to another rank, in a group");
    if (comm->rank == 1 && open_group.n_parts == 0 && fault("untaken") == (long)comm->n_put + 1)
        return refuse("no room for what is sent");
    return add(comm, stream, &(struct part){from, NULL, n, peer});
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    if (type != ncclFloat || depth == 0 || peer < 0 || !comm || peer >= comm->world->n_ranks)
        return refuse("floats of another rank, in a group");
    return add(comm, stream, &(struct part){NULL, to, n, peer});
}
