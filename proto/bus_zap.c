/* Who may come in: the ZAP handler (RFC 27) of one context.
 *
 * It has a thread of its own, because the bus's owner may be in the middle of a step for as long as
 * a handshake is allowed to last. The thread owns the socket; it ends when the context
 * shuts down. */
#include "proto/bus_internal.h"

#include <string.h>

#define N_FRAMES    7 /* version, id, domain, address, routing id, mechanism, key */
#define FRAME_BYTES 256
#define KEY_BYTES   32

static void bus_zap_reply(void *zmq, const char *id, size_t n_id, bool ok) {
    zmq_send(zmq, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(zmq, id, n_id, ZMQ_SNDMORE);
    zmq_send(zmq, ok ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq_send(zmq, ok ? "OK" : "unknown key", ok ? 2 : 11, ZMQ_SNDMORE);
    zmq_send(zmq, "", 0, ZMQ_SNDMORE);
    zmq_send(zmq, "", 0, 0);
}

static void *bus_zap_run(void *argument) {
    struct zap *zap = argument;
    uint8_t wanted[KEY_BYTES];
    zmq_z85_decode(wanted, zap->client_public);
    for (;;) {
        char frames[N_FRAMES][FRAME_BYTES];
        size_t sizes[N_FRAMES] = {0};
        int n = 0;
        int more = 1;
        while (more) {
            char ignored[FRAME_BYTES];
            int got = zmq_recv(zap->zmq, n < N_FRAMES ? frames[n] : ignored, FRAME_BYTES, 0);
            if (got < 0) {
                if (zmq_errno() == EINTR)
                    continue;
                zmq_close(zap->zmq); /* the context is shutting down */
                return NULL;
            }
            if (n < N_FRAMES)
                sizes[n] = got > FRAME_BYTES ? 0 : (size_t)got;
            n++;
            size_t n_more = sizeof more;
            zmq_getsockopt(zap->zmq, ZMQ_RCVMORE, &more, &n_more);
        }
        bool ok = n == N_FRAMES && sizes[5] == 5 && memcmp(frames[5], "CURVE", 5) == 0 &&
                  sizes[6] == KEY_BYTES && memcmp(frames[6], wanted, KEY_BYTES) == 0;
        if (!ok)
            atomic_fetch_add_explicit(&zap->n_refused, 1, memory_order_relaxed);
        bus_zap_reply(zap->zmq, frames[1], n > 1 ? sizes[1] : 0, ok);
    }
}

enum status zap_start(struct zap *zap, void *context, const char *client_public) {
    memcpy(zap->client_public, client_public, sizeof zap->client_public);
    /* Made and bound here, before any CURVE socket can ask; pthread_create() passes it on. */
    zap->zmq = zmq_socket(context, ZMQ_REP);
    if (!zap->zmq)
        return STATUS_NOMEM;
    int linger = 0;
    zmq_setsockopt(zap->zmq, ZMQ_LINGER, &linger, sizeof linger);
    if (zmq_bind(zap->zmq, "inproc://zeromq.zap.01") != 0 ||
        pthread_create(&zap->thread, NULL, bus_zap_run, zap) != 0) {
        zmq_close(zap->zmq);
        zap->zmq = NULL;
        return STATUS_IO;
    }
    zap->is_running = true;
    return STATUS_OK;
}

void zap_join(struct zap *zap) {
    if (zap->is_running)
        pthread_join(zap->thread, NULL);
    zap->is_running = false;
}
