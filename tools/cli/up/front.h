/* tools/cli/up/front.h: where `tandem up` lets clients connect: --listen, or --host and --port.
 * Start-up only. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#define FRONT_MAX 300

/* Flags, or NULL where they were not given. */
struct front_flags {
    const char *listen; /* HOST:PORT, [IPV6]:PORT or fd:N */
    const char *host;   /* a name, an address, or * */
    const char *port;
};

/* The address that the flags come to; what they leave open is as in `otherwise`, which the router listens on without
 * them. STATUS_INVALID with a line that names the flag: they contradict each other, or are none. */
NODISCARD enum status front_fold(const struct front_flags *flags, const char *otherwise,
                                 char address[FRONT_MAX], struct error *error);

/* Can one listen there now? Asked before anything loads. The line names the flags. */
NODISCARD enum status front_check(const struct front_flags *flags, const char *address,
                                  struct error *error);
