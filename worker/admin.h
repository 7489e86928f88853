/* worker/admin.h: the worker's own small port: /metrics, /livez, /readyz, for operators.
 *
 * A thread of its own with a loop of its own, so that a slow reader does not hold up the engine. It
 * reads what the engine thread publishes (worker/step/figures.h). */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdint.h>

struct admin;
struct figures_box;
struct metric;

/* Listens on address and starts the thread; `name` and `model` become labels. `figures` is borrowed
 * until admin_free(); /livez fails when they were published long ago. `sums`: how ranks on devices add up
 * (forward_sums()), or "". "" as address: *admin is NULL, which all other calls accept. */
NODISCARD enum status admin_new(const char *address, const char *name, const char *model,
                                const char *sums, struct figures_box *figures, struct admin **admin,
                                struct error *error);
void admin_free(struct admin *admin);

/* The histogram of a step's stage, which the engine thread fills; NULL for NULL. */
struct metric *admin_stage(const struct admin *admin, unsigned stage);

/* The same for the tokens of a step. */
struct metric *admin_step_tokens(const struct admin *admin);

uint16_t admin_port(const struct admin *admin); /* 0 for NULL */
