/* tests/unit/worker/links/fake_dns.h: the names of a test, in the place of base/net/dns.c: who says at once what is behind one. */
#pragma once

#include <stdint.h>

#define FAKE_DNS_SERVER "9.9.9.9:53" /* the one server that there is */

/* From now on these addresses, with a blank between them, are the answer for the name. With a `why` that is not "" the
 * question failed, and the addresses are those from before. */
void fake_dns_say(const char *name, const char *addresses, const char *why);

void fake_dns_forget(void); /* no name has an answer */

uint32_t fake_dns_n_open(void); /* those that ask and were not freed */
