/* model/text/tokenizer/bpe/regex_dialect.h: from Oniguruma's dialect (Ruby's syntax, Unicode) to
 * PCRE2's. Pure, but for asking PCRE2 which property names it knows. Source: Oniguruma's doc/RE and
 * pcre2pattern(3). */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

struct buf;

/* Appends the rewritten pattern. STATUS_UNSUPPORTED names the construct and its byte. */
NODISCARD enum status regex_translate(struct span pattern, struct buf *out, struct error *error);

/* Appends the pattern that matches exactly this text. */
void regex_quote(struct span text, struct buf *out);
