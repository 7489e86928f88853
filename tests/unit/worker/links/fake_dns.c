#include "tests/unit/worker/links/fake_dns.h"

#include "base/net/dns.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 8

static struct {
    char name[64];
    uint32_t version;
    struct dns_answer answer;
} said[NAMES_MAX];

static uint32_t n_said, n_versions, n_open;

struct dns {
    uint32_t n;
    char names[DNS_NAMES_MAX][64];
    uint32_t taken[DNS_NAMES_MAX]; /* the version */
};

static uint32_t index_of(const char *name) {
    uint32_t i = 0;
    while (i < n_said && strcmp(said[i].name, name) != 0)
        i++;
    return i;
}

void fake_dns_say(const char *name, const char *addresses, const char *why) {
    uint32_t i = index_of(name);
    ck_assert_uint_lt(i, NAMES_MAX);
    n_said += i == n_said;
    snprintf(said[i].name, sizeof said[i].name, "%s", name);
    struct dns_answer *answer = &said[i].answer;
    *answer = (struct dns_answer){0};
    snprintf(answer->why, sizeof answer->why, "%s", why);
    for (const char *at = addresses; *at; at += strspn(at, " ")) {
        size_t n_bytes = strcspn(at, " ");
        ck_assert_uint_lt(answer->n, DNS_ADDRESSES_MAX);
        snprintf(answer->addresses[answer->n++], DNS_ADDRESS_BYTES, "%.*s", (int)n_bytes, at);
        at += n_bytes;
    }
    said[i].version = ++n_versions;
}

void fake_dns_forget(void) {
    n_said = 0;
}

uint32_t fake_dns_n_open(void) {
    return n_open;
}

enum status dns_new(const char *const *names, uint32_t n, const char *server, struct dns **dns,
                    struct error *error) {
    if (strcmp(server, FAKE_DNS_SERVER) != 0)
        return error_set(error, STATUS_INVALID, "\"%s\" is not the server", server);
    struct dns *made = calloc(1, sizeof *made);
    ck_assert_ptr_nonnull(made);
    ck_assert_uint_le(n, DNS_NAMES_MAX);
    for (made->n = 0; made->n < n; made->n++)
        snprintf(made->names[made->n], sizeof made->names[0], "%s", names[made->n]);
    n_open++;
    *dns = made;
    return STATUS_OK;
}

void dns_free(struct dns *dns) {
    n_open -= dns != NULL;
    free(dns);
}

bool dns_take(struct dns *dns, uint32_t at, struct dns_answer *answer) {
    ck_assert_uint_lt(at, dns->n);
    uint32_t i = index_of(dns->names[at]);
    if (i == n_said || dns->taken[at] == said[i].version)
        return false;
    dns->taken[at] = said[i].version;
    *answer = said[i].answer;
    return true;
}
