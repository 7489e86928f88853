/* base/exit.h: how our programs end. 0 only after a requested stop; anything else is a death. */
#pragma once

#define EXIT_CONFIG 78 /* EX_CONFIG of sysexits.h: bad option, key or value; do not restart */
