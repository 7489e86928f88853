/* tools/bench/rows/report_json.c: predicted tables as JSON, written directly. */
#include "tools/bench/core/workload.h"
#include "tools/bench/rows/figure.h"
#include "tools/bench/rows/report.h"

#include <string.h>

static void bench_report_json_put_text(struct buf *out, const char *key, const char *text) {
    buf_printf(out, "\"%s\":", key);
    json_text(out, text, strlen(text));
}

static void bench_report_json_put_efficiencies(const struct efficiencies *row, struct buf *out) {
    buf_puts(out, "{");
    bench_report_json_put_text(out, "name", row->name);
    buf_puts(out, ",");
    bench_report_json_put_text(out, "measured_on", row->device);
    buf_puts(out, ",");
    bench_report_json_put_text(out, "source", row->source);
    buf_puts(out, "}");
}

static void bench_report_json_put_prediction(const char *name, const struct figure *figure,
                                             const struct prediction *prediction, struct buf *out) {
    json_text(out, name, strlen(name));
    buf_printf(out, ":{\"value\":");
    if (prediction->fits)
        buf_printf(out, "%.6g,", figure_value(figure, prediction));
    else
        buf_puts(out, "null,");
    bench_report_json_put_text(out, "decides",
                               roofline_term_name(figure_decides(figure, prediction)));
    buf_puts(out, "}");
}

static void bench_report_json_put_figure(const struct all *all, const struct all_row *row,
                                         const struct figure *figure, struct buf *out) {
    buf_puts(out, "{");
    bench_report_json_put_text(out, "figure", figure->name);
    if (figure->published > 0)
        buf_printf(out, ",\"published\":%.6g", figure->published);
    buf_puts(out, ",\"predicted\":{");
    if (row->own_row) {
        bench_report_json_put_prediction(row->own_row->name, figure, &row->own, out);
        buf_puts(out, all->n_efficiencies ? "," : "");
    }
    for (size_t i = 0; i < all->n_efficiencies; i++) {
        bench_report_json_put_prediction(all->efficiencies[i].name, figure, &row->tandem[i], out);
        buf_puts(out, i + 1 < all->n_efficiencies ? "," : "");
    }
    buf_puts(out, "}}");
}

static void bench_report_json_put_row(const struct all *all, const struct all_row *own,
                                      struct buf *out) {
    const struct reference_row *row = own->row;
    const char *const texts[][2] = {{"table", row->table},
                                    {"system", row->system},
                                    {"model", row->model},
                                    {"hardware", row->hardware},
                                    {"level", row->level}};
    struct figure figures[FIGURES_MAX];
    buf_puts(out, "{");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bench_report_json_put_text(out, texts[i][0], texts[i][1]);
        buf_puts(out, ",");
    }
    buf_printf(out, "\"input\":%u,\"output\":%u,\"saturated\":%s,", row->n_input, row->n_output,
               reference_is_saturated(row) ? "true" : "false");
    if (reference_artefact(row)) {
        bench_report_json_put_text(out, "artefact", reference_artefact(row));
        buf_puts(out, ",");
    }
    buf_puts(out, "\"figures\":[");
    for (unsigned f = 0, n = figures_of(row, figures); f < n; f++) {
        buf_puts(out, f ? "," : "");
        bench_report_json_put_figure(all, own, &figures[f], out);
    }
    buf_puts(out, "]}");
}

void report_json(const struct all *all, struct buf *out) {
    buf_puts(out, "{\"efficiencies\":[");
    for (size_t i = 0; i < all->n_efficiencies; i++) {
        buf_puts(out, i ? "," : "");
        bench_report_json_put_efficiencies(&all->efficiencies[i], out);
    }
    buf_puts(out, "],\"rows\":[\n");
    for (size_t i = 0; i < all->n_rows; i++) {
        bench_report_json_put_row(all, &all->rows[i], out);
        buf_puts(out, i + 1 < all->n_rows ? ",\n" : "\n");
    }
    buf_puts(out, "]}\n");
}
