/* tests/unit/base/http/wire.h: one client of the rig's listener that writes HTTP/2's frames by hand. */
#pragma once

#include "tests/support/http2_peer.h"
#include "tests/unit/base/http/rig.h"

extern struct peer peer; /* what came */
extern struct buf out;   /* written, not yet sent */
extern int fd;
extern bool closed; /* by the server */

void wire_start(void);
void wire_begin(void); /* with preface and settings */
void wire_stop(void);

/* Sends at most `piece` bytes, turns the loop, reads. */
void wire_turn(size_t piece);

/* Turns until the server has read all that is written. */
void wire_let_out(void);

/* A reset of the stream, or a close, is a failure. */
void wire_await_reply(uint32_t id);
void wire_await_close(void);

void wire_get(uint32_t id, const char *path);
