/* model/text/template/template_probe.h: what a model's own template takes, found out at load.
 *
 * A template says nowhere which content and which roles it knows, so it is run on short
 * conversations in which somebody says a mark. For the member jinja alone. */
#pragma once

#include "base/span.h"
#include "model/text/template/template.h"

/* Fills takes_parts, needs_parts, takes_null, as_system, dropped and dropped_bare of a template whose program is
 * there; `source` is its text. At most 20 runs, each within the budgets of jinja_render(). */
void template_probe(struct template *chosen, struct span source);
