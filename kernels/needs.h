/* kernels/needs.h: what backends need of a host, by their names. For programs that look at a host for a worker: they are linked
 * with no backend, and the worker that they ask may be of another build, so that no row of kernels_table can tell them. */
#pragma once

#include <stdbool.h>

/* Whether the backend computes on a GPU of the host, in whose memory weights and KV are then. */
bool kernels_need_device(const char *backend);
