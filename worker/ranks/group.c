#include "worker/ranks/group.h"

#include "base/assert.h"
#include "base/cores.h"
#include "base/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE  4096u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Fills the sizes; the collectives lie first, both begin at a page. */
static enum status rank_group_lay_out(struct group_memory *group, const struct group_sizes *sizes,
                                      size_t *board_at) {
    size_t n_board;
    TRY(board_bytes(&sizes->board, &n_board));
    group->n_collectives =
        comm_kind_of_host()->shared_bytes(sizes->board.n_ranks, (size_t)sizes->n_floats);
    *board_at = (group->n_collectives + PAGE - 1) / PAGE * PAGE;
    group->n_bytes = (*board_at + n_board + PAGE - 1) / PAGE * PAGE;
    return STATUS_OK;
}

static enum status rank_group_map(struct group_memory *group, size_t board_at) {
    void *memory = mmap(NULL, group->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, group->fd, 0);
    if (memory == MAP_FAILED)
        return STATUS_NOMEM;
    dump_leave_out(memory, group->n_bytes); /* the batches' tokens */
    group->memory = memory;
    group->collectives = memory;
    group->board = (struct board *)(void *)((unsigned char *)memory + board_at);
    return STATUS_OK;
}

/* The size is sealed and the pages are there: no access of a follower's can raise SIGBUS. */
static enum status rank_group_make(struct group_memory *group, size_t board_at) {
    int refused;
    group->fd = memfd_create("tandem-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (group->fd < 0)
        return STATUS_IO;
    do {
        refused = posix_fallocate(group->fd, 0, (off_t)group->n_bytes);
    } while (refused == EINTR);
    errno = refused ? refused : errno;
    if (refused)
        return STATUS_NOMEM;
    if (fcntl(group->fd, F_ADD_SEALS, SEALS) != 0)
        return STATUS_IO;
    return rank_group_map(group, board_at);
}

enum status group_memory_make(struct group_memory *group, const struct group_sizes *sizes,
                              struct error *error) {
    size_t board_at;
    *group = (struct group_memory){.fd = -1};
    if (rank_group_lay_out(group, sizes, &board_at) != STATUS_OK)
        return error_set(error, STATUS_LIMIT, "steps for %u ranks are more than memory can be",
                         sizes->board.n_ranks);
    enum status status = rank_group_make(group, board_at);
    if (status != STATUS_OK) {
        int refused = errno;
        group_memory_fini(group);
        return error_set(error, status, "shared memory for %u ranks: %s", sizes->board.n_ranks,
                         strerror(refused));
    }
    comm_kind_of_host()->shared_init(group->collectives, sizes->board.n_ranks,
                                     (size_t)sizes->n_floats);
    board_init(group->board, &sizes->board);
    return STATUS_OK;
}

enum status group_memory_map(struct group_memory *group, int *fd, const struct group_sizes *sizes,
                             struct error *error) {
    size_t board_at;
    struct stat info;
    *group = (struct group_memory){.fd = *fd};
    *fd = -1;
    enum status status = rank_group_lay_out(group, sizes, &board_at);
    int seals = fcntl(group->fd, F_GET_SEALS);
    if (status == STATUS_OK &&
        (seals < 0 || (seals & SEALS) != SEALS || fstat(group->fd, &info) != 0 ||
         (uint64_t)info.st_size != group->n_bytes))
        status = STATUS_INVALID;
    if (status == STATUS_OK)
        status = rank_group_map(group, board_at);
    if (status == STATUS_OK && !board_fits(group->board, &sizes->board))
        status = STATUS_INVALID;
    if (status == STATUS_OK)
        return status;
    group_memory_fini(group);
    return error_set(error, status, "what the leader shares is not memory of this group: %s",
                     status_name(status));
}

void group_memory_fini(struct group_memory *group) {
    if (group->memory)
        munmap(group->memory, group->n_bytes);
    if (group->fd > 0)
        close(group->fd);
    memset(group, 0, sizeof *group);
}

static void rank_group_run_steps(struct rank_thread *thread) {
    struct event_count_patience patience = event_count_patience(thread->options.n_ranks);
    struct board_step step;
    uint32_t turn = 0;
    while (board_take(thread->board, &turn, &patience, &step)) {
        rank_run(&thread->rank, &step.batch, step.rows, step.n_rows, NULL, NULL);
        rank_end(&thread->rank);
        board_done(thread->board);
    }
}

static void *rank_group_rank_main(void *arg) {
    struct rank_thread *thread = arg;
    thread->status = rank_open(&thread->rank, &thread->options, &thread->error);
    event_count_advance(&thread->opened);
    if (thread->status == STATUS_OK)
        rank_group_run_steps(thread);
    return NULL;
}

static enum status rank_group_start(struct rank_thread *thread, const struct rank_options *options,
                                    uint32_t rank, const struct group_memory *group,
                                    struct error *error) {
    *thread = (struct rank_thread){.options = *options, .board = group->board};
    TRY(comm_kind_of_host()->open(group->collectives, group->n_collectives, rank, &thread->comm,
                                  error));
    thread->options.rank = rank;
    thread->options.comm = thread->comm;
    if (pthread_create(&thread->thread, NULL, rank_group_rank_main, thread) == 0)
        return STATUS_OK;
    comm_close(thread->comm);
    return error_set(error, STATUS_NOMEM, "no thread for rank %u", rank);
}

enum status rank_threads_start(struct rank_threads *threads, const struct rank_options *options,
                               uint32_t n, const struct group_memory *group, struct error *error) {
    *threads = (struct rank_threads){.n = n};
    if (n == 0)
        return STATUS_OK;
    threads->threads = calloc(n, sizeof *threads->threads);
    if (!threads->threads)
        return error_set(error, STATUS_NOMEM, "no memory for %u ranks", n);
    for (; threads->n_started < n; threads->n_started++)
        TRY(rank_group_start(&threads->threads[threads->n_started], options,
                             options->rank + threads->n_started, group, error));
    return STATUS_OK;
}

enum status rank_threads_wait(struct rank_threads *threads, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < threads->n_started; i++) {
        struct rank_thread *thread = &threads->threads[i];
        struct event_count_patience patience = {0};
        (void)event_count_wait(&thread->opened, 0, &patience);
        if (status != STATUS_OK || thread->status == STATUS_OK)
            continue;
        status = thread->status;
        *error = thread->error;
        error_prefix(error, "rank %u of %u", thread->options.rank, thread->options.n_ranks);
    }
    return status;
}

void rank_threads_stop(struct rank_threads *threads, const struct group_memory *group) {
    if (group->board)
        board_close(group->board);
    for (uint32_t i = 0; i < threads->n_started; i++) {
        struct rank_thread *thread = &threads->threads[i];
        pthread_join(thread->thread, NULL);
        rank_close(&thread->rank);
        comm_close(thread->comm);
    }
    free(threads->threads);
    memset(threads, 0, sizeof *threads);
}

uint32_t group_threads_each(uint32_t n_threads, uint32_t n_here, uint32_t n_ranks) {
    uint32_t n_share = n_threads > 0 ? n_here : n_ranks;
    ASSERT(n_share > 0);
    if (n_threads == 0)
        n_threads = cores_usable();
    return n_threads > n_share ? n_threads / n_share : 1;
}
