/* base/notify.h: tells whoever started this process how it is doing, as systemd's sd_notify(3)
 * does.
 *
 * One datagram to the socket that $NOTIFY_SOCKET names; nothing when the variable is not set. Used
 * by services under systemd and by `tandem up`, which offers the same socket to its children. */
#pragma once

/* text: lines like "READY=1", "STOPPING=1", "STATUS=...", "LISTEN=127.0.0.1:8000". Any thread. */
void notify_send(const char *text);
