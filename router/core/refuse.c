#include "router/core/refuse.h"

#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/note.h"

#include <string.h>

enum refusal refuse_why(const struct router *router, const struct slot *slot) {
    const struct router_config *own = &router->config;
    const struct welcome *welcome = &slot->welcome;
    if (welcome->major != PROTO_MAJOR)
        return REFUSAL_PROTOCOL;
    if (welcome->incarnation != slot->announce.incarnation ||
        !fleet_same_name(welcome->name, slot->announce.name))
        return REFUSAL_IDENTITY;
    if (welcome->kv.block_tokens == 0 || welcome->context == 0 || welcome->max_seqs == 0)
        return REFUSAL_LIMITS;
    if (memcmp(own->model_fp, welcome->model_fp, FINGERPRINT_BYTES) != 0)
        return REFUSAL_MODEL;
    if (memcmp(own->tokenizer_fp, welcome->tokenizer_fp, FINGERPRINT_BYTES) != 0)
        return REFUSAL_TOKENIZER;
    return REFUSAL_NONE;
}

void refuse_worker(struct router *router, struct slot *slot, enum refusal refusal,
                   const struct slot *holder) {
    if (slot->refusal != refusal || slot->state == SLOT_RIVAL) /* said once, not each time */
        note_worker(router, NOTE_REFUSED, slot, refusal_name(refusal), slot->welcome.pid, 0);
    slot->refusal = refusal;
    /* A link of another protocol is closed: the rest speaks of things that may mean others there.
     * The worker at another's endpoint is not the one that is refused. */
    if (refusal == REFUSAL_PROTOCOL || refusal == REFUSAL_IDENTITY) {
        fleet_unlink(router, slot);
    } else {
        struct message message = {.type = MESSAGE_RESET};
        struct reset *reset = &message.u.reset;
        *reset = (struct reset){.reason = REASON_MISMATCH, .refusal = refusal};
        if (holder) {
            reset->incarnation = holder->announce.incarnation;
            memcpy(reset->endpoint, holder->announce.endpoint, sizeof reset->endpoint);
        }
        fleet_send(router, slot, &message);
    }
    fleet_set_state(router, slot, SLOT_REFUSED);
}
