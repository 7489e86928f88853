/* router/core/place.h: which worker or pair of workers takes a request. */
#pragma once

#include "router/core/stage.h"

#include <stdint.h>

struct request;
struct router;

enum turn place_request(struct router *router, struct request *req);

/* About how many newcomers would find a place at once: a guess, for each of them may need more than
 * a free place. */
uint32_t place_room(const struct router *router);
