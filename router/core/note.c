#include "router/core/note.h"

#include "base/assert.h"
#include "router/core/core.h"

static const struct note_kind kinds[ROUTER_NOTES] = {
    [NOTE_JOINED] = {"worker joined", LOG_INFO, "name", {"pid"}},
    [NOTE_REFUSED] = {"worker refused", LOG_WARN, "name", {"pid"}},
    [NOTE_NAME_CONTESTED] = {"worker announces a name that is in use", LOG_WARN, "name", {"pid"}},
    [NOTE_LOST] = {"worker lost", LOG_WARN, "name", {"after_ms", "requests"}},
    [NOTE_LEFT] = {"worker left", LOG_INFO, "name", {"after_ms"}},
    [NOTE_FORGOTTEN] = {"worker forgotten", LOG_DEBUG, "name", {"after_ms"}},
    [NOTE_NO_SLOT] = {"no room for another worker", LOG_WARN, "name", {"workers"}},
    [NOTE_ODD_MESSAGE] = {"worker sent a message of a type that workers do not send",
                          LOG_WARN,
                          "name",
                          {0}},
    [NOTE_REQUEST_MISSING] = {"worker lost a request", LOG_INFO, "worker", {"tokens", "attempt"}},
    [NOTE_REQUEST_STILL] = {"attempt makes no progress", LOG_INFO, "worker", {"tokens", "attempt"}},
    [NOTE_NO_VERDICT] = {"hand-off not committed", LOG_INFO, "worker", {"tokens", "attempt"}},
    [NOTE_NO_LOGPROBS] = {"tokens without their logprobs",
                          LOG_INFO,
                          "worker",
                          {"tokens", "attempt"}},
    [NOTE_INEXACT] = {"stream continues with other numerics",
                      LOG_INFO,
                      "worker",
                      {"tokens", "attempt"}},
    [NOTE_ASIDE] = {"worker put aside: it gets no requests",
                    LOG_WARN,
                    "name",
                    {"failed", "for_ms"}},
    [NOTE_TRUSTED] = {"worker no longer put aside", LOG_INFO, "name", {"after_ms"}},
    [NOTE_PAIR_FAILED] = {"hand-over failed: these two are not paired",
                          LOG_WARN,
                          "name",
                          {"for_ms"}},
    [NOTE_CUT_OFF] = {"worker gets whole requests only", LOG_WARN, "name", {"for_ms"}},
    [NOTE_ALONE] = {"request runs alone", LOG_WARN, "worker", {"tokens", "attempt"}},
    [NOTE_WAITS] = {"waits for a worker", LOG_DEBUG, "worker", {"tokens", "queued"}},
    [NOTE_PLACED] = {"placed", LOG_DEBUG, "worker", {"tokens", "queued_us"}},
    [NOTE_SUBMITTED] = {"dispatched", LOG_DEBUG, "worker", {"tokens", "cached_tokens"}},
    [NOTE_REPLACED] = {"attempt over", LOG_DEBUG, "worker", {"tokens", "losses"}},
    [NOTE_POISONED] = {"request poisoned", LOG_WARN, "worker", {"tokens", "attempt"}},
};

static void router_note_say(const struct router *router, const struct note *note) {
    if (router->sink.note)
        router->sink.note(router->sink.context, note);
}

static struct note router_note_new(enum router_note kind, const char *name, uint64_t value,
                                   uint64_t more) {
    ASSERT(kind < ROUTER_NOTES);
    return (struct note){.kind = &kinds[kind],
                         .event = kind,
                         .name = name,
                         .request = NOTE_NO_REQUEST,
                         .values = {value, more}};
}

static struct note router_note_about_request(enum router_note kind, const struct request *req,
                                             const char *name, uint64_t value, uint64_t more) {
    struct note note = router_note_new(kind, name, value, more);
    note.request = req->spec.user;
    note.attempt = (struct note_id){req->id.hi, req->id.lo, req->attempt};
    return note;
}

void note_name(const struct router *router, enum router_note kind, const char *name,
               const char *reason, uint64_t value, uint64_t more) {
    struct note note = router_note_new(kind, name, value, more);
    note.reason = reason;
    router_note_say(router, &note);
}

void note_worker(const struct router *router, enum router_note kind, const struct slot *slot,
                 const char *reason, uint64_t value, uint64_t more) {
    note_name(router, kind, slot->announce.name, reason, value, more);
}

void note_pair(const struct router *router, const struct slot *prefill, const struct slot *decode,
               const char *reason, uint64_t for_ms) {
    struct note note = router_note_new(NOTE_PAIR_FAILED, prefill->announce.name, for_ms, 0);
    note.reason = reason;
    note.key = "to";
    note.word = decode->announce.name;
    router_note_say(router, &note);
}

void note_request(const struct router *router, enum router_note kind, const struct request *req,
                  const struct slot *slot) {
    struct note note = router_note_about_request(kind, req, slot ? slot->announce.name : NULL,
                                                 req->n_emitted, req->attempt);
    router_note_say(router, &note);
}

void note_decision(const struct router *router, enum router_note kind, const struct request *req,
                   const char *name, const char *reason, uint64_t value, uint64_t more) {
    struct note note = router_note_about_request(kind, req, name, value, more);
    note.reason = reason;
    if (req->prefill.slot != SLOT_NONE) {
        note.key = "prefill";
        note.word = router->fleet.slots[req->prefill.slot].announce.name;
    }
    router_note_say(router, &note);
}

void note_waits(const struct router *router, struct request *req, const char *reason) {
    if (req->waits == reason)
        return;
    req->waits = reason;
    note_decision(router, NOTE_WAITS, req, NULL, reason, request_n_tokens(req), router->n_waiting);
}
