/* tests/unit/base/http/rig.h: a listener and its clients on one thread: clients are plain
 * sockets, and whoever waits turns the loop. */
#pragma once

#include "base/buf.h"
#include "base/http/listener.h"
#include "base/net/loop.h"
#include "tests/support/suite.h"
#include "tests/support/test_clock.h"

#define PAGE_BYTES 50000u

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

extern struct loop *loop;
extern struct listener *listener;
extern struct exchanges *exchanges;
extern struct listener_config config; /* change it before rig_start() */
extern uint64_t held[64];             /* ids of /wait and /stream, in order of arrival, modulo 64 */
extern unsigned n_held, n_gone, n_drained, n_handled;
extern unsigned n_heads;  /* requests that the gate has seen */
extern uint64_t gone_tag; /* of the last that left: it was the gone_tag-th request */
extern struct buf taken;  /* the body of the last /take */
extern struct buf got;    /* what the last read_until...() has read, NUL-terminated */
extern bool ended;        /* and whether the server closed */

void rig_setup(void);
void rig_teardown(void);

/* The gate refuses /no with 401, lets /small take 10 bytes, and takes /probe for a probe. Serves: /wait and /stream are held,
 * /take keeps the body and no more, /talk echoes its body piece by piece, /watchN becomes a watch that leaves N places to others, or a 429, /page answers PAGE_BYTES, /big 8 MiB, /abort breaks off, the rest is an echo. */
void rig_start(void);

/* Moves the clock that stands, once the server has done what there is to do. */
void rig_pass(uint64_t ns);

int dial_with(int receive_bytes);      /* SO_RCVBUF; 0: the default */
int dial(const char *text);            /* and sends it */
int dial_until_read(const char *text); /* and turns the loop until the server has read it */

/* Turns the loop until the client has read n bytes or the end. */
void read_until(int fd, size_t n);

/* Turns the loop until the client has read `text`; the end before it is a failure. */
void read_until_text(int fd, const char *text);
void turn_until(const unsigned *counter, unsigned n);
