#include "base/patience.h"

#include "base/clock.h"

#define FIRST_NS (5 * NS_PER_S)
#define AGAIN_NS (60 * NS_PER_S)

enum patience_turn patience_turn(struct patience *patience, uint64_t now_ns, bool waits) {
    if (!waits) {
        bool said = patience->said_ns != 0;
        *patience = (struct patience){0};
        return said ? PATIENCE_OVER : PATIENCE_QUIET;
    }
    if (patience->since_ns == 0)
        patience->since_ns = now_ns;
    uint64_t due_ns =
        patience->said_ns != 0 ? patience->said_ns + AGAIN_NS : patience->since_ns + FIRST_NS;
    if (now_ns < due_ns)
        return PATIENCE_QUIET;
    patience->said_ns = now_ns;
    return PATIENCE_SAY;
}

unsigned patience_s(const struct patience *patience, uint64_t now_ns) {
    return patience->since_ns == 0 ? 0 : (unsigned)((now_ns - patience->since_ns) / NS_PER_S);
}
