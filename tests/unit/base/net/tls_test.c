#include "tests/support/suite.h"
#include "tests/unit/base/net/tls_rig.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const char *const suite_name = "base_tls";
const double suite_timeout_s = 120;

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
#define N_VERSIONS 2

static void offer_version(int version) {
    SSL_CTX_set_min_proto_version(rig.client, version);
    SSL_CTX_set_max_proto_version(rig.client, version);
}

static void connect_version(int version) {
    offer_version(version);
    rig_connect();
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    while (!stream_protocol(rig.stream))
        rig_turn();
}

/* --- agreeing ------------------------------------------------------------------------------- */

START_TEST(both_versions_carry_bytes_both_ways) {
    connect_version(versions[_i]);
    ck_assert_int_eq(SSL_version(rig.ssl), versions[_i]);
    ck_assert_int_eq(rig_write("hello", 5), SSL_ERROR_NONE);
    rig_wait_data(5);
    ck_assert_str_eq(rig.got.data, "hello");
    ck_assert_int_eq(stream_write(rig.stream, "world", 5), STATUS_OK);
    ck_assert_uint_eq(stream_pending(rig.stream), 5);
    char text[8] = "";
    ck_assert_int_eq(rig_read_all(text, 5), SSL_ERROR_NONE);
    ck_assert_str_eq(text, "world");
    ck_assert_uint_eq(stream_pending(rig.stream), 0);
    ck_assert_uint_eq(rig.n_drained, 1);
    ck_assert_uint_eq(tls_context_counts(rig.context).n_full, 1);
}
END_TEST

START_TEST(older_versions_are_refused) {
    SSL_CTX_set_security_level(rig.client, 0);
    offer_version(TLS1_1_VERSION);
    rig_connect();
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_SSL);
    rig_wait_gone();
    ck_assert_int_eq(rig.gone, STATUS_IO);
    ck_assert_uint_eq(tls_context_counts(rig.context).n_failed, 1);
    ck_assert_str_ne(stream_problem(rig.stream), "");
}
END_TEST

/* TLS 1.2 with a key exchange or a cipher that one may not use any more. */
START_TEST(old_ciphers_are_refused) {
    static const struct {
        const char *ciphers;
        bool passes;
    } rows[] = {{"ECDHE-ECDSA-AES128-GCM-SHA256", true},
                {"ECDHE-ECDSA-CHACHA20-POLY1305", true},
                {"ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384", false},
                {"AES128-SHA:AES128-GCM-SHA256:AES256-SHA256", false},
                {"ECDHE-ECDSA-AES128-CCM", false}};
    offer_version(TLS1_2_VERSION);
    SSL_CTX_set_security_level(rig.client, 0);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig_connect();
        ck_assert_int_eq(SSL_set_cipher_list(rig.ssl, rows[i].ciphers), 1);
        ck_assert_int_eq(rig_handshake(), rows[i].passes ? SSL_ERROR_NONE : SSL_ERROR_SSL);
        if (!rows[i].passes)
            rig_wait_gone();
        rig_hang_up();
    }
    ck_assert_uint_eq(tls_context_counts(rig.context).n_failed, 3);
}
END_TEST

/* Its handshake is not computed. */
START_TEST(a_client_that_hung_up_before_its_turn_costs_no_signature) {
    rig_connect();
    SSL_do_handshake(rig.ssl); /* its first words are on their way */
    ck_assert_int_eq(shutdown(rig.fd, SHUT_WR), 0);
    rig_wait_gone();
    ck_assert_int_eq(rig.gone, STATUS_IO);
    ck_assert_ptr_nonnull(strstr(stream_problem(rig.stream), "hung up before its turn"));
    ck_assert_uint_eq(tls_context_counts(rig.context).n_failed, 1);
    char byte;
    ck_assert_int_le(recv(rig.fd, &byte, 1, MSG_DONTWAIT), 0); /* not a word came back */
    rig_hang_up();
}
END_TEST

START_TEST(the_server_chooses_the_protocol_by_its_own_order) {
    static const struct {
        const char *offer;
        unsigned n;
        const char *chosen; /* NULL: refused */
    } rows[] = {{"\x08http/1.1\x02h2", 12, "h2"},
                {"\x02h2", 3, "h2"},
                {"\x08http/1.1", 9, "http/1.1"},
                {"\x08http/1.0\x08http/1.1", 18, "http/1.1"},
                {"", 0, "http/1.1"},
                {"\x02h3", 3, NULL}};
    rig_connect();
    ck_assert_ptr_null(stream_protocol(rig.stream));
    rig_hang_up();
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig_connect();
        if (rows[i].n > 0)
            SSL_set_alpn_protos(rig.ssl, (const unsigned char *)rows[i].offer, rows[i].n);
        ck_assert_int_eq(rig_handshake(), rows[i].chosen ? SSL_ERROR_NONE : SSL_ERROR_SSL);
        if (rows[i].chosen) {
            while (!stream_protocol(rig.stream))
                rig_turn();
            ck_assert_str_eq(stream_protocol(rig.stream), rows[i].chosen);
        } else {
            ck_assert_int_eq(ERR_GET_REASON(ERR_peek_error()),
                             SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
            rig_wait_gone();
        }
        rig_hang_up();
    }
}
END_TEST

/* Tickets: the second handshake needs no signature. In TLS 1.3 they come behind the handshake. */
START_TEST(sessions_are_resumed_by_tickets) {
    char byte;
    connect_version(versions[_i]);
    ck_assert_int_eq(stream_write(rig.stream, "x", 1), STATUS_OK);
    ck_assert_int_eq(rig_read_all(&byte, 1), SSL_ERROR_NONE);
    SSL_SESSION *session = SSL_get1_session(rig.ssl);
    SSL_set_shutdown(rig.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* or it is forgotten */
    rig_hang_up();
    rig_connect();
    ck_assert_int_eq(SSL_set_session(rig.ssl, session), 1);
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    ck_assert_int_eq(SSL_session_reused(rig.ssl), 1);
    ck_assert_int_eq(rig_write("a", 1), SSL_ERROR_NONE);
    rig_wait_data(1);
    ck_assert_uint_eq(tls_context_counts(rig.context).n_full, 1);
    ck_assert_uint_eq(tls_context_counts(rig.context).n_resumed, 1);
    SSL_SESSION_free(session);
}
END_TEST

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The signature of a long RSA key is made elsewhere: no turn of the loop takes the time of one. Of all handshakes the one
 * counts in which the machine took the least for itself. */
START_TEST(a_handshake_does_not_hold_the_loop) {
    enum { N = 8 };
    unsigned char digest[32] = {1}, signature[1024];
    struct error error = {0};
    struct tls_identity strong =
        tls_make((struct tls_wish){.name = "localhost", .issuer = &rig.root, .rsa_bits = 4096});
    tls_write_certs(rig.folder, "cert.pem", (X509 *[]){strong.cert, NULL});
    tls_write_key(rig.folder, "key.pem", strong.key, NULL, 0600);
    ck_assert_int_eq(tls_context_reload(rig.context, &error), STATUS_OK);
    EVP_PKEY_CTX *signer = EVP_PKEY_CTX_new(strong.key, NULL);
    EVP_PKEY_sign_init(signer);
    EVP_PKEY_CTX_set_rsa_padding(signer, RSA_PKCS1_PSS_PADDING);
    EVP_PKEY_CTX_set_signature_md(signer, EVP_sha256());
    uint64_t signature_ns = UINT64_MAX;
    for (unsigned i = 0; i < N; i++) {
        size_t n = sizeof signature;
        uint64_t begin_ns = cpu_ns();
        ck_assert_int_eq(EVP_PKEY_sign(signer, signature, &n, digest, sizeof digest), 1);
        uint64_t took_ns = cpu_ns() - begin_ns;
        signature_ns = took_ns < signature_ns ? took_ns : signature_ns;
    }
    EVP_PKEY_CTX_free(signer);
    uint64_t least_ns = UINT64_MAX;
    for (unsigned i = 0; i < N; i++) {
        uint64_t longest_ns = 0;
        rig_connect();
        while (SSL_do_handshake(rig.ssl) != 1) {
            uint64_t begin_ns = cpu_ns();
            rig_turn();
            uint64_t took_ns = cpu_ns() - begin_ns;
            longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
        }
        while (!stream_protocol(rig.stream))
            rig_turn();
        rig_hang_up();
        least_ns = longest_ns < least_ns ? longest_ns : least_ns;
    }
    printf("RSA-4096: a signature takes %.2f ms, the longest turn of a handshake %.3f ms\n",
           (double)signature_ns / 1e6, (double)least_ns / 1e6);
    ck_assert_uint_lt(least_ns, signature_ns);
    tls_identity_fini(&strong);
}
END_TEST

START_TEST(a_stream_may_be_closed_while_its_handshake_is_out) {
    for (unsigned n_turns = 0; n_turns < 6; n_turns++) {
        rig_connect();
        SSL_do_handshake(rig.ssl);
        for (unsigned i = 0; i < n_turns; i++)
            rig_turn();
        rig_hang_up();
    }
    rig_connect(); /* and the context, too: rig_down() */
    SSL_do_handshake(rig.ssl);
    rig_turn();
    ck_assert_uint_eq(rig.n_gone, 0);
}
END_TEST

/* --- records -------------------------------------------------------------------------------- */

START_TEST(records_of_every_size_arrive_in_order) {
    static unsigned char block[16384];
    size_t total = 0;
    connect_version(versions[_i]);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t n = 1; n <= sizeof block; n += n < 300 || n > 16300 ? 1 : 157) {
        ck_assert_int_eq(rig_write(block, n), SSL_ERROR_NONE);
        rig_wait_data(total + n);
        ck_assert_uint_eq(rig.got.n, total + n);
        ck_assert_mem_eq(rig.got.data + total, block, n);
        total += n;
    }
}
END_TEST

/* Moves what the client has to say, byte by byte, a turn between any two. */
static void drip(BIO *from, int to) {
    char byte;
    while (BIO_read(from, &byte, 1) == 1) {
        ck_assert_int_eq(send(to, &byte, 1, MSG_NOSIGNAL), 1);
        rig_turn();
    }
}

START_TEST(bytes_one_at_a_time_make_the_same_stream) {
    offer_version(versions[_i]);
    rig_connect();
    BIO *out = BIO_new(BIO_s_mem());
    BIO *in = BIO_new_socket(rig.fd, BIO_NOCLOSE);
    SSL_set_bio(rig.ssl, in, out);
    while (SSL_do_handshake(rig.ssl) != 1) {
        drip(out, rig.fd);
        rig_turn();
    }
    drip(out, rig.fd);
    ck_assert_int_eq(SSL_write(rig.ssl, "piece by piece", 14), 14);
    drip(out, rig.fd);
    rig_wait_data(14);
    ck_assert_str_eq(rig.got.data, "piece by piece");
    ck_assert_uint_eq(rig.n_gone, 0);
}
END_TEST

START_TEST(small_records_that_lie_ready_are_one_piece_of_data) {
    connect_version(versions[_i]);
    for (unsigned i = 0; i < 100; i++)
        ck_assert_int_eq(SSL_write(rig.ssl, "0123456789", 10), 10);
    rig_wait_data(1000);
    ck_assert_uint_eq(rig.got.n, 1000);
    ck_assert_uint_eq(rig.n_data, 1);
}
END_TEST

START_TEST(large_output_waits_for_a_slow_reader_and_drains) {
    enum { N = 4 << 20 };
    connect_version(versions[_i]);
    char *block = malloc(N), *back = malloc(N);
    for (size_t i = 0; i < N; i++)
        block[i] = (char)(i * 2654435761u >> 13);
    ck_assert_int_eq(stream_write(rig.stream, block, N), STATUS_OK);
    ck_assert_uint_eq(stream_pending(rig.stream), N);
    for (unsigned i = 0; i < 10; i++)
        rig_turn();
    size_t pending = stream_pending(rig.stream);
    ck_assert_uint_gt(pending, 0);
    ck_assert_uint_lt(pending, N);
    uint64_t progress_ns = stream_progress_ns(rig.stream);
    for (unsigned i = 0; i < 10; i++)
        rig_turn();
    ck_assert_uint_eq(stream_pending(rig.stream), pending); /* nobody reads, nothing moves */
    ck_assert_uint_eq(stream_progress_ns(rig.stream), progress_ns);
    ck_assert_int_eq(rig_read_all(back, N), SSL_ERROR_NONE);
    ck_assert_mem_eq(back, block, N);
    rig_turn();
    ck_assert_uint_eq(stream_pending(rig.stream), 0);
    ck_assert_uint_gt(stream_progress_ns(rig.stream), progress_ns);
    ck_assert_uint_eq(rig.n_drained, 1);
    free(block);
    free(back);
}
END_TEST

/* Less than a record leaves the socket at a time: each bit of it is progress of a slow client. */
START_TEST(a_part_of_a_record_is_progress) {
    static char block[1 << 20], bytes[1024];
    int small = 4608;
    connect_version(TLS1_3_VERSION);
    setsockopt(stream_fd(rig.stream), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    ck_assert_int_eq(stream_write(rig.stream, block, sizeof block), STATUS_OK);
    for (unsigned i = 0; i < 10; i++)
        rig_turn();
    size_t pending = stream_pending(rig.stream);
    unsigned n_moves = 0;
    for (unsigned i = 0; i < 1000 && stream_pending(rig.stream) == pending; i++) {
        uint64_t before_ns = stream_progress_ns(rig.stream);
        (void)!recv(rig.fd, bytes, sizeof bytes, 0);
        for (unsigned k = 0; k < 3; k++)
            rig_turn();
        n_moves += stream_progress_ns(rig.stream) > before_ns;
    }
    ck_assert_uint_gt(n_moves, 1);
}
END_TEST

START_TEST(a_paused_stream_shakes_hands_but_delivers_nothing) {
    enum { N = 300000 };
    static char block[N];
    rig_connect();
    stream_pause(rig.stream, true);
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    for (unsigned i = 0; i < 10 || !stream_protocol(rig.stream); i++)
        rig_turn();
    ck_assert_int_eq(SSL_write(rig.ssl, "early", 5), 5);
    for (unsigned i = 0; i < 10; i++)
        rig_turn();
    ck_assert_uint_eq(rig.got.n, 0);
    stream_pause(rig.stream, false);
    rig_wait_data(5);
    rig.pause_at_data = true; /* with records that were received, but not yet delivered */
    for (size_t at = 0, n; at < N; at += n) {
        ERR_clear_error();
        if (SSL_write_ex(rig.ssl, block + at, N - at < 16384 ? N - at : 16384, &n) != 1)
            n = 0;
        if (rig.n_data > 1) {
            size_t so_far = rig.got.n;
            for (unsigned i = 0; i < 5; i++)
                rig_turn();
            ck_assert_uint_eq(rig.got.n, so_far);
            rig.n_data = 1;
            stream_pause(rig.stream, false);
        }
        rig_turn();
    }
    for (unsigned i = 0; rig.got.n < N + 5; i++) {
        stream_pause(rig.stream, false);
        rig_turn();
    }
    ck_assert_uint_eq(rig.got.n, N + 5);
}
END_TEST

/* What came with one read but did not fit into one piece of data is delivered without another
 * byte from the socket. */
START_TEST(what_waits_inside_is_delivered_after_a_pause) {
    static char block[60000];
    connect_version(TLS1_3_VERSION);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(rig_write(block, sizeof block), SSL_ERROR_NONE);
    rig.pause_at_data = true;
    for (unsigned n_pauses = 0; rig.got.n < 2 * sizeof block; n_pauses++) {
        ck_assert_uint_lt(n_pauses, 100);
        for (unsigned i = 0; i < 5; i++)
            rig_turn();
        stream_pause(rig.stream, false);
    }
    ck_assert_uint_gt(rig.n_data, 1);
}
END_TEST

/* The first piece ends within the second record, and the socket has no byte more. */
START_TEST(the_rest_of_a_record_needs_no_byte_of_the_socket) {
    static char block[10000];
    connect_version(TLS1_3_VERSION);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(rig_write(block, sizeof block), SSL_ERROR_NONE);
    rig_wait_data(2 * sizeof block);
    ck_assert_uint_eq(rig.n_data, 2);
}
END_TEST

START_TEST(key_updates_do_not_disturb) {
    char text[8] = "";
    connect_version(TLS1_3_VERSION);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(SSL_key_update(rig.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        ck_assert_int_eq(rig_write("ping", 4), SSL_ERROR_NONE);
        rig_wait_data(4 * (i + 1));
        ck_assert_int_eq(stream_write(rig.stream, "pong", 4), STATUS_OK);
        ck_assert_int_eq(rig_read_all(text, 4), SSL_ERROR_NONE);
        ck_assert_str_eq(text, "pong");
    }
}
END_TEST

START_TEST(what_is_written_before_the_handshake_is_sent_after_it) {
    char text[8] = "";
    rig_connect();
    ck_assert_int_eq(stream_write(rig.stream, "early", 5), STATUS_OK);
    for (unsigned i = 0; i < 5; i++)
        rig_turn();
    ck_assert_uint_eq(stream_pending(rig.stream), 5);
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_NONE);
    ck_assert_int_eq(rig_read_all(text, 5), SSL_ERROR_NONE);
    ck_assert_str_eq(text, "early");
}
END_TEST

/* --- ends ----------------------------------------------------------------------------------- */

START_TEST(an_end_that_is_said_is_closed_and_one_that_is_not_is_broken) {
    for (unsigned said = 0; said < 2; said++) {
        connect_version(versions[_i]);
        ck_assert_int_eq(rig_write("last words", 10), SSL_ERROR_NONE);
        if (said)
            SSL_shutdown(rig.ssl);
        close(rig.fd);
        rig.fd = -1;
        rig_wait_gone();
        ck_assert_str_eq(rig.got.data, "last words");
        ck_assert_int_eq(rig.gone, said ? STATUS_CLOSED : STATUS_IO);
        for (unsigned i = 0; i < 5; i++)
            rig_turn();
        ck_assert_uint_eq(rig.n_gone, 1);
        ck_assert_int_eq(stream_write(rig.stream, "x", 1), STATUS_CLOSED);
        rig_hang_up();
    }
}
END_TEST

/* Half-closed: the client has said its end, and its socket stays open for our answer. */
START_TEST(a_half_closed_client_is_gone) {
    connect_version(versions[_i]);
    SSL_shutdown(rig.ssl);
    rig_wait_gone();
    ck_assert_int_eq(rig.gone, STATUS_CLOSED);
}
END_TEST

START_TEST(shutdown_sends_all_then_the_alert_and_reads_on) {
    char text[8] = "";
    size_t n;
    connect_version(versions[_i]);
    ck_assert_int_eq(stream_write(rig.stream, "bye", 3), STATUS_OK);
    stream_shutdown(rig.stream);
    ck_assert_int_eq(rig_read_all(text, 3), SSL_ERROR_NONE);
    ck_assert_int_eq(rig_read(text, sizeof text, &n), SSL_ERROR_ZERO_RETURN);
    ck_assert_int_eq(rig_write("still here", 10), SSL_ERROR_NONE);
    rig_wait_data(10);
    ck_assert_str_eq(rig.got.data, "still here");
    ck_assert_uint_eq(rig.n_gone, 0);
}
END_TEST

START_TEST(a_close_is_said_unless_something_is_missing) {
    static char block[8 << 20];
    for (unsigned missing = 0; missing < 2; missing++) {
        size_t n;
        connect_version(versions[_i]);
        if (missing)
            ck_assert_int_eq(stream_write(rig.stream, block, sizeof block), STATUS_OK);
        rig_turn();
        stream_close(rig.stream);
        rig.stream = NULL;
        int error;
        while ((error = rig_read(block, sizeof block, &n)) == SSL_ERROR_NONE)
            continue;
        ck_assert_int_eq(error, missing ? SSL_ERROR_SSL : SSL_ERROR_ZERO_RETURN);
        rig_hang_up();
    }
}
END_TEST

START_TEST(a_broken_record_ends_the_stream_with_an_alert) {
    static const char forged[] = "\x17\x03\x03\x00\x20 this was never enciphered by us.....";
    char text[8];
    size_t n;
    connect_version(versions[_i]);
    ck_assert_int_gt(send(rig.fd, forged, 5 + 32, 0), 0);
    rig_wait_gone();
    ck_assert_int_eq(rig.gone, STATUS_IO);
    ck_assert_uint_eq(rig.got.n, 0);
    ck_assert_int_eq(rig_read(text, sizeof text, &n), SSL_ERROR_SSL);
    ck_assert_int_eq(ERR_GET_REASON(ERR_peek_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
}
END_TEST

START_TEST(strangers_to_tls_are_told_and_closed) {
    static const struct {
        const char *bytes;
        const char *answer; /* its beginning */
    } rows[] = {{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400 "},
                {"POST /v1/chat/completions HTTP/1.1\r\n", "HTTP/1.1 400 "},
                {"SSH-2.0-OpenSSH_9.2\r\n", ""},
                {"\x16\x03\x01\x40\x01garbage that is too long", ""},
                {"\x80\x2e\x01\x03\x01", ""}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256] = "";
        rig_connect();
        ck_assert_int_gt(send(rig.fd, rows[i].bytes, strlen(rows[i].bytes), 0), 0);
        shutdown(rig.fd, SHUT_WR);
        rig_wait_gone();
        ck_assert_int_eq(rig.gone, STATUS_IO);
        (void)!recv(rig.fd, text, sizeof text - 1, 0);
        ck_assert_msg(strncmp(text, rows[i].answer, strlen(rows[i].answer)) == 0, "%u: %s", i,
                      text);
        rig_hang_up();
    }
}
END_TEST

/* OpenSSL's CVE-2009-3555 and the cost of handshakes: nobody starts a second one. */
START_TEST(renegotiation_is_refused) {
    connect_version(TLS1_2_VERSION);
    uint64_t n_full = tls_context_counts(rig.context).n_full;
    ck_assert_int_eq(SSL_renegotiate(rig.ssl), 1);
    ck_assert_int_eq(rig_handshake(), SSL_ERROR_SSL);
    ck_assert_int_eq(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    ck_assert_uint_eq(tls_context_counts(rig.context).n_full, n_full);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, rig_up, rig_down);
    tcase_add_loop_test(tests, both_versions_carry_bytes_both_ways, 0, N_VERSIONS);
    tcase_add_test(tests, older_versions_are_refused);
    tcase_add_test(tests, old_ciphers_are_refused);
    tcase_add_test(tests, a_client_that_hung_up_before_its_turn_costs_no_signature);
    tcase_add_test(tests, the_server_chooses_the_protocol_by_its_own_order);
    tcase_add_loop_test(tests, sessions_are_resumed_by_tickets, 0, N_VERSIONS);
    tcase_add_test(tests, a_handshake_does_not_hold_the_loop);
    tcase_add_test(tests, a_stream_may_be_closed_while_its_handshake_is_out);
    tcase_add_loop_test(tests, records_of_every_size_arrive_in_order, 0, N_VERSIONS);
    tcase_add_loop_test(tests, bytes_one_at_a_time_make_the_same_stream, 0, N_VERSIONS);
    tcase_add_loop_test(tests, small_records_that_lie_ready_are_one_piece_of_data, 0, N_VERSIONS);
    tcase_add_loop_test(tests, large_output_waits_for_a_slow_reader_and_drains, 0, N_VERSIONS);
    tcase_add_test(tests, a_part_of_a_record_is_progress);
    tcase_add_test(tests, a_paused_stream_shakes_hands_but_delivers_nothing);
    tcase_add_test(tests, the_rest_of_a_record_needs_no_byte_of_the_socket);
    tcase_add_test(tests, what_waits_inside_is_delivered_after_a_pause);
    tcase_add_test(tests, key_updates_do_not_disturb);
    tcase_add_test(tests, what_is_written_before_the_handshake_is_sent_after_it);
    tcase_add_loop_test(tests, an_end_that_is_said_is_closed_and_one_that_is_not_is_broken, 0,
                        N_VERSIONS);
    tcase_add_loop_test(tests, a_half_closed_client_is_gone, 0, N_VERSIONS);
    tcase_add_loop_test(tests, shutdown_sends_all_then_the_alert_and_reads_on, 0, N_VERSIONS);
    tcase_add_loop_test(tests, a_close_is_said_unless_something_is_missing, 0, N_VERSIONS);
    tcase_add_loop_test(tests, a_broken_record_ends_the_stream_with_an_alert, 0, N_VERSIONS);
    tcase_add_test(tests, strangers_to_tls_are_told_and_closed);
    tcase_add_test(tests, renegotiation_is_refused);
}
