/* router/serve/service.h: what the service manager hears of a running router (systemd's notify
 * protocol): its watchdog is fed by the loop that serves, so that a loop that hangs is noticed, and
 * its line of status says who serves. Loop's thread only. */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct listener;
struct serving;
struct service;

/* Tells nothing where no service manager listens. `inherited`: the listener of a socket that the
 * manager holds, or NULL; borrowed. Clients then wait in the socket's queue until a worker is
 * there, at most hold_ns: a router that is restarted under load refuses no connection. */
NODISCARD enum status service_new(struct serving *serving, struct listener *inherited,
                                  uint64_t hold_ns, struct service **service);
void service_free(struct service *service); /* NULL is fine */
