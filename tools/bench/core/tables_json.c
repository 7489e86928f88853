/* tools/bench/core/tables_json.c: runs as JSON, written directly. */
#include "tools/bench/core/tables.h"

#include "tools/bench/core/workload.h"

#include <string.h>

static void bench_json_put_name(struct buf *out, const char *name) {
    buf_printf(out, "\"%s\":", name);
}

static void bench_json_put_spread(struct buf *out, const char *name, const struct spread *s,
                                  double unit) {
    buf_printf(out,
               ",\"%s\":{\"mean\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p95\":%.6g,\"p99\":%.6g,"
               "\"min\":%.6g,\"max\":%.6g,\"n\":%llu}",
               name, s->mean / unit, (double)s->p50 / unit, (double)s->p90 / unit,
               (double)s->p95 / unit, (double)s->p99 / unit, (double)s->min / unit,
               (double)s->max / unit, (unsigned long long)s->n);
}

/* The members of a load, without braces. */
static void bench_json_put_figures(struct buf *out, const struct figures *f) {
    char marks[MARK_TEXT_MAX];
    bool first = true;
    buf_printf(out, "\"requests\":{\"completed\":%u,\"incomplete\":%u,\"errors\":{", f->n_ok,
               f->n_incomplete);
    for (unsigned i = 0; i < FAULT_N; i++)
        if (f->n_faults[i]) {
            buf_printf(out, "%s\"%s\":%u", first ? "" : ",", fault_name((enum fault)i),
                       f->n_faults[i]);
            first = false;
        }
    buf_printf(out, "}},\"requests_per_s\":%.6g,\"output_tokens_per_s\":%.6g", f->requests_per_s,
               f->output_tokens_per_s);
    bench_json_put_spread(out, "ttft_ms", &f->ttft, 1e6);
    bench_json_put_spread(out, "itl_ms", &f->itl, 1e6);
    bench_json_put_spread(out, "latency_s", &f->latency, 1e9);
    bench_json_put_spread(out, "ttft_due_ms", &f->ttft_due, 1e6);
    bench_json_put_spread(out, "latency_due_s", &f->latency_due, 1e9);
    bench_json_put_spread(out, "tpot_ms", &f->tpot, 1e6);
    bench_json_put_spread(out, "gap_ms", &f->gap, 1e6);
    buf_printf(out,
               ",\"total_tokens_per_s\":%.6g,\"steady_tokens_per_s\":%.6g,\"goodput_per_s\":%.6g,"
               "\"window_s\":%.6g,\"concurrency\":%.6g,\"decoding\":%.6g,\"prompt_tokens\":%.6g,"
               "\"output_tokens\":%.6g,\"output_tokens_min\":%u,\"cached_share\":%.6g,"
               "\"late_ms\":%.6g,\"loop_late_ms\":%.6g,\"slo_held\":%s,\"marks\":\"%s\"",
               f->total_tokens_per_s, f->steady_tokens_per_s, f->goodput_per_s, f->window_s,
               f->concurrency, f->decoding, f->prompt_mean, f->output_mean, f->output_min,
               f->cached_share, (double)f->late_max_ns / 1e6, (double)f->loop_late_max_ns / 1e6,
               f->slo_held ? "true" : "false", mark_text(f->marks, marks));
}

static void bench_json_put_row(struct buf *out, enum table table, const struct row *row) {
    buf_puts(out, "{\"label\":");
    json_text(out, row->label, strlen(row->label));
    buf_printf(out, ",\"input_len\":%u,\"output_len\":%u,\"asked_per_s\":%.6g,", row->n_input,
               row->n_output, row->asked_rate);
    if (table == TABLE_GRID)
        buf_printf(out,
                   "\"published\":{\"requests_per_s\":%.6g,\"output_tok_per_s\":%.6g,"
                   "\"ms_per_token\":%.6g,\"ms_per_output_token\":%.6g},",
                   row->grid.requests_per_s, row->grid.tokens_per_s, row->grid.ms_per_token,
                   row->grid.ms_per_output_token);
    else
        buf_printf(out,
                   "\"published\":{\"requests_per_s\":%.6g,\"latency_s\":%.6g,\"ttft_ms\":%.6g,"
                   "\"itl_ms\":%.6g,\"output_tok_per_s\":%.6g},",
                   row->sweep.requests_per_s, row->sweep.latency_s, row->sweep.ttft_ms,
                   row->sweep.itl_ms, row->sweep.tokens_per_s);
    bench_json_put_figures(out, &row->figures);
    if (table == TABLE_GRID) {
        buf_puts(out, ",\"alone\":{");
        bench_json_put_figures(out, &row->alone);
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

void tables_json(const struct table_set *set, struct buf *out) {
    static const char *const kinds[] = {"load", "grid", "sweep"};
    buf_printf(out, "{\"kind\":\"%s\",\"environment\":%s,", kinds[set->table], set->environment);
    if (set->table == TABLE_LOAD) {
        buf_puts(out, "\"label\":");
        json_text(out, set->rows[0].label, strlen(set->rows[0].label));
        buf_putc(out, ',');
        bench_json_put_figures(out, &set->rows[0].figures);
        buf_puts(out, "}\n");
        return;
    }
    if (set->table == TABLE_SWEEP && set->knee >= 0) {
        buf_puts(out, "\"knee\":");
        json_text(out, set->rows[set->knee].label, strlen(set->rows[set->knee].label));
        buf_putc(out, ',');
    }
    bench_json_put_name(out, set->table == TABLE_GRID ? "cells" : "levels");
    for (uint32_t i = 0; i < set->n_rows; i++) {
        buf_puts(out, i == 0 ? "[\n" : ",\n");
        bench_json_put_row(out, set->table, &set->rows[i]);
    }
    buf_puts(out, "]}\n");
}

void tables_records(const struct level *level, struct buf *out) {
    static const char *const outcomes[] = {"running", "ok", "incomplete", "error"};
    for (uint32_t i = 0; i < level->n_records; i++) {
        const struct record *r = &level->records[i];
        double begin = (double)level->begin_ns;
#define AT(ns) ((ns) ? ((double)(ns)-begin) / 1e6 : -1)
        buf_puts(out, "{\"level\":");
        json_text(out, level->spec.label, strlen(level->spec.label));
        buf_printf(out,
                   ",\"request\":%u,\"outcome\":\"%s\",\"error\":\"%s\",\"status\":%d,\"due_ms\":"
                   "%.3f,\"sent_ms\":%.3f,\"first_ms\":%.3f,\"last_ms\":%.3f,\"end_ms\":%.3f,"
                   "\"prompt_tokens\":%u,\"output_tokens\":%u,\"asked_prompt\":%u,\"asked_output\":"
                   "%u,\"chunks\":%u,\"cached_tokens\":%u}\n",
                   i, outcomes[r->outcome], r->fault ? fault_name(r->fault) : "", r->http_status,
                   AT(r->due_ns), AT(r->sent_ns), AT(r->first_ns), AT(r->last_ns), AT(r->end_ns),
                   record_n_prompt(r), record_n_output(r), r->ask.n_prompt, r->ask.n_output,
                   r->n_texts, r->usage_cached);
#undef AT
    }
}
