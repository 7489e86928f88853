/* tools/cli/top/top_terminal.h: the terminal that `tandem top` draws on, by ncurses. One at a time;
 * the thread of the loop. */
#pragma once

#include "tools/cli/top/top_cells.h"

enum top_key {
    TOP_KEY_NONE,
    TOP_KEY_QUIT,
    TOP_KEY_HELP,
    TOP_KEY_SORT,
    TOP_KEY_SORT_BACK,
    TOP_KEY_REVERSE,
    TOP_KEY_PAUSE,
    TOP_KEY_UP,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_FIRST,
    TOP_KEY_LAST,
    TOP_KEY_FASTER,
    TOP_KEY_SLOWER,
    TOP_KEY_REDRAW,
    TOP_KEY_OTHER
};

/* False, and nothing has changed: this build has no ncurses, or it does not know the terminal. */
bool top_terminal_open(bool has_color);
void top_terminal_close(void);   /* fine when it is not open */
bool top_terminal_is_gone(void); /* hung up: no key will come again */

void top_terminal_resized(void); /* after SIGWINCH */
void top_terminal_size(unsigned *width, unsigned *height);
void top_terminal_draw(const struct top_screen *screen);
void top_terminal_redraw(void); /* the next drawing begins with an empty terminal */

/* The next key that was pressed, TOP_KEY_NONE once there is none. Does not wait. */
enum top_key top_terminal_key(void);
