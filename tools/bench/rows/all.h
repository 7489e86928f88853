/* tools/bench/rows/all.h: the published tables predicted, all rows by several rows of efficiencies, on several threads.
 * What comes out does not depend on how many. */
#pragma once

#include "base/error.h"
#include "tools/bench/rows/predict.h"

#define ALL_EFFICIENCIES_MAX 16
#define ALL_THREADS_MAX      64

/* One published row. */
struct all_row {
    const struct reference_configuration *configuration; /* borrowed */
    const struct reference_row *row;                     /* constant */
    const struct efficiencies
        *own_row;          /* borrowed: of the system that made it; NULL: none is fitted */
    struct prediction own; /* by it */
    struct prediction tandem[ALL_EFFICIENCIES_MAX];
};

struct all {
    struct reference_configuration configurations[REFERENCE_CONFIGURATIONS_MAX];
    struct efficiencies efficiencies[ALL_EFFICIENCIES_MAX]; /* Tandem in the systems' place */
    size_t n_efficiencies;
    struct efficiencies published[ALL_EFFICIENCIES_MAX]; /* named by the system that they are of */
    size_t n_published;
    struct all_row *rows; /* owned (n_rows) */
    size_t n_rows;
};

/* Takes the rows of the tables, or of one table, or of one system (NULL: all), and the program's efficiencies: limit,
 * tandem-exact, tandem-fast, goal. STATUS_INVALID: there is no such table or system; STATUS_NOMEM. */
NODISCARD enum status all_init(struct all *all, const char *table, const char *system,
                               struct error *error);
void all_fini(struct all *all); /* fine on a zeroed one */

/* Efficiencies of a file (efficiencies_read()) in the place of the program's: a row that is named by a published system
 * takes that one's place, any other stands for Tandem. STATUS_INVALID with the line. */
NODISCARD enum status all_efficiencies(struct all *all, const char *text, size_t n_bytes,
                                       struct error *error);

/* Predicts all rows. STATUS_NOMEM, or what a prediction answers. */
NODISCARD enum status all_predict(struct all *all, unsigned n_threads);
