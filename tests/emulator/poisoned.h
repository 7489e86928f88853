/* tests/emulator/poisoned.h: memory of the host that nobody has set yet and that is poison therefore. */
#pragma once

#include <stddef.h>

/* A piece of n_bytes, at the begin of a page, full of EMU_POISON; NULL without memory. Pages of large pieces are this
 * process's own when they are first written: a piece of which little is used costs little. Any thread. */
void *poisoned_new(size_t n_bytes);
void poisoned_free(void *memory, size_t n_bytes);
