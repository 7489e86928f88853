#include "worker/ranks/meeting.h"

#include <pthread.h>
#include <stdbool.h>

static void meeting_part(const struct meeting *meeting) {
    struct error none;
    for (uint32_t rank = 0; rank < meeting->n_ranks; rank++)
        (void)!meeting->kernels->meet(meeting->all[rank], rank, 0, NULL, NULL, &none);
}

static enum status meet_by_memory(const struct meeting *meeting, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t rank = 0; rank < meeting->n_ranks && status == STATUS_OK; rank++)
        status = meeting->kernels->meet(meeting->all[rank], rank, meeting->n_ranks, meeting->all,
                                        NULL, error);
    if (status != STATUS_OK)
        meeting_part(meeting);
    return status;
}

/* A rank that meets the others in a thread of its own. */
struct guest {
    const struct meeting *meeting;
    const struct kernels_group_id *id;
    uint32_t rank;
    pthread_t thread;
    bool has_thread;
    enum status status;
    struct error error;
};

static void *meeting_come(void *arg) {
    struct guest *guest = arg;
    const struct meeting *meeting = guest->meeting;
    guest->status = meeting->kernels->meet(meeting->all[guest->rank], guest->rank, meeting->n_ranks,
                                           NULL, guest->id, &guest->error);
    return NULL;
}

static enum status meet_by_nccl(const struct meeting *meeting, struct error *error) {
    struct guest guests[COMM_RANKS_MAX];
    struct kernels_group_id id;
    TRY(meeting->kernels->group_id(meeting->all[0], &id, error));
    for (uint32_t rank = 0; rank < meeting->n_ranks; rank++) {
        struct guest *guest = &guests[rank];
        *guest = (struct guest){.meeting = meeting, .id = &id, .rank = rank};
        guest->has_thread = pthread_create(&guest->thread, NULL, meeting_come, guest) == 0;
        if (!guest->has_thread) /* the others wait for it in vain */
            guest->status = error_set(&guest->error, STATUS_NOMEM, "no thread for rank %u", rank);
    }
    enum status status = STATUS_OK;
    for (uint32_t rank = 0; rank < meeting->n_ranks; rank++) {
        const struct guest *guest = &guests[rank];
        if (guest->has_thread)
            pthread_join(guest->thread, NULL);
        /* Whom NCCL refused tells more than those who waited for him. */
        if (guest->status != STATUS_OK && (status == STATUS_OK || status == STATUS_CLOSED)) {
            status = guest->status;
            *error = guest->error;
        }
    }
    if (status != STATUS_OK)
        meeting_part(meeting);
    return status;
}

enum status meeting_hold(const struct meeting *meeting, enum sums *how, struct error *why) {
    struct error memory = {0}, nccl = {0};
    enum status status = STATUS_UNSUPPORTED;
    if (meeting->sums != SUMS_NCCL) {
        *how = SUMS_DEVICE;
        status = meet_by_memory(meeting, &memory);
    }
    if (status != STATUS_OK && meeting->sums != SUMS_DEVICE) {
        *how = SUMS_NCCL;
        status = meet_by_nccl(meeting, &nccl);
    }
    *why = *memory.text ? memory : nccl;
    if (*memory.text && *nccl.text)
        error_set(why, status, "%s; %s", memory.text, nccl.text);
    return status;
}
