/* base/status.h: what a call that can fail answers.
 *
 * Functions return enum status; results come last and are untouched on failure. STATUS_BUSY is a
 * normal answer ("not now"), not a failure. Callers that own nothing yet pass errors
 * on with TRY. */
#pragma once

enum status {
    STATUS_OK = 0,
    STATUS_BUSY,        /* not now: try again after the next event */
    STATUS_NOMEM,       /* an allocation sized by input or configuration failed */
    STATUS_INVALID,     /* the caller's or a peer's input breaks a rule */
    STATUS_NOT_FOUND,   /* no such thing */
    STATUS_EXISTS,      /* there is one already */
    STATUS_LIMIT,       /* a written bound was reached */
    STATUS_UNSUPPORTED, /* well formed, but nothing here does it */
    STATUS_CORRUPT,  /* bytes that contradict themselves: checksum, truncation, impossible sizes */
    STATUS_CONFLICT, /* contradicts what is in force: stale attempt, generation, incarnation */
    STATUS_CLOSED,   /* the other end is gone */
    STATUS_TIMEOUT,  /* a deadline passed */
    STATUS_DENIED,   /* not allowed */
    STATUS_IO,       /* the operating system refused; errno says why */
    STATUS_COUNT
};

#define NODISCARD __attribute__((warn_unused_result))

/* Returns from the calling function with the status of `call` unless it is STATUS_OK. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (call);                                                          \
        if (try_status_ != STATUS_OK)                                                              \
            return try_status_;                                                                    \
    } while (0)

/* A constant lower-case word for logs and metrics, for example "not_found". */
const char *status_name(enum status status);
