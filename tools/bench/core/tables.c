#include "tools/bench/core/tables.h"

#include "base/clock.h"

#include <stdlib.h>

static double bench_tables_ms(double ns) {
    return ns / (double)NS_PER_MS;
}

static double tables_seconds(double ns) {
    return ns / (double)NS_PER_S;
}

/* The first line of every report: whether the client itself can be believed, and what says that it cannot. */
static void bench_tables_put_warning(const struct table_set *set, struct buf *out) {
    uint64_t late_ns = 0, loop_ns = 0;
    bool is_late = false;
    for (uint32_t i = 0; i < set->n_rows; i++) {
        const struct figures *figures = &set->rows[i].figures;
        is_late |= (figures->marks & MARK_LATE) != 0;
        late_ns = figures->late_max_ns > late_ns ? figures->late_max_ns : late_ns;
        loop_ns = figures->loop_late_max_ns > loop_ns ? figures->loop_late_max_ns : loop_ns;
    }
    if (!is_late)
        return;
    buf_puts(out, "WARNING: this client was behind its own schedule: ");
    if (late_ns > FIGURES_LATE_NS)
        buf_printf(out, "requests were sent up to %.1f ms after they were due%s",
                   bench_tables_ms((double)late_ns), loop_ns > FIGURES_LATE_NS ? ", and " : "");
    if (loop_ns > FIGURES_LATE_NS)
        buf_printf(out,
                   "its loop was held for up to %.1f ms (other programs on this machine, or too "
                   "many streams for one core)",
                   bench_tables_ms((double)loop_ns));
    buf_puts(out, "; rows marked L measure the client.\n\n");
}

static void bench_tables_put_failures(const struct table_set *set, struct buf *out) {
    uint32_t n_faults[FAULT_N] = {0}, n = 0;
    for (uint32_t i = 0; i < set->n_rows; i++)
        for (unsigned f = 0; f < FAULT_N; f++) {
            uint32_t more = set->rows[i].figures.n_faults[f] + set->rows[i].alone.n_faults[f];
            n_faults[f] += more;
            n += more;
        }
    if (n == 0)
        return;
    buf_puts(out, "\nfailures:");
    for (unsigned f = 0; f < FAULT_N; f++)
        if (n_faults[f])
            buf_printf(out, " %s %u", fault_name((enum fault)f), n_faults[f]);
    buf_printf(out, "\nfirst failure: %s\n", set->first_error);
}

static void bench_tables_put_spread(struct buf *out, const char *name, const struct spread *s,
                                    double unit) {
    buf_printf(out, "| %-19s | %9.2f | %9.2f | %9.2f | %9.2f |\n", name, s->mean / unit,
               (double)s->p50 / unit, (double)s->p90 / unit, (double)s->p99 / unit);
}

static void bench_tables_put_load(const struct table_set *set, struct buf *out) {
    const struct figures *f = &set->rows[0].figures;
    char marks[MARK_TEXT_MAX];
    buf_printf(out, "%s\n\n", set->title);
    buf_puts(out, "| milliseconds        |      mean |       p50 |       p90 |       p99 |\n"
                  "|---------------------|-----------|-----------|-----------|-----------|\n");
    bench_tables_put_spread(out, "TTFT", &f->ttft, 1e6);
    bench_tables_put_spread(out, "TTFT from due", &f->ttft_due, 1e6);
    bench_tables_put_spread(out, "ITL", &f->itl, 1e6);
    bench_tables_put_spread(out, "TPOT", &f->tpot, 1e6);
    bench_tables_put_spread(out, "gap between chunks", &f->gap, 1e6);
    bench_tables_put_spread(out, "request latency", &f->latency, 1e6);
    bench_tables_put_spread(out, "latency from due", &f->latency_due, 1e6);
    buf_printf(out, "\n%u completed, %u failed, %u incomplete", f->n_ok, f->n_failed,
               f->n_incomplete);
    if (f->n_in_window < f->n_ok)
        buf_printf(out, ": %u completed in %.2f s of load, and %u more while it drained.\nThe %u: ",
                   f->n_in_window, f->window_s, f->n_ok - f->n_in_window, f->n_in_window);
    else
        buf_printf(out, " in %.2f s.\nThat is ", f->window_s);
    buf_printf(out,
               "%.2f requests/s, %.1f output tokens/s, %.1f tokens/s in all; %.1f in flight.\n"
               "%.1f prompt and %.1f output tokens per request; late by at most %.2f ms%s%s\n",
               f->requests_per_s, f->output_tokens_per_s, f->total_tokens_per_s, f->concurrency,
               f->prompt_mean, f->output_mean, bench_tables_ms((double)f->late_max_ns),
               f->marks ? "; marks " : "", mark_text(f->marks, marks));
}

static void bench_tables_put_grid(const struct table_set *set, struct buf *out) {
    char marks[MARK_TEXT_MAX];
    buf_puts(out,
             "| Input Length | Output Length | Throughput (requests/s) | Throughput (output "
             "token/s) | Average latency per token (ms) | Average latency per output token (ms) "
             "|\n|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < set->n_rows; i++) {
        const struct row *row = &set->rows[i];
        const char *text = mark_text(set->compat ? 0 : row->figures.marks, marks);
        buf_printf(out, "|%u|%u|%.2f|%.2f|%.2f|%.2f%s%s|\n", row->n_input, row->n_output,
                   row->grid.requests_per_s, row->grid.tokens_per_s, row->grid.ms_per_token,
                   row->grid.ms_per_output_token, *text ? " " : "", text);
    }
    if (set->compat)
        return;
    buf_puts(out, "\n| in | out | ok/asked | prompt tokens | output tokens mean (min) | output "
                  "token/s | steady output token/s | TTFT ms p50 / p99 | TTFT alone ms | decode "
                  "ms/token alone | concurrency | mark |\n|---|---|---|---|---|---|---|---|---|---|"
                  "---|---|\n");
    for (uint32_t i = 0; i < set->n_rows; i++) {
        const struct row *row = &set->rows[i];
        const struct figures *f = &row->figures;
        buf_printf(out, "|%u|%u|%u/%u|%.1f|%.1f (%u)|%.2f|%.2f|%.1f / %.1f|%.2f|%.3f|%.1f|%s|\n",
                   row->n_input, row->n_output, f->n_ok, f->n_sent, f->prompt_mean, f->output_mean,
                   f->output_min, f->output_tokens_per_s, f->steady_tokens_per_s,
                   bench_tables_ms((double)f->ttft.p50), bench_tables_ms((double)f->ttft.p99),
                   bench_tables_ms(row->alone.ttft.mean), bench_tables_ms(row->alone.itl.mean),
                   f->decoding, mark_text(f->marks, marks));
    }
}

static int bench_tables_by_completed(const void *a, const void *b) {
    double x = (*(const struct row *const *)a)->sweep.requests_per_s;
    double y = (*(const struct row *const *)b)->sweep.requests_per_s;
    return (x > y) - (x < y);
}

static void bench_tables_put_published_sweep(const struct table_set *set, struct buf *out) {
    char marks[MARK_TEXT_MAX];
    const struct row **rows = calloc(set->n_rows, sizeof(const struct row *));
    for (uint32_t i = 0; rows && i < set->n_rows; i++)
        rows[i] = &set->rows[i];
    if (rows)
        qsort(rows, set->n_rows, sizeof *rows, bench_tables_by_completed);
    buf_puts(out, "| Benchmark | Requests per Second | Request Latency | Time to First Token | "
                  "Inter Token Latency | Output Token Throughput |\n|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; rows && i < set->n_rows; i++) {
        const struct figures_sweep *c = &rows[i]->sweep;
        const char *text = mark_text(set->compat ? 0 : rows[i]->figures.marks, marks);
        if (rows[i]->asked_rate > 0)
            buf_printf(out, "| asynchronous@%.2f req/sec ", rows[i]->asked_rate);
        else
            buf_printf(out, "| %s ", rows[i]->label);
        buf_printf(out, "| %.2f req/sec | %.2f sec | %.2f ms | %.2f ms | %.2f tokens/sec%s%s |\n",
                   c->requests_per_s, c->latency_s, c->ttft_ms, c->itl_ms, c->tokens_per_s,
                   *text ? " " : "", text);
    }
    free(rows);
}

static void bench_tables_put_sweep(const struct table_set *set, struct buf *out) {
    char marks[MARK_TEXT_MAX];
    bench_tables_put_published_sweep(set, out);
    if (set->compat)
        return;
    buf_puts(out, "\n| level | sent / ok / incomplete / failed | requests/s | output token/s | "
                  "total token/s | TTFT ms p50 / p95 / p99 (sent p50) | ITL ms p50 / p95 | TPOT ms "
                  "| E2E s p50 / p95 | concurrency | cached | late ms | goodput/s | mark |\n"
                  "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < set->n_rows; i++) {
        const struct figures *f = &set->rows[i].figures;
        buf_printf(
            out,
            "| %s | %u / %u / %u / %u | %.2f | %.1f | %.1f | %.1f / %.1f / %.1f (%.1f) | "
            "%.2f / %.2f | %.2f | %.3f / %.3f | %.1f | %.1f %% | %.1f | %.2f | %s |\n",
            set->rows[i].label, f->n_sent, f->n_ok, f->n_incomplete, f->n_failed, f->requests_per_s,
            f->output_tokens_per_s, f->total_tokens_per_s, bench_tables_ms((double)f->ttft_due.p50),
            bench_tables_ms((double)f->ttft_due.p95), bench_tables_ms((double)f->ttft_due.p99),
            bench_tables_ms((double)f->ttft.p50), bench_tables_ms((double)f->itl.p50),
            bench_tables_ms((double)f->itl.p95), bench_tables_ms(f->tpot.mean),
            tables_seconds((double)f->latency_due.p50), tables_seconds((double)f->latency_due.p95),
            f->concurrency, 100 * f->cached_share, bench_tables_ms((double)f->late_max_ns),
            f->goodput_per_s, mark_text(f->marks, marks));
    }
    if (set->knee >= 0)
        buf_printf(out, "\nknee: %s\n", set->rows[set->knee].label);
}

/* What the letters mean that are there. */
static void bench_tables_put_legend(const struct table_set *set, struct buf *out) {
    static const char *const words[] = {"S fewer tokens than asked",
                                        "P prompt length differs",
                                        "N fewer requests than asked",
                                        "F failures",
                                        "O below 0.75 of the asked rate",
                                        "I incomplete",
                                        "C cached",
                                        "L client late",
                                        "X cut by the context",
                                        "U no usage",
                                        "K limited by KV or slots"};
    unsigned marks = 0;
    for (uint32_t i = 0; i < set->n_rows; i++)
        marks |= set->rows[i].figures.marks;
    const char *between = "\nmarks: ";
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (marks & (1u << i)) {
            buf_printf(out, "%s%s", between, words[i]);
            between = ", ";
        }
    if (marks)
        buf_putc(out, '\n');
}

void tables_markdown(const struct table_set *set, struct buf *out) {
    bench_tables_put_warning(set, out);
    if (set->table == TABLE_LOAD) {
        bench_tables_put_load(set, out);
    } else {
        buf_printf(out, "%s\n\n", set->title);
        if (set->table == TABLE_GRID)
            bench_tables_put_grid(set, out);
        else
            bench_tables_put_sweep(set, out);
    }
    bench_tables_put_failures(set, out);
    if (!set->compat)
        bench_tables_put_legend(set, out);
}

void tables_csv(const struct table_set *set, struct buf *out) {
    char marks[MARK_TEXT_MAX];
    buf_puts(out,
             "label,input_len,output_len,asked_per_s,requests_per_s,output_tok_per_s,"
             "ms_per_token,ms_per_output_token,published_requests_per_s,published_latency_s,"
             "published_ttft_ms,published_itl_ms,published_output_tok_per_s,sent,ok,incomplete,"
             "failed,ttft_ms_mean,ttft_ms_p50,ttft_ms_p99,ttft_due_ms_p99,itl_ms_mean,"
             "itl_ms_p50,itl_ms_p99,latency_s_mean,latency_s_p50,latency_s_p99,concurrency,"
             "late_ms,marks\n");
    for (uint32_t i = 0; i < set->n_rows; i++) {
        const struct row *r = &set->rows[i];
        const struct figures *f = &r->figures;
        buf_printf(out,
                   "%s,%u,%u,%.4f,%.4f,%.2f,%.3f,%.3f,%.4f,%.4f,%.3f,%.3f,%.2f,%u,%u,%u,%u,%.3f,"
                   "%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.4f,%.4f,%.4f,%.2f,%.3f,%s\n",
                   r->label, r->n_input, r->n_output, r->asked_rate, f->requests_per_s,
                   f->output_tokens_per_s, r->grid.ms_per_token, r->grid.ms_per_output_token,
                   set->table == TABLE_GRID ? r->grid.requests_per_s : r->sweep.requests_per_s,
                   r->sweep.latency_s, r->sweep.ttft_ms, r->sweep.itl_ms,
                   set->table == TABLE_GRID ? r->grid.tokens_per_s : r->sweep.tokens_per_s,
                   f->n_sent, f->n_ok, f->n_incomplete, f->n_failed, bench_tables_ms(f->ttft.mean),
                   bench_tables_ms((double)f->ttft.p50), bench_tables_ms((double)f->ttft.p99),
                   bench_tables_ms((double)f->ttft_due.p99), bench_tables_ms(f->itl.mean),
                   bench_tables_ms((double)f->itl.p50), bench_tables_ms((double)f->itl.p99),
                   tables_seconds(f->latency.mean), tables_seconds((double)f->latency.p50),
                   tables_seconds((double)f->latency.p99), f->concurrency,
                   bench_tables_ms((double)f->late_max_ns), mark_text(f->marks, marks));
    }
}
