/* tools/bench/rows/virtual.h: the bench's client against a virtual cluster: a level's requests go to the routers of a
 * cell in turn, and what comes back are its events. Nothing is sent anywhere and no time passes. One owner thread. */
#pragma once

#include "tools/bench/core/level.h"
#include "tools/cell/cell.h"

/* Runs a whole level on a cell that it makes and ends; spec->user is filled in here. The caller ends the level. counts:
 * what the cell did; may be NULL. STATUS_NOMEM; STATUS_INVALID as cell_new(). */
NODISCARD enum status virtual_run(const struct cell_spec *spec, const struct level_spec *what,
                                  struct level *level, struct cell_counts *counts);
