#include "worker/links/names.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/net/address.h"
#include "base/net/dns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "dns://"
#define SAY_NS (60 * NS_PER_S)

/* A router as it was told: an endpoint, or a name and what is behind it. */
struct names_told {
    const char *endpoint; /* borrowed */
    uint32_t at;          /* of the names; NOT_A_NAME: an endpoint */
    struct address address;
    struct dns_answer answer;
    uint64_t said_ns; /* when a line said that it fails; 0: it does not */
};
#define NOT_A_NAME UINT32_MAX

struct names {
    struct dns *dns;         /* owned */
    struct names_told *told; /* owned (n_told) */
    uint32_t n_told;
    char (*list)[MESSAGE_ENDPOINT_MAX]; /* owned (n_max) */
    uint32_t n_max;
};

bool names_is_one(const char *endpoint) {
    return strncmp(endpoint, SCHEME, strlen(SCHEME)) == 0;
}

static enum status names_split(const char *endpoint, struct address *address, struct error *error) {
    if (!address_split(endpoint + strlen(SCHEME), address) || !address->host[0] ||
        strpbrk(address->host, " \t/,") || strtoul(address->port, NULL, 10) == 0)
        return error_set(error, STATUS_INVALID, "\"%s\" is not dns://NAME:PORT", endpoint);
    return STATUS_OK;
}

enum status names_check(const char *endpoint, struct error *error) {
    struct address address;
    return names_is_one(endpoint) ? names_split(endpoint, &address, error) : STATUS_OK;
}

static enum status names_start(struct names *names, const char *const *routers, const char *server,
                               struct error *error) {
    const char *hosts[DNS_NAMES_MAX];
    uint32_t n_hosts = 0;
    for (uint32_t i = 0; i < names->n_told; i++) {
        struct names_told *told = &names->told[i];
        *told = (struct names_told){.endpoint = routers[i], .at = NOT_A_NAME};
        if (!names_is_one(routers[i]))
            continue;
        TRY(names_split(routers[i], &told->address, error));
        if (n_hosts == DNS_NAMES_MAX)
            return error_set(error, STATUS_LIMIT, "%s: more than %d names", routers[i],
                             DNS_NAMES_MAX);
        told->at = n_hosts;
        hosts[n_hosts++] = told->address.host;
    }
    return dns_new(hosts, n_hosts, server, &names->dns, error);
}

enum status names_open(const char *const *routers, uint32_t n, uint32_t n_max, const char *server,
                       struct names **names, struct error *error) {
    bool has_names = false;
    for (uint32_t i = 0; i < n; i++)
        has_names |= names_is_one(routers[i]);
    *names = NULL;
    if (!has_names)
        return STATUS_OK;
    struct names *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for names");
    *made = (struct names){.n_told = n, .n_max = n_max};
    made->told = calloc(n, sizeof *made->told);
    made->list = calloc(n_max, sizeof *made->list);
    enum status status = made->told && made->list
                             ? names_start(made, routers, server, error)
                             : error_set(error, STATUS_NOMEM, "no memory for names");
    if (status != STATUS_OK)
        names_close(made);
    else
        *names = made;
    return status;
}

void names_close(struct names *names) {
    if (!names)
        return;
    dns_free(names->dns);
    free(names->told);
    free(names->list);
    free(names);
}

/* A line at once when a name fails, one a minute while it does, and one with every new answer. */
static void names_say(struct names_told *told, bool is_new, uint64_t now_ns) {
    const struct dns_answer *answer = &told->answer;
    char name[sizeof told->address.host + 16], addresses[512] = "", shown[2 * sizeof addresses];
    log_text(name, sizeof name, told->address.host);
    if (answer->why[0] && (told->said_ns == 0 || now_ns - told->said_ns >= SAY_NS)) {
        told->said_ns = now_ns;
        log_warn("a name of routers is not resolved", "name=%s kept=%u why=%s", name, answer->n,
                 log_text(shown, sizeof shown, answer->why));
    }
    if (!is_new || answer->why[0])
        return;
    told->said_ns = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < answer->n && at < sizeof addresses; i++)
        at += (size_t)snprintf(addresses + at, sizeof addresses - at, "%s%s", i > 0 ? "," : "",
                               answer->addresses[i]);
    log_info("routers behind a name", "name=%s n=%u addresses=%s", name, answer->n,
             log_text(shown, sizeof shown, addresses));
}

static void names_add(struct names *names, struct names_list *list, const char *endpoint) {
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(names->list[i], endpoint) == 0)
            return;
    if (list->n < names->n_max)
        snprintf(names->list[list->n++], sizeof names->list[0], "%s", endpoint);
    else
        log_warn("too many routers", "left_out=%s most=%u", endpoint, names->n_max);
}

bool names_look(struct names *names, uint64_t now_ns, struct names_list *list) {
    bool any_new = false;
    for (uint32_t i = 0; i < names->n_told; i++) {
        struct names_told *told = &names->told[i];
        if (told->at == NOT_A_NAME)
            continue;
        bool is_new = dns_take(names->dns, told->at, &told->answer);
        any_new |= is_new;
        names_say(told, is_new, now_ns);
    }
    *list = (struct names_list){.all = names->list};
    for (uint32_t i = 0; any_new && i < names->n_told; i++) {
        const struct names_told *told = &names->told[i];
        char endpoint[MESSAGE_ENDPOINT_MAX];
        if (told->at == NOT_A_NAME)
            names_add(names, list, told->endpoint);
        for (uint32_t at = 0; told->at != NOT_A_NAME && at < told->answer.n; at++) {
            char pair[ADDRESS_TEXT_MAX];
            snprintf(endpoint, sizeof endpoint, "tcp://%.249s",
                     address_join(told->answer.addresses[at], told->address.port, pair));
            names_add(names, list, endpoint);
        }
    }
    return any_new;
}
