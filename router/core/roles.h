/* router/core/roles.h: when a worker does the other role's work. Roles are preferences: what waits
 * on either side decides, by the figures that the workers announce and what they cannot know of
 * yet. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct slot;

/* How many of its own lengths a prompt's end must be earlier where it decodes, before it is
 * prefilled there: it makes the streams there slower. */
#define ROLES_LOCAL_PROMPTS 2

/* Would what waits on the prefill worker `from` end later than the prompt, with n_tokens to be
 * computed, on `to`, where it decodes? */
bool roles_prefill_here(const struct slot *from, const struct slot *to, uint32_t n_tokens);

/* Has it blocks for a sequence of n_tokens beside what runs and waits there? Yes while it has told
 * no figures. */
bool roles_has_blocks(const struct slot *slot, uint32_t n_tokens);
