#include "base/assert.h"
#include "base/net/address.h"
#include "base/net/pool.h"
#include "base/net/stream_io.h"
#include "base/net/tls_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The state of one stream. While its job is out it belongs to the thread of the pool, and the port
 * sleeps. */
struct tls {
    struct pool_job job;
    struct tls_context *context; /* borrowed */
    struct stream_port *port;    /* borrowed: the stream's; set when the handshake begins */
    SSL *ssl;                    /* owned */
    int fd;                      /* borrowed: the stream's */
    bool moved;                  /* bytes went to the kernel */
    bool peer_ended;             /* the socket is at its end */
    bool stepped;                /* the job ran; `step` is its answer */
    bool begun;                  /* the client's first words were looked at */
    int step;
    bool wants_write;
    bool open;       /* the handshake has ended */
    ssize_t failure; /* what recv() answers from now on, where it is not positive; else 1 */
    bool broken;     /* no more may be said to the peer */
    const char *protocol;
    char problem[160];
};

/* --- the socket, as OpenSSL sees it --------------------------------------------------------- */

static int tls_bio_write(BIO *bio, const char *bytes, int n) {
    struct tls *tls = BIO_get_data(bio);
    ssize_t sent;
    BIO_clear_retry_flags(bio);
    do
        sent = send(tls->fd, bytes, (size_t)n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    tls->moved |= sent > 0;
    return (int)sent;
}

static int tls_bio_read(BIO *bio, char *bytes, int n) {
    struct tls *tls = BIO_get_data(bio);
    ssize_t got;
    BIO_clear_retry_flags(bio);
    do
        got = recv(tls->fd, bytes, (size_t)n, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    tls->peer_ended |= got == 0;
    return (int)got;
}

static long tls_bio_ctrl(BIO *bio, int what, long number, void *pointer) {
    const struct tls *tls = BIO_get_data(bio);
    (void)number, (void)pointer;
    if (what == BIO_CTRL_EOF)
        return tls->peer_ended;
    return what == BIO_CTRL_FLUSH;
}

static int tls_bio_create(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *bio_method;

static void tls_make_bio_method(void) {
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
    ASSERT(bio_method); /* a few bytes, once */
    BIO_meth_set_write(bio_method, tls_bio_write);
    BIO_meth_set_read(bio_method, tls_bio_read);
    BIO_meth_set_ctrl(bio_method, tls_bio_ctrl);
    BIO_meth_set_create(bio_method, tls_bio_create);
}

/* --- handshakes ----------------------------------------------------------------------------- */

static void tls_explain_failure(struct tls *tls) {
    unsigned long code = ERR_peek_last_error();
    long verified = SSL_get_verify_result(tls->ssl);
    const char *reason = ERR_reason_error_string(code);
    if (verified != X509_V_OK && !tls->context->insecure)
        snprintf(tls->problem, sizeof tls->problem, "the certificate is refused: %s",
                 X509_verify_cert_error_string(verified));
    else if (reason)
        snprintf(tls->problem, sizeof tls->problem, "TLS: %s", reason);
    else
        snprintf(tls->problem, sizeof tls->problem, "TLS: the connection broke off");
}

/* Who speaks plain HTTP to this port is told so in HTTP; it is one small send. */
static void tls_answer_plainly(const struct tls *tls) {
    const char *answer = tls->context->plain_answer;
    unsigned long code = ERR_peek_last_error();
    if (answer && answer[0] && ERR_GET_LIB(code) == ERR_LIB_SSL &&
        ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST) {
        (void)!send(tls->fd, answer, strlen(answer), MSG_NOSIGNAL);
        shutdown(tls->fd, SHUT_WR);
    }
}

/* On the pool's thread, or where the handshake is a client's on the loop's. */
static void tls_step(struct tls *tls) {
    ERR_clear_error();
    int rc = SSL_do_handshake(tls->ssl);
    int error = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, rc);
    tls->wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_NONE) {
        tls->step = STREAM_DONE;
    } else if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        tls->step = STREAM_AGAIN;
    } else {
        tls->step = STREAM_BROKEN;
        tls_explain_failure(tls);
        tls_answer_plainly(tls);
    }
}

/* A client of TLS that has hung up before its first words were looked at cannot answer to ours. One
 * that speaks plain HTTP can still read. */
static bool tls_peer_has_left(const struct tls *tls) {
    struct pollfd poller = {.fd = tls->fd, .events = POLLRDHUP};
    char first = 0;
    return poll(&poller, 1, 0) == 1 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR)) &&
           recv(tls->fd, &first, 1, MSG_PEEK) == 1 && first == SSL3_RT_HANDSHAKE;
}

/* A signature takes milliseconds, and thousands may wait: they are not made for the dead. */
static void tls_job_run(struct pool_job *job) {
    struct tls *tls = (struct tls *)job;
    bool is_first = !tls->begun;
    tls->begun = true;
    if (!is_first || !tls_peer_has_left(tls)) {
        tls_step(tls);
        return;
    }
    tls->step = STREAM_BROKEN;
    snprintf(tls->problem, sizeof tls->problem, "TLS: the client hung up before its turn");
}

static void tls_job_done(struct pool_job *job, enum status status) {
    struct tls *tls = (struct tls *)job;
    if (status != STATUS_OK) /* the pool ends: it was not run */
        tls->step = STREAM_BROKEN;
    tls->stepped = true;
    stream_wake(tls->port->stream);
}

static bool tls_give_up(struct stream_port *port) {
    struct tls *tls = port->state;
    return pool_take_back(tls->context->pool, &tls->job);
}

static const char *tls_agreed_protocol(const struct tls *tls) {
    static const char *const known[] = {"h2", "http/1.1"};
    const unsigned char *name;
    unsigned n;
    SSL_get0_alpn_selected(tls->ssl, &name, &n);
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (n == strlen(known[i]) && memcmp(name, known[i], n) == 0)
            return known[i];
    return "http/1.1"; /* nothing was offered */
}

static int tls_open(struct stream_port *port) {
    struct tls *tls = port->state;
    tls->port = port;
    if (!tls->stepped && tls->context->pool &&
        pool_submit(tls->context->pool, &tls->job) == STATUS_OK) {
        port->asleep = true;
        return STREAM_AGAIN;
    }
    if (!tls->stepped)
        tls_step(tls);
    tls->stepped = false;
    port->open_wants_write = tls->wants_write;
    if (tls->step == STREAM_DONE) {
        tls->open = true;
        tls->protocol = tls_agreed_protocol(tls);
        if (SSL_session_reused(tls->ssl))
            tls->context->counts.n_resumed++;
        else
            tls->context->counts.n_full++;
    } else if (tls->step == STREAM_BROKEN) {
        tls->broken = true;
        tls->context->counts.n_failed++;
    }
    return tls->step;
}

/* --- data ----------------------------------------------------------------------------------- */

/* What SSL_read() failed with, as recv() answers it. */
static ssize_t tls_recv_failure(struct tls *tls, struct stream_port *port, int rc) {
    int error = SSL_get_error(tls->ssl, rc);
    port->recv_wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return STREAM_AGAIN;
    if (error == SSL_ERROR_ZERO_RETURN) /* close_notify: it was said, so nothing was cut off */
        return tls->failure = 0;
    tls_explain_failure(tls);
    tls->broken = true;
    return tls->failure = STREAM_BROKEN;
}

static ssize_t tls_recv(struct stream_port *port, char *bytes, size_t n) {
    struct tls *tls = port->state;
    size_t at = 0;
    port->send_wants_read = false;
    if (tls->failure != 1)
        return tls->failure;
    do { /* many small records are one piece of data */
        ERR_clear_error();
        int rc = SSL_read(tls->ssl, bytes + at, (int)(n - at));
        if (rc <= 0) {
            ssize_t failure = tls_recv_failure(tls, port, rc);
            return at > 0 ? (ssize_t)at : failure;
        }
        at += (size_t)rc;
    } while (at < n && SSL_has_pending(tls->ssl));
    port->recv_wants_write = false;
    return (ssize_t)at;
}

static bool tls_has_input(const struct stream_port *port) {
    const struct tls *tls = port->state;
    return tls->failure != 1 || SSL_has_pending(tls->ssl);
}

static ssize_t tls_send(struct stream_port *port, const char *bytes, size_t n) {
    struct tls *tls = port->state;
    size_t sent = 0;
    if (tls->broken)
        return STREAM_BROKEN;
    ERR_clear_error();
    tls->moved = false;
    int rc = SSL_write_ex(tls->ssl, bytes, n, &sent);
    int error = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, rc);
    port->moved = tls->moved;
    port->send_wants_read = error == SSL_ERROR_WANT_READ;
    if (error == SSL_ERROR_NONE)
        return (ssize_t)sent;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return STREAM_AGAIN;
    tls_explain_failure(tls);
    tls->broken = true;
    return STREAM_BROKEN;
}

static int tls_shut(struct stream_port *port) {
    struct tls *tls = port->state;
    ERR_clear_error();
    int rc = tls->broken || !tls->open ? 0 : SSL_shutdown(tls->ssl);
    if (rc < 0 && SSL_get_error(tls->ssl, rc) == SSL_ERROR_WANT_WRITE)
        return STREAM_AGAIN;
    shutdown(port->fd, SHUT_WR);
    return STREAM_DONE;
}

static const char *tls_protocol(const struct stream_port *port) {
    const struct tls *tls = port->state;
    return tls->protocol;
}

static const char *tls_problem(const struct stream_port *port) {
    const struct tls *tls = port->state;
    return tls->problem;
}

static void tls_free_stream(struct tls *tls) {
    SSL_free(tls->ssl);
    free(tls);
}

static void tls_fini(struct stream_port *port, bool is_clean) {
    struct tls *tls = port->state;
    ERR_clear_error();
    if (is_clean && tls->open && !tls->broken && !(SSL_get_shutdown(tls->ssl) & SSL_SENT_SHUTDOWN))
        SSL_shutdown(tls->ssl); /* whether or not the kernel has room for it */
    tls_free_stream(tls);
}

#define TLS_IO                                                                                     \
    .open = tls_open, .recv = tls_recv, .send = tls_send, .shut = tls_shut,                        \
    .has_input = tls_has_input, .protocol = tls_protocol, .problem = tls_problem,                  \
    .give_up = tls_give_up, .fini = tls_fini

static const struct stream_io server_io = {TLS_IO};
static const struct stream_io client_io = {TLS_IO, .speaks_first = true};

/* --- streams -------------------------------------------------------------------------------- */

static enum status tls_make_stream(struct tls_context *context, int fd, struct tls **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, tls_make_bio_method);
    struct tls *tls = calloc(1, sizeof *tls);
    BIO *bio = BIO_new(bio_method);
    if (tls)
        *tls = (struct tls){.job = {.run = tls_job_run, .done = tls_job_done},
                            .context = context,
                            .ssl = SSL_new(context->ssl),
                            .fd = fd,
                            .failure = 1};
    if (!tls || !tls->ssl || !bio) {
        BIO_free(bio);
        if (tls)
            tls_free_stream(tls);
        return STATUS_NOMEM;
    }
    BIO_set_data(bio, tls);
    SSL_set_bio(tls->ssl, bio, bio); /* takes it */
    *out = tls;
    return STATUS_OK;
}

enum status stream_new_tls(struct loop *loop, int fd, struct tls_context *context,
                           const struct stream_events *events, void *user, struct stream **out) {
    struct tls *tls;
    TRY(tls_make_stream(context, fd, &tls));
    SSL_set_accept_state(tls->ssl);
    enum status status = stream_new_io(loop, fd, &server_io, tls, events, user, out);
    if (status != STATUS_OK)
        tls_free_stream(tls);
    return status;
}

/* An address is no name: it is not sent as one (RFC 6066, 3), and compared as an address, whose zone
 * no certificate names. */
static bool tls_set_host(SSL *ssl, const char *host) {
    unsigned char address[16];
    char bare[64];
    snprintf(bare, sizeof bare, "%.*s", address_is_v6(host) ? (int)strcspn(host, "%") : 63, host);
    if (inet_pton(AF_INET, bare, address) == 1 || inet_pton(AF_INET6, bare, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), bare) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

enum status stream_new_tls_client(struct loop *loop, int fd, struct tls_context *context,
                                  const char *host, const struct stream_events *events, void *user,
                                  struct stream **out) {
    struct tls *tls;
    TRY(tls_make_stream(context, fd, &tls));
    SSL_set_connect_state(tls->ssl);
    enum status status = tls_set_host(tls->ssl, host) ? STATUS_OK : STATUS_INVALID;
    if (status == STATUS_OK)
        status = stream_new_io(loop, fd, &client_io, tls, events, user, out);
    if (status != STATUS_OK)
        tls_free_stream(tls);
    return status;
}
