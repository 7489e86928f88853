/* base/net/tls_internal.h: what base/net/tls.c (files, settings) and base/net/tls_stream.c (bytes)
 * share. */
#pragma once

#include "base/net/tls.h"

#include <openssl/ssl.h>

struct pool;

#define TLS_FILES 3 /* certificate, key, the clients' authorities */

struct tls_context {
    SSL_CTX *ssl;      /* owned; replaced by a reload */
    struct pool *pool; /* owned; NULL for clients: handshakes run where they are */
    char *cert, *key, *client_ca;
    char *plain_answer;
    unsigned char protocols[64]; /* as ALPN has them on the wire: each behind its length */
    unsigned n_protocols;        /* bytes of it */
    bool insecure;
    char warning[ERROR_TEXT_MAX];
    int64_t ends_s; /* Unix time: notAfter of the certificate */
    /* What the files were when they were last read, and why they did not serve then ("": they did). */
    uint64_t seen[TLS_FILES][5];
    char failed[ERROR_TEXT_MAX];
    struct tls_counts counts;
};
