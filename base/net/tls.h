/* base/net/tls.h: TLS 1.2 and 1.3 on streams: what a server shows, what a client trusts.
 *
 * Only base/net/tls.c and base/net/tls_stream.c know OpenSSL. A context belongs to the loop's
 * thread and outlives the listeners that use it; streams that are open keep what they began with.
 * Handshakes of a server run on a thread of the context's own, since one signature of a long RSA
 * key takes milliseconds: no event loop waits for them. There is no renegotiation, no compression
 * and no early data; session tickets are on, their keys live as long as the files that
 * were read. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct stream;
struct stream_events;
struct tls_context;

/* All strings are copied; NULL is "". */
struct tls_server_config {
    const char *cert;      /* PEM file: the certificate, then what leads to its root */
    const char *key;       /* PEM file, without a passphrase, not readable by others */
    const char *client_ca; /* PEM file: clients need a certificate from one of these; "": none */
    const char *protocols; /* for ALPN, the best first: "h2,http/1.1"; a client that offers others
                            * alone is refused, one that offers nothing speaks http/1.1 */
    const char *plain_answer; /* sent as it is to who speaks plain HTTP here; "": nothing */
    uint32_t n_streams_max;   /* handshakes at once */
};

/* Reads the files. One line names the file and the reason: STATUS_INVALID (no certificate or key in
 * it, a passphrase, a key of another certificate), STATUS_DENIED (others may read the key or
 * change a file), STATUS_NOT_FOUND, STATUS_LIMIT, STATUS_IO, STATUS_NOMEM. */
NODISCARD enum status tls_server_new(struct loop *loop, const struct tls_server_config *config,
                                     struct tls_context **context, struct error *error);

/* Reads the files again, for the streams to come. On failure everything stays as it was. */
NODISCARD enum status tls_context_reload(struct tls_context *context, struct error *error);

/* tls_context_reload(), where a file is another than the one that was read last: written again,
 * renamed over, or another behind a link on its way. Files that did not serve are tried again each
 * time. STATUS_BUSY: nothing new, which is also a failure that was answered before. */
NODISCARD enum status tls_context_renew(struct tls_context *context, struct error *error);

/* Unix time at which the server's certificate ends to be valid. */
int64_t tls_context_ends_s(const struct tls_context *context);

/* Why clients may refuse the certificate ("FILE: expired on ..."), or "". */
const char *tls_context_warning(const struct tls_context *context);

struct tls_client_config {
    const char *ca;        /* PEM file of the roots to trust; "": those of the system */
    const char *protocols; /* offered by ALPN, the best first */
    bool insecure;         /* takes any certificate */
};

/* Errors as tls_server_new(). */
NODISCARD enum status tls_client_new(const struct tls_client_config *config,
                                     struct tls_context **context, struct error *error);

/* After the streams were closed, before the loop is freed. NULL is fine. */
void tls_context_free(struct tls_context *context);

/* What became of a server's handshakes. All only grow. */
struct tls_counts {
    uint64_t n_full;
    uint64_t n_resumed; /* without a signature */
    uint64_t n_failed;
};
struct tls_counts tls_context_counts(const struct tls_context *context);

/* As stream_new(), the server's side. Data comes and goes once the handshake has ended;
 * stream_protocol() tells when. A peer that ends the connection without saying so (close_notify) is
 * `gone` with STATUS_IO. */
NODISCARD enum status stream_new_tls(struct loop *loop, int fd, struct tls_context *context,
                                     const struct stream_events *events, void *user,
                                     struct stream **stream);

/* The client's side, on a connected socket. The certificate has to name `host`, a name or an
 * address. */
NODISCARD enum status stream_new_tls_client(struct loop *loop, int fd, struct tls_context *context,
                                            const char *host, const struct stream_events *events,
                                            void *user, struct stream **stream);
