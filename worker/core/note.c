#include "worker/core/note.h"

#include "base/assert.h"
#include "worker/core/engine_state.h"

static const struct note_kind kinds[ENGINE_NOTES] = {
    [NOTE_SESSION_OVER] = {"router's session is over", LOG_WARN, "router", {"silent_ms"}},
    [NOTE_SESSION_REFUSED] = {"router refuses this worker", LOG_WARN, "router", {0}},
    [NOTE_PEER_DROPPED] = {"KV link given up", LOG_INFO, "peer", {"in_flight"}},
};

void note_outlet(const struct engine *engine, enum engine_note kind, const struct outlet *outlet,
                 const char *reason) {
    ASSERT(kind < ENGINE_NOTES);
    uint64_t value = kind == NOTE_PEER_DROPPED ? outlet->n_in_flight
                                               : (engine->now_ns - outlet->heard_ns) / 1000000;
    struct note note = {.kind = &kinds[kind],
                        .name = outlet->name,
                        .reason = reason,
                        .request = NOTE_NO_REQUEST,
                        .values = {value}};
    if (engine->sink.note)
        engine->sink.note(engine->sink.context, &note);
}
