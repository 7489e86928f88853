#include "worker/links/lookup.h"

#include "base/net/address.h"
#include "base/net/dns.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "tcp://"

struct lookup {
    struct dns *dns; /* owned */
    struct address address;
    struct dns_answer answer;
    uint32_t n_taken; /* of the addresses, round and round */
};

static bool lookup_split(const char *endpoint, struct address *address) {
    struct in_addr ignored;
    return strncmp(endpoint, SCHEME, strlen(SCHEME)) == 0 &&
           address_split(endpoint + strlen(SCHEME), address) && !address_is_any(address->host) &&
           !address_is_v6(address->host) && inet_pton(AF_INET, address->host, &ignored) != 1;
}

bool lookup_is_for(const char *endpoint) {
    struct address address;
    return lookup_split(endpoint, &address);
}

enum status lookup_new(const char *endpoint, const char *server, struct lookup **lookup,
                       struct error *error) {
    struct lookup *made = calloc(1, sizeof *made);
    if (!made || !lookup_split(endpoint, &made->address)) {
        free(made);
        return error_set(error, STATUS_NOMEM, "no memory to look for %s", endpoint);
    }
    const char *name = made->address.host;
    enum status status = dns_new(&name, 1, server, &made->dns, error);
    if (status != STATUS_OK)
        lookup_free(made);
    else
        *lookup = made;
    return status;
}

void lookup_free(struct lookup *lookup) {
    if (!lookup)
        return;
    dns_free(lookup->dns);
    free(lookup);
}

const char *lookup_why(struct lookup *lookup) {
    if (!lookup)
        return "";
    (void)dns_take(lookup->dns, 0, &lookup->answer);
    return lookup->answer.n == 0 ? lookup->answer.why : "";
}

bool lookup_next(struct lookup *lookup, char endpoint[MESSAGE_ENDPOINT_MAX]) {
    char pair[ADDRESS_TEXT_MAX];
    if (!lookup)
        return false;
    (void)dns_take(lookup->dns, 0, &lookup->answer);
    if (lookup->answer.n == 0)
        return false;
    const char *host = lookup->answer.addresses[lookup->n_taken++ % lookup->answer.n];
    snprintf(endpoint, MESSAGE_ENDPOINT_MAX, SCHEME "%.249s",
             address_join(host, lookup->address.port, pair));
    return true;
}
