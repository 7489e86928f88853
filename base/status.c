#include "base/status.h"

static const char *const names[STATUS_COUNT] = {
    [STATUS_OK] = "ok",
    [STATUS_BUSY] = "busy",
    [STATUS_NOMEM] = "no_memory",
    [STATUS_INVALID] = "invalid",
    [STATUS_NOT_FOUND] = "not_found",
    [STATUS_EXISTS] = "exists",
    [STATUS_LIMIT] = "limit",
    [STATUS_UNSUPPORTED] = "unsupported",
    [STATUS_CORRUPT] = "corrupt",
    [STATUS_CONFLICT] = "conflict",
    [STATUS_CLOSED] = "closed",
    [STATUS_TIMEOUT] = "timeout",
    [STATUS_DENIED] = "denied",
    [STATUS_IO] = "io",
};

const char *status_name(enum status status) {
    return (unsigned)status < STATUS_COUNT ? names[status] : "unknown";
}
