/* proto/host.h: which machine this is, as peers tell one another. Any thread. */
#pragma once

#include <stdint.h>

/* Equal in all processes of one machine until it boots again; where that is not known, a number that no other process has. */
uint64_t host_of_this_machine(void);
