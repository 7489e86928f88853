#include "router/core/path.h"

#include "base/assert.h"
#include "router/core/admit.h"
#include "router/core/dispatch.h"
#include "router/core/finish.h"
#include "router/core/place.h"
#include "router/core/request.h"
#include "router/core/stream.h"

#include <stddef.h>

/* The first three are done by the shell, before there is a request here: connections and bytes in
 * base/http/, calls in router/api/, tokens in router/call/text.c. */
static const struct {
    const char *name;
    enum turn (*run)(struct router *router, struct request *req);
} path[STAGE_COUNT] = {
    [STAGE_ACCEPT] = {"accept", NULL},           [STAGE_PARSE] = {"parse", NULL},
    [STAGE_TOKENIZE] = {"tokenize", NULL},       [STAGE_ADMIT] = {"admit", admit_request},
    [STAGE_PLACE] = {"place", place_request},    [STAGE_DISPATCH] = {"dispatch", dispatch_request},
    [STAGE_STREAM] = {"stream", stream_request}, [STAGE_FINISH] = {"finish", finish_request},
};

const char *path_name(enum stage stage) {
    ASSERT(stage < STAGE_COUNT);
    return path[stage].name;
}

enum turn path_advance(struct router *router, struct request *req) {
    enum turn turn;
    do {
        ASSERT(req->stage >= STAGE_ADMIT && req->stage < STAGE_COUNT);
        turn = path[req->stage].run(router, req);
        if (turn == TURN_NEXT || turn == TURN_LATER)
            req->stage++;
    } while (turn == TURN_NEXT);
    return turn;
}
