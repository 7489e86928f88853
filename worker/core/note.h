/* worker/core/note.h: what the worker's core tells the log. */
#pragma once

#include "base/note.h"

struct engine;
struct outlet;

enum engine_note {
    NOTE_SESSION_OVER,    /* with a router that did not end it: its requests are dropped */
    NOTE_SESSION_REFUSED, /* a router gives this worker nothing */
    NOTE_PEER_DROPPED,    /* a KV link is given up */
    ENGINE_NOTES
};

/* About the outlet's other end. `reason` is a constant. */
void note_outlet(const struct engine *engine, enum engine_note kind, const struct outlet *outlet,
                 const char *reason);
