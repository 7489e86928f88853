/* tools/bench/core/html.h: a run as one HTML page: tables, and plots drawn as SVG. It needs neither
 * network nor script, and follows the reader's light or dark setting. Pure. */
#pragma once

#include "tools/bench/core/tables.h"

void html_page(const struct table_set *set, struct buf *out);
