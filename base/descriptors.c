#include "base/descriptors.h"

#include <sys/resource.h>

enum status descriptors_need(unsigned n_needed, struct error *error) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return STATUS_OK; /* the call that opens one too many reports it */
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    if (limit.rlim_cur >= n_needed)
        return STATUS_OK;
    return error_set(error, STATUS_LIMIT,
                     "ulimit -n: %llu open files are too few, at least %u are needed",
                     (unsigned long long)limit.rlim_cur, n_needed);
}
