#include "tools/cli/up/progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* The row of that name, which is made where there is none; NULL: there are too many. */
static struct progress_row *up_progress_row_of(struct progress *progress, const char *name) {
    for (unsigned i = 0; i < progress->n; i++)
        if (strcmp(progress->rows[i].name, name) == 0)
            return &progress->rows[i];
    if (progress->n == PROGRESS_ROWS_MAX)
        return NULL;
    struct progress_row *row = &progress->rows[progress->n++];
    *row = (struct progress_row){.name = ""};
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static unsigned up_progress_seconds(uint64_t from_ns, uint64_t to_ns) {
    return (unsigned)((to_ns - from_ns) / NS_PER_S);
}

/* As on disks: powers of 1000. */
static const char *up_progress_show_bytes(char text[16], uint64_t n) {
    double value = (double)n;
    if (n >= 1000000000)
        snprintf(text, 16, "%.1f GB", value / 1e9);
    else
        snprintf(text, 16, "%.0f MB", value / 1e6);
    return text;
}

static unsigned up_progress_percent(const struct progress_row *row) {
    return (unsigned)(100.0 * (double)row->n_done / (double)row->n_all);
}

static bool up_progress_is_long(const struct progress_row *row, uint64_t now_ns) {
    return row->began_ns != 0 && now_ns - row->began_ns >= PROGRESS_QUIET_NS;
}

bool progress_note(struct progress *progress, uint64_t now_ns, const char *name, uint64_t n_done,
                   uint64_t n_all, char line[PROGRESS_LINE_MAX]) {
    char bytes[16];
    struct progress_row *row = up_progress_row_of(progress, name);
    if (!row || n_all == 0 || n_done > n_all)
        return false;
    if (row->began_ns == 0)
        row->began_ns = now_ns;
    row->n_done = n_done;
    row->n_all = n_all;
    unsigned tenths = up_progress_percent(row) / 10;
    if (!up_progress_is_long(row, now_ns) || tenths <= row->tenths)
        return false;
    row->tenths = tenths;
    row->is_told = true;
    snprintf(line, PROGRESS_LINE_MAX, "%s: loading, %u %% of %s after %u s", name,
             up_progress_percent(row), up_progress_show_bytes(bytes, n_all),
             up_progress_seconds(row->began_ns, now_ns));
    return true;
}

bool progress_end(struct progress *progress, uint64_t now_ns, const char *name,
                  char line[PROGRESS_LINE_MAX]) {
    char bytes[16];
    struct progress_row *row = up_progress_row_of(progress, name);
    if (!row)
        return false;
    bool is_told = row->is_told;
    snprintf(line, PROGRESS_LINE_MAX, "%s: loaded %s in %u s", name,
             up_progress_show_bytes(bytes, row->n_all), up_progress_seconds(row->began_ns, now_ns));
    row->began_ns = 0;
    row->tenths = 0;
    row->is_told = false;
    return is_told;
}

const char *progress_line(struct progress *progress, uint64_t now_ns, char *text, size_t width) {
    char bytes[16];
    size_t n = 0;
    text[0] = 0;
    for (unsigned i = 0; i < progress->n; i++) {
        struct progress_row *row = &progress->rows[i];
        if (!up_progress_is_long(row, now_ns))
            continue;
        char part[PROGRESS_LINE_MAX];
        int n_part =
            snprintf(part, sizeof part, "%s%s %u %% of %s, %u s", n == 0 ? "loading: " : " | ",
                     row->name, up_progress_percent(row), up_progress_show_bytes(bytes, row->n_all),
                     up_progress_seconds(row->began_ns, now_ns));
        row->is_told = true;
        if (n + (size_t)n_part + strlen(" ...") >= width) {
            snprintf(text + n, width - n, "%s", n == 0 ? part : " ...");
            return text;
        }
        memcpy(text + n, part, (size_t)n_part + 1);
        n += (size_t)n_part;
    }
    return text;
}
