/* model/text/grammar/notation/lark.h: a Lark grammar while it is read. Of its own files alone:
 * statements (lark.c), what stands in them (lark_item.c, lark_literal.c, lark_lex.c), the names of `common`
 * (lark_common.c).
 *
 * Lark's lexer is not rebuilt: a terminal is a part of the text like any other, as in Lark's own Earley parser with
 * its dynamic lexer. What is ignored may stand at the begin and behind each terminal of a rule. */
#pragma once

#include "model/text/grammar/notation/notation.h"

struct lark {
    struct notation notation;
    bool is_terminal;     /* the statement defines one */
    uint32_t skip;        /* rule of what is ignored; PROGRAM_NONE: nothing is */
    uint32_t ignored[64]; /* rules (n_ignored) */
    uint32_t n_ignored;
};

/* Blanks and comments; `takes_lines`: line ends, too. */
void lark_skip_blank(struct lark *lark, bool takes_lines);

/* The name of a rule or terminal, empty where there is none. */
struct span lark_name(struct lark *lark);
bool lark_is_terminal_name(struct span name);

/* Alternatives up to the end of the statement or a closing bracket. */
NODISCARD enum status lark_expansions(struct lark *lark, uint32_t depth, uint32_t from,
                                      uint32_t to);

/* A string, range, regular expression or special token, where one begins (*is_literal). */
NODISCARD enum status lark_literal(struct lark *lark, struct element *element, bool *is_literal);

/* The expression of a terminal of Lark's module `common`; NULL: it has none of that name. */
const char *lark_common(struct span name);
