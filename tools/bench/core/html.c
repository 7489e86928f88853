#include "tools/bench/core/html.h"

#include <math.h>
#include <stddef.h>
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
    "border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:right;white-space:nowrap}"
    "th{color:var(--soft);font-weight:600}td:first-child,th:first-child{text-align:left}.plots{"
    "display:flex;flex-wrap:wrap;gap:1.5rem}figure{margin:0;flex:1 1 480px;max-width:600px}"
    "figcaption{font-weight:600}figcaption span{font-weight:400;font-size:12px;white-space:nowrap;"
    "margin-left:.6em}.wide{margin-bottom:1.5rem}svg{width:100%;height:auto;display:block}svg "
    "text{fill:var(--soft);"
    "font:11px system-ui,sans-serif}pre{white-space:pre-wrap;font-size:12px;color:var(--soft)}"
    ".warning{color:var(--c1);font-weight:600}</style>";

static void put_text(struct buf *out, const char *text) {
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

static double px(const struct axes *axes, double x) {
    return LEFT + x / axes->x_max * (WIDTH - LEFT - RIGHT);
}

static double py(const struct axes *axes, double y) {
    return HEIGHT - BOTTOM - y / axes->y_max * (HEIGHT - BOTTOM - TOP);
}

static void put_grid(struct buf *out, const struct axes *axes, const char *x_name) {
    for (int i = 0; i <= 4; i++) {
        double y = axes->y_max * i / 4, x = axes->x_max * i / 4;
        buf_printf(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"var(--line)\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>"
                   "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g</text>",
                   LEFT, py(axes, y), WIDTH - RIGHT, py(axes, y), LEFT - 6, py(axes, y) + 4, y,
                   px(axes, x), HEIGHT - BOTTOM + 16, x);
    }
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", WIDTH - RIGHT,
               HEIGHT - 4, x_name);
}

static void put_line(struct buf *out, const struct axes *axes, const struct line *line,
                     unsigned color) {
    buf_printf(out, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"var(--c%u)\" points=\"",
               color);
    for (uint32_t i = 0; i < line->n; i++)
        buf_printf(out, "%.1f,%.1f ", px(axes, line->x[i]), py(axes, line->y[i]));
    buf_puts(out, "\"/>");
    for (uint32_t i = 0; i < line->n && line->n <= 40; i++)
        buf_printf(out,
                   "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"var(--c%u)\"><title>%s: %.4g at "
                   "%.4g</title></circle>",
                   px(axes, line->x[i]), py(axes, line->y[i]), color, line->name, line->y[i],
                   line->x[i]);
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

static void put_plot(struct buf *out, const char *title, const char *x_name,
                     const struct line *lines, uint32_t n_lines) {
    struct axes axes = {0, 0};
    for (uint32_t i = 0; i < n_lines; i++)
        for (uint32_t k = 0; k < lines[i].n; k++) {
            axes.x_max = lines[i].x[k] > axes.x_max ? lines[i].x[k] : axes.x_max;
            axes.y_max = lines[i].y[k] > axes.y_max ? lines[i].y[k] : axes.y_max;
        }
    axes.x_max = round_up(axes.x_max);
    axes.y_max = round_up(axes.y_max);
    buf_printf(out, "<figure><figcaption>%s", title);
    for (uint32_t i = 0; i < n_lines; i++) {
        buf_printf(out, " <span style=\"color:var(--c%u)\">", i % N_COLORS);
        put_text(out, lines[i].name);
        buf_puts(out, "</span>");
    }
    buf_printf(out,
               "</figcaption><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
               "aria-label=\"%s\">",
               WIDTH, HEIGHT, title);
    put_grid(out, &axes, x_name);
    for (uint32_t i = 0; i < n_lines; i++)
        put_line(out, &axes, &lines[i], i % N_COLORS);
    buf_puts(out, "</svg></figure>");
}

/* Up to N_COLORS rows, spread over the set, for plots that have a line for each. */
static uint32_t pick(const struct table_set *set, uint32_t i, uint32_t *n) {
    *n = set->n_rows < N_COLORS ? set->n_rows : N_COLORS;
    return *n < 2 ? 0 : i * (set->n_rows - 1) / (*n - 1);
}

static void put_quantiles(const struct table_set *set, struct buf *out, const char *title,
                          size_t spread) {
    static const double percents[] = {0, 50, 90, 95, 99, 100};
    double values[N_COLORS][6];
    struct line lines[N_COLORS];
    uint32_t n = 0;
    for (uint32_t i = 0; i == 0 || i < n; i++) {
        const struct row *row = &set->rows[pick(set, i, &n)];
        struct spread s;
        memcpy(&s, (const char *)&row->figures + spread, sizeof s);
        const uint64_t ns[] = {s.min, s.p50, s.p90, s.p95, s.p99, s.max};
        for (int k = 0; k < 6; k++)
            values[i][k] = (double)ns[k] / 1e6;
        lines[i] = (struct line){row->label, percents, values[i], 6};
    }
    put_plot(out, title, "percent of requests", lines, n);
}

static void put_timeline(const struct table_set *set, struct buf *out) {
    static double x[N_COLORS][TIMELINE_BINS], y[N_COLORS][TIMELINE_BINS];
    struct line lines[N_COLORS];
    uint32_t n = 0;
    for (uint32_t i = 0; i == 0 || i < n; i++) {
        const struct row *row = &set->rows[pick(set, i, &n)];
        double bin_s = row->figures.timeline_s / TIMELINE_BINS;
        for (int k = 0; k < TIMELINE_BINS; k++) {
            x[i][k] = (k + 0.5) * bin_s;
            y[i][k] = bin_s > 0 ? row->figures.timeline[k] / bin_s : 0;
        }
        lines[i] = (struct line){row->label, x[i], y[i], TIMELINE_BINS};
    }
    put_plot(out, "Timeline: chunks per second", "seconds since the level's begin", lines, n);
}

/* Over the completed rate of a sweep's levels, or over the row's number. */
static void put_curves(const struct table_set *set, struct buf *out) {
    uint32_t n = set->n_rows;
    double *v = calloc(5 * (size_t)n, sizeof *v);
    if (!v)
        return; /* the page without its curves */
    double *x = v, *rate = v + n, *half = v + 2 * n, *most = v + 3 * n, *itl = v + 4 * n;
    bool is_sweep = set->table == TABLE_SWEEP;
    for (uint32_t i = 0; i < n; i++) {
        const struct figures *f = &set->rows[i].figures;
        x[i] = is_sweep
                   ? (set->rows[i].asked_rate > 0 ? set->rows[i].asked_rate : f->requests_per_s)
                   : i + 1;
        rate[i] = f->output_tokens_per_s;
        half[i] = (double)f->ttft_due.p50 / 1e6;
        most[i] = (double)f->ttft_due.p99 / 1e6;
        itl[i] = (double)f->itl.p95 / 1e6;
    }
    /* The throughput level, second, would break the lines: it is shown in the tables alone. */
    uint32_t at = is_sweep && n > 2 ? 2 : 0;
    const char *x_name = is_sweep ? "requests per second, asked" : "row";
    struct line tokens = {"output tokens/s", x + at, rate + at, n - at};
    struct line ttft[] = {{"TTFT p50", x + at, half + at, n - at},
                          {"TTFT p99", x + at, most + at, n - at}};
    struct line gaps = {"ITL p95", x + at, itl + at, n - at};
    put_plot(out, "Output tokens per second", x_name, &tokens, 1);
    put_plot(out, "TTFT from due, ms", x_name, ttft, 2);
    put_plot(out, "ITL, ms", x_name, &gaps, 1);
    free(v);
}

/* Markdown tables as HTML: a line that begins with '|' is a row, its first one the head. */
static void put_tables(struct buf *out, char *markdown) {
    bool in_table = false, is_head = false;
    for (char *line = strsep(&markdown, "\n"); line; line = strsep(&markdown, "\n")) {
        if (line[0] != '|') {
            buf_puts(out, in_table ? "</table></div>" : "");
            in_table = false;
            if (!line[0])
                continue;
            buf_puts(out, strncmp(line, "WARNING", 7) == 0 ? "<p class=\"warning\">" : "<p>");
            put_text(out, line);
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
            put_text(out, cell);
        }
        buf_puts(out, "</tr>\n");
    }
    if (in_table)
        buf_puts(out, "</table></div>");
}

void html_page(const struct table_set *set, struct buf *out) {
    struct buf markdown;
    buf_puts(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name="
                  "\"viewport\" content=\"width=device-width\"><title>tandem-bench</title>");
    buf_puts(out, style);
    buf_puts(out, "</head><body><h1>");
    put_text(out, set->title);
    buf_puts(out, "</h1><div class=\"plots\">");
    if (set->n_rows > 1)
        put_curves(set, out);
    if (set->n_rows > 0) {
        put_quantiles(set, out, "TTFT from due: quantiles, ms", offsetof(struct figures, ttft_due));
        put_quantiles(set, out, "ITL: quantiles, ms", offsetof(struct figures, itl));
        put_timeline(set, out);
    }
    buf_puts(out, "</div>");
    buf_init(&markdown, 0);
    tables_markdown(set, &markdown);
    if (markdown.data)
        put_tables(out, markdown.data);
    buf_fini(&markdown);
    buf_puts(out, "<h2>Environment</h2><pre>");
    put_text(out, set->environment);
    buf_puts(out, "</pre></body></html>\n");
}
