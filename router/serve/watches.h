/* router/serve/watches.h: streams that last as long as their clients like (gRPC's Health/Watch and
 * reflection, /admin/events): how many there may be, and whose quota they count in. Loop's thread. */
#pragma once

#include "base/status.h"
#include "router/api/errors.h"

struct exchange;
struct quota;
struct server;

/* The exchange becomes a watch: its place of a request is free again. *quota is that of the key that it
 * shows, which has one call more, or NULL; it belongs to the caller until watches_leave().
 * STATUS_BUSY with an error for the client: there are as many watches as may be, in all, on its
 * connection, or with its key. */
NODISCARD enum status watches_admit(struct server *server, struct exchange *exchange,
                                    struct quota **quota, struct api_error *error);

void watches_leave(struct quota *quota); /* the watch has ended; NULL is fine */
