/* Between hosts: the bytes ride in the CHUNK's raw frame on the KV link, which is CURVE where it
 * leaves the machine. The ring's positions bound what is on the way; there is no ring. */
#include "proto/message.h"
#include "worker/transport/transport.h"

#include <stdlib.h>

extern const struct transport transport_tcp;

struct tcp_sender {
    struct transport_sender head;
    unsigned char *staging; /* owned (chunk_bytes): the link copies it when it sends */
};

static bool reaches(const struct transport_place *from, const struct transport_place *to) {
    (void)from, (void)to;
    return true;
}

static void sender_close(struct transport_sender *sender) {
    struct tcp_sender *tcp = (struct tcp_sender *)sender;
    free(tcp->staging);
    free(tcp);
}

static enum status sender_open(const struct transport_options *options,
                               struct transport_sender **sender, struct error *error) {
    struct tcp_sender *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        return error_set(error, STATUS_NOMEM, "tcp: no memory for a KV link");
    tcp->head.transport = &transport_tcp;
    stage_init(&tcp->head.stage, options->ring_bytes);
    tcp->staging = malloc(options->chunk_bytes);
    if (!tcp->staging) {
        sender_close(&tcp->head);
        return error_set(error, STATUS_NOMEM, "tcp: no memory for a chunk of %u bytes",
                         options->chunk_bytes);
    }
    *sender = &tcp->head;
    return STATUS_OK;
}

static uint32_t offer(const struct transport_sender *sender, uint8_t bytes[TRANSPORT_OFFER_MAX]) {
    (void)sender, (void)bytes;
    return 0;
}

static void *room(struct transport_sender *sender, uint64_t position, const void **ride) {
    struct tcp_sender *tcp = (struct tcp_sender *)sender;
    (void)position;
    *ride = tcp->staging;
    return tcp->staging;
}

static enum status receiver_open(const uint8_t *bytes, uint32_t n, struct transport_receiver **out,
                                 struct error *error) {
    (void)bytes;
    if (n != 0)
        return error_set(error, STATUS_INVALID, "tcp: an offer of %u bytes instead of none", n);
    struct transport_receiver *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return error_set(error, STATUS_NOMEM, "tcp: no memory for a KV link");
    receiver->transport = &transport_tcp;
    *out = receiver;
    return STATUS_OK;
}

static void receiver_close(struct transport_receiver *receiver) {
    free(receiver);
}

static enum status find(struct transport_receiver *receiver, const struct chunk *chunk,
                        const void **bytes) {
    (void)receiver;
    if (!chunk->bytes)
        return STATUS_CORRUPT;
    *bytes = chunk->bytes;
    return STATUS_OK;
}

const struct transport transport_tcp = {
    .name = "tcp",
    .is_fallback = true,
    .reaches = reaches,
    .sender_open = sender_open,
    .sender_close = sender_close,
    .offer = offer,
    .room = room,
    .receiver_open = receiver_open,
    .receiver_close = receiver_close,
    .find = find,
};
