#include "worker/comm/comm.h"

#include "base/assert.h"

#include <stddef.h>

extern const struct comm_kind comm_shm;

const struct comm_kind *const comm_table[] = {&comm_shm, NULL};

static void comm_check_hooks(const struct comm_kind *kind) {
    ASSERT(kind->name && kind->ranks_max > 0 && kind->ranks_max <= COMM_RANKS_MAX);
    ASSERT(kind->shared_bytes && kind->shared_init);
    ASSERT(kind->open && kind->close);
    ASSERT(kind->all_reduce && kind->gather && kind->barrier);
    ASSERT(kind->abort && kind->health);
}

const struct comm_kind *comm_kind_of_host(void) {
    comm_check_hooks(comm_table[0]);
    return comm_table[0];
}
