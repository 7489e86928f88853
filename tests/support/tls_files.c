#include "tests/support/tls_files.h"

#include "tests/support/suite.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void add(X509 *cert, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ck_assert_ptr_nonnull(extension);
    ck_assert_int_eq(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

struct tls_identity tls_make(struct tls_wish wish) {
    static long serial = 1;
    struct tls_identity made = {.cert = X509_new()};
    made.key = wish.rsa_bits ? EVP_RSA_gen((unsigned)wish.rsa_bits) : EVP_EC_gen("P-256");
    ck_assert(made.key && made.cert);
    if (wish.from_s == 0 && wish.until_s == 0) {
        wish.from_s = -3600;
        wish.until_s = 86400;
    }
    X509 *issuer = wish.issuer ? wish.issuer->cert : made.cert;
    X509_set_version(made.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made.cert), wish.from_s);
    X509_gmtime_adj(X509_getm_notAfter(made.cert), wish.until_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)wish.name, -1, -1, 0);
    X509_set_issuer_name(made.cert, X509_get_subject_name(issuer));
    X509_set_pubkey(made.cert, made.key);
    if (wish.issuer) {
        char names[256];
        snprintf(names, sizeof names, "DNS:%s,IP:127.0.0.1", wish.name);
        add(made.cert, issuer, NID_subject_alt_name, names);
    } else {
        add(made.cert, issuer, NID_basic_constraints, "critical,CA:TRUE");
    }
    ck_assert_int_gt(X509_sign(made.cert, wish.issuer ? wish.issuer->key : made.key, EVP_sha256()),
                     0);
    return made;
}

void tls_identity_fini(struct tls_identity *identity) {
    EVP_PKEY_free(identity->key);
    X509_free(identity->cert);
    *identity = (struct tls_identity){0};
}

static FILE *create(const char *folder, const char *name, const char **path) {
    static char paths[16][512];
    static unsigned turn;
    char *at = paths[turn++ % 16];
    snprintf(at, sizeof paths[0], "%s/%s", folder, name);
    remove(at);
    FILE *file = fopen(at, "we");
    ck_assert_ptr_nonnull(file);
    *path = at;
    return file;
}

const char *tls_write_certs(const char *folder, const char *name, X509 *const *certs) {
    const char *path;
    FILE *file = create(folder, name, &path);
    for (; *certs; certs++)
        ck_assert_int_eq(PEM_write_X509(file, *certs), 1);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, 0644), 0);
    return path;
}

const char *tls_write_key(const char *folder, const char *name, EVP_PKEY *key,
                          const char *passphrase, unsigned mode) {
    const char *path;
    FILE *file = create(folder, name, &path);
    ck_assert_int_eq(PEM_write_PrivateKey(file, key, passphrase ? EVP_aes_128_cbc() : NULL,
                                          (const unsigned char *)passphrase,
                                          passphrase ? (int)strlen(passphrase) : 0, NULL, NULL),
                     1);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}
