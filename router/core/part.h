/* router/core/part.h: workers' parts in attempts, on the books of their slots. */
#pragma once

#include "router/core/request.h"

#include <stdbool.h>
#include <stdint.h>

struct router;

/* The worker at slot `number` takes part: in the prefill of a hand-off, or else in the decode side.
 * `n_tokens` are to be computed there. */
void part_join(struct router *router, struct part *part, uint32_t number, bool prefill,
               uint32_t n_tokens);

/* The attempt's parts begin, or one of their workers said what brings it on: patience begins anew. */
void part_advanced(struct router *router, struct request *req);

/* The worker's figures now count this part: so far it was counted beside them, which may have left
 * others waiting. */
void part_reflected(struct router *router, struct slot *slot, struct part *part);

/* Takes the part off its slot's books. */
void part_leave(struct router *router, struct part *part);
