#include "tools/bench/rows/figure.h"

#include <stddef.h>
#include <string.h>

static struct figure bench_rows_make_figure(const char *name, double published, size_t offset) {
    return (struct figure){.name = name, .published = published, .offset = offset};
}
#define FIGURE(name, member)                                                                       \
    bench_rows_make_figure(name, row->member, offsetof(struct prediction, member))

unsigned figures_of(const struct reference_row *row, struct figure figures[FIGURES_MAX]) {
    unsigned n = 0;
    switch (reference_kind(row)) {
    case REFERENCE_GRID:
        figures[n++] = FIGURE("ms/token alone", ms_per_output_token);
        figures[0].is_alone = true;
        figures[n++] = FIGURE("tok/s", tokens_per_s);
        break;
    case REFERENCE_ALONE:
        figures[n++] = FIGURE("TTFT ms", ttft_ms);
        figures[n++] = FIGURE("ITL ms", itl_ms);
        break;
    case REFERENCE_RATE:
        figures[n++] = FIGURE("TTFT ms", ttft_ms);
        figures[n++] = FIGURE("ITL ms", itl_ms);
        if (!reference_has_itl(row))
            figures[n - 1].published = 0;
        figures[n++] = FIGURE("tok/s", tokens_per_s);
        break;
    case REFERENCE_BURST:
        figures[n++] = FIGURE("tok/s", tokens_per_s);
    }
    return n;
}

double figure_value(const struct figure *figure, const struct prediction *prediction) {
    double value;
    memcpy(&value, (const char *)prediction + figure->offset, sizeof value);
    return prediction->fits ? value : 0;
}

enum roofline_term figure_decides(const struct figure *figure,
                                  const struct prediction *prediction) {
    const double *us = figure->is_alone ? prediction->alone_us : prediction->us;
    unsigned most = 0;
    for (unsigned i = 1; i < ROOFLINE_TERMS; i++)
        most = us[i] > us[most] ? i : most;
    return (enum roofline_term)most;
}

char figure_letter(enum roofline_term term) {
    static const char letters[ROOFLINE_TERMS] = {
        [ROOFLINE_WEIGHTS] = 'W', [ROOFLINE_PRODUCTS] = 'P', [ROOFLINE_HEAD] = 'H',
        [ROOFLINE_KV] = 'K',      [ROOFLINE_ATTEND] = 'A',   [ROOFLINE_SUMS] = 'S',
        [ROOFLINE_LAYERS] = 'L',  [ROOFLINE_STEP] = 'T',     [ROOFLINE_SEQS] = 'Q'};
    return letters[term];
}
