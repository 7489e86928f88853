/* router/serve/watches.h: streams that last as long as their clients like (gRPC's Health/Watch and
 * reflection, /admin/events): how many there may be, and whose quota they count in.
 *
 * All places are one store, and its last ones are kept: those for /admin/events, which the page
 * reads, are taken by nothing else, and those before them only by who shows a key. So a crowd
 * without a key does not keep out a client that has one. Where there are no keys, all are alike.
 * Loop's thread. */
#pragma once

#include "base/status.h"
#include "router/api/errors.h"

#include <stdbool.h>

struct exchange;
struct quota;
struct server;

#define WATCHES_KEPT_PAGE 64u  /* as many as /admin/events has (events.h) */
#define WATCHES_KEPT_KEYS 448u /* of 1,024: who shows no key shares 512 */

/* The exchange becomes a watch: its place of a request is free again. `is_page`: it is one of
 * /admin/events, for which places are kept. *quota is that of the key that it shows, which has one
 * call more, or NULL; it belongs to the caller until watches_leave(). STATUS_BUSY with an error for
 * the client: there are as many watches as may be, in all, on its connection, or with its key. */
NODISCARD enum status watches_admit(struct server *server, struct exchange *exchange, bool is_page,
                                    struct quota **quota, struct api_error *error);

void watches_leave(struct quota *quota); /* the watch has ended; NULL is fine */
