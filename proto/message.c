#include "proto/message.h"

#include "base/utf8.h"

#include <stddef.h>
#include <string.h>

static const char *const reason_names[REASON_COUNT] = {
    [REASON_NONE] = "none",         [REASON_BUSY] = "busy",
    [REASON_TOO_LONG] = "too_long", [REASON_INVALID] = "invalid",
    [REASON_UNKNOWN] = "unknown",   [REASON_STALE] = "stale",
    [REASON_DRAINING] = "draining", [REASON_CANCELLED] = "cancelled",
    [REASON_TRANSFER] = "transfer", [REASON_LEASE] = "lease",
    [REASON_MISMATCH] = "mismatch", [REASON_NUMERICS] = "numerics",
    [REASON_GRAMMAR] = "grammar",
};

static const struct {
    const char *name;
    const char *text;
} refusals[REFUSAL_COUNT] = {
    [REFUSAL_NONE] = {"none", "nothing"},
    [REFUSAL_OTHER] = {"other", "a reason that this version does not know"},
    [REFUSAL_PROTOCOL] = {"other_protocol", "another protocol version"},
    [REFUSAL_MODEL] = {"other_model", "another model"},
    [REFUSAL_TOKENIZER] = {"other_tokenizer", "another tokenizer"},
    [REFUSAL_LIMITS] = {"bad_limits", "limits of zero"},
    [REFUSAL_IDENTITY] = {"other_worker", "not the worker that was announced"},
    [REFUSAL_NAME] = {"name_taken", "another live worker has its name"},
};

const char *message_name_fault(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n >= MESSAGE_NAME_MAX)
        return "has to have 1 to 63 bytes";
    if (!utf8_valid(name, n))
        return "is not valid UTF-8";
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at < ' ' || *at == 0x7f || *at == '/' || (at[0] == 0xc2 && at[1] < 0xa0))
            return "must not contain control characters or '/'";
    return NULL;
}

const char *worker_role_name(unsigned role) {
    static const char *const names[] = {
        [ROLE_MIXED] = "mixed", [ROLE_PREFILL] = "prefill", [ROLE_DECODE] = "decode"};
    return role < sizeof names / sizeof *names ? names[role] : NULL;
}

const char *reason_name(enum reason reason) {
    if ((unsigned)reason >= REASON_COUNT)
        return "unknown";
    return reason_names[reason];
}

const char *refusal_name(enum refusal refusal) {
    return refusals[(unsigned)refusal < REFUSAL_COUNT ? refusal : REFUSAL_OTHER].name;
}

const char *refusal_text(enum refusal refusal) {
    return refusals[(unsigned)refusal < REFUSAL_COUNT ? refusal : REFUSAL_OTHER].text;
}

void sampling_init(struct sampling *sampling) {
    *sampling = (struct sampling){.temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f};
}
