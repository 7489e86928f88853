/* tools/cli/top/top_cells.h: a screen of cells that text is written into, in the terminal's
 * columns.
 *
 * Widths are those of wcwidth(3) in the current locale (LC_CTYPE). What is no text (control bytes,
 * bytes that are not UTF-8) becomes "?". One thread. */
#pragma once

#include "base/buf.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum top_style {
    TOP_PLAIN,
    TOP_BOLD,
    TOP_DIM,
    TOP_GOOD,
    TOP_WARN,
    TOP_BAD,
    TOP_HEAD, /* of a table */
};

#define TOP_CELL_BYTES 16

struct top_cell {
    char text[TOP_CELL_BYTES]; /* a character and what combines with it; "" behind a wide one */
    uint8_t style;             /* enum top_style */
};

struct top_screen {
    unsigned width, height;
    bool is_ascii;          /* the terminal shows nothing else: other characters become "?" */
    struct top_cell *cells; /* owned (height, width) */
};

NODISCARD enum status top_screen_init(struct top_screen *screen, unsigned width, unsigned height,
                                      bool is_ascii);
void top_screen_fini(struct top_screen *screen); /* fine on a zeroed one */

/* Writes text from column x on, at most `width` columns, and answers the column behind it. What is
 * longer ends in an ellipsis. Outside the screen nothing is written. */
unsigned top_put(struct top_screen *screen, unsigned x, unsigned y, unsigned width,
                 enum top_style style, const char *text);

/* The same at the right end of `width` columns; text that is longer is cut as above. */
void top_put_right(struct top_screen *screen, unsigned x, unsigned y, unsigned width,
                   enum top_style style, const char *text);

/* `share` (0 to 1) of `width` columns filled; its style says how full it is. */
void top_put_bar(struct top_screen *screen, unsigned x, unsigned y, unsigned width, double share);

/* Gives `width` columns from x on this style. */
void top_paint(struct top_screen *screen, unsigned x, unsigned y, unsigned width,
               enum top_style style);

/* Columns that the text takes, as top_put() shows it. */
unsigned top_width(const struct top_screen *screen, const char *text);

/* Line y as text, without the blanks at its end. */
void top_line(const struct top_screen *screen, unsigned y, struct buf *out);
