#include "tests/support/suite.h"
#include "tests/unit/base/net/tls_rig.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const suite_name = "base_tls_context";
const double suite_timeout_s = 60;

/* --- files ---------------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", rig.folder, name);
    FILE *file = fopen(path, "we");
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
}

START_TEST(a_file_that_does_not_serve_is_named_with_the_reason) {
    static const struct {
        const char *cert, *key, *ca; /* in the folder */
        enum status status;
        const char *named, *reason;
    } rows[] = {
        {"none.pem", "key.pem", NULL, STATUS_NOT_FOUND, "none.pem", "No such file"},
        {"cert.pem", "none.pem", NULL, STATUS_NOT_FOUND, "none.pem", "No such file"},
        {"cert.pem", "key.pem", "none.pem", STATUS_NOT_FOUND, "none.pem", "No such file"},
        {"empty.pem", "key.pem", NULL, STATUS_INVALID, "empty.pem", "contains no PEM certificate"},
        {"key.pem", "key.pem", NULL, STATUS_INVALID, "key.pem", "contains no PEM certificate"},
        {"torn.pem", "key.pem", NULL, STATUS_INVALID, "torn.pem", ""},
        {"tail.pem", "key.pem", NULL, STATUS_INVALID, "tail.pem", ""},
        {"cert.pem", "empty.pem", NULL, STATUS_INVALID, "empty.pem", "contains no PEM private key"},
        {"cert.pem", "cert.pem", NULL, STATUS_DENIED, "cert.pem", "others can read it"},
        {"cert.pem", "other.pem", NULL, STATUS_INVALID, "other.pem", "not the key of"},
        {"cert.pem", "locked.pem", NULL, STATUS_INVALID, "locked.pem", "has a passphrase"},
        {"cert.pem", "open.pem", NULL, STATUS_DENIED, "open.pem", "others can read it (mode 644)"},
        {"cert.pem", "loose.pem", NULL, STATUS_DENIED, "loose.pem", "others can change it"},
        {"cert.pem", "key.pem", "empty.pem", STATUS_INVALID, "empty.pem", "no PEM certificate"},
        {"cert.pem", "key.pem", "torn.pem", STATUS_INVALID, "torn.pem", ""},
        {".", "key.pem", NULL, STATUS_IO, "/.", "no regular file"},
    };
    write_text("empty.pem", "nothing here\n");
    write_text("torn.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    tls_write_certs(rig.folder, "tail.pem", (X509 *[]){rig.leaf.cert, NULL});
    FILE *tail =
        fopen(tls_write_certs(rig.folder, "tail.pem", (X509 *[]){rig.leaf.cert, NULL}), "ae");
    fputs("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", tail);
    fclose(tail);
    tls_write_key(rig.folder, "other.pem", rig.other.key, NULL, 0600);
    tls_write_key(rig.folder, "locked.pem", rig.leaf.key, "secret", 0600);
    tls_write_key(rig.folder, "open.pem", rig.leaf.key, NULL, 0644);
    tls_write_key(rig.folder, "loose.pem", rig.leaf.key, NULL, 0660);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char cert[256], key[256], ca[256] = "";
        struct error error = {0};
        struct tls_context *context = NULL;
        snprintf(cert, sizeof cert, "%s/%s", rig.folder, rows[i].cert);
        snprintf(key, sizeof key, "%s/%s", rig.folder, rows[i].key);
        if (rows[i].ca)
            snprintf(ca, sizeof ca, "%s/%s", rig.folder, rows[i].ca);
        const struct tls_server_config config = {
            .cert = cert, .key = key, .client_ca = ca, .n_streams_max = 1};
        ck_assert_msg(tls_server_new(rig.loop, &config, &context, &error) == rows[i].status,
                      "%u: %s", i, error.text);
        ck_assert_ptr_null(context);
        char named[300];
        snprintf(named, sizeof named, "%s/%s: ", rig.folder, rows[i].named);
        if (strcmp(rows[i].named, "/.") != 0)
            ck_assert_msg(strncmp(error.text, named, strlen(named)) == 0, "%u: %s", i, error.text);
        ck_assert_msg(strstr(error.text, rows[i].reason) != NULL, "%u: %s", i, error.text);
    }
}
END_TEST

START_TEST(a_certificate_out_of_its_time_is_a_warning) {
    static const struct {
        long from_s, until_s;
        const char *warning;
    } rows[] = {{-7200, -3600, "cert.pem: the certificate expired on "},
                {3600, 7200, "cert.pem: the certificate begins to be valid on "},
                {-3600, 3600, ""}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error error = {0};
        struct tls_identity made = tls_make((struct tls_wish){.name = "localhost",
                                                              .issuer = &rig.root,
                                                              .from_s = rows[i].from_s,
                                                              .until_s = rows[i].until_s});
        tls_write_certs(rig.folder, "cert.pem", (X509 *[]){made.cert, NULL});
        tls_write_key(rig.folder, "key.pem", made.key, NULL, 0600);
        ck_assert_msg(tls_context_reload(rig.context, &error) == STATUS_OK, "%s", error.text);
        const char *warning = tls_context_warning(rig.context);
        ck_assert_msg(strstr(warning, rows[i].warning) != NULL, "%u: %s", i, warning);
        ck_assert_int_eq(warning[0] == 0, rows[i].warning[0] == 0);
        tls_write_certs(rig.folder, "cert.pem", (X509 *[]){rig.other.cert, NULL}); /* another's */
        ck_assert_int_eq(tls_context_reload(rig.context, &error), STATUS_INVALID);
        ck_assert_msg(strstr(warning, rows[i].warning) != NULL, "%u: %s", i, warning);
        tls_identity_fini(&made);
    }
}
END_TEST

/* --- while clients come and go -------------------------------------------------------------- */

static void shown_name(char name[64]) {
    X509 *cert = SSL_get1_peer_certificate(rig.ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, 64);
    X509_free(cert);
}

START_TEST(a_reload_is_for_new_streams_and_a_bad_one_changes_nothing) {
    struct error error = {0};
    char name[64], byte;
    rig_connect();
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    shown_name(name);
    ck_assert_str_eq(name, "localhost");
    struct stream *old_stream = rig.stream;
    SSL *old = rig.ssl;
    int old_fd = rig.fd;
    tls_write_certs(rig.folder, "cert.pem", (X509 *[]){rig.other.cert, NULL});
    ck_assert_int_eq(tls_context_reload(rig.context, &error), STATUS_INVALID); /* the old key */
    rig_connect();
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    shown_name(name);
    ck_assert_str_eq(name, "localhost");
    rig_hang_up();
    tls_write_key(rig.folder, "key.pem", rig.other.key, NULL, 0600);
    ck_assert_msg(tls_context_reload(rig.context, &error) == STATUS_OK, "%s", error.text);
    rig_connect();
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    shown_name(name);
    ck_assert_str_eq(name, "other.test");
    rig_hang_up();
    rig.stream = old_stream; /* goes on as it began */
    rig.ssl = old;
    rig.fd = old_fd;
    ck_assert_int_eq(stream_write(rig.stream, "x", 1), STATUS_OK);
    ck_assert_int_eq(rig_read_all(&byte, 1), SSL_ERROR_NONE);
}
END_TEST

/* Writes FOLDER/NAME/cert.pem and key.pem, as a mounted Secret has them. */
static void write_pair(const char *name, const struct tls_identity *cert,
                       const struct tls_identity *key) {
    char folder[256];
    snprintf(folder, sizeof folder, "%s/%s", rig.folder, name);
    mkdir(folder, 0700);
    tls_write_certs(folder, "cert.pem", (X509 *[]){cert->cert, NULL});
    tls_write_key(folder, "key.pem", key->key, NULL, 0600);
}

/* ..data leads to a folder, and a link to another is renamed over it. */
static void swap(const char *to) {
    char link[256], fresh[256];
    snprintf(link, sizeof link, "%s/..data", rig.folder);
    snprintf(fresh, sizeof fresh, "%s/..data_tmp", rig.folder);
    ck_assert_int_eq(symlink(to, fresh), 0);
    ck_assert_int_eq(rename(fresh, link), 0);
}

START_TEST(files_that_are_others_are_read_again_and_a_failure_is_told_once) {
    static const char *const names[] = {"cert.pem", "key.pem"};
    struct error error = {0};
    char path[256], target[64], name[64];
    write_pair("one", &rig.leaf, &rig.leaf);
    write_pair("two", &rig.other, &rig.other);
    write_pair("half", &rig.other, &rig.leaf);
    swap("one");
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", rig.folder, names[i]);
        snprintf(target, sizeof target, "..data/%s", names[i]);
        unlink(path);
        ck_assert_int_eq(symlink(target, path), 0);
    }
    ck_assert_msg(tls_context_renew(rig.context, &error) == STATUS_OK, "%s", error.text);
    ck_assert_int_eq(tls_context_renew(rig.context, &error), STATUS_BUSY); /* the same */
    int64_t ends_s = tls_context_ends_s(rig.context);
    ck_assert_int_gt(ends_s, 0);
    swap("half");
    ck_assert_int_eq(tls_context_renew(rig.context, &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "not the key of"));
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(tls_context_renew(rig.context, &error), STATUS_BUSY);
    ck_assert_int_eq(tls_context_ends_s(rig.context), ends_s);
    swap("gone");
    ck_assert_int_eq(tls_context_renew(rig.context, &error), STATUS_NOT_FOUND);
    ck_assert_int_eq(tls_context_renew(rig.context, &error), STATUS_BUSY);
    swap("half");
    ck_assert_int_eq(tls_context_renew(rig.context, &error), STATUS_INVALID);
    swap("two");
    ck_assert_msg(tls_context_renew(rig.context, &error) == STATUS_OK, "%s", error.text);
    rig_connect();
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    shown_name(name);
    ck_assert_str_eq(name, "other.test");
    write_pair("two", &rig.leaf, &rig.leaf); /* written where they lie */
    ck_assert_msg(tls_context_renew(rig.context, &error) == STATUS_OK, "%s", error.text);
    ck_assert_int_eq(tls_context_reload(rig.context, &error), STATUS_OK);
    ck_assert_int_eq(tls_context_renew(rig.context, &error), STATUS_BUSY);
}
END_TEST

START_TEST(the_end_of_the_certificate_is_known) {
    static const long ends[] = {3600, -60, 400L * 86400};
    struct error error = {0};
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct tls_identity made = tls_make((struct tls_wish){
            .name = "localhost", .issuer = &rig.root, .from_s = -7200, .until_s = ends[i]});
        int64_t now_s = time(NULL);
        tls_write_certs(rig.folder, "cert.pem", (X509 *[]){made.cert, rig.root.cert, NULL});
        tls_write_key(rig.folder, "key.pem", made.key, NULL, 0600);
        ck_assert_int_eq(tls_context_reload(rig.context, &error), STATUS_OK);
        ck_assert_int_le(tls_context_ends_s(rig.context), now_s + ends[i]);
        ck_assert_int_gt(tls_context_ends_s(rig.context), now_s + ends[i] - 600);
        tls_identity_fini(&made);
    }
}
END_TEST

START_TEST(the_whole_chain_is_sent) {
    struct error error = {0};
    struct tls_identity middle = tls_make((struct tls_wish){.name = "middle"});
    /* Signed by the root after all: an authority between it and the leaf. */
    X509_set_issuer_name(middle.cert, X509_get_subject_name(rig.root.cert));
    X509_sign(middle.cert, rig.root.key, EVP_sha256());
    struct tls_identity leaf = tls_make((struct tls_wish){.name = "localhost", .issuer = &middle});
    tls_write_certs(rig.folder, "cert.pem", (X509 *[]){leaf.cert, middle.cert, NULL});
    tls_write_key(rig.folder, "key.pem", leaf.key, NULL, 0600);
    ck_assert_int_eq(tls_context_reload(rig.context, &error), STATUS_OK);
    rig_connect();
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    ck_assert_int_eq(sk_X509_num(SSL_get_peer_cert_chain(rig.ssl)), 2);
    tls_identity_fini(&middle);
    tls_identity_fini(&leaf);
}
END_TEST

/* With --tls-client-ca nobody comes in without a certificate of one of its authorities. */
START_TEST(clients_need_a_certificate_where_an_authority_is_named) {
    struct error error = {0};
    struct tls_identity stranger = tls_make((struct tls_wish){.name = "stranger"});
    struct tls_identity expired = tls_make(
        (struct tls_wish){.name = "late", .issuer = &rig.root, .from_s = -7200, .until_s = -3600});
    const struct {
        struct tls_identity *shows;
        bool passes;
    } rows[] = {{NULL, false}, {&rig.other, true}, {&stranger, false}, {&expired, false}};
    const struct tls_server_config config = {
        .cert = rig.cert, .key = rig.key, .client_ca = rig.ca, .n_streams_max = 4};
    tls_context_free(rig.context);
    ck_assert_int_eq(tls_server_new(rig.loop, &config, &rig.context, &error), STATUS_OK);
    for (unsigned i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        const struct tls_identity *shows = rows[i / 2].shows;
        char byte;
        SSL_CTX_set_max_proto_version(rig.client, i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
        rig_connect();
        if (shows) {
            SSL_use_certificate(rig.ssl, shows->cert);
            SSL_use_PrivateKey(rig.ssl, shows->key);
        }
        int outcome = rig_handshake(); /* in TLS 1.3 the client's part ends before the verdict */
        if (rows[i / 2].passes) {
            ck_assert_int_eq(outcome, SSL_ERROR_NONE);
            ck_assert_int_eq(rig_write("x", 1), SSL_ERROR_NONE);
            rig_wait_data(1);
            ck_assert_uint_eq(rig.got.n, 1);
        } else {
            if (outcome == SSL_ERROR_NONE)
                outcome = rig_read_all(&byte, 1);
            ck_assert_int_eq(outcome, SSL_ERROR_SSL);
            rig_wait_gone();
            ck_assert_uint_eq(rig.got.n, 0);
            ck_assert_ptr_null(stream_protocol(rig.stream));
        }
        rig_hang_up();
    }
    tls_identity_fini(&stranger);
    tls_identity_fini(&expired);
}
END_TEST

/* A client may send certificates of 32 KiB in all. */
START_TEST(a_chain_of_client_certificates_has_a_bound) {
    struct error error = {0};
    const struct tls_server_config config = {
        .cert = rig.cert, .key = rig.key, .client_ca = rig.ca, .n_streams_max = 4};
    tls_context_free(rig.context);
    ck_assert_int_eq(tls_server_new(rig.loop, &config, &rig.context, &error), STATUS_OK);
    SSL_CTX_set_max_proto_version(rig.client, TLS1_2_VERSION);
    int n_bytes = i2d_X509(rig.root.cert, NULL) + 3; /* each with its length */
    for (unsigned i = 0; i < 2; i++) {
        rig_connect();
        SSL_use_certificate(rig.ssl, rig.other.cert);
        SSL_use_PrivateKey(rig.ssl, rig.other.key);
        for (int n = 0; n < (i == 0 ? 30000 : 40000); n += n_bytes)
            ck_assert_int_eq(SSL_add1_chain_cert(rig.ssl, rig.root.cert), 1);
        int outcome = rig_handshake();
        if (i == 0) {
            ck_assert_int_eq(outcome, SSL_ERROR_NONE);
        } else {
            ck_assert_int_ne(outcome, SSL_ERROR_NONE);
            rig_wait_gone();
            ck_assert_ptr_null(stream_protocol(rig.stream));
        }
        rig_hang_up();
    }
}
END_TEST

static unsigned n_over;

static void on_over(void *user, enum status status) {
    (void)user;
    ck_assert_int_eq(status, STATUS_IO);
    n_over++;
}

static void on_none(void *user, const char *bytes, size_t n) {
    (void)user, (void)bytes, (void)n;
    ck_abort_msg("nobody has said anything");
}

/* Handshakes that wait when the context ends are over, not open. */
START_TEST(handshakes_that_wait_end_with_their_context) {
    enum { MANY = 64 };
    static const struct stream_events events = {.data = on_none, .gone = on_over};
    struct stream *streams[MANY];
    SSL *clients[MANY];
    int fds[MANY][2];
    struct error error = {0};
    struct tls_identity strong =
        tls_make((struct tls_wish){.name = "localhost", .issuer = &rig.root, .rsa_bits = 4096});
    tls_write_certs(rig.folder, "cert.pem", (X509 *[]){strong.cert, NULL});
    tls_write_key(rig.folder, "key.pem", strong.key, NULL, 0600);
    const struct tls_server_config config = {
        .cert = rig.cert, .key = rig.key, .n_streams_max = MANY};
    tls_context_free(rig.context);
    ck_assert_int_eq(tls_server_new(rig.loop, &config, &rig.context, &error), STATUS_OK);
    n_over = 0;
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds[i]), 0);
        clients[i] = SSL_new(rig.client);
        SSL_set_fd(clients[i], fds[i][1]);
        SSL_set_connect_state(clients[i]);
        SSL_do_handshake(clients[i]);
        ck_assert_int_eq(
            stream_new_tls(rig.loop, fds[i][0], rig.context, &events, NULL, &streams[i]),
            STATUS_OK);
    }
    rig_turn(); /* each has its job: a quarter of a second of signatures */
    tls_context_free(rig.context);
    rig.context = NULL;
    ck_assert_uint_gt(n_over, 0);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_ptr_null(stream_protocol(streams[i]));
        stream_close(streams[i]);
        SSL_free(clients[i]);
        close(fds[i][1]);
    }
    rig_turn();
    tls_identity_fini(&strong);
}
END_TEST

/* --- our own client ------------------------------------------------------------------------- */

static struct client {
    struct stream *stream;
    struct tls_context *context;
    struct buf got;
    unsigned n_gone;
    enum status gone;
} client;

static void client_data(void *user, const char *bytes, size_t n) {
    (void)user;
    buf_append(&client.got, bytes, n);
}

static void client_gone(void *user, enum status status) {
    (void)user;
    client.n_gone++;
    client.gone = status;
}

static const struct stream_events client_events = {.data = client_data, .gone = client_gone};

/* Our client against our server, over the sockets of the rig. */
static void dial(const struct tls_client_config *config, const char *host) {
    struct error error = {0};
    client = (struct client){0};
    ck_assert_msg(tls_client_new(config, &client.context, &error) == STATUS_OK, "%s", error.text);
    rig_connect();
    ck_assert_int_eq(stream_new_tls_client(rig.loop, rig.fd, client.context, host, &client_events,
                                           NULL, &client.stream),
                     STATUS_OK);
    rig.fd = -1;
    ck_assert_int_eq(stream_write(client.stream, "hello", 5), STATUS_OK);
    while (client.n_gone == 0 && rig.got.n < 5)
        rig_turn();
    while (rig.got.n == 5 && client.got.n < 5) {
        if (client.got.n == 0 && rig.n_drained == 0 && stream_pending(rig.stream) == 0)
            ck_assert_int_eq(stream_write(rig.stream, "world", 5), STATUS_OK);
        rig_turn();
    }
}

static void hang_up(void) {
    stream_close(client.stream);
    rig_turn();
    tls_context_free(client.context);
    buf_fini(&client.got);
    rig_hang_up();
}

START_TEST(our_client_believes_names_and_addresses_that_its_roots_vouch_for) {
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    const struct tls_client_config config = {.ca = rig.ca, .protocols = "http/1.1"};
    for (unsigned i = 0; i < 2; i++) {
        dial(&config, hosts[i]);
        ck_assert_uint_eq(client.n_gone, 0);
        ck_assert_str_eq(client.got.data, "world");
        ck_assert_str_eq(stream_protocol(client.stream), "http/1.1");
        hang_up();
    }
}
END_TEST

START_TEST(our_client_refuses_others_and_says_why) {
    static const struct {
        bool has_ca;
        const char *host, *problem;
    } rows[] = {{true, "other.test", "hostname mismatch"},
                {true, "127.0.0.2", "IP address mismatch"},
                {true, "2001:db8::1", "IP address mismatch"},
                {true, "fe80::1%eth0", "IP address mismatch"},
                {false, "localhost", "unable to get local issuer certificate"}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tls_client_config config = {.ca = rows[i].has_ca ? rig.ca : ""};
        dial(&config, rows[i].host);
        ck_assert_uint_eq(client.n_gone, 1);
        ck_assert_int_eq(client.gone, STATUS_IO);
        const char *problem = stream_problem(client.stream);
        ck_assert_msg(strstr(problem, "the certificate is refused: ") && //
                          strstr(problem, rows[i].problem),
                      "%s", problem);
        ck_assert_uint_eq(rig.got.n, 0);
        hang_up();
        config.insecure = true;
        dial(&config, rows[i].host);
        ck_assert_str_eq(client.got.data, "world");
        hang_up();
    }
}
END_TEST

/* A star stands for a whole label (RFC 6125, 6.4.3). */
START_TEST(our_client_takes_no_star_within_a_label) {
    static const struct {
        const char *name;
        bool passes;
    } rows[] = {{"*.example.test", true}, {"f*.example.test", false}};
    const struct tls_client_config config = {.ca = rig.ca};
    for (unsigned i = 0; i < 2; i++) {
        struct error error = {0};
        struct tls_identity leaf =
            tls_make((struct tls_wish){.name = rows[i].name, .issuer = &rig.root});
        tls_write_certs(rig.folder, "cert.pem", (X509 *[]){leaf.cert, NULL});
        tls_write_key(rig.folder, "key.pem", leaf.key, NULL, 0600);
        ck_assert_int_eq(tls_context_reload(rig.context, &error), STATUS_OK);
        dial(&config, "foo.example.test");
        ck_assert_uint_eq(client.n_gone, !rows[i].passes);
        hang_up();
        tls_identity_fini(&leaf);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_up, rig_down);
    tcase_add_test(tests, a_file_that_does_not_serve_is_named_with_the_reason);
    tcase_add_test(tests, a_certificate_out_of_its_time_is_a_warning);
    tcase_add_test(tests, a_reload_is_for_new_streams_and_a_bad_one_changes_nothing);
    tcase_add_test(tests, files_that_are_others_are_read_again_and_a_failure_is_told_once);
    tcase_add_test(tests, the_end_of_the_certificate_is_known);
    tcase_add_test(tests, the_whole_chain_is_sent);
    tcase_add_test(tests, clients_need_a_certificate_where_an_authority_is_named);
    tcase_add_test(tests, handshakes_that_wait_end_with_their_context);
    tcase_add_test(tests, a_chain_of_client_certificates_has_a_bound);
    tcase_add_test(tests, our_client_takes_no_star_within_a_label);
    tcase_add_test(tests, our_client_believes_names_and_addresses_that_its_roots_vouch_for);
    tcase_add_test(tests, our_client_refuses_others_and_says_why);
}
