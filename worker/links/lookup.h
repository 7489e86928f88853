/* worker/links/lookup.h: what is behind the name of a router of tcp://NAME:PORT that is not reached.
 *
 * libzmq looks for IPv4 alone, takes the first address, and does not say that there is none. So the name is asked for
 * as those of dns:// are (base/net/dns.h), while it is not reached. Engine thread only. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>

struct lookup;

bool lookup_is_for(const char *endpoint); /* is it tcp:// with a name in place of an address? */

/* Starts to ask for an endpoint that lookup_is_for(). server: see dns_new(), and its errors. */
NODISCARD enum status lookup_new(const char *endpoint, const char *server, struct lookup **lookup,
                                 struct error *error);
void lookup_free(struct lookup *lookup); /* NULL is fine */

/* Why there is no address; "" where there is one, or no answer yet. Valid until the next call. NULL is fine. */
const char *lookup_why(struct lookup *lookup);

/* The addresses behind the name one after the other, IPv4 and IPv6, as endpoints. False: none is known. NULL is fine. */
bool lookup_next(struct lookup *lookup, char endpoint[MESSAGE_ENDPOINT_MAX]);
