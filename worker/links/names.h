/* worker/links/names.h: routers that are told by name: dns://NAME:PORT is every address behind the name.
 *
 * The names are asked for again all the time (base/net/dns.h), so that routers come, go and move
 * while we run. Engine thread only. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

struct names;

/* Endpoints, each once. */
struct names_list {
    uint32_t n;
    char (*all)[MESSAGE_ENDPOINT_MAX]; /* borrowed (n) */
};

bool names_is_one(const char *endpoint); /* does it begin with dns://? */

/* STATUS_INVALID with a line where a dns:// endpoint is not dns://NAME:PORT. */
NODISCARD enum status names_check(const char *endpoint, struct error *error);

/* routers: (n) endpoints, borrowed while the names are open, of which those of dns:// are asked for, at most `n_max`
 * addresses in all; server: see dns_new(). *names is NULL where none is of dns://. */
NODISCARD enum status names_open(const char *const *routers, uint32_t n, uint32_t n_max,
                                 const char *server, struct names **names, struct error *error);
void names_close(struct names *names); /* NULL is fine */

/* Logs what has changed and which names are waited for. True: there is a new list, of the routers that have an address
 * and of what is behind the names by now, borrowed until the next call. */
bool names_look(struct names *names, uint64_t now_ns, struct names_list *list);
