#include "base/net/tls.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/net/pool.h"
#include "base/net/tls_internal.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define FILE_BYTES_MAX  (1u << 20)
#define CHAIN_BYTES_MAX (32 * 1024) /* of certificates that a client may send */
#define CHAIN_DEPTH_MAX 8
#define RESUME_S        7200

/* TLS 1.2 with forward secrecy and authenticated ciphers alone; TLS 1.3 has no others. */
#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

/* --- files ---------------------------------------------------------------------------------- */

static const char *tls_reason(void) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "not understood";
}

/* The file's text as a BIO over `text`, which has to outlive it. */
static enum status tls_open_text(const char *path, bool is_private, struct buf *text, BIO **bio,
                                 struct error *error) {
    buf_init(text, 0);
    ERR_clear_error();
    TRY(file_read_trusted(path, is_private, FILE_BYTES_MAX, text, error));
    *bio = BIO_new_mem_buf(text->data ? text->data : "", (int)text->n);
    return *bio ? STATUS_OK : error_set(error, STATUS_NOMEM, "%s: out of memory", path);
}

static void tls_close_text(struct buf *text, BIO *bio) {
    BIO_free(bio);
    if (text->data)
        explicit_bzero(text->data, text->n);
    buf_fini(text);
}

/* Did reading stop because there is no further block in the file? */
static bool tls_is_at_end(void) {
    unsigned long code = ERR_peek_last_error();
    return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

static void tls_note_time(struct tls_context *context, const X509 *cert) {
    char date[64] = "";
    struct tm end;
    context->ends_s =
        ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) == 1 ? (int64_t)timegm(&end) : 0;
    bool late = X509_cmp_current_time(X509_get0_notAfter(cert)) < 0;
    bool early = X509_cmp_current_time(X509_get0_notBefore(cert)) > 0;
    BIO *bio = BIO_new(BIO_s_mem());
    if (bio && (late || early)) {
        ASN1_TIME_print(bio, late ? X509_get0_notAfter(cert) : X509_get0_notBefore(cert));
        int n = BIO_read(bio, date, sizeof date - 1);
        date[n > 0 ? n : 0] = 0;
    }
    BIO_free(bio);
    if (late || early)
        snprintf(context->warning, sizeof context->warning, "%.300s: the certificate %s on %s",
                 context->cert, late ? "expired" : "begins to be valid", date);
}

/* The first certificate is the server's own, the others lead to its root. */
static enum status tls_read_chain(struct tls_context *context, SSL_CTX *ssl, BIO *bio,
                                  struct error *error) {
    X509 *cert = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
    if (!cert)
        return error_set(error, STATUS_INVALID, "%s: %s", context->cert,
                         tls_is_at_end() ? "contains no PEM certificate" : tls_reason());
    tls_note_time(context, cert);
    bool taken = SSL_CTX_use_certificate(ssl, cert) == 1;
    X509_free(cert);
    if (!taken)
        return error_set(error, STATUS_INVALID, "%s: %s", context->cert, tls_reason());
    while ((cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (SSL_CTX_add0_chain_cert(ssl, cert) != 1) {
            X509_free(cert);
            return error_set(error, STATUS_INVALID, "%s: %s", context->cert, tls_reason());
        }
    }
    if (!tls_is_at_end())
        return error_set(error, STATUS_INVALID, "%s: %s", context->cert, tls_reason());
    return STATUS_OK;
}

static int tls_refuse_passphrase(char *text, int size, int writing, void *user) {
    (void)text, (void)size, (void)writing;
    *(bool *)user = true;
    return -1;
}

static enum status tls_read_key(const struct tls_context *context, SSL_CTX *ssl, BIO *bio,
                                struct error *error) {
    bool asked = false;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, tls_refuse_passphrase, &asked);
    if (!key && asked)
        return error_set(error, STATUS_INVALID,
                         "%s: the key has a passphrase; store it without one, readable by this "
                         "user alone",
                         context->key);
    if (!key)
        return error_set(error, STATUS_INVALID, "%s: contains no PEM private key", context->key);
    bool fits = X509_check_private_key(SSL_CTX_get0_certificate(ssl), key) == 1;
    bool taken = fits && SSL_CTX_use_PrivateKey(ssl, key) == 1;
    EVP_PKEY_free(key);
    if (!fits)
        return error_set(error, STATUS_INVALID, "%s: not the key of the certificate in %s",
                         context->key, context->cert);
    if (!taken)
        return error_set(error, STATUS_INVALID, "%s: %s", context->key, tls_reason());
    return STATUS_OK;
}

/* Whom to trust; a server names them to its clients, too. */
static enum status tls_read_roots(const char *path, SSL_CTX *ssl, bool is_server, BIO *bio,
                                  struct error *error) {
    unsigned n = 0;
    for (X509 *cert; (cert = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)) != NULL; n++) {
        bool taken = X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), cert) == 1 &&
                     (!is_server || SSL_CTX_add_client_CA(ssl, cert) == 1);
        X509_free(cert);
        if (!taken)
            return error_set(error, STATUS_INVALID, "%s: %s", path, tls_reason());
    }
    if (n == 0 || !tls_is_at_end())
        return error_set(error, STATUS_INVALID, "%s: %s", path,
                         tls_is_at_end() ? "contains no PEM certificate" : tls_reason());
    return STATUS_OK;
}

static enum status tls_load_roots(const char *path, SSL_CTX *ssl, bool is_server,
                                  struct error *error) {
    struct buf text;
    BIO *bio = NULL;
    enum status status = tls_open_text(path, false, &text, &bio, error);
    if (status == STATUS_OK)
        status = tls_read_roots(path, ssl, is_server, bio, error);
    tls_close_text(&text, bio);
    return status;
}

static enum status tls_load_identity(struct tls_context *context, SSL_CTX *ssl,
                                     struct error *error) {
    struct buf text;
    BIO *bio = NULL;
    context->warning[0] = 0;
    enum status status = tls_open_text(context->cert, false, &text, &bio, error);
    if (status == STATUS_OK)
        status = tls_read_chain(context, ssl, bio, error);
    tls_close_text(&text, bio);
    TRY(status);
    bio = NULL;
    status = tls_open_text(context->key, true, &text, &bio, error);
    if (status == STATUS_OK)
        status = tls_read_key(context, ssl, bio, error);
    tls_close_text(&text, bio);
    return status;
}

/* --- settings ------------------------------------------------------------------------------- */

/* RFC 7301, 3.2: the server chooses, by its own order; no common protocol is a fatal alert. */
static int tls_choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *n_out,
                               const unsigned char *offered, unsigned n_offered, void *user) {
    const struct tls_context *context = user;
    (void)ssl;
    /* Its result is not const, but lies in one of the two lists. */
    if (SSL_select_next_proto((unsigned char **)out, n_out, context->protocols,
                              context->n_protocols, offered, n_offered) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

static void tls_set_common(SSL_CTX *ssl) {
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    /* The output may have moved when a send goes on; idle streams hold no buffers. */
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ssl, 1); /* one recv() for a record, not two */
    SSL_CTX_set_max_cert_list(ssl, CHAIN_BYTES_MAX);
    SSL_CTX_set_verify_depth(ssl, CHAIN_DEPTH_MAX);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF); /* tickets: clients keep the state */
}

static enum status tls_make_server(struct tls_context *context, SSL_CTX **out,
                                   struct error *error) {
    static const unsigned char id[] = "tandem";
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    if (!ssl)
        return error_set(error, STATUS_NOMEM, "no memory for TLS");
    tls_set_common(ssl);
    SSL_CTX_set_timeout(ssl, RESUME_S);
    SSL_CTX_set_alpn_select_cb(ssl, tls_choose_protocol, context);
    enum status status = STATUS_OK;
    if (SSL_CTX_set_cipher_list(ssl, CIPHERS_12) != 1 ||
        SSL_CTX_set_session_id_context(ssl, id, sizeof id - 1) != 1)
        status = error_set(error, STATUS_UNSUPPORTED, "OpenSSL: %s", tls_reason());
    if (status == STATUS_OK)
        status = tls_load_identity(context, ssl, error);
    if (status == STATUS_OK && context->client_ca[0]) {
        status = tls_load_roots(context->client_ca, ssl, true, error);
        SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    if (status != STATUS_OK)
        SSL_CTX_free(ssl);
    else
        *out = ssl;
    return status;
}

/* "h2,http/1.1" as on the wire. */
static void tls_set_protocols(struct tls_context *context, const char *words) {
    while (*words) {
        size_t n = strcspn(words, ",");
        if (context->n_protocols + 1 + n > sizeof context->protocols)
            return;
        context->protocols[context->n_protocols] = (unsigned char)n;
        memcpy(context->protocols + context->n_protocols + 1, words, n);
        context->n_protocols += 1 + (unsigned)n;
        words += n + (words[n] == ',');
    }
}

static char *tls_copy_text(const char *text) {
    return strdup(text ? text : "");
}

/* --- contexts ------------------------------------------------------------------------------- */

/* Behind all links; zeros where there is no such file. */
static void tls_identify_files(const struct tls_context *context, uint64_t files[TLS_FILES][5]) {
    const char *const paths[TLS_FILES] = {context->cert, context->key, context->client_ca};
    memset(files, 0, sizeof context->seen);
    for (unsigned i = 0; i < TLS_FILES; i++) {
        struct stat file;
        if (!paths[i][0] || stat(paths[i], &file) != 0)
            continue;
        const uint64_t all[5] = {file.st_dev, file.st_ino, (uint64_t)file.st_size,
                                 (uint64_t)file.st_mtim.tv_sec, (uint64_t)file.st_mtim.tv_nsec};
        memcpy(files[i], all, sizeof all);
    }
}

enum status tls_server_new(struct loop *loop, const struct tls_server_config *config,
                           struct tls_context **out, struct error *error) {
    struct tls_context *context = calloc(1, sizeof *context);
    if (!context)
        return error_set(error, STATUS_NOMEM, "no memory for TLS");
    context->cert = tls_copy_text(config->cert);
    context->key = tls_copy_text(config->key);
    context->client_ca = tls_copy_text(config->client_ca);
    context->plain_answer = tls_copy_text(config->plain_answer);
    tls_set_protocols(context,
                      config->protocols && config->protocols[0] ? config->protocols : "http/1.1");
    enum status status = STATUS_NOMEM;
    error_set(error, STATUS_NOMEM, "no memory for TLS");
    if (context->cert && context->key && context->client_ca && context->plain_answer) {
        tls_identify_files(context, context->seen);
        status = tls_make_server(context, &context->ssl, error);
    }
    if (status == STATUS_OK) {
        status = pool_new(loop, 1, config->n_streams_max, &context->pool);
        if (status != STATUS_OK)
            error_set(error, status, "no memory for TLS");
    }
    if (status != STATUS_OK)
        tls_context_free(context);
    else
        *out = context;
    return status;
}

enum status tls_context_reload(struct tls_context *context, struct error *error) {
    char before[sizeof context->warning];
    int64_t ends_s = context->ends_s;
    SSL_CTX *ssl;
    memcpy(before, context->warning, sizeof before);
    tls_identify_files(context,
                       context->seen); /* what changes while it is read is seen the next time */
    enum status status = tls_make_server(context, &ssl, error);
    snprintf(context->failed, sizeof context->failed, "%s", status == STATUS_OK ? "" : error->text);
    if (status != STATUS_OK) {
        memcpy(context->warning, before, sizeof before);
        context->ends_s = ends_s;
        return status;
    }
    SSL_CTX_free(context->ssl); /* streams that are open have references of their own */
    context->ssl = ssl;
    return STATUS_OK;
}

enum status tls_context_renew(struct tls_context *context, struct error *error) {
    uint64_t now[TLS_FILES][5];
    char before[sizeof context->failed];
    tls_identify_files(context, now);
    if (!context->failed[0] && memcmp(now, context->seen, sizeof now) == 0)
        return STATUS_BUSY;
    memcpy(before, context->failed, sizeof before);
    enum status status = tls_context_reload(context, error);
    return status != STATUS_OK && strcmp(before, error->text) == 0 ? STATUS_BUSY : status;
}

int64_t tls_context_ends_s(const struct tls_context *context) {
    return context->ends_s;
}

const char *tls_context_warning(const struct tls_context *context) {
    return context->warning;
}

enum status tls_client_new(const struct tls_client_config *config, struct tls_context **out,
                           struct error *error) {
    struct tls_context *context = calloc(1, sizeof *context);
    if (context)
        context->ssl = SSL_CTX_new(TLS_client_method());
    if (!context || !context->ssl) {
        tls_context_free(context);
        return error_set(error, STATUS_NOMEM, "no memory for TLS");
    }
    context->insecure = config->insecure;
    tls_set_protocols(context, config->protocols ? config->protocols : "http/1.1");
    tls_set_common(context->ssl);
    enum status status = STATUS_OK;
    if (config->ca && config->ca[0])
        status = tls_load_roots(config->ca, context->ssl, false, error);
    else
        SSL_CTX_set_default_verify_paths(context->ssl);
    SSL_CTX_set_verify(context->ssl, config->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    /* Not as usual: 0 is success. */
    if (status == STATUS_OK &&
        SSL_CTX_set_alpn_protos(context->ssl, context->protocols, context->n_protocols) != 0)
        status = error_set(error, STATUS_NOMEM, "no memory for TLS");
    if (status != STATUS_OK)
        tls_context_free(context);
    else
        *out = context;
    return status;
}

void tls_context_free(struct tls_context *context) {
    if (!context)
        return;
    pool_free(context->pool);
    SSL_CTX_free(context->ssl);
    free(context->cert);
    free(context->key);
    free(context->client_ca);
    free(context->plain_answer);
    free(context);
}

struct tls_counts tls_context_counts(const struct tls_context *context) {
    return context->counts;
}
