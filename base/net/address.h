/* base/net/address.h: "HOST:PORT" as text, and what it says.
 *
 * An IPv6 address is written in brackets, since its own colons would hide the port's. Where a port
 * has to follow, it is understood without them, too: the last colon is the port's. It may have a
 * zone, the interface that a link-local address is of: "fe80::1%eth0". Nothing here looks up a
 * name. */
#pragma once

#include <stdbool.h>

#define ADDRESS_TEXT_MAX 272 /* "[HOST]:PORT" with NUL */

struct address {
    char host[256]; /* without brackets; "" where the port has no host before it */
    char port[8];   /* digits, at most 65535; or "*" */
};

/* Reads "HOST:PORT", "[V6]:PORT", "V6:PORT" or ":PORT". False: it is none of these. */
bool address_split(const char *text, struct address *address);

/* Writes "HOST:PORT" with brackets where the host is an IPv6 address without them; answers `text`. */
char *address_join(const char *host, const char *port, char text[ADDRESS_TEXT_MAX]);

/* The same for others to read: an interface of ours means nothing to them, so a zone is left out. */
char *address_join_outside(const char *host, const char *port, char text[ADDRESS_TEXT_MAX]);

/* The questions take a host without brackets. */
bool address_is_v6(const char *host);           /* an IPv6 address, with or without a zone */
bool address_is_any(const char *host);          /* every address: "", "*", "0.0.0.0", "::" */
bool address_is_link_local(const char *host);   /* of IPv6: another host knows it by another zone */
bool address_lacks_interface(const char *host); /* is link-local, and has no zone */
