#include "tools/cli/top/top_cells.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum status top_screen_init(struct top_screen *screen, unsigned width, unsigned height,
                            bool is_ascii) {
    *screen = (struct top_screen){.width = width, .height = height, .is_ascii = is_ascii};
    screen->cells = calloc((size_t)width * height, sizeof *screen->cells);
    if (!screen->cells && width > 0 && height > 0)
        return STATUS_NOMEM;
    for (size_t i = 0; i < (size_t)width * height; i++)
        screen->cells[i].text[0] = ' ';
    return STATUS_OK;
}

void top_screen_fini(struct top_screen *screen) {
    free(screen->cells);
    *screen = (struct top_screen){0};
}

/* One character as it is shown. */
struct glyph {
    char text[8];
    unsigned n_bytes; /* that it takes in the text */
    unsigned width;   /* 0: combines with the one before it */
};

static struct glyph top_next_glyph(const struct top_screen *screen, const char *text) {
    struct glyph glyph = {"?", 1, 1};
    uint32_t point = 0;
    unsigned n = utf8_decode(text, strlen(text), &point);
    int width = n > 0 ? wcwidth((wchar_t)point) : -1;
    glyph.n_bytes = n > 0 ? n : 1;
    if (width < 0 || width > 2 || (screen->is_ascii && point > 0x7e))
        return glyph;
    memcpy(glyph.text, text, n);
    glyph.text[n] = '\0';
    glyph.width = (unsigned)width;
    return glyph;
}

unsigned top_width(const struct top_screen *screen, const char *text) {
    unsigned width = 0;
    while (*text) {
        struct glyph glyph = top_next_glyph(screen, text);
        width += glyph.width;
        text += glyph.n_bytes;
    }
    return width;
}

static struct top_cell *top_cell_at(struct top_screen *screen, unsigned x, unsigned y) {
    return x < screen->width && y < screen->height ? &screen->cells[y * screen->width + x] : NULL;
}

static void top_set_cell(struct top_screen *screen, unsigned x, unsigned y, enum top_style style,
                         const char *text) {
    struct top_cell *cell = top_cell_at(screen, x, y);
    if (!cell)
        return;
    snprintf(cell->text, sizeof cell->text, "%s", text);
    cell->style = (uint8_t)style;
}

static void top_cell_combine(struct top_screen *screen, unsigned x, unsigned y, const char *text) {
    struct top_cell *cell = top_cell_at(screen, x, y);
    if (!cell || strlen(cell->text) + strlen(text) >= sizeof cell->text)
        return;
    memcpy(cell->text + strlen(cell->text), text, strlen(text) + 1);
}

unsigned top_put(struct top_screen *screen, unsigned x, unsigned y, unsigned width,
                 enum top_style style, const char *text) {
    unsigned left = x < screen->width ? screen->width - x : 0;
    unsigned room = width < left ? width : left;
    bool is_cut = top_width(screen, text) > room;
    unsigned begin = x, last = x; /* of the last character, for what combines with it */
    if (room == 0)
        return x;
    room -= is_cut;
    while (*text) {
        struct glyph glyph = top_next_glyph(screen, text);
        text += glyph.n_bytes;
        if (glyph.width == 0) {
            if (x > begin)
                top_cell_combine(screen, last, y, glyph.text);
            continue;
        }
        if (x - begin + glyph.width > room)
            break;
        last = x;
        top_set_cell(screen, x++, y, style, glyph.text);
        if (glyph.width == 2)
            top_set_cell(screen, x++, y, style, "");
    }
    if (is_cut)
        top_set_cell(screen, x++, y, style, screen->is_ascii ? "~" : "…");
    return x;
}

void top_put_right(struct top_screen *screen, unsigned x, unsigned y, unsigned width,
                   enum top_style style, const char *text) {
    unsigned n = top_width(screen, text);
    unsigned skip = n < width ? width - n : 0;
    top_put(screen, x + skip, y, width - skip, style, text);
}

void top_put_bar(struct top_screen *screen, unsigned x, unsigned y, unsigned width, double share) {
    share = share > 1 ? 1 : share > 0 ? share : 0;
    enum top_style style = share >= 0.95 ? TOP_BAD : share >= 0.8 ? TOP_WARN : TOP_GOOD;
    unsigned halves = (unsigned)(share * width * 2 + 0.5);
    if (halves == 0 && share > 0)
        halves = 1; /* something is not nothing */
    for (unsigned i = 0; i < width; i++) {
        bool is_full = halves >= 2 * (i + 1), is_half = halves == 2 * i + 1;
        const char *text = screen->is_ascii ? (is_full || is_half ? "#" : "-")
                           : is_full        ? "━"
                           : is_half        ? "╸"
                                            : "─";
        top_set_cell(screen, x + i, y, is_full || is_half ? style : TOP_DIM, text);
    }
}

void top_paint(struct top_screen *screen, unsigned x, unsigned y, unsigned width,
               enum top_style style) {
    for (unsigned i = 0; i < width; i++) {
        struct top_cell *cell = top_cell_at(screen, x + i, y);
        if (cell)
            cell->style = (uint8_t)style;
    }
}

void top_line(const struct top_screen *screen, unsigned y, struct buf *out) {
    size_t end = out->n;
    for (unsigned x = 0; x < screen->width && y < screen->height; x++) {
        const struct top_cell *cell = &screen->cells[y * screen->width + x];
        buf_puts(out, cell->text);
        if (strcmp(cell->text, " ") != 0)
            end = out->n;
    }
    buf_truncate(out, end);
}
