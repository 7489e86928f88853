#include "router/serving.h"

#include "router/core/router.h"

uint32_t serving_context(const struct serving *serving) {
    uint32_t most = 0;
    for (uint32_t slot = 0; slot < MESSAGE_PEERS_MAX; slot++) {
        struct worker_view view;
        if (router_worker(serving->core, slot, &view) == STATUS_OK && view.state == SLOT_READY &&
            view.welcome.context > most)
            most = view.welcome.context;
    }
    return most > 0 && most < serving->context ? most : serving->context;
}

uint32_t serving_n_workers(const struct serving *serving) {
    uint32_t n = 0;
    struct worker_view view;
    for (uint32_t slot = 0; slot < MESSAGE_PEERS_MAX; slot++)
        n += router_worker(serving->core, slot, &view) == STATUS_OK && view.state == SLOT_READY;
    return n;
}

bool serving_ready(const struct serving *serving) {
    return !serving->draining && router_ready(serving->core);
}
