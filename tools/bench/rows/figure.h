/* tools/bench/rows/figure.h: the published figures of a row, one by one, as reports list them. Pure. */
#pragma once

#include "tools/bench/rows/all.h"

#define FIGURES_MAX 3 /* of a row */

struct figure {
    const char *name; /* "ITL ms" */
    bool is_alone;    /* of a grid's request alone */
    double published; /* 0: not comparable (reference.h), or nothing was completed */
    size_t offset;    /* of a prediction's member */
};

/* Fills the figures that a row's kind of table has; answers how many. */
unsigned figures_of(const struct reference_row *row, struct figure figures[FIGURES_MAX]);

/* 0: the model does not fit into the devices' memory. */
double figure_value(const struct figure *figure, const struct prediction *prediction);

/* The largest term of the steps that the figure is of. */
enum roofline_term figure_decides(const struct figure *figure, const struct prediction *prediction);

/* "W": a letter for each term. */
char figure_letter(enum roofline_term term);
