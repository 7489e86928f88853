/* tools/bench/core/ceiling.h: whether a level was limited by how many requests its server holds at a
 * time (its KV cache, or its slots), as its queue shows it from outside. */
#pragma once

#include "tools/bench/core/level.h"

/* The signature: before any request had ended, first tokens stopped coming although requests waited
 * for theirs. Where prefill alone is slow they go on coming. Answers whether the time without one,
 * up to the first end, was more than four times the mean time between those before. False also
 * where no request waited then. */
bool ceiling_shows(const struct level *level);
