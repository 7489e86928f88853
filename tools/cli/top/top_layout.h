/* tools/cli/top/top_layout.h: where `tandem top` shows what: a view becomes a screen. Pure. */
#pragma once

#include "tools/cli/top/top_cells.h"
#include "tools/cli/top/top_view.h"

enum top_sort {
    TOP_BY_ROLE, /* then by name */
    TOP_BY_NAME,
    TOP_BY_STATE,
    TOP_BY_RUNNING,
    TOP_BY_KV,
    TOP_BY_TOKENS,
    TOP_SORTS
};
struct top_look {
    enum top_sort sort; /* the largest first where it is by a number */
    bool is_reversed;
    bool is_paused;
    bool has_help;  /* the list of keys in place of the workers */
    bool has_keys;  /* a last line with the most important keys */
    unsigned first; /* of the workers shown: brought into its bounds by top_layout() */
};

/* Fills the whole screen; answers how many workers have a line on it. */
unsigned top_layout(const struct top_view *view, struct top_look *look, struct top_screen *screen);

/* Lines that show everything, for a screen that does not end. */
unsigned top_layout_height(const struct top_view *view);
