/* router/core/finish.h: the last word on a request. */
#pragma once

#include "router/core/request.h"
#include "router/core/stage.h"

/* A worker that was kept for it alone is free for others. */
void finish_alone(struct router *router, const struct request *req);

/* The same, and takes the request off its workers' books: FORGET to the one that ended it, CANCEL
 * to the others. SLOT_NONE: no worker ended it. */
void finish_release(struct router *router, struct request *req, uint32_t ended_by);

/* Ends it with an error: END_REFUSED if it never produced a token, else END_FAILED. */
void finish_error(struct router *router, struct request *req, enum status status,
                  enum reason reason);

/* Ends it because no worker can go on with it: with that error; but an answer that a worker's context ended before, well. */
void finish_unplaced(struct router *router, struct request *req, enum status status,
                     enum reason reason);

/* Ends it well, `slot` having said the last token; or by a stop string, SLOT_NONE. */
void finish_done(struct router *router, struct request *req, enum finish finish, uint32_t slot);

void finish_cancelled(struct router *router, struct request *req);

/* Runs as the last stage: tells the shell and gives the request back. */
enum turn finish_request(struct router *router, struct request *req);
