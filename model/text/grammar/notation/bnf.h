/* model/text/grammar/notation/bnf.h: terminals of the two BNF notations: llama.cpp's GBNF, and the EBNF of
 * the W3C (XML 1.0, section 6). */
#pragma once

#include "model/text/grammar/notation/notation.h"

/* Whether a terminal begins here: a literal, a set, a numbered character, a dot, a special token. */
bool bnf_at_terminal(const struct notation *notation, bool is_ebnf);

/* Reads one into an element whose nodes are fresh. STATUS_INVALID, STATUS_UNSUPPORTED, STATUS_LIMIT,
 * STATUS_NOMEM. */
NODISCARD enum status bnf_terminal(struct notation *notation, bool is_ebnf,
                                   struct element *element);
