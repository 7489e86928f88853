/* A packet's last inch: bytes that may have suffered, the real decoder, and the core behind it. */
#include "tests/sim/sim.h"

#include "tests/sim/judge.h"

#include <stdlib.h>
#include <string.h>

#define BAD_IN_A_ROW 3 /* then the bus gives a link up (proto/bus.h) */

static size_t list_steps(const struct message *message, char *text, size_t size) {
    size_t n = 0;
    for (uint32_t i = 0; i < message->u.step.n && n < size; i++) {
        const struct step_entry *entry = &message->u.step.entries[i];
        n += (size_t)snprintf(text + n, size - n, " %llx.%u[%u+%u]%s",
                              (unsigned long long)entry->req.lo & 0xffffff, entry->attempt,
                              entry->first_index, entry->n_tokens, entry->finish ? " end" : "");
    }
    return n;
}

static size_t list_digest(const struct message *message, char *text, size_t size) {
    size_t n = 0;
    for (uint32_t i = 0; i < message->u.digest.n && n < size; i++) {
        const struct digest_entry *entry = &message->u.digest.entries[i];
        n += (size_t)snprintf(text + n, size - n, " %llx.%u:%d@%u",
                              (unsigned long long)entry->req.lo & 0xffffff, entry->attempt,
                              (int)entry->state, entry->next_index);
    }
    return n;
}

static const char *summary(const struct message *message, char *text, size_t size) {
    text[0] = '\0';
    switch (message->type) {
    case MESSAGE_STEP:
        list_steps(message, text, size);
        break;
    case MESSAGE_DIGEST:
        list_digest(message, text, size);
        break;
    case MESSAGE_SUBMIT:
        snprintf(text, size, " %llx.%u phase %d, %u tokens",
                 (unsigned long long)message->u.submit.req.lo & 0xffffff, message->u.submit.attempt,
                 (int)message->u.submit.phase, message->u.submit.n_tokens);
        break;
    case MESSAGE_RESERVE:
    case MESSAGE_RESERVED:
    case MESSAGE_REFUSED:
    case MESSAGE_CANCEL:
    case MESSAGE_RESEND:
    case MESSAGE_FAILED: { /* they begin alike: request, attempt */
        const struct attempt_id *id = (const struct attempt_id *)(const void *)&message->u;
        size_t n = (size_t)snprintf(text, size, " %llx.%u",
                                    (unsigned long long)id->req.lo & 0xffffff, id->attempt);
        if (message->type == MESSAGE_FAILED)
            snprintf(text + n, size - n, " %s", reason_name(message->u.failed.reason));
        if (message->type == MESSAGE_REFUSED)
            snprintf(text + n, size - n, " %s", reason_name(message->u.refused.reason));
        break;
    }
    default:
        break;
    }
    return text;
}

/* A copy of exactly its size, so that a sanitizer sees who reads past the end. */
static uint8_t *suffer(struct random *random, const uint8_t *bytes, size_t *n) {
    size_t size = *n;
    uint64_t how = random_below(random, 3);
    if (how == 0 && size > 0)
        size = (size_t)random_below(random, size);
    else if (how == 1)
        size += (size_t)draw_between(random, 1, 40);
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, size < *n ? size : *n);
    for (size_t i = *n; i < size; i++)
        copy[i] = (uint8_t)random_next(random);
    uint64_t n_flips = how == 2 ? draw_between(random, 1, 4) : 0;
    for (uint64_t i = 0; i < n_flips && size > 0; i++) {
        /* Mostly in the header and the first fields: there the lengths are. */
        size_t reach = draw_chance(random, 70) && size > 40 ? 40 : size;
        copy[random_below(random, reach)] ^= (uint8_t)draw_between(random, 1, 255);
    }
    *n = size;
    return copy;
}

/* Bytes and lengths damaged on the way. What still decodes is taken for lost: nothing below CURVE
 * and TCP would let it through, and no checksum of ours promises to see it. What does not decode is
 * counted by the bus, which ends a link that sends nothing else. */
static void garble(struct sim *sim, struct conn *conn, uint32_t d, const struct packet *packet) {
    struct random *random = &sim->draws.net;
    struct frames frames = {.n_head = packet->n_head, .n_raw = packet->n_raw};
    bool in_head = packet->n_raw == 0 || draw_chance(random, 50);
    uint8_t *head, *raw = NULL;
    const uint8_t *raw_bytes = packet->bytes + packet->n_head;
    if (in_head) {
        head = suffer(random, packet->bytes, &frames.n_head);
    } else {
        head = malloc(packet->n_head);
        if (!head)
            abort();
        memcpy(head, packet->bytes, packet->n_head);
        raw = suffer(random, raw_bytes, &frames.n_raw);
    }
    frames.head = head;
    frames.raw = raw ? raw : packet->n_raw ? raw_bytes : NULL;
    struct message message;
    struct error error = {0};
    enum status status = codec_decode(&sim->reader, &frames, &message, &error);
    if (status == STATUS_OK && packet->type == MESSAGE_CHUNK && message.type == MESSAGE_CHUNK &&
        message.u.chunk.bytes && message.u.chunk.n_bytes != frames.n_raw)
        sim_fail(sim, "a chunk of %u bytes came in a frame of %zu", message.u.chunk.n_bytes,
                 frames.n_raw);
    free(head);
    free(raw);
    sim->counts.garbled++;
    sim_trouble(sim, conn->node[0], conn->node[1], sim->now_ns);
    if (status == STATUS_OK)
        return;
    sim_saw(sim, SIGHT_UNDECODED);
    if (++wire_of(sim, conn)->n_bad[d] >= BAD_IN_A_ROW) {
        sim_saw(sim, SIGHT_BANNED);
        wire_break(sim, (uint32_t)(conn - sim->net.conns), 0);
    }
}

static void hand_over(struct sim *sim, struct conn *conn, uint32_t d,
                      const struct message *message) {
    uint32_t node = conn->node[1 - d], link = conn->link[1 - d];
    if (sim->verbose) {
        char text[100];
        sim_trace(sim, "%u>%u %s%s", conn->node[d], node, message_name(message->type),
                  summary(message, text, sizeof text));
    }
    sim->counts.messages++;
    sim->speaker = conn->node[d];
    if (node < SIM_ROUTERS)
        front_message(sim, node, link, message);
    else if (sim->nodes[node].up)
        back_message(sim, node, (uint32_t)(conn - sim->net.conns), link, message);
    sim->speaker = SIM_NO_NODE;
}

void deliver_packet(struct sim *sim, struct conn *conn, uint32_t d, const struct packet *packet) {
    if (sim->options.garble > 0 && sim->phase == RUN_SAFETY &&
        random_below(&sim->draws.net, 1000) < sim->options.garble) {
        garble(sim, conn, d, packet);
        return;
    }
    struct frames frames = {.head = packet->bytes,
                            .n_head = packet->n_head,
                            .raw = packet->n_raw ? packet->bytes + packet->n_head : NULL,
                            .n_raw = packet->n_raw};
    struct message message;
    struct error error = {0};
    enum status status = codec_decode(&sim->reader, &frames, &message, &error);
    if (status != STATUS_OK) {
        sim_fail(sim, "a %s cannot be decoded: %s", message_name(packet->type), error.text);
        return;
    }
    wire_of(sim, conn)->n_bad[d] = 0;
    sim->raw = frames.raw;
    sim->n_raw = frames.n_raw;
    hand_over(sim, conn, d, &message);
    sim->raw = NULL;
    sim->n_raw = 0;
}
