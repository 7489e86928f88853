/* tests/unit/worker/links/kv_rig.h: a worker's KV links beside a peer that is a bus of the test's; the core is a fake, the clock
 * the test's own. */
#pragma once

#include "base/clock.h"
#include "proto/message.h"
#include "tests/unit/worker/links/fake_engine.h"
#include "worker/links/kv_links.h"

#include <stdbool.h>
#include <stdint.h>

struct bus;

#define T0 (3600 * NS_PER_S)

enum { CHUNK_BYTES = 4096, A_WHILE = 10000000 };

struct rig {
    char folder[64];
    char endpoint[128];
    struct bus *ours;
    struct bus *theirs;
    struct kv_links kv;
    struct engine engine;
    uint64_t now_ns;
    uint32_t link;       /* the core's number of a link that we opened */
    uint32_t their_link; /* on their bus */
    bool deaf;           /* they read nothing */
    uint32_t n_came[MESSAGE_TYPES];
    struct kv_hello hello; /* the last of its kind */
    struct transfer_end abort;
    struct chunk_ack ack;
    struct chunk chunk;
    bool lost;
};

void rig_open(struct rig *rig, const char *kv_transport);
void rig_close(struct rig *rig);
void bind_to(struct bus *bus, const struct rig *rig); /* ours or theirs listens */

void turn(struct rig *rig); /* what has come, to us and to them */
void await(struct rig *rig, enum message_type type,
           uint32_t n);                 /* until n of a type came to them */
uint32_t n_rows(const struct rig *rig); /* of our table that are taken */

/* A hello or a welcome of theirs with which nothing is wrong, and functions that make one wrong. */
struct message good_hello(const struct rig *rig, enum message_type type);
void other_layout(struct kv_hello *hello);
void other_major(struct kv_hello *hello);
void other_transport(struct kv_hello *hello);
void unknown_transport(struct kv_hello *hello);

void they_connect(struct rig *rig);
void they_send(struct rig *rig, const struct message *message);

void open_link(struct rig *rig);     /* ours to them, whose answer is to come */
void welcomed(struct rig *rig);      /* opens a rig with such a link that they welcomed */
void check_dropped(struct rig *rig); /* waits until that link has ended and the core knows */
