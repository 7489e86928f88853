/* base/notify.h: tells the process manager that started this process how it is doing, as systemd's
 * sd_notify(3) does.
 *
 * One datagram to the socket that $NOTIFY_SOCKET names; nothing when the variable is not set. Used
 * by services under systemd and by `tandem up`, which offers the same socket to its children. Any
 * thread; waits at most 100 ms for a reader that is behind. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* text: lines like "READY=1", "STOPPING=1", "LISTEN=127.0.0.1:8000". */
void notify_send(const char *text);

/* Does anybody listen? Looked at before a status is made up. */
bool notify_is_on(void);

/* "STATUS=...": one line for `systemctl status`. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The start or the stop that is under way may take `seconds` from now: EXTEND_TIMEOUT_USEC. */
void notify_extend(unsigned seconds);

/* A reload begins, and ends: RELOADING=1 with the time of the clock that systemd compares, then
 * READY=1. */
void notify_reloading(void);
void notify_reloaded(void);

/* How often WATCHDOG=1 is to be sent: half of what systemd allows, as sd_watchdog_enabled(3)
 * recommends; 0: no watchdog, or that of another process ($WATCHDOG_PID). */
uint64_t notify_watchdog_ns(void);
