#include "worker/step/figures.h"

void figures_init(struct figures_box *box, uint64_t now_ns) {
    *box = (struct figures_box){.latest.at_ns = now_ns};
    pthread_mutex_init(&box->mutex, NULL);
}

void figures_fini(struct figures_box *box) {
    pthread_mutex_destroy(&box->mutex); /* a zeroed one is an unlocked one */
}

void figures_publish(struct figures_box *box, const struct figures *figures) {
    pthread_mutex_lock(&box->mutex);
    box->latest = *figures;
    pthread_mutex_unlock(&box->mutex);
}

struct figures figures_latest(struct figures_box *box) {
    pthread_mutex_lock(&box->mutex);
    struct figures latest = box->latest;
    pthread_mutex_unlock(&box->mutex);
    return latest;
}
