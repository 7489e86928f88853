/* router/core/place.h: which worker or pair of workers takes a request. */
#pragma once

#include "router/core/path.h"

enum turn place_request(struct router *router, struct request *req);
