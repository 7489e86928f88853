#include "tools/bench/core/html.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH    560.0
#define HEIGHT   260.0
#define LEFT     58.0
#define BOTTOM   36.0
#define TOP      14.0
#define RIGHT    24.0
#define N_COLORS 6

static const char style[] =
    "<style>:root{color-scheme:light dark;--ink:#1c2733;--paper:#fff;--soft:#8894a3;--line:#dde3ea;"
    "--c0:#0b6bcb;--c1:#c2410c;--c2:#15803d;--c3:#7e22ce;--c4:#db2777;--c5:#0e7490}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e3e9f0;--paper:#12181f;--soft:#8b98a8;"
    "--line:#2b3541;--c0:#5aa9ff;--c1:#fb923c;--c2:#4ade80;--c3:#c084fc;--c4:#f472b6;--c5:#22d3ee}}"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem "
    "auto;max-width:76rem;padding:0 1rem}h1{font-size:1.3rem}h2{font-size:1rem}.wide{overflow-x:"
    "auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}td,th{"
    "border-bottom:1px solid var(--line);padding:.25rem "
    ".35rem;text-align:right;vertical-align:bottom}"
    "th{color:var(--soft);font-weight:600}td:first-child,th:first-child{text-align:left}"
    "td:first-child{white-space:nowrap}.plots{"
    "display:flex;flex-wrap:wrap;gap:1.5rem}figure{margin:0;flex:1 1 480px;max-width:600px}"
    "figcaption{font-weight:600}figcaption span{font-weight:400;font-size:12px;white-space:nowrap;"
    "margin-left:.6em}.wide{margin-bottom:1.5rem}svg{width:100%;height:auto;display:block}svg "
    "text{fill:var(--soft);"
    "font:11px system-ui,sans-serif}"
    ".small figure{flex:1 1 300px;max-width:380px}.small svg "
    "text{font-size:16px}.headline{display:flex;flex-wrap:wrap;gap:1rem "
    "2.5rem;margin:1.2rem 0 .4rem}.headline div span{display:block;font-size:12px;color:var(--soft)"
    "}.headline div span+b+span{display:inline}.headline b{font-size:1.9rem;font-weight:650;"
    "letter-spacing:-.02em;font-variant-numeric:tabular-nums}.of{color:var(--soft);margin:0 0 "
    "1.4rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem;font-size:13px}"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}"
    ".warning{color:var(--c1);font-weight:600}"
    "@media(max-width:640px){td,th{white-space:nowrap;padding:.25rem .3rem}table{font-size:12px}}"
    "</style>";

static void bench_html_put_text(struct buf *out, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '<':
            buf_puts(out, "&lt;");
            break;
        case '&':
            buf_puts(out, "&amp;");
            break;
        case '"':
            buf_puts(out, "&quot;");
            break;
        default:
            buf_putc(out, *text);
        }
}

/* One line of a plot: y over x, n points. */
struct line {
    const char *name;
    const double *x;
    const double *y;
    uint32_t n;
};

struct axes {
    double x_max;
    double y_max;
};

static double bench_html_px(const struct axes *axes, double x) {
    return LEFT + x / axes->x_max * (WIDTH - LEFT - RIGHT);
}

static double bench_html_py(const struct axes *axes, double y) {
    return HEIGHT - BOTTOM - y / axes->y_max * (HEIGHT - BOTTOM - TOP);
}

/* 7500, 16k, 1.5M */
static const char *bench_html_number_text(double value, char text[24]) {
    double unit = value >= 1e6 ? 1e6 : value >= 1e4 ? 1e3 : 1;
    snprintf(text, 24, "%.4g%s", value / unit, unit == 1e6 ? "M" : unit == 1e3 ? "k" : "");
    return text;
}

static void bench_html_put_grid(struct buf *out, const struct axes *axes, const char *x_name) {
    for (int i = 0; i <= 4; i++) {
        double y = axes->y_max * i / 4, x = axes->x_max * i / 4;
        char texts[2][24];
        buf_printf(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"var(--line)\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>"
                   "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
                   LEFT, bench_html_py(axes, y), WIDTH - RIGHT, bench_html_py(axes, y), LEFT - 6,
                   bench_html_py(axes, y) + 4, bench_html_number_text(y, texts[0]),
                   bench_html_px(axes, x), HEIGHT - BOTTOM + 16,
                   bench_html_number_text(x, texts[1]));
    }
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", WIDTH - RIGHT,
               HEIGHT - 4, x_name);
}

static void bench_html_put_line(struct buf *out, const struct axes *axes, const struct line *line,
                                unsigned color) {
    buf_printf(out, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"var(--c%u)\" points=\"",
               color);
    for (uint32_t i = 0; i < line->n; i++)
        buf_printf(out, "%.1f,%.1f ", bench_html_px(axes, line->x[i]),
                   bench_html_py(axes, line->y[i]));
    buf_puts(out, "\"/>");
    for (uint32_t i = 0; i < line->n && line->n <= 40; i++)
        buf_printf(out,
                   "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"var(--c%u)\"><title>%s: %.4g at "
                   "%.4g</title></circle>",
                   bench_html_px(axes, line->x[i]), bench_html_py(axes, line->y[i]), color,
                   line->name, line->y[i], line->x[i]);
}

/* The end of an axis: four steps of 1, 1.5, 2, 2.5, 3, 4, 5 or 7.5 times a power of ten. */
static double round_up(double most) {
    static const double steps[] = {1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10};
    double power = most > 0 ? pow(10, floor(log10(most / 4))) : 0.25;
    unsigned i = 0;
    while (i + 1 < sizeof steps / sizeof *steps && 4 * steps[i] * power < most)
        i++;
    return 4 * steps[i] * power;
}

struct plot {
    const char *title, *x_name;
    double y_most;  /* at least; 0: by the lines */
    uint32_t color; /* of the first line */
};

static void bench_html_put_plot(struct buf *out, const struct plot *plot, const struct line *lines,
                                uint32_t n_lines) {
    struct axes axes = {0, plot->y_most};
    for (uint32_t i = 0; i < n_lines; i++)
        for (uint32_t k = 0; k < lines[i].n; k++) {
            axes.x_max = lines[i].x[k] > axes.x_max ? lines[i].x[k] : axes.x_max;
            axes.y_max = lines[i].y[k] > axes.y_max ? lines[i].y[k] : axes.y_max;
        }
    axes.x_max = round_up(axes.x_max);
    axes.y_max = round_up(axes.y_max);
    buf_printf(out, "<figure><figcaption>%s", plot->title);
    for (uint32_t i = 0; i < n_lines; i++) {
        buf_printf(out, " <span style=\"color:var(--c%u)\">", (plot->color + i) % N_COLORS);
        bench_html_put_text(out, lines[i].name);
        buf_puts(out, "</span>");
    }
    buf_printf(out,
               "</figcaption><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
               "aria-label=\"%s\">",
               WIDTH, HEIGHT, plot->title);
    bench_html_put_grid(out, &axes, plot->x_name);
    for (uint32_t i = 0; i < n_lines; i++)
        bench_html_put_line(out, &axes, &lines[i], (plot->color + i) % N_COLORS);
    buf_puts(out, "</svg></figure>");
}

/* Up to N_COLORS rows, spread over the set, for plots that have a line for each. */
static uint32_t bench_html_pick(const struct table_set *set, uint32_t i, uint32_t *n) {
    *n = set->n_rows < N_COLORS ? set->n_rows : N_COLORS;
    return *n < 2 ? 0 : i * (set->n_rows - 1) / (*n - 1);
}

static void bench_html_put_quantiles(const struct table_set *set, struct buf *out,
                                     const char *title, size_t spread) {
    static const double percents[] = {0, 50, 90, 95, 99, 100};
    double values[N_COLORS][6];
    struct line lines[N_COLORS];
    uint32_t n = 0;
    for (uint32_t i = 0; i == 0 || i < n; i++) {
        const struct row *row = &set->rows[bench_html_pick(set, i, &n)];
        struct spread s;
        memcpy(&s, (const char *)&row->figures + spread, sizeof s);
        const uint64_t ns[] = {s.min, s.p50, s.p90, s.p95, s.p99, s.max};
        for (int k = 0; k < 6; k++)
            values[i][k] = (double)ns[k] / 1e6;
        lines[i] = (struct line){row->label, percents, values[i], 6};
    }
    bench_html_put_plot(out, &(struct plot){.title = title, .x_name = "percent of requests"}, lines,
                        n);
}

/* The end of the y axis that all timelines share. */
static double bench_html_timeline_most(const struct table_set *set) {
    double most = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i == 0 || i < n; i++) {
        const struct figures *f = &set->rows[bench_html_pick(set, i, &n)].figures;
        for (int k = 0; k < TIMELINE_BINS && f->timeline_s > 0; k++) {
            double rate = f->timeline[k] / (f->timeline_s / TIMELINE_BINS);
            most = rate > most ? rate : most;
        }
    }
    return most;
}

/* One plot for each level, all with the same y axis: lines over one another would hide what each did. */
static void bench_html_put_timelines(const struct table_set *set, struct buf *out) {
    static double x[TIMELINE_BINS], y[TIMELINE_BINS];
    double most = bench_html_timeline_most(set);
    uint32_t n = 0;
    for (uint32_t i = 0; i == 0 || i < n; i++) {
        const struct row *row = &set->rows[bench_html_pick(set, i, &n)];
        double bin_s = row->figures.timeline_s / TIMELINE_BINS;
        for (int k = 0; k < TIMELINE_BINS; k++) {
            x[k] = (k + 0.5) * bin_s;
            y[k] = bin_s > 0 ? row->figures.timeline[k] / bin_s : 0;
        }
        struct line line = {row->label, x, y, TIMELINE_BINS};
        struct plot plot = {"Chunks per second", "seconds since the level's begin", most, i};
        bench_html_put_plot(out, &plot, &line, 1);
    }
}

/* Over the rate of a sweep's levels, or over the row's number. A sweep's first level asks one request after the other: its
 * own rate is where the curves begin. The second, throughput, has no rate and is in the tables alone. */
static void bench_html_put_curves(const struct table_set *set, struct buf *out) {
    double *v = calloc(5 * (size_t)set->n_rows, sizeof *v);
    if (!v)
        return; /* the page without its curves */
    uint32_t n_rows = set->n_rows, n = 0;
    double *x = v, *rate = v + n_rows, *half = v + 2 * n_rows, *most = v + 3 * n_rows,
           *itl = v + 4 * n_rows;
    bool is_sweep = set->table == TABLE_SWEEP;
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct row *row = &set->rows[i];
        const struct figures *f = &row->figures;
        if (is_sweep && i == 1 && n_rows > 2)
            continue;
        x[n] = !is_sweep ? i + 1 : row->asked_rate > 0 ? row->asked_rate : f->requests_per_s;
        rate[n] = f->output_tokens_per_s;
        half[n] = (double)f->ttft_due.p50 / 1e6;
        most[n] = (double)f->ttft_due.p99 / 1e6;
        itl[n++] = (double)f->itl.p95 / 1e6;
    }
    const char *x_name = is_sweep ? "requests per second, asked (first point: synchronous)" : "row";
    struct line tokens = {"output tokens/s", x, rate, n};
    struct line ttft[] = {{"TTFT p50", x, half, n}, {"TTFT p99", x, most, n}};
    struct line gaps = {"ITL p95", x, itl, n};
    bench_html_put_plot(out, &(struct plot){.title = "Output tokens per second", .x_name = x_name},
                        &tokens, 1);
    bench_html_put_plot(out, &(struct plot){.title = "TTFT from due, ms", .x_name = x_name}, ttft,
                        2);
    bench_html_put_plot(out, &(struct plot){.title = "ITL, ms", .x_name = x_name}, &gaps, 1);
    free(v);
}

/* --- what one looks for first ------------------------------------------------------------------ */

static void bench_html_put_figure(struct buf *out, const char *name, const char *value,
                                  const char *unit) {
    buf_printf(out, "<div><span>%s</span><b>%s</b> <span>%s</span></div>", name, value, unit);
}

/* The level that made the most tokens, or the only one. */
static void bench_html_put_headline(const struct table_set *set, struct buf *out) {
    const struct row *best = &set->rows[0];
    char value[32];
    for (uint32_t i = 1; i < set->n_rows; i++)
        if (set->rows[i].figures.output_tokens_per_s > best->figures.output_tokens_per_s)
            best = &set->rows[i];
    const struct figures *f = &best->figures;
    buf_puts(out, "<div class=\"headline\">");
    snprintf(value, sizeof value, f->output_tokens_per_s < 1000 ? "%.1f" : "%.0f",
             f->output_tokens_per_s);
    bench_html_put_figure(out, set->n_rows > 1 ? "Most output" : "Output", value, "tokens/s");
    snprintf(value, sizeof value, "%.2f", f->requests_per_s);
    bench_html_put_figure(out, "Requests", value, "per second");
    snprintf(value, sizeof value, "%.1f", (double)f->ttft_due.p50 / 1e6);
    bench_html_put_figure(out, "TTFT, half of all", value, "ms at most");
    snprintf(value, sizeof value, "%.1f", (double)f->ttft_due.p99 / 1e6);
    bench_html_put_figure(out, "TTFT, 99 of 100", value, "ms at most");
    snprintf(value, sizeof value, "%.2f", (double)f->itl.p50 / 1e6);
    bench_html_put_figure(out, "ITL, half of all", value, "ms at most");
    buf_puts(out, "</div>");
    if (set->n_rows > 1) {
        buf_puts(out, "<p class=\"of\">at ");
        bench_html_put_text(out, best->label);
        if (set->knee >= 0) {
            buf_puts(out, "; the knee is at ");
            bench_html_put_text(out, set->rows[set->knee].label);
        }
        buf_puts(out, "</p>");
    }
}

/* --- tables and environment -------------------------------------------------------------------- */

/* Markdown tables as HTML: a line that begins with '|' is a row, its first one the head. */
static void bench_html_put_tables(struct buf *out, char *markdown) {
    bool in_table = false, is_head = false;
    for (char *line = strsep(&markdown, "\n"); line; line = strsep(&markdown, "\n")) {
        if (line[0] != '|') {
            buf_puts(out, in_table ? "</table></div>" : "");
            in_table = false;
            if (!line[0])
                continue;
            buf_puts(out, strncmp(line, "WARNING", 7) == 0 ? "<p class=\"warning\">" : "<p>");
            bench_html_put_text(out, line);
            buf_puts(out, "</p>\n");
            continue;
        }
        if (strncmp(line, "|--", 3) == 0)
            continue;
        is_head = !in_table;
        if (!in_table)
            buf_puts(out, "<div class=\"wide\"><table>");
        in_table = true;
        buf_puts(out, "<tr>");
        char *rest = line + 1;
        for (char *cell = strsep(&rest, "|"); rest; cell = strsep(&rest, "|")) {
            buf_puts(out, is_head ? "<th>" : "<td>");
            bench_html_put_text(out, cell);
        }
        buf_puts(out, "</tr>\n");
    }
    if (in_table)
        buf_puts(out, "</table></div>");
}

/* A string or a number of JSON, without its quotes and escapes; answers what follows. */
static const char *bench_html_put_value(struct buf *out, const char *at) {
    bool is_text = *at == '"';
    for (at += is_text; *at && (is_text ? *at != '"' : *at != ',' && *at != '}'); at++) {
        char one[2] = {*at, '\0'};
        unsigned code;
        if (is_text && *at == '\\' && at[1] == 'u' && sscanf(at + 2, "%4x", &code) == 1 &&
            code < 128) {
            one[0] = (char)code;
            at += 5;
        } else if (is_text && *at == '\\' && at[1]) {
            one[0] = *++at == 'n' ? ' ' : *at;
        }
        bench_html_put_text(out, one);
    }
    return at + (is_text && *at == '"');
}

/* The object's members, one a row; it is flat. */
static void bench_html_put_environment(struct buf *out, const char *json) {
    buf_puts(out, "<h2>Environment</h2><dl>");
    for (const char *at = strchr(json, '"'); at; at = strchr(at, '"')) {
        buf_puts(out, "<dt>");
        at = bench_html_put_value(out, at);
        buf_puts(out, "</dt><dd>");
        at = bench_html_put_value(out, at + (*at == ':'));
        buf_puts(out, "</dd>");
    }
    buf_puts(out, "</dl>");
}

void html_page(const struct table_set *set, struct buf *out) {
    struct buf markdown;
    buf_puts(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name="
                  "\"viewport\" content=\"width=device-width\"><title>tandem-bench</title>");
    buf_puts(out, style);
    buf_puts(out, "</head><body><h1>");
    bench_html_put_text(out, set->title);
    buf_puts(out, "</h1>");
    if (set->n_rows > 0)
        bench_html_put_headline(set, out);
    buf_puts(out, "<div class=\"plots\">");
    if (set->n_rows > 1)
        bench_html_put_curves(set, out);
    if (set->n_rows > 0) {
        bench_html_put_quantiles(set, out, "TTFT from due: quantiles, ms",
                                 offsetof(struct figures, ttft_due));
        bench_html_put_quantiles(set, out, "ITL: quantiles, ms", offsetof(struct figures, itl));
        buf_puts(out, "</div><h2>Timelines</h2><div class=\"plots small\">");
        bench_html_put_timelines(set, out);
    }
    buf_puts(out, "</div>");
    buf_init(&markdown, 0);
    tables_markdown(set, &markdown);
    if (markdown.data)
        bench_html_put_tables(out, markdown.data);
    buf_fini(&markdown);
    bench_html_put_environment(out, set->environment);
    buf_puts(out, "</body></html>\n");
}
