/* tools/cli/up/progress.h: how far the workers of `tandem up` have loaded, in words. Pure: the
 * caller brings the time and prints. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_ROWS_MAX 66
#define PROGRESS_QUIET_NS 1000000000ull /* what loads faster is not worth a line */
#define PROGRESS_LINE_MAX 160

struct progress_row {
    char name[64];
    uint64_t n_done, n_all; /* bytes */
    uint64_t began_ns;      /* 0: does not load */
    unsigned tenths;        /* of all that lines told of; 0: none yet */
    bool is_told;           /* somebody saw that it loads */
};

struct progress {
    struct progress_row rows[PROGRESS_ROWS_MAX];
    unsigned n;
};

/* Worker `name` has loaded n_done of n_all bytes. True: `line` is due where nothing is redrawn, each 10 %. */
bool progress_note(struct progress *progress, uint64_t now_ns, const char *name, uint64_t n_done,
                   uint64_t n_all, char line[PROGRESS_LINE_MAX]);

/* It has loaded all, or ended. True where somebody was told that it loads: `line` says that all is loaded. */
bool progress_end(struct progress *progress, uint64_t now_ns, const char *name,
                  char line[PROGRESS_LINE_MAX]);

/* All that load, as one line of less than `width` bytes; "" where none does for long enough. Those that are shown count as
 * told. */
const char *progress_line(struct progress *progress, uint64_t now_ns, char *text, size_t width);
