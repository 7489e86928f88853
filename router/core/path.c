#include "router/core/path.h"

#include "base/assert.h"
#include "router/core/admit.h"
#include "router/core/dispatch.h"
#include "router/core/finish.h"
#include "router/core/place.h"
#include "router/core/request.h"
#include "router/core/stream.h"

/* The stages before these are the shell's: there is no request here yet. */
static enum turn (*const path[STAGE_COUNT])(struct router *router, struct request *req) = {
    [STAGE_ADMIT] = admit_request,       [STAGE_PLACE] = place_request,
    [STAGE_DISPATCH] = dispatch_request, [STAGE_STREAM] = stream_request,
    [STAGE_FINISH] = finish_request,
};

enum turn path_advance(struct router *router, struct request *req) {
    enum turn turn;
    do {
        ASSERT(req->stage >= STAGE_ADMIT && req->stage < STAGE_COUNT);
        turn = path[req->stage](router, req);
        if (turn == TURN_NEXT || turn == TURN_LATER)
            req->stage++;
    } while (turn == TURN_NEXT);
    return turn;
}
