/* router/core/path.h: a request's way through the router, as a table. */
#pragma once

#include <stdint.h>

struct router;
struct request;

/* What a stage answers. */
enum turn {
    TURN_NEXT,  /* done: the next stage at once */
    TURN_LATER, /* done: the next stage when its turn comes */
    TURN_WAIT,  /* this stage again, after some event */
    TURN_FULL,  /* the same, and nobody behind it in the queue would fare better */
    TURN_ENDED, /* the request is gone */
};

enum stage {
    STAGE_ACCEPT,
    STAGE_PARSE,
    STAGE_TOKENIZE,
    STAGE_ADMIT,
    STAGE_PLACE,
    STAGE_DISPATCH,
    STAGE_STREAM,
    STAGE_FINISH,
    STAGE_COUNT
};

/* The stage's label in logs, metrics and traces. */
const char *path_name(enum stage stage);

/* Runs the request's stages from where it stands until one must wait. */
enum turn path_advance(struct router *router, struct request *req);
