/* model/template/jinja/builtin/jinja_json.h: json.dumps() as Python writes it. */
#pragma once

#include "base/status.h"
#include "model/template/jinja/value/jinja_value.h"

struct jinja_run;
struct jinja_text;

struct jinja_json_style {
    bool ensure_ascii;
    bool sort_keys;
    bool has_indent;
    struct jinja_string indent;                /* one level of it */
    const struct jinja_string *item_separator; /* NULL: as json.dumps() */
    const struct jinja_string *key_separator;
};

/* json.dumps(value). STATUS_INVALID for what JSON cannot say. */
NODISCARD enum status jinja_put_json(struct jinja_run *run, struct jinja_text *text,
                                     const struct jinja_json_style *style, struct jinja_value value,
                                     unsigned depth);
