#include "tests/support/suite.h"
#include "tools/bench/rows/fit.h"
#include "tools/bench/rows/squares.h"

#include <math.h>
#include <stdio.h>

const char *const suite_name = "bench fit";
const double suite_timeout_s = 600;

static struct reference_configuration all[REFERENCE_CONFIGURATIONS_MAX];

static enum status curve(void *context, const double *parameters, double *residuals) {
    (void)context;
    for (unsigned i = 0; i < 20; i++)
        residuals[i] = log((parameters[0] + parameters[1] * i) / (3 + 0.5 * i)) + (i == 7 ? 5 : 0);
    return STATUS_OK;
}

START_TEST(a_fit_finds_its_parameters_beside_a_wrong_figure) {
    double low[] = {.1, .01}, high[] = {100, 100}, parameters[] = {20, 10};
    struct squares squares = {.residuals = curve,
                              .n_parameters = 2,
                              .n_residuals = 20,
                              .low = low,
                              .high = high,
                              .scale = .1,
                              .n_rounds = 60};
    ck_assert_int_eq(squares_fit(&squares, parameters), STATUS_OK);
    ck_assert_double_eq_tol(parameters[0], 3, .15);
    ck_assert_double_eq_tol(parameters[1], .5, .03);
    high[1] = .2;
    ck_assert_int_eq(squares_fit(&squares, parameters), STATUS_OK);
    ck_assert_double_le(parameters[1], .2);
}
END_TEST

/* Each configuration is predicted from a fit to the others: docs/results has the figures. */
START_TEST(a_configuration_is_predicted_by_the_others) {
    static struct fit_observation seen[FIT_OBSERVATIONS_MAX];
    static const struct {
        enum fit_figure figure;
        double bound;
    } bounds[] = {{FIT_GRID_BURST, .12},
                  {FIT_ITL_RATE, .12},
                  {FIT_ITL_ALONE, .10},
                  {FIT_TTFT_ALONE, .24},
                  {FIT_BURST, .14}};
    size_t n_all = reference_configurations(all), n = 0;
    struct fit_error error;
    for (unsigned group = 0; group < FIT_GROUPS; group++) {
        struct fit_rows rows;
        for (size_t i = 0; i < n_all; i++) {
            struct fit_rows named = {.n = 0};
            if (!fit_row_of(group, &named, &all[i]))
                continue;
            ck_assert_int_eq(fit_group(group, all, n_all, i, &rows), STATUS_OK);
            ck_assert_int_eq(fit_observe(&all[i], fit_row_of(group, &rows, &all[i]), seen, &n),
                             STATUS_OK);
        }
    }
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        fit_error(&error, bounds[i].figure, seen, n);
        printf("%s: %zu figures, median %.1f %%, worst %.0f %%: %s, %s %s %u/%u\n",
               fit_figure_name(bounds[i].figure), error.n, 100 * error.median, 100 * error.worst,
               error.worst_one->row->model, error.worst_one->row->hardware,
               error.worst_one->row->level, error.worst_one->row->n_input,
               error.worst_one->row->n_output);
        ck_assert_msg(error.median <= bounds[i].bound, "%s", fit_figure_name(bounds[i].figure));
    }
    for (size_t i = 0; i < n; i++) /* one token at a time, whichever format its table has */
        seen[i].figure = seen[i].figure == FIT_ITL_ALONE ? FIT_GRID_ALONE : seen[i].figure;
    fit_error(&error, FIT_GRID_ALONE, seen, n);
    printf("batch 1: %zu figures, median %.1f %%, worst %.0f %%\n", error.n, 100 * error.median,
           100 * error.worst);
    ck_assert_double_le(error.median, .10);
}
END_TEST

START_TEST(the_rows_that_the_program_has_are_the_fitted_ones) {
    size_t n_all = reference_configurations(all);
    for (unsigned group = 0; group < FIT_GROUPS; group++) {
        struct fit_rows rows;
        ck_assert_int_eq(fit_group(group, all, n_all, SIZE_MAX, &rows), STATUS_OK);
        for (unsigned i = 0; i < rows.n; i++) {
            const struct efficiencies *own = efficiencies_find(rows.rows[i].name);
            ck_assert_ptr_nonnull(own);
            ck_assert_double_eq_tol(own->step_us / rows.rows[i].step_us, 1, .05);
            ck_assert_double_eq_tol(own->kv / rows.rows[i].kv, 1, .05);
            ck_assert_double_eq_tol(own->many[EFFICIENCY_16] / rows.rows[i].many[EFFICIENCY_16], 1,
                                    .05);
            ck_assert_double_eq_tol(own->many[EFFICIENCY_4] / rows.rows[i].many[EFFICIENCY_4], 1,
                                    .05);
        }
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_fit_finds_its_parameters_beside_a_wrong_figure);
    tcase_add_test(tests, a_configuration_is_predicted_by_the_others);
    tcase_add_test(tests, the_rows_that_the_program_has_are_the_fitted_ones);
}
