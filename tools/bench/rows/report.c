#include "tools/bench/rows/report.h"

#include "tools/bench/rows/figure.h"

#include <string.h>

/* Efficiencies that a table is predicted by: the system's own first. */
struct columns {
    size_t n;
    const struct efficiencies *rows[ALL_EFFICIENCIES_MAX + 1];
};

static struct columns bench_report_columns_of(const struct all *all, const struct all_row *row) {
    struct columns columns = {0};
    if (row->own_row)
        columns.rows[columns.n++] = row->own_row;
    for (size_t i = 0; i < all->n_efficiencies; i++)
        columns.rows[columns.n++] = &all->efficiencies[i];
    return columns;
}

static const struct prediction *bench_report_prediction_of(const struct all_row *row,
                                                           size_t column) {
    bool has_own = row->own_row != NULL;
    return has_own && column == 0 ? &row->own : &row->tandem[column - has_own];
}

static bool bench_report_is_measured(const struct efficiencies *efficiencies,
                                     const struct device *device) {
    return efficiencies->device[0] && device_find(efficiencies->device) == device;
}

/* Efficiencies that were measured somewhere, but not on this device. */
static bool bench_report_is_carried(const struct efficiencies *efficiencies,
                                    const struct device *device) {
    return efficiencies->device[0] && !bench_report_is_measured(efficiencies, device);
}

static void bench_report_put_marks(const struct all *all, const struct all_row *row,
                                   struct buf *out) {
    bool carried = false;
    for (size_t i = 0; i < all->n_efficiencies; i++)
        carried |= bench_report_is_carried(&all->efficiencies[i], row->configuration->device);
    if (reference_artefact(row->row))
        buf_putc(out, 'a');
    if (reference_is_saturated(row->row))
        buf_putc(out, 's');
    if (carried)
        buf_putc(out, 'u');
}

static void bench_report_put_number(struct buf *out, double value) {
    if (value <= 0)
        buf_puts(out, "-");
    else
        buf_printf(out, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
}

static void bench_report_put_cell_name(const struct reference_row *row, struct buf *out) {
    if (reference_kind(row) == REFERENCE_GRID)
        buf_printf(out, "%u/%u", row->n_input, row->n_output);
    else
        buf_puts(out, row->level);
}

static void bench_report_put_heading(const struct all *all, const struct all_row *row,
                                     struct buf *out) {
    const struct columns columns = bench_report_columns_of(all, row);
    buf_printf(out, "\n## %s, %s, %s\n\n| row | figure | published |", row->row->model,
               row->row->hardware, row->row->system);
    for (size_t i = 0; i < columns.n; i++)
        buf_printf(out, " %s%s |", columns.rows[i]->name,
                   columns.rows[i] == row->own_row ? ", fitted" : "");
    buf_puts(out, " marks |\n|---|---|---|");
    for (size_t i = 0; i < columns.n; i++)
        buf_puts(out, "---|");
    buf_puts(out, "---|\n");
}

static void bench_report_put_row(const struct all *all, const struct all_row *row,
                                 struct buf *out) {
    struct figure figures[FIGURES_MAX];
    unsigned n = figures_of(row->row, figures);
    const struct columns columns = bench_report_columns_of(all, row);
    for (unsigned f = 0; f < n; f++) {
        buf_puts(out, "| ");
        bench_report_put_cell_name(row->row, out);
        buf_printf(out, " | %s | ", figures[f].name);
        bench_report_put_number(out, figures[f].published);
        for (size_t i = 0; i < columns.n; i++) {
            const struct prediction *own = bench_report_prediction_of(row, i);
            buf_puts(out, " | ");
            bench_report_put_number(out, figure_value(&figures[f], own));
            if (own->fits)
                buf_printf(out, " %c", figure_letter(figure_decides(&figures[f], own)));
        }
        buf_puts(out, " | ");
        bench_report_put_marks(all, row, out);
        buf_puts(out, " |\n");
    }
}

static void bench_report_put_artefacts(const struct all *all, struct buf *out) {
    for (size_t i = 0; i < all->n_rows; i++) {
        const struct reference_row *row = all->rows[i].row;
        const char *why = reference_artefact(row);
        if (!why)
            continue;
        buf_printf(out, "- a: %s, %s, %s ", row->model, row->hardware, row->system);
        bench_report_put_cell_name(row, out);
        buf_printf(out, ": %s.\n", why);
    }
}

/* How often each term decides, by each row of efficiencies. */
static void bench_report_put_decisions(const struct all *all, struct buf *out) {
    buf_puts(out, "\nWhat decides, figures by their largest term:\n\n| efficiencies |");
    for (unsigned t = 0; t < ROOFLINE_TERMS; t++)
        buf_printf(out, " %s |", roofline_term_name((enum roofline_term)t));
    buf_puts(out, "\n|---|");
    for (unsigned t = 0; t < ROOFLINE_TERMS; t++)
        buf_puts(out, "---|");
    for (size_t i = 0; i < all->n_efficiencies; i++) {
        unsigned n_of[ROOFLINE_TERMS] = {0};
        struct figure figures[FIGURES_MAX];
        for (size_t k = 0; k < all->n_rows; k++)
            for (unsigned f = 0, n = figures_of(all->rows[k].row, figures); f < n; f++)
                if (all->rows[k].tandem[i].fits)
                    n_of[figure_decides(&figures[f], &all->rows[k].tandem[i])]++;
        buf_printf(out, "\n| %s |", all->efficiencies[i].name);
        for (unsigned t = 0; t < ROOFLINE_TERMS; t++)
            buf_printf(out, " %u |", n_of[t]);
    }
    buf_puts(out, "\n");
}

static const char *const assumptions[] = {
    "Every figure but the published ones is computed: no GPU was asked.",
    "One router and one worker over the same devices, with the defaults of tandem-worker; 0.9 of "
    "each device's memory, less 0.3 GB; messages take 30 us.",
    "Answers are as long as the published ones were on average; no prompt repeats another.",
    "Near saturation (s) a small error of the step time is a large one of the times.",
    "Weights' output heads have 16 bits, KV caches too.",
};

static void bench_report_put_assumptions(const struct all *all, struct buf *out) {
    buf_puts(out, "\nAssumed:\n\n");
    for (size_t i = 0; i < sizeof assumptions / sizeof *assumptions; i++)
        buf_printf(out, "- %s\n", assumptions[i]);
    for (size_t i = 0; i < all->n_efficiencies; i++)
        buf_printf(out, "- %s%s%s: %s.\n", all->efficiencies[i].name,
                   all->efficiencies[i].device[0] ? ", measured on " : "",
                   all->efficiencies[i].device, all->efficiencies[i].source);
    buf_puts(out, "\nMarks: a, the published figure is an artefact; s, it was taken beyond "
                  "saturation; u, efficiencies of another device were scaled by the devices' "
                  "rates, not measured. Letters behind figures name the largest term "
                  "of the steps:");
    for (unsigned t = 0; t < ROOFLINE_TERMS; t++)
        buf_printf(out, "%s %c %s", t ? "," : "", figure_letter((enum roofline_term)t),
                   roofline_term_name((enum roofline_term)t));
    buf_puts(out, ".\n\n");
    bench_report_put_artefacts(all, out);
}

void report_markdown(const struct all *all, struct buf *out) {
    buf_puts(out, "# Published rows, and what the model gives\n");
    for (size_t i = 0; i < all->n_rows; i++) {
        if (i == 0 || all->rows[i].configuration != all->rows[i - 1].configuration)
            bench_report_put_heading(all, &all->rows[i], out);
        bench_report_put_row(all, &all->rows[i], out);
    }
    bench_report_put_decisions(all, out);
    bench_report_put_assumptions(all, out);
}

void report_csv(const struct all *all, struct buf *out) {
    buf_puts(out, "table,system,model,hardware,level,input,output,figure,published,efficiencies,"
                  "predicted,decides,measured,artefact,saturated\n");
    for (size_t i = 0; i < all->n_rows; i++) {
        const struct all_row *own = &all->rows[i];
        const struct reference_row *row = own->row;
        const struct columns columns = bench_report_columns_of(all, own);
        struct figure figures[FIGURES_MAX];
        for (unsigned f = 0, n = figures_of(row, figures); f < n; f++)
            for (size_t k = 0; k < columns.n; k++) {
                const struct prediction *prediction = bench_report_prediction_of(own, k);
                buf_printf(out, "%s,%s,%s,%s,%s,%u,%u,%s,%.6g,%s,%.6g,%s,%d,%d,%d\n", row->table,
                           row->system, row->model, row->hardware, row->level, row->n_input,
                           row->n_output, figures[f].name, figures[f].published,
                           columns.rows[k]->name, figure_value(&figures[f], prediction),
                           roofline_term_name(figure_decides(&figures[f], prediction)),
                           bench_report_is_measured(columns.rows[k], own->configuration->device),
                           reference_artefact(row) != NULL, reference_is_saturated(row));
            }
    }
}
