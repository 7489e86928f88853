#include "base/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool address_is_port(const char *text) {
    size_t n = strlen(text);
    bool is_number = n > 0 && n <= 5 && strspn(text, "0123456789") == n;
    return strcmp(text, "*") == 0 || (is_number && strtoul(text, NULL, 10) <= 65535);
}

/* The address in front of a zone. False: not an IPv6 address. */
static bool address_read_v6(const char *host, struct in6_addr *address) {
    char bare[INET6_ADDRSTRLEN];
    size_t n = strcspn(host, "%");
    if (n >= sizeof bare || (host[n] == '%' && host[n + 1] == 0))
        return false;
    memcpy(bare, host, n);
    bare[n] = 0;
    return inet_pton(AF_INET6, bare, address) == 1;
}

bool address_is_v6(const char *host) {
    struct in6_addr address;
    return address_read_v6(host, &address);
}

bool address_is_any(const char *host) {
    struct in6_addr address;
    if (address_read_v6(host, &address))
        return IN6_IS_ADDR_UNSPECIFIED(&address);
    return host[0] == 0 || strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0;
}

bool address_is_link_local(const char *host) {
    struct in6_addr address;
    return address_read_v6(host, &address) && IN6_IS_ADDR_LINKLOCAL(&address);
}

bool address_lacks_interface(const char *host) {
    return address_is_link_local(host) && !strchr(host, '%');
}

bool address_split(const char *text, struct address *address) {
    const char *colon = strrchr(text, ':');
    if (!colon || !address_is_port(colon + 1))
        return false;
    size_t n = (size_t)(colon - text);
    bool has_brackets = n > 2 && text[0] == '[' && colon[-1] == ']';
    if (has_brackets) {
        text++;
        n -= 2;
    }
    struct address read;
    if (n >= sizeof read.host)
        return false;
    memcpy(read.host, text, n);
    read.host[n] = 0;
    if (has_brackets ? !address_is_v6(read.host)
                     : strpbrk(read.host, "[]:") && !address_is_v6(read.host))
        return false;
    snprintf(read.port, sizeof read.port, "%s", colon + 1);
    *address = read;
    return true;
}

static char *address_join_parts(const char *host, size_t n, const char *port, char *text) {
    bool is_bare = address_is_v6(host);
    snprintf(text, ADDRESS_TEXT_MAX, "%s%.*s%s:%.7s", is_bare ? "[" : "", (int)n, host,
             is_bare ? "]" : "", port);
    return text;
}

char *address_join(const char *host, const char *port, char text[ADDRESS_TEXT_MAX]) {
    return address_join_parts(host, strlen(host), port, text);
}

char *address_join_outside(const char *host, const char *port, char text[ADDRESS_TEXT_MAX]) {
    return address_join_parts(host, address_is_v6(host) ? strcspn(host, "%") : strlen(host), port,
                              text);
}
