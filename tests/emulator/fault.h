/* tests/emulator/fault.h: one line for a fault that the emulator's own rules explain, before whatever else
 * the process does about SIGSEGV: the host touched memory of a device, or a CUDA thread ran over its
 * stack or to a place where nothing is. */
#pragma once

#include <stddef.h>

/* Memory of a device. */
void fault_watch(const void *from, size_t n_bytes);
void fault_forget(const void *from);

/* The calling thread's handler gets a stack of its own; `where` (NULL: nothing) describes in a line of
 * at most n bytes what the thread does that faulted at p. */
void fault_thread(void (*where)(const void *p, char *line, size_t n));
