/* model/text/grammar/compile.h: what the compilers of one grammar share. One owner thread. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/grammar/program/program.h"

#include <stdbool.h>
#include <stdint.h>

struct grammar_vocabulary;
struct grammar_unenforced;

struct compile {
    struct program *program;                     /* borrowed */
    const struct grammar_vocabulary *vocabulary; /* borrowed; NULL: no special tokens */
    uint32_t depth_max;
    struct grammar_unenforced *unenforced; /* owned (n_unenforced) */
    uint32_t n_unenforced;
    struct error *error;
    /* Rules that every schema shares, made when first asked for; UINT32_MAX: not yet. */
    uint32_t rule_blank;
    uint32_t rule_chars;
    uint32_t rule_number;
    uint32_t rule_integer;
    uint32_t rule_value;
    uint32_t rule_object;
};

/* Each compiler writes its source's text between two nodes of the program and fills compile->error when it
 * fails: STATUS_INVALID, STATUS_UNSUPPORTED, STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status regex_compile(struct compile *compile, struct span source, uint32_t from,
                                    uint32_t to);
NODISCARD enum status schema_compile(struct compile *compile, struct span source, bool lenient,
                                     uint32_t from, uint32_t to);
NODISCARD enum status bnf_compile(struct compile *compile, struct span source, bool is_ebnf,
                                  uint32_t from, uint32_t to);
NODISCARD enum status lark_compile(struct compile *compile, struct span source, uint32_t from,
                                   uint32_t to);

/* Any JSON object, between two nodes. */
void schema_any_object(struct compile *compile, uint32_t from, uint32_t to);
