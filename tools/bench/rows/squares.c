#include "tools/bench/rows/squares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP       0.02 /* of a logarithm, for differences */
#define DAMPING    1e-2 /* at first */
#define TRIES      6
#define GOOD_SHARE 1e-4 /* a round that gains less is the last */

struct squares_work {
    const struct squares *squares;
    double *now, *moved; /* residuals, (n_residuals) each */
    double *slopes;      /* (n_parameters, n_residuals) */
};

static double least_squares_clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

static double least_squares_cost(const struct squares *squares, const double *residuals) {
    double sum = 0;
    for (size_t i = 0; i < squares->n_residuals; i++) {
        double r = residuals[i] / squares->scale;
        sum += 2 * (sqrt(1 + r * r) - 1);
    }
    return sum;
}

/* By Gauss's elimination with the largest pivot; matrix: (n, n + 1), the right side last. false: it is singular. */
static bool least_squares_solve(double matrix[SQUARES_PARAMETERS_MAX][SQUARES_PARAMETERS_MAX + 1],
                                size_t n, double *x) {
    for (size_t k = 0; k < n; k++) {
        size_t best = k;
        for (size_t i = k + 1; i < n; i++)
            best = fabs(matrix[i][k]) > fabs(matrix[best][k]) ? i : best;
        if (fabs(matrix[best][k]) < 1e-300)
            return false;
        for (size_t j = 0; j <= n; j++) {
            double other = matrix[k][j];
            matrix[k][j] = matrix[best][j];
            matrix[best][j] = other;
        }
        for (size_t i = k + 1; i < n; i++) {
            double factor = matrix[i][k] / matrix[k][k];
            for (size_t j = k; j <= n; j++)
                matrix[i][j] -= factor * matrix[k][j];
        }
    }
    for (size_t k = n; k-- > 0;) {
        x[k] = matrix[k][n];
        for (size_t j = k + 1; j < n; j++)
            x[k] -= matrix[k][j] * x[j];
        x[k] /= matrix[k][k];
    }
    return true;
}

static enum status least_squares_find_slopes(struct squares_work *work, const double *parameters) {
    const struct squares *squares = work->squares;
    double trial[SQUARES_PARAMETERS_MAX];
    for (size_t k = 0; k < squares->n_parameters; k++) {
        double *slope = work->slopes + k * squares->n_residuals;
        memcpy(trial, parameters, squares->n_parameters * sizeof *trial);
        double step = parameters[k] * exp(STEP) > squares->high[k] ? -STEP : STEP;
        trial[k] = parameters[k] * exp(step);
        TRY(squares->residuals(squares->context, trial, slope));
        for (size_t i = 0; i < squares->n_residuals; i++)
            slope[i] = (slope[i] - work->now[i]) / step;
    }
    return STATUS_OK;
}

/* Where the damped normal equations point to. */
static bool least_squares_aim(const struct squares_work *work, const double *parameters,
                              double damping, double *trial) {
    const struct squares *squares = work->squares;
    size_t n = squares->n_parameters;
    double matrix[SQUARES_PARAMETERS_MAX][SQUARES_PARAMETERS_MAX + 1] = {{0}},
                                                                   x[SQUARES_PARAMETERS_MAX];
    for (size_t i = 0; i < squares->n_residuals; i++) {
        double r = work->now[i] / squares->scale, weight = 1 / sqrt(1 + r * r);
        for (size_t a = 0; a < n; a++) {
            double slope = work->slopes[a * squares->n_residuals + i];
            for (size_t b = 0; b < n; b++)
                matrix[a][b] += weight * slope * work->slopes[b * squares->n_residuals + i];
            matrix[a][n] -= weight * slope * work->now[i];
        }
    }
    for (size_t a = 0; a < n; a++)
        matrix[a][a] = matrix[a][a] * (1 + damping) + 1e-9;
    if (!least_squares_solve(matrix, n, x))
        return false;
    for (size_t a = 0; a < n; a++)
        trial[a] = least_squares_clamp(parameters[a] * exp(least_squares_clamp(x[a], -1, 1)),
                                       squares->low[a], squares->high[a]);
    return true;
}

static enum status rounds(struct squares_work *work, double *parameters) {
    const struct squares *squares = work->squares;
    double damping = DAMPING, trial[SQUARES_PARAMETERS_MAX];
    for (size_t k = 0; k < squares->n_parameters; k++)
        parameters[k] = least_squares_clamp(parameters[k], squares->low[k], squares->high[k]);
    TRY(squares->residuals(squares->context, parameters, work->now));
    double best = least_squares_cost(squares, work->now);
    for (unsigned round = 0; round < squares->n_rounds; round++) {
        double before = best;
        TRY(least_squares_find_slopes(work, parameters));
        for (unsigned i = 0; i < TRIES && best >= before; i++, damping *= 4) {
            if (!least_squares_aim(work, parameters, damping, trial))
                continue;
            TRY(squares->residuals(squares->context, trial, work->moved));
            if (least_squares_cost(squares, work->moved) >= best)
                continue;
            best = least_squares_cost(squares, work->moved);
            memcpy(parameters, trial, squares->n_parameters * sizeof *trial);
            memcpy(work->now, work->moved, squares->n_residuals * sizeof *work->now);
            damping /= 16;
        }
        if (before - best < GOOD_SHARE * before)
            break;
    }
    return STATUS_OK;
}

enum status squares_fit(const struct squares *squares, double *parameters) {
    struct squares_work work = {.squares = squares};
    size_t n = squares->n_residuals;
    work.now = calloc(n, sizeof(double));
    work.moved = calloc(n, sizeof(double));
    work.slopes = calloc(n * squares->n_parameters, sizeof(double));
    enum status status =
        work.now && work.moved && work.slopes ? rounds(&work, parameters) : STATUS_NOMEM;
    free(work.now);
    free(work.moved);
    free(work.slopes);
    return status;
}
