/* router/core/path.h: a request's way through the router, as a table. */
#pragma once

#include "router/core/stage.h"

struct router;
struct request;

/* Runs the request's stages from its present one until one must wait. */
enum turn path_advance(struct router *router, struct request *req);
