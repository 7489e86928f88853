/* tools/bench/rows/report.h: what is printed of predicted tables: Markdown, CSV and JSON. Pure: rows in, text out.
 *
 * Beside each prediction stands what decides it: the largest term of its steps' time. */
#pragma once

#include "base/buf.h"
#include "tools/bench/rows/all.h"

void report_markdown(const struct all *all, struct buf *out);
void report_csv(const struct all *all, struct buf *out);
void report_json(const struct all *all, struct buf *out);
