#include "tests/unit/base/net/tls_rig.h"

#include "tests/support/suite.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct tls_rig rig;

static void on_data(void *user, const char *bytes, size_t n) {
    (void)user;
    buf_append(&rig.got, bytes, n);
    rig.n_data++;
    if (rig.pause_at_data)
        stream_pause(rig.stream, true);
}

static void on_drained(void *user) {
    (void)user;
    rig.n_drained++;
}

static void on_gone(void *user, enum status status) {
    (void)user;
    rig.n_gone++;
    rig.gone = status;
}

static const struct stream_events events = {
    .data = on_data, .drained = on_drained, .gone = on_gone};

void rig_up(void) {
    static char folder[] = "/tmp/tandem-tls-XXXXXX";
    struct error error = {0};
    memset(&rig, 0, sizeof rig);
    rig.fd = -1;
    signal(SIGPIPE, SIG_IGN); /* the client's */
    snprintf(folder, sizeof folder, "/tmp/tandem-tls-XXXXXX");
    rig.folder = mkdtemp(folder);
    ck_assert_ptr_nonnull(rig.folder);
    buf_init(&rig.got, 0);
    ck_assert_int_eq(loop_new(&rig.loop), STATUS_OK);
    rig.root = tls_make((struct tls_wish){.name = "root"});
    rig.leaf = tls_make((struct tls_wish){.name = "localhost", .issuer = &rig.root});
    rig.other = tls_make((struct tls_wish){.name = "other.test", .issuer = &rig.root});
    rig.ca = tls_write_certs(rig.folder, "ca.pem", (X509 *[]){rig.root.cert, NULL});
    rig.cert = tls_write_certs(rig.folder, "cert.pem", (X509 *[]){rig.leaf.cert, NULL});
    rig.key = tls_write_key(rig.folder, "key.pem", rig.leaf.key, NULL, 0600);
    const struct tls_server_config config = {.cert = rig.cert,
                                             .key = rig.key,
                                             .protocols = "h2,http/1.1",
                                             .plain_answer = "HTTP/1.1 400 Bad Request\r\n\r\n",
                                             .n_streams_max = 16};
    ck_assert_msg(tls_server_new(rig.loop, &config, &rig.context, &error) == STATUS_OK, "%s",
                  error.text);
    rig.client = SSL_CTX_new(TLS_client_method());
    X509_STORE_add_cert(SSL_CTX_get_cert_store(rig.client), rig.root.cert);
    SSL_CTX_set_verify(rig.client, SSL_VERIFY_PEER, NULL);
}

void rig_hang_up(void) {
    SSL_free(rig.ssl);
    rig.ssl = NULL;
    if (rig.fd >= 0)
        close(rig.fd);
    rig.fd = -1;
    stream_close(rig.stream);
    rig.stream = NULL;
}

void rig_down(void) {
    char command[256];
    rig_hang_up();
    tls_context_free(rig.context);
    loop_free(rig.loop);
    SSL_CTX_free(rig.client);
    tls_identity_fini(&rig.root);
    tls_identity_fini(&rig.leaf);
    tls_identity_fini(&rig.other);
    buf_fini(&rig.got);
    snprintf(command, sizeof command, "rm -rf %s", rig.folder);
    ck_assert_int_eq(system(command), 0);
}

void rig_connect(void) {
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    rig.n_data = rig.n_drained = rig.n_gone = 0;
    rig.pause_at_data = false;
    buf_clear(&rig.got);
    ck_assert_int_eq(stream_new_tls(rig.loop, pair[0], rig.context, &events, NULL, &rig.stream),
                     STATUS_OK);
    rig.fd = pair[1];
    rig.ssl = SSL_new(rig.client);
    ck_assert_int_eq(SSL_set_fd(rig.ssl, rig.fd), 1);
    SSL_set_connect_state(rig.ssl);
}

void rig_turn(void) {
    loop_turn(rig.loop, false);
}

static bool is_waiting(int error) {
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

int rig_handshake(void) {
    for (;;) {
        ERR_clear_error();
        int rc = SSL_do_handshake(rig.ssl);
        int error = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(rig.ssl, rc);
        if (!is_waiting(error))
            return error;
        rig_turn();
    }
}

int rig_write(const void *bytes, size_t n) {
    for (;;) {
        size_t sent;
        ERR_clear_error();
        int rc = SSL_write_ex(rig.ssl, bytes, n, &sent);
        int error = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(rig.ssl, rc);
        if (!is_waiting(error))
            return error;
        rig_turn();
    }
}

int rig_read(void *bytes, size_t n_max, size_t *n) {
    for (;;) {
        ERR_clear_error();
        int rc = SSL_read_ex(rig.ssl, bytes, n_max, n);
        int error = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(rig.ssl, rc);
        if (!is_waiting(error))
            return error;
        rig_turn();
    }
}

int rig_read_all(void *bytes, size_t n) {
    for (size_t at = 0, piece; at < n; at += piece) {
        int error = rig_read((char *)bytes + at, n - at, &piece);
        if (error != SSL_ERROR_NONE)
            return error;
    }
    return SSL_ERROR_NONE;
}

void rig_wait_data(size_t n) {
    while (rig.got.n < n && rig.n_gone == 0)
        rig_turn();
}

void rig_wait_gone(void) {
    while (rig.n_gone == 0)
        rig_turn();
}
