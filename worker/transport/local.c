/* Within one process: a ring that both ends hold. For workers that share a process, as tests do.
 *
 * Locking: `mutex` guards the table and each ring's count of holders. What lies in a ring is
 * ordered by the messages of the KV link, as with shm. */
#include "base/random.h"
#include "proto/message.h"
#include "worker/transport/transport.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RINGS_MAX 256

extern const struct transport transport_local;

struct local_ring {
    uint64_t id;          /* random, never used again */
    unsigned char *bytes; /* owned (n_bytes) */
    uint64_t n_bytes;
    uint32_t n_holders;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct local_ring *rings[RINGS_MAX];

struct local_sender {
    struct transport_sender head;
    struct local_ring *ring; /* held */
};

struct local_receiver {
    struct transport_receiver head;
    struct local_ring *ring; /* held */
};

static bool transport_local_reaches(const struct transport_place *from,
                                    const struct transport_place *to) {
    return from->host == to->host && from->pid != 0 && from->pid == to->pid;
}

/* Another holder of the ring of this id, or NULL. */
static struct local_ring *transport_local_ring_hold(uint64_t id) {
    struct local_ring *found = NULL;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < RINGS_MAX; i++)
        if (rings[i] && rings[i]->id == id)
            found = rings[i];
    if (found)
        found->n_holders++;
    pthread_mutex_unlock(&mutex);
    return found;
}

/* A holder less. The sender leaves the table too, so that no receiver comes after it. */
static void transport_local_ring_leave(struct local_ring *ring, bool sender) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; sender && i < RINGS_MAX; i++)
        if (rings[i] == ring)
            rings[i] = NULL;
    uint32_t n_holders = --ring->n_holders;
    pthread_mutex_unlock(&mutex);
    if (n_holders > 0)
        return;
    free(ring->bytes);
    free(ring);
}

static enum status transport_local_ring_enter(struct local_ring *ring) {
    enum status status = STATUS_LIMIT;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < RINGS_MAX && status != STATUS_OK; i++) {
        if (rings[i])
            continue;
        rings[i] = ring;
        status = STATUS_OK;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static void transport_local_sender_close(struct transport_sender *sender) {
    struct local_sender *local = (struct local_sender *)sender;
    transport_local_ring_leave(local->ring, true);
    free(local);
}

static enum status transport_local_sender_open(const struct transport_options *options,
                                               struct transport_sender **sender,
                                               struct error *error) {
    struct local_sender *local = calloc(1, sizeof *local);
    struct local_ring *ring = calloc(1, sizeof *ring);
    unsigned char *bytes = malloc(options->ring_bytes);
    if (!local || !ring || !bytes) {
        free(local);
        free(ring);
        free(bytes);
        return error_set(error, STATUS_NOMEM, "local: no memory for a KV link");
    }
    *ring = (struct local_ring){
        .id = random_seed(), .bytes = bytes, .n_bytes = options->ring_bytes, .n_holders = 1};
    local->head.transport = &transport_local;
    local->head.memory = bytes;
    local->ring = ring;
    stage_init(&local->head.stage, options->ring_bytes);
    if (options->first_bytes > 0)
        stage_use(&local->head.stage, options->first_bytes);
    if (transport_local_ring_enter(ring) != STATUS_OK) {
        transport_local_sender_close(&local->head);
        return error_set(error, STATUS_LIMIT, "local: %d links are the most", RINGS_MAX);
    }
    *sender = &local->head;
    return STATUS_OK;
}

static uint32_t transport_local_offer(const struct transport_sender *sender,
                                      uint8_t bytes[TRANSPORT_OFFER_MAX]) {
    const struct local_sender *local = (const struct local_sender *)sender;
    memcpy(bytes, &local->ring->id, sizeof local->ring->id);
    return sizeof local->ring->id;
}

static enum status transport_local_receiver_open(const uint8_t *bytes, uint32_t n,
                                                 struct transport_receiver **out,
                                                 struct error *error) {
    uint64_t id;
    if (n != sizeof id)
        return error_set(error, STATUS_INVALID, "local: an offer of %u bytes instead of %zu", n,
                         sizeof id);
    memcpy(&id, bytes, sizeof id);
    struct local_receiver *local = calloc(1, sizeof *local);
    if (!local)
        return error_set(error, STATUS_NOMEM, "local: no memory for a KV link");
    local->ring = transport_local_ring_hold(id);
    if (!local->ring) {
        free(local);
        return error_set(error, STATUS_CLOSED, "local: the sender's ring is gone");
    }
    local->head = (struct transport_receiver){.transport = &transport_local,
                                              .ring = local->ring->bytes,
                                              .ring_bytes = local->ring->n_bytes};
    *out = &local->head;
    return STATUS_OK;
}

static void transport_local_receiver_close(struct transport_receiver *receiver) {
    struct local_receiver *local = (struct local_receiver *)receiver;
    transport_local_ring_leave(local->ring, false);
    free(local);
}

const struct transport transport_local = {
    .name = "local",
    .is_inside = true,
    .reaches = transport_local_reaches,
    .sender_open = transport_local_sender_open,
    .sender_close = transport_local_sender_close,
    .offer = transport_local_offer,
    .receiver_open = transport_local_receiver_open,
    .receiver_close = transport_local_receiver_close,
};
