/* tests/support/tls_files.h: keys and certificates made on the spot, as PEM files in a folder. */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

struct tls_identity {
    EVP_PKEY *key;
    X509 *cert;
};

/* What a certificate says. Zero: a P-256 key, valid from an hour ago to in a day. */
struct tls_wish {
    const char *name;                  /* common name, and a DNS name where it is a server's */
    const struct tls_identity *issuer; /* NULL: signs itself, as a root */
    int rsa_bits;
    long from_s, until_s; /* from now; both 0: as above */
};

struct tls_identity tls_make(struct tls_wish wish);
void tls_identity_fini(struct tls_identity *identity);

/* "FOLDER/NAME" with the certificates (up to a NULL) or the key; `mode` as of chmod. The path is
 * static, in turn one of 16. */
const char *tls_write_certs(const char *folder, const char *name, X509 *const *certs);
const char *tls_write_key(const char *folder, const char *name, EVP_PKEY *key,
                          const char *passphrase, unsigned mode);
