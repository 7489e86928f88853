/* tools/bench/core/tables.h: what is printed: Markdown, CSV and JSON of loads, grids and sweeps.
 *
 * Pure: rows in, text out. The first table of a grid and of a sweep has the published columns to
 * the letter; a mark is in the row's last cell, so that no row is read without it. */
#pragma once

#include "base/buf.h"
#include "tools/bench/core/figures.h"

/* One cell of a grid, one level of a sweep, or a load. */
struct row {
    char label[LEVEL_LABEL_MAX]; /* of a load or a level */
    uint32_t n_input;            /* tokens asked for */
    uint32_t n_output;
    double asked_rate;      /* 0: a closed loop */
    struct figures figures; /* of a grid: its burst */
    struct figures alone;   /* of a grid: its requests one by one */
    struct figures_sweep sweep;
    struct figures_grid grid;
};

enum table { TABLE_LOAD, TABLE_GRID, TABLE_SWEEP };

struct table_set {
    enum table table;
    const struct row *rows; /* borrowed (n_rows), in the order they were run */
    uint32_t n_rows;
    bool compat;             /* the published columns alone */
    int knee;                /* a sweep's row, or -1 */
    const char *title;       /* borrowed: what was measured */
    const char *environment; /* borrowed: a JSON object of where and how */
    const char *first_error; /* borrowed; "" when nothing failed */
};

void tables_markdown(const struct table_set *set, struct buf *out);
void tables_csv(const struct table_set *set, struct buf *out);
void tables_json(const struct table_set *set, struct buf *out);

/* A line for each request of a level: JSON, times in milliseconds from the level's begin. */
void tables_records(const struct level *level, struct buf *out);
