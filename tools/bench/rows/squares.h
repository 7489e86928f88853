/* tools/bench/rows/squares.h: least squares in a few positive parameters (Levenberg 1944, Marquardt 1963).
 *
 * Parameters are fitted by their logarithms, within bounds; derivatives are differences. Residuals count as
 * soft_l1: twice sqrt(1 + (r / scale)^2) - 1, so that a few wrong figures do not decide. Pure. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define SQUARES_PARAMETERS_MAX 16

struct squares {
    void *context;
    /* Fills residuals (n_residuals) for the parameters. */
    enum status (*residuals)(void *context, const double *parameters, double *residuals);
    size_t n_parameters; /* at most SQUARES_PARAMETERS_MAX */
    size_t n_residuals;
    const double *low, *high; /* (n_parameters) positive */
    double scale;
    unsigned n_rounds; /* at most */
};

/* parameters: (n_parameters) where to start; the best on return. STATUS_NOMEM, or what residuals() answers. */
NODISCARD enum status squares_fit(const struct squares *squares, double *parameters);
