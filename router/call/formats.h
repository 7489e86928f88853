/* router/call/formats.h: which forms of answers were compiled lately, so that a form which many requests ask for is
 * checked once.
 *
 * A table of hashes, each in the place that it names: a newer one takes the place of an older one. What was
 * refused is not kept. Any thread. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ask;
struct error;
struct formats;

#define FORMATS_KEPT 4096 /* 64 KiB */

NODISCARD enum status formats_new(struct formats **formats);
void formats_free(struct formats *formats); /* NULL is fine */

/* format_check() of the ask's form, unless the same one was good lately. */
NODISCARD enum status formats_check(struct formats *formats, const struct ask *ask,
                                    struct error *error);

struct formats_counts {
    uint64_t n_compiled; /* good ones */
    uint64_t n_refused;
    uint64_t n_known; /* taken from the table */
    uint64_t ns;      /* spent compiling */
};
struct formats_counts formats_counts(struct formats *formats);
