/* router/core/place.h: which worker or pair of workers takes a request. */
#pragma once

#include "router/core/stage.h"

#include <stdbool.h>
#include <stdint.h>

struct request;
struct router;

enum turn place_request(struct router *router, struct request *req);

/* After TURN_FULL: may requests of other tenants still find a place? Some of a worker's are kept from
 * this one's, or it is too long for a worker that has some. Without tenants: no. */
bool place_suits_others(const struct router *router, const struct request *req);

/* About how many newcomers of a tenant would find a place at once: a guess, for each of them may need
 * more than a free place. Of the kept ones they would get one. */
uint32_t place_room(const struct router *router, uint64_t tenant);
