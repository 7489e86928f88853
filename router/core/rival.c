#include "router/core/rival.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/note.h"
#include "router/core/refuse.h"

static bool rival_holds(const struct slot *slot) {
    return slot_in_session(slot) || slot->state == SLOT_SUSPECT;
}

struct slot *rival_holder(const struct router *router, const struct slot *slot) {
    fleet_each(other, &router->fleet) {
        if (other != slot && rival_holds(other) &&
            fleet_same_name(other->announce.name, slot->announce.name))
            return other;
    }
    return NULL;
}

bool rival_contests(struct router *router, struct slot *slot) {
    struct slot *holder = rival_holder(router, slot);
    if (!holder)
        return false;
    note_worker(router, NOTE_NAME_CONTESTED, slot, NULL, slot->welcome.pid, 0);
    slot->refusal = REFUSAL_NAME;
    slot->contested_ns = router->now_ns;
    slot->asked_own_ns = router->own_ns;
    fleet_set_state(router, slot, SLOT_RIVAL);
    if (slot_in_session(holder))
        fleet_ping(router, holder);
    return true;
}

void rival_answered(struct router *router, const struct slot *holder, uint64_t t_ns) {
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_RIVAL && slot->contested_ns <= t_ns &&
            fleet_same_name(slot->announce.name, holder->announce.name))
            refuse_worker(router, slot, REFUSAL_NAME, holder);
    }
}

bool rival_outlasts(const struct router *router, const struct slot *rival,
                    const struct slot *holder, uint64_t bound_ns) {
    ASSERT(rival->state == SLOT_RIVAL);
    uint64_t own_ns = router->own_ns;
    if (own_ns - rival->asked_own_ns <= bound_ns)
        return false;
    return holder->state == SLOT_SUSPECT || own_ns - holder->progress_own_ns > bound_ns;
}

struct slot *rival_heir(const struct router *router, const char *name) {
    struct slot *first = NULL;
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_RIVAL && fleet_same_name(slot->announce.name, name) &&
            (!first || slot->contested_ns < first->contested_ns))
            first = slot;
    }
    return first && !rival_holder(router, first) ? first : NULL;
}
