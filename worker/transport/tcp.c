/* Between hosts: the bytes ride in the CHUNK's raw frame on the KV link, which is CURVE where it
 * leaves the machine. The ring's positions bound what is on the way; there is no ring. */
#include "proto/message.h"
#include "worker/transport/transport.h"

#include <stdlib.h>

extern const struct transport transport_tcp;

static bool transport_tcp_reaches(const struct transport_place *from,
                                  const struct transport_place *to) {
    (void)from, (void)to;
    return true;
}

static void transport_tcp_sender_close(struct transport_sender *sender) {
    free(sender->memory);
    free(sender);
}

static enum status transport_tcp_sender_open(const struct transport_options *options,
                                             struct transport_sender **sender,
                                             struct error *error) {
    struct transport_sender *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "tcp: no memory for a KV link");
    *made = (struct transport_sender){
        .transport = &transport_tcp, .memory = malloc(options->chunk_bytes), .rides = true};
    stage_init(&made->stage, options->ring_bytes);
    if (options->first_bytes > 0)
        stage_use(&made->stage, options->first_bytes);
    if (!made->memory) {
        transport_tcp_sender_close(made);
        return error_set(error, STATUS_NOMEM, "tcp: no memory for a chunk of %u bytes",
                         options->chunk_bytes);
    }
    *sender = made;
    return STATUS_OK;
}

static uint32_t transport_tcp_offer(const struct transport_sender *sender,
                                    uint8_t bytes[TRANSPORT_OFFER_MAX]) {
    (void)sender, (void)bytes;
    return 0;
}

static enum status transport_tcp_receiver_open(const uint8_t *bytes, uint32_t n,
                                               struct transport_receiver **out,
                                               struct error *error) {
    (void)bytes;
    if (n != 0)
        return error_set(error, STATUS_INVALID, "tcp: an offer has %u bytes, expected 0", n);
    struct transport_receiver *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return error_set(error, STATUS_NOMEM, "tcp: no memory for a KV link");
    receiver->transport = &transport_tcp;
    *out = receiver;
    return STATUS_OK;
}

static void transport_tcp_receiver_close(struct transport_receiver *receiver) {
    free(receiver);
}

const struct transport transport_tcp = {
    .name = "tcp",
    .is_fallback = true,
    .reaches = transport_tcp_reaches,
    .sender_open = transport_tcp_sender_open,
    .sender_close = transport_tcp_sender_close,
    .offer = transport_tcp_offer,
    .receiver_open = transport_tcp_receiver_open,
    .receiver_close = transport_tcp_receiver_close,
};
