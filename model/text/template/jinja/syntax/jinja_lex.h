/* model/text/template/jinja/syntax/jinja_lex.h: a template's source as tokens. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdint.h>

enum jinja_token_kind {
    JINJA_T_END,
    JINJA_T_DATA, /* text between tags, its blanks already cut */
    JINJA_T_VARIABLE_BEGIN,
    JINJA_T_VARIABLE_END,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_NAME,
    JINJA_T_STRING, /* with its quotes */
    JINJA_T_INTEGER,
    JINJA_T_FLOAT,
    JINJA_T_OPERATOR, /* op */
};

/* Two-character operators get the second character in the upper byte. */
#define JINJA_OP2(a, b) ((uint16_t)((a) | (b) << 8))

struct jinja_token {
    enum jinja_token_kind kind;
    uint16_t op;
    uint32_t line;
    struct span text; /* borrowed from the source */
};

struct jinja_tokens {
    struct jinja_token *at; /* owned by the arena (n); the last one is JINJA_T_END */
    size_t n;
};

/* source: valid UTF-8 with '\n' as its only line break; it must outlive the tokens. STATUS_INVALID
 * with "line N: ...", STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status jinja_lex(struct span source, struct arena *arena,
                                struct jinja_tokens *tokens, struct error *error);
