/* Addresses of a configuration: whose host they are of. */
#include "tools/cli/doctor/doctor_parts.h"

#include "base/net/address.h"
#include "base/net/tcp.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool doctor_split(const char *address, char host[VALUE_MAX], char port[8]) {
    struct address at;
    if (!address_split(address, &at))
        return false;
    snprintf(port, 8, "%s", at.port);
    snprintf(host, VALUE_MAX, "%s", at.host);
    return true;
}

struct addrinfo *doctor_resolve(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct addrinfo *list = NULL;
    return getaddrinfo(host, port, &hints, &list) == 0 ? list : NULL;
}

static bool doctor_address_is_numeric(const char *host) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *list = NULL;
    bool is = getaddrinfo(host, NULL, &hints, &list) == 0;
    if (is)
        freeaddrinfo(list);
    return is;
}

bool doctor_names_interface(const char *endpoint) {
    char host[VALUE_MAX], port[8];
    return strncmp(endpoint, "tcp://", 6) == 0 && doctor_split(endpoint + 6, host, port) &&
           host[0] && strcmp(host, "*") != 0 && strcmp(host, "localhost") != 0 &&
           !doctor_address_is_numeric(host);
}

static bool doctor_address_is_of(const struct ifaddrs *at, int family) {
    return at->ifa_addr && at->ifa_addr->sa_family == family;
}

static socklen_t doctor_address_size_of(int family) {
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

bool doctor_interface_address(const char *name, char numeric[VALUE_MAX]) {
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (int family = AF_INET; !found && family; family = family == AF_INET ? AF_INET6 : 0)
        for (struct ifaddrs *at = all; at && !found; at = at->ifa_next)
            found = strcmp(at->ifa_name, name) == 0 && doctor_address_is_of(at, family) &&
                    getnameinfo(at->ifa_addr, doctor_address_size_of(family), numeric, VALUE_MAX,
                                NULL, 0, NI_NUMERICHOST) == 0;
    freeifaddrs(all);
    return found;
}

bool doctor_is_elsewhere(const char *endpoint) {
    char host[VALUE_MAX], port[8];
    if (strncmp(endpoint, "tcp://", 6) != 0 || !doctor_split(endpoint + 6, host, port) ||
        strcmp(host, "*") == 0 || host[0] == '\0' || if_nametoindex(host) != 0)
        return false;
    struct addrinfo *list = doctor_resolve(host, "0");
    bool is_ours = list == NULL; /* an unknown name is looked at elsewhere */
    for (struct addrinfo *at = list; at && !is_ours; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        /* An address is ours when a socket can be bound to it. */
        is_ours = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0;
        if (fd >= 0)
            close(fd);
    }
    if (list)
        freeaddrinfo(list);
    return !is_ours;
}

bool doctor_is_surely_here(const struct settings *worker) {
    char endpoint[VALUE_MAX], host[VALUE_MAX], port[8];
    for (unsigned at = 0; settings_next(worker, "routers", &at, endpoint);)
        if (strncmp(endpoint, "ipc://", 6) == 0 ||
            (strncmp(endpoint, "tcp://", 6) == 0 && doctor_split(endpoint + 6, host, port) &&
             tcp_is_loopback(host)))
            return true;
    return false;
}
