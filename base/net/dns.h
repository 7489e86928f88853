/* base/net/dns.h: the addresses behind names, asked for again and again by a thread of its own.
 *
 * Every DNS_EVERY_NS all names are asked for (c-ares: /etc/hosts, then the servers and search
 * domains of /etc/resolv.conf, read anew each time), IPv4 and IPv6 apart: a lookup that fails keeps
 * the earlier answer. A time to live is not waited for: who moves is to be found within seconds.
 * One thread owns a struct dns and takes answers from it; the asking thread meets it under one
 * mutex, held for copies. Nothing here blocks the owner but dns_free(), which waits for the thread
 * to leave its poll. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define DNS_EVERY_NS      2000000000ull /* from the end of an answer to the next question */
#define DNS_LIMIT_NS      5000000000ull /* a question without an answer counts as failed then */
#define DNS_NAMES_MAX     64
#define DNS_ADDRESSES_MAX 64 /* behind a name, of both kinds together; what is beyond is left out */
#define DNS_ADDRESS_BYTES 46 /* INET6_ADDRSTRLEN */
#define DNS_WHY_BYTES     64

struct dns;

struct dns_answer {
    uint32_t n;                                           /* 0: nothing is known yet */
    char addresses[DNS_ADDRESSES_MAX][DNS_ADDRESS_BYTES]; /* sorted, each once */
    char why
        [DNS_WHY_BYTES]; /* the last question failed so, and the addresses are those from before; "" */
};

/* Starts to ask. names: (n, at most DNS_NAMES_MAX) copied; an address as a name is its own answer.
 * server: "HOST[:PORT],..." instead of those of /etc/resolv.conf, or "". STATUS_INVALID for a server that
 * is none; STATUS_NOMEM, STATUS_LIMIT. */
NODISCARD enum status dns_new(const char *const *names, uint32_t n, const char *server,
                              struct dns **dns, struct error *error);
void dns_free(struct dns *dns); /* NULL is fine */

/* Copies what is known of the name number `at`. False, and nothing copied: as it was when it was taken last (at first:
 * no question has ended). */
bool dns_take(struct dns *dns, uint32_t at, struct dns_answer *answer);
