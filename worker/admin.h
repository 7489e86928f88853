/* worker/admin.h: the worker's own small port: /metrics, /livez, /readyz, for operators.
 *
 * A thread of its own with a loop of its own, so that a slow reader holds up nobody. Locking: the
 * engine thread copies its figures in under one mutex, and the admin thread copies them out. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

struct admin;

/* What the engine publishes. */
struct admin_figures {
    struct load load;
    uint32_t chunk_tokens; /* the step budget in force */
    bool draining;
    uint64_t at_ns; /* when; /livez fails when this is long ago */
};

/* Listens on address and starts the thread; `name` and `model` become labels. "" as address:
 * *admin is NULL, which all other calls accept. */
NODISCARD enum status admin_new(const char *address, const char *name, const char *model,
                                struct admin **admin, struct error *error);
void admin_free(struct admin *admin);

/* Engine thread. */
void admin_publish(struct admin *admin, const struct admin_figures *figures);

uint16_t admin_port(const struct admin *admin); /* 0 for NULL */
