/* base/net/tcp.h: listening sockets on a loop. Loop's thread only. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct tcp_listener;

/* A new connection: the callee owns fd (non-blocking, close-on-exec, TCP_NODELAY). */
typedef void tcp_accept_fn(void *user, int fd);

/* Listens on an address (base/net/address.h): ":PORT", "*:PORT" and "[::]:PORT" are every one of IPv6
 * and IPv4, of IPv4 alone where the host has no other; port 0 lets the system choose; or on "fd:N", a socket that listens already (systemd hands the first over as 3). Errors
 * are one line for the operator: STATUS_INVALID for the text, STATUS_EXISTS for a port in use,
 * STATUS_DENIED, STATUS_IO. Blocks for a name that needs resolving: start-up only. */
NODISCARD enum status tcp_listen(struct loop *loop, const char *address, tcp_accept_fn *fn,
                                 void *user, struct tcp_listener **listener, struct error *error);

void tcp_listener_free(struct tcp_listener *listener); /* closes the socket; NULL is fine */

uint16_t tcp_listener_port(const struct tcp_listener *listener);

/* Is the socket bound to a loopback address, so that only this host can connect? */
bool tcp_listener_is_loopback(const struct tcp_listener *listener);

/* While paused, connections wait in the kernel's queue. It pauses by itself for 100 ms when the
 * process is out of descriptors or memory (counted). */
void tcp_listener_pause(struct tcp_listener *listener, bool paused);
uint64_t tcp_listener_n_exhausted(const struct tcp_listener *listener);

/* Hands over each connection that waits, unless it is paused, and closes the socket: who comes later
 * is refused by the system, or waits for another process that has the same socket ("fd:N"). So is
 * who waits while it is paused or out of descriptors. Twice is once. */
void tcp_listener_finish(struct tcp_listener *listener);

/* fn(user), as given to tcp_listen(), is called each time that happens, to close descriptors that it
 * can do without before the loop sleeps: true when it closes any, and the pause is left out. */
void tcp_listener_tell_exhausted(struct tcp_listener *listener, bool (*fn)(void *user));

/* Does only this host reach it: localhost or a loopback address, without a port or brackets? Other
 * names are not looked up: false. */
bool tcp_is_loopback(const char *host);
