/* base/http/heads.h: how much of heads is decoded in a turn of the loop, of one client and of all.
 *
 * HPACK makes 32 KiB of a head of some ten bytes, and no client is known before its head's end. So it is
 * the decoded bytes that are counted. A client that has brought its share in this turn rests, and so do
 * all once they have brought what a turn has. Who rests is read on in a later turn, in the order in
 * which they were served last. Loop's thread only. */
#pragma once

#include "base/list.h"
#include "base/net/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heads {
    struct loop *loop; /* borrowed */
    size_t share_max;  /* bytes of one client in a turn */
    size_t turn_max;   /* and of all */
    uint64_t turn;     /* in which */
    size_t bytes;      /* so many came */
    struct list resting;
    struct loop_kick kick;
};

/* A client's part, in what it keeps of its connection. */
struct heads_client {
    struct list link; /* in resting */
    uint64_t turn;
    size_t bytes;
    bool rests; /* heads_count() sets it: what has come further waits */
    void (*read_on)(struct heads_client *client);
};

void heads_init(struct heads *heads, struct loop *loop, size_t share_max, size_t turn_max);
void heads_fini(struct heads *heads); /* no client rests any more */

/* `read_on` is called in a later turn than that of heads_rest(), outside of all others' callbacks. */
void heads_client_init(struct heads_client *client, void (*read_on)(struct heads_client *client));
void heads_client_fini(struct heads_client *client);

/* May this client bring anything more in this turn? */
bool heads_may(const struct heads *heads, const struct heads_client *client);

/* It has brought n bytes. */
void heads_count(struct heads *heads, struct heads_client *client, size_t n);

/* It is read on when those who rest already have had their turns. Twice is once. */
void heads_rest(struct heads *heads, struct heads_client *client);
