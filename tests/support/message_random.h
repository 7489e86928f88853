/* tests/support/message_random.h: random messages of every type, and whether two are equal. */
#pragma once

#include "base/arena.h"
#include "base/random.h"
#include "proto/message.h"

/* A valid message whose arrays live in the arena. Counts are mostly small, now and then at the
 * bound. */
void message_random(struct random *random, struct arena *arena, enum message_type type,
                    struct message *message);

/* Compares everything a message says, arrays included. */
bool message_equal(const struct message *a, const struct message *b);
