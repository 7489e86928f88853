/* tests/unit/base/net/tls_rig.h: one TLS stream of ours and an OpenSSL client on the other end of
 * its socket, both on this thread. */
#pragma once

#include "base/buf.h"
#include "base/net/loop.h"
#include "base/net/stream.h"
#include "base/net/tls.h"
#include "tests/support/tls_files.h"

#include <openssl/ssl.h>
#include <stdbool.h>

struct tls_rig {
    struct loop *loop;
    struct tls_context *context;
    struct tls_identity root, leaf, other; /* `other` is signed by the root, too */
    const char *folder, *cert, *key, *ca;
    struct stream *stream;
    struct buf got;
    unsigned n_data, n_drained, n_gone;
    enum status gone;
    bool pause_at_data;
    /* The client: it trusts the root. */
    SSL_CTX *client;
    SSL *ssl;
    int fd;
};

extern struct tls_rig rig;

void rig_up(void); /* with context, without a connection */
void rig_down(void);

/* A pair of sockets: ours a stream, theirs a client that has not yet said anything. */
void rig_connect(void);
void rig_hang_up(void); /* closes the client's socket, as it is, and our stream */

void rig_turn(void);

/* Turns the loop until the client's call of OpenSSL has an answer: its result, as SSL_get_error()
 * names it. */
int rig_handshake(void);
int rig_write(const void *bytes, size_t n);
int rig_read(void *bytes, size_t n_max, size_t *n);
int rig_read_all(void *bytes, size_t n); /* n bytes, or the first failure */

/* Until our side has so many bytes, or is gone. */
void rig_wait_data(size_t n);
void rig_wait_gone(void);
