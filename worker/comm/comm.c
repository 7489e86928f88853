#include "worker/comm/comm.h"

#include "base/assert.h"

#include <string.h>

extern const struct comm_kind comm_self;
extern const struct comm_kind comm_shm;

const struct comm_kind *const comm_table[] = {&comm_self, &comm_shm, NULL};

static void check_hooks(const struct comm_kind *kind) {
    ASSERT(kind->name && kind->ranks_max > 0 && kind->ranks_max <= COMM_RANKS_MAX);
    ASSERT(kind->shared_bytes && kind->shared_init);
    ASSERT(kind->open && kind->close);
    ASSERT(kind->all_reduce && kind->gather && kind->barrier);
    ASSERT(kind->abort && kind->health);
}

const struct comm_kind *comm_find(const char *name) {
    for (const struct comm_kind *const *row = comm_table; *row; row++) {
        check_hooks(*row);
        if (strcmp((*row)->name, name) == 0)
            return *row;
    }
    return NULL;
}
