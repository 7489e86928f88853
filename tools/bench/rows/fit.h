/* tools/bench/rows/fit.h: efficiencies of the published systems, from what they published; and how far the model is
 * from a configuration that it was not fitted to. Pure but for memory; a fit takes seconds. */
#pragma once

#include "tools/bench/rows/predict.h"

/* Which figure of a row an observation is of. */
enum fit_figure {
    FIT_GRID_ALONE, /* ms per output token, one request at a time */
    FIT_GRID_BURST, /* tokens per second of 399 at once */
    FIT_ITL_ALONE,
    FIT_TTFT_ALONE,
    FIT_ITL_RATE, /* at the published rates */
    FIT_BURST,    /* tokens per second of the throughput level */
    FIT_FIGURES
};
const char *fit_figure_name(enum fit_figure figure);

struct fit_observation {
    enum fit_figure figure;
    const struct reference_row *row;
    double published, predicted;
};

#define FIT_OBSERVATIONS_MAX 512

/* A configuration's comparable figures, predicted; appends to all (FIT_OBSERVATIONS_MAX). efficiencies NULL: the
 * published ones alone. */
NODISCARD enum status fit_observe(const struct reference_configuration *configuration,
                                  const struct efficiencies *efficiencies,
                                  struct fit_observation *all, size_t *n);

/* Systems that are fitted together: they share all but the shares of some formats. */
#define FIT_SYSTEMS_MAX 2
struct fit_rows {
    unsigned n;
    struct efficiencies rows[FIT_SYSTEMS_MAX]; /* named by their system */
};

#define FIT_GROUPS 2 /* vLLM 0.2.5 and 0.2.7 (grids); the vLLM of the sweeps */

/* Fits a group to its configurations without the one at `left_out` (an index into all; SIZE_MAX: none). What no other
 * configuration tells is as assumed. */
NODISCARD enum status fit_group(unsigned group, const struct reference_configuration *all,
                                size_t n_all, size_t left_out, struct fit_rows *rows);

/* Whether a configuration belongs to the group; then its row of efficiencies in *rows. */
const struct efficiencies *fit_row_of(unsigned group, const struct fit_rows *rows,
                                      const struct reference_configuration *configuration);

/* The least, the median and the largest of |predicted / published - 1| over a figure's observations. */
struct fit_error {
    size_t n;
    double median, worst;
    const struct fit_observation *worst_one;
};
void fit_error(struct fit_error *error, enum fit_figure figure, const struct fit_observation *all,
               size_t n);
