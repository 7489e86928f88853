#include "worker/core/note.h"

#include "base/assert.h"
#include "worker/core/engine_state.h"

#include <string.h>

static const struct note_kind kinds[ENGINE_NOTES] = {
    [NOTE_SESSION_OVER] = {"router's session is over", LOG_WARN, "router", {"silent_ms"}},
    [NOTE_ROUTER_LEFT] = {"router has left", LOG_INFO, "router", {"silent_ms"}},
    [NOTE_SESSION_REFUSED] = {"router refuses this worker", LOG_WARN, "router", {0}},
    [NOTE_PEER_DROPPED] = {"KV link given up", LOG_INFO, "peer", {"in_flight"}},
    [NOTE_RESERVED] = {"reserved", LOG_DEBUG, "router", {"tokens", "cached_tokens"}},
    [NOTE_RESERVE_REFUSED] = {"reserve refused", LOG_DEBUG, "router", {"tokens"}},
    [NOTE_SUBMITTED] = {"submitted", LOG_DEBUG, "router", {"prompt_tokens", "tokens"}},
    [NOTE_SUBMIT_REFUSED] = {"submit refused", LOG_DEBUG, "router", {"prompt_tokens", "tokens"}},
    [NOTE_BLOCKED] = {"waits for blocks", LOG_DEBUG, "router", {"blocks_missing"}},
    [NOTE_SCHEDULED] = {"scheduled", LOG_DEBUG, "router", {"waited_us", "cached_tokens"}},
    [NOTE_PREEMPTED] = {"preempted", LOG_DEBUG, "router", {"blocks_missing"}},
    [NOTE_NOT_AHEAD] = {"no step ahead", LOG_DEBUG, "router", {"rows"}},
    [NOTE_FIRST_TOKEN] = {"first token", LOG_DEBUG, "router", {"index", "after_us"}},
    [NOTE_HANDED_OVER] = {"handed over", LOG_DEBUG, "peer", {"tokens", "transfer_us"}},
    [NOTE_TRANSFER_ENDED] = {"transfer ended", LOG_DEBUG, "peer", {"tokens", "transfer_us"}},
    [NOTE_ENDED] = {"ended", LOG_DEBUG, "router", {"tokens"}},
    [NOTE_GIVEN_UP] = {"given up", LOG_DEBUG, "router", {"tokens"}},
    [NOTE_FORGOTTEN] = {"forgotten", LOG_DEBUG, "router", {"tokens"}},
};

static const char *const phase_names[] = {
    [PHASE_PREFILL] = "prefill", [PHASE_DECODE] = "decode", [PHASE_BOTH] = "both"};
static const char *const side_names[] = {
    [HANDOFF_NONE] = "none", [HANDOFF_IN] = "in", [HANDOFF_OUT] = "out"};
static const char *const finish_names[] = {[FINISH_NONE] = "none",
                                           [FINISH_STOP] = "stop",
                                           [FINISH_LENGTH] = "length",
                                           [FINISH_ERROR] = "error"};

static void engine_note_say(const struct engine *engine, const struct note *note) {
    if (engine->sink.note)
        engine->sink.note(engine->sink.context, note);
}

static struct note_id engine_note_id(struct request_id req, uint32_t attempt) {
    return (struct note_id){.hi = req.hi, .lo = req.lo, .attempt = attempt};
}

/* The codec lets no trace in whose id is zero. */
static void engine_note_set_sequence(struct note *note, const struct sequence *sequence) {
    static const uint8_t none[MESSAGE_TRACE_BYTES];
    const uint8_t *trace = sequence->trace.trace_id;
    note->attempt = engine_note_id(sequence->req, sequence->attempt);
    note->trace = memcmp(trace, none, sizeof none) != 0 ? trace : NULL;
}

static struct note engine_note_new(enum engine_note kind, const char *reason) {
    ASSERT(kind < ENGINE_NOTES);
    return (struct note){
        .kind = &kinds[kind], .event = kind, .reason = reason, .request = NOTE_NO_REQUEST};
}

void note_peer_link(const struct engine *engine, enum engine_note kind,
                    const struct peer_link *peer_link, const char *reason) {
    struct note note = engine_note_new(kind, reason);
    note.name = peer_link->name;
    note.values[0] = kind == NOTE_PEER_DROPPED ? peer_link->n_in_flight
                                               : (engine->now_ns - peer_link->heard_ns) / 1000000;
    engine_note_say(engine, &note);
}

static const char *engine_note_peer_link(const struct engine *engine, uint32_t peer_link) {
    return peer_link == PEER_LINK_NONE ? NULL : engine->peer_links.links[peer_link].name;
}

static void engine_note_set_word(struct note *note, const char *key, const char *word) {
    note->key = key;
    note->word = word;
}

void note_sequence(const struct engine *engine, enum engine_note kind,
                   const struct sequence *sequence, const char *reason, uint64_t value,
                   uint64_t more) {
    struct note note = engine_note_new(kind, reason);
    engine_note_set_sequence(&note, sequence);
    note.values[0] = value;
    note.values[1] = more;
    note.name = engine_note_peer_link(engine, sequence->peer_link);
    if (kind == NOTE_SUBMITTED)
        engine_note_set_word(&note, "phase", phase_names[sequence->phase]);
    else if (kind == NOTE_ENDED)
        engine_note_set_word(&note, "finish", finish_names[sequence->finish]);
    if (kind == NOTE_HANDED_OVER || kind == NOTE_TRANSFER_ENDED) {
        engine_note_set_word(&note, "side", side_names[sequence->handoff.side]);
        note.name = sequence->handoff.peer[0]
                        ? sequence->handoff.peer
                        : engine_note_peer_link(engine, sequence->handoff.peer_link);
    }
    engine_note_say(engine, &note);
}

void note_preempted(const struct engine *engine, const struct sequence *sequence,
                    const struct sequence *other, const char *reason, uint32_t blocks_missing) {
    struct note note = engine_note_new(NOTE_PREEMPTED, reason);
    note.name = engine_note_peer_link(engine, sequence->peer_link);
    engine_note_set_sequence(&note, sequence);
    note.other = engine_note_id(other->req, other->attempt);
    note.values[0] = blocks_missing;
    engine_note_say(engine, &note);
}

void note_reserve_refused(const struct engine *engine, const struct peer_link *router,
                          const struct reserve *reserve, enum reason reason) {
    struct note note = engine_note_new(NOTE_RESERVE_REFUSED, reason_name(reason));
    note.name = router->name;
    note.attempt = engine_note_id(reserve->req, reserve->attempt);
    note.values[0] = reserve->n_tokens;
    engine_note_say(engine, &note);
}

void note_submit_refused(const struct engine *engine, const struct peer_link *router,
                         const struct submit *submit, enum reason reason) {
    struct note note = engine_note_new(NOTE_SUBMIT_REFUSED, reason_name(reason));
    note.name = router->name;
    note.attempt = engine_note_id(submit->req, submit->attempt);
    note.trace = submit->has_trace ? submit->trace.trace_id : NULL;
    if (submit->phase <= PHASE_BOTH)
        engine_note_set_word(&note, "phase", phase_names[submit->phase]);
    note.values[0] = submit->n_prompt;
    note.values[1] = submit->n_tokens;
    engine_note_say(engine, &note);
}
