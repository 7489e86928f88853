/* The lexer's rules are those of jinja2/lexer.py (3.1) with trim_blocks and lstrip_blocks on:
 * blanks before a block or a comment on a line of its own go, so does the line break behind it; `-`
 * takes all blanks on its side, `+` keeps them. */
#include "model/text/template/jinja/syntax/jinja_lex.h"

#include "model/text/template/jinja/value/jinja_text.h"

#include <string.h>

#define NESTED_MAX 256

struct lexer {
    const char *bytes;
    size_t n;
    size_t pos;
    size_t counted; /* line breaks are counted up to here */
    uint32_t line;
    bool line_starting; /* the last thing read ended with a line break */
    struct arena *arena;
    struct jinja_token *tokens;
    size_t n_tokens;
    size_t size;
    struct error *error;
};

static uint32_t jinja_lex_line_at(struct lexer *lexer, size_t at) {
    for (; lexer->counted < at; lexer->counted++)
        lexer->line += lexer->bytes[lexer->counted] == '\n';
    return lexer->line;
}

static enum status jinja_lex_add(struct lexer *lexer, enum jinja_token_kind kind, uint16_t op,
                                 size_t from, size_t to) {
    if (lexer->n_tokens == lexer->size) {
        size_t size = lexer->size ? 2 * lexer->size : 256;
        struct jinja_token *grown = arena_alloc(lexer->arena, size * sizeof *grown);
        if (!grown)
            return error_set(lexer->error, STATUS_NOMEM, "no memory for the template");
        if (lexer->n_tokens > 0)
            memcpy(grown, lexer->tokens, lexer->n_tokens * sizeof *grown);
        lexer->tokens = grown;
        lexer->size = size;
    }
    lexer->tokens[lexer->n_tokens++] = (struct jinja_token){
        kind, op, jinja_lex_line_at(lexer, from), {lexer->bytes + from, to - from}};
    return STATUS_OK;
}

static enum status jinja_lex_fail(struct lexer *lexer, size_t at, const char *what) {
    return error_set(lexer->error, STATUS_INVALID, "line %u: %s", jinja_lex_line_at(lexer, at),
                     what);
}

static bool jinja_lex_has(const struct lexer *lexer, size_t at, const char *text) {
    size_t n = strlen(text);
    return at <= lexer->n && lexer->n - at >= n && memcmp(lexer->bytes + at, text, n) == 0;
}

static void jinja_lex_move_to(struct lexer *lexer, size_t pos) {
    lexer->line_starting = pos > 0 && lexer->bytes[pos - 1] == '\n';
    lexer->pos = pos;
}

/* Behind a tag's end: the blanks that its sign takes with it. */
static size_t jinja_lex_after_end(const struct lexer *lexer, size_t at, char sign,
                                  bool trims_line) {
    if (sign == '-')
        return jinja_skip_space(lexer->bytes, lexer->n, at);
    if (sign != '+' && trims_line && jinja_lex_has(lexer, at, "\n"))
        return at + 1;
    return at;
}

/* Text from pos to a tag with the given sign; `strips` unless it is a variable's. */
static enum status jinja_lex_add_data(struct lexer *lexer, size_t end, char sign, bool strips) {
    size_t from = lexer->pos;
    size_t to = end;
    if (sign == '-') {
        to = from + jinja_trim_space(lexer->bytes + from, end - from);
    } else if (sign != '+' && strips) {
        size_t begin = end;
        while (begin > from && lexer->bytes[begin - 1] != '\n')
            begin--;
        bool at_line_begin = begin > from || lexer->line_starting;
        if (at_line_begin && jinja_skip_space(lexer->bytes, end, begin) == end)
            to = begin;
    }
    return to > from ? jinja_lex_add(lexer, JINJA_T_DATA, 0, from, to) : STATUS_OK;
}

static char jinja_lex_sign_at(const struct lexer *lexer, size_t at) {
    char c = at < lexer->n ? lexer->bytes[at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

static enum status jinja_lex_comment(struct lexer *lexer, size_t begin) {
    size_t at = begin;
    if (begin == lexer->n) /* jinja2 misses an end only where something is left */
        return STATUS_OK;
    while (at < lexer->n && !jinja_lex_has(lexer, at, "#}"))
        at++;
    if (at >= lexer->n)
        return jinja_lex_fail(lexer, lexer->pos, "a comment has no end");
    char sign = at > begin ? jinja_lex_sign_at(lexer, at - 1) : 0;
    jinja_lex_move_to(lexer, jinja_lex_after_end(lexer, at + 2, sign, true));
    return STATUS_OK;
}

/* Whether `{% word %}` begins at `at`, with any signs; where it ends and its first sign. */
static bool jinja_lex_match_word_tag(const struct lexer *lexer, size_t at, const char *word,
                                     bool trims_line, char *sign, size_t *end) {
    if (!jinja_lex_has(lexer, at, "{%"))
        return false;
    at += 2;
    *sign = jinja_lex_sign_at(lexer, at);
    at = jinja_skip_space(lexer->bytes, lexer->n, at + (*sign != 0));
    if (!jinja_lex_has(lexer, at, word))
        return false;
    at = jinja_skip_space(lexer->bytes, lexer->n, at + strlen(word));
    char last = jinja_lex_sign_at(lexer, at);
    if (last == '+' && !trims_line) /* `{% raw +%}` is no raw block */
        return false;
    at += last != 0;
    if (!jinja_lex_has(lexer, at, "%}"))
        return false;
    *end = jinja_lex_after_end(lexer, at + 2, last, trims_line);
    return true;
}

static enum status jinja_lex_raw(struct lexer *lexer, size_t begin) {
    char sign;
    size_t end;
    jinja_lex_move_to(lexer, begin);
    if (begin == lexer->n) /* as with comments */
        return STATUS_OK;
    for (size_t at = begin; at < lexer->n; at++) {
        if (!jinja_lex_match_word_tag(lexer, at, "endraw", true, &sign, &end))
            continue;
        TRY(jinja_lex_add_data(lexer, at, sign, true));
        jinja_lex_move_to(lexer, end);
        return STATUS_OK;
    }
    return jinja_lex_fail(lexer, begin, "a raw block has no end");
}

static bool jinja_lex_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool jinja_lex_is_name_char(char c) {
    return jinja_lex_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static size_t jinja_lex_skip_digits(const struct lexer *lexer, size_t at) {
    while (at < lexer->n &&
           (jinja_lex_is_digit(lexer->bytes[at]) || (lexer->bytes[at] == '_' && at + 1 < lexer->n &&
                                                     jinja_lex_is_digit(lexer->bytes[at + 1]))))
        at++;
    return at;
}

/* The end of a float's "e+12" at `at`, or `at`. */
static size_t jinja_lex_skip_exponent(const struct lexer *lexer, size_t at) {
    if (at >= lexer->n || (lexer->bytes[at] != 'e' && lexer->bytes[at] != 'E'))
        return at;
    size_t digits = at + 1 + (jinja_lex_sign_at(lexer, at + 1) != 0);
    return digits < lexer->n && jinja_lex_is_digit(lexer->bytes[digits])
               ? jinja_lex_skip_digits(lexer, digits)
               : at;
}

static size_t jinja_lex_skip_based(const struct lexer *lexer, size_t at) {
    const char *digits = lexer->bytes[at + 1] == 'x' || lexer->bytes[at + 1] == 'X'
                             ? "0123456789abcdefABCDEF_"
                         : lexer->bytes[at + 1] == 'o' || lexer->bytes[at + 1] == 'O' ? "01234567_"
                                                                                      : "01_";
    for (at += 2; at < lexer->n && lexer->bytes[at] && strchr(digits, lexer->bytes[at]);)
        at++;
    return at;
}

static enum status jinja_lex_number(struct lexer *lexer) {
    size_t from = lexer->pos;
    size_t at = jinja_lex_skip_digits(lexer, from);
    enum jinja_token_kind kind = JINJA_T_INTEGER;
    bool after_dot = from > 0 && lexer->bytes[from - 1] == '.';
    if (!after_dot) {
        size_t whole = at;
        if (at + 1 < lexer->n && lexer->bytes[at] == '.' &&
            jinja_lex_is_digit(lexer->bytes[at + 1]))
            at = jinja_lex_skip_digits(lexer, at + 1);
        at = jinja_lex_skip_exponent(lexer, at);
        if (at > whole)
            kind = JINJA_T_FLOAT;
    }
    if (kind == JINJA_T_INTEGER && lexer->bytes[from] == '0') {
        if (from + 2 < lexer->n && strchr("xXoObB", lexer->bytes[from + 1]) &&
            lexer->bytes[from + 1])
            at = jinja_lex_skip_based(lexer, from);
        else
            for (size_t i = from; i < at; i++)
                if (lexer->bytes[i] != '0' && lexer->bytes[i] != '_')
                    return jinja_lex_fail(lexer, from, "a number begins with 0");
    }
    TRY(jinja_lex_add(lexer, kind, 0, from, at));
    lexer->pos = at;
    return STATUS_OK;
}

static enum status jinja_lex_string(struct lexer *lexer) {
    size_t at = lexer->pos + 1;
    while (at < lexer->n && lexer->bytes[at] != lexer->bytes[lexer->pos])
        at += lexer->bytes[at] == '\\' ? 2 : 1;
    if (at >= lexer->n)
        return jinja_lex_fail(lexer, lexer->pos, "a string has no end");
    TRY(jinja_lex_add(lexer, JINJA_T_STRING, 0, lexer->pos, at + 1));
    lexer->pos = at + 1;
    return STATUS_OK;
}

static enum status jinja_lex_operator(struct lexer *lexer, char *open, size_t *n_open) {
    static const char *const doubles[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t at = lexer->pos;
    char c = lexer->bytes[at];
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        if (!jinja_lex_has(lexer, at, doubles[i]))
            continue;
        lexer->pos += 2;
        return jinja_lex_add(lexer, JINJA_T_OPERATOR, JINJA_OP2(doubles[i][0], doubles[i][1]), at,
                             at + 2);
    }
    if (c == 0 || !strchr("+-/*%~[](){}<>=.:|,;", c))
        return jinja_lex_fail(lexer, at, "a character that the language does not have");
    if (c == '(' || c == '[' || c == '{') {
        if (*n_open == NESTED_MAX)
            return error_set(lexer->error, STATUS_LIMIT, "line %u: brackets are nested too deeply",
                             jinja_lex_line_at(lexer, at));
        open[(*n_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (*n_open == 0 || open[--*n_open] != c)
            return jinja_lex_fail(lexer, at, "a closing bracket without an opening one");
    }
    lexer->pos++;
    return jinja_lex_add(lexer, JINJA_T_OPERATOR, (uint16_t)(unsigned char)c, at, at + 1);
}

/* Where the tag ends that is being read, if it ends at pos. */
static bool jinja_lex_match_end(const struct lexer *lexer, bool is_block, size_t *end) {
    size_t at = lexer->pos;
    char sign = jinja_lex_sign_at(lexer, at);
    at += sign != 0;
    if (!jinja_lex_has(lexer, at, is_block ? "%}" : "}}") || (sign == '+' && !is_block))
        return false;
    *end = jinja_lex_after_end(lexer, at + 2, sign, is_block);
    return true;
}

/* The inside of {{ }} or {% %}. */
static enum status jinja_lex_tag(struct lexer *lexer, bool is_block) {
    char open[NESTED_MAX];
    size_t n_open = 0;
    size_t begin = lexer->pos;
    for (;;) {
        size_t end;
        if (n_open == 0 && jinja_lex_match_end(lexer, is_block, &end)) {
            TRY(jinja_lex_add(lexer, is_block ? JINJA_T_BLOCK_END : JINJA_T_VARIABLE_END, 0,
                              lexer->pos, lexer->pos));
            jinja_lex_move_to(lexer, end);
            return STATUS_OK;
        }
        size_t blank = jinja_skip_space(lexer->bytes, lexer->n, lexer->pos);
        if (blank > lexer->pos) {
            lexer->pos = blank;
            continue;
        }
        if (lexer->pos >= lexer->n)
            return jinja_lex_fail(lexer, begin, "a tag has no end");
        char c = lexer->bytes[lexer->pos];
        if (jinja_lex_is_digit(c)) {
            TRY(jinja_lex_number(lexer));
        } else if (jinja_lex_is_name_char(c)) {
            size_t at = lexer->pos;
            while (at < lexer->n && jinja_lex_is_name_char(lexer->bytes[at]))
                at++;
            TRY(jinja_lex_add(lexer, JINJA_T_NAME, 0, lexer->pos, at));
            lexer->pos = at;
        } else if (c == '\'' || c == '"') {
            TRY(jinja_lex_string(lexer));
        } else {
            TRY(jinja_lex_operator(lexer, open, &n_open));
        }
    }
}

static enum status jinja_lex_root(struct lexer *lexer) {
    size_t at = lexer->pos;
    while (at < lexer->n && !(lexer->bytes[at] == '{' && at + 1 < lexer->n &&
                              lexer->bytes[at + 1] && strchr("{%#", lexer->bytes[at + 1])))
        at++;
    if (at == lexer->n) {
        TRY(jinja_lex_add_data(lexer, at, '+', false));
        lexer->pos = at;
        return STATUS_OK;
    }
    char sign;
    size_t end;
    if (jinja_lex_match_word_tag(lexer, at, "raw", false, &sign, &end)) {
        TRY(jinja_lex_add_data(lexer, at, sign, true));
        return jinja_lex_raw(lexer, end);
    }
    char type = lexer->bytes[at + 1];
    sign = jinja_lex_sign_at(lexer, at + 2);
    TRY(jinja_lex_add_data(lexer, at, sign, type != '{'));
    lexer->pos = at + 2 + (sign != 0);
    if (type == '#')
        return jinja_lex_comment(lexer, lexer->pos);
    TRY(jinja_lex_add(lexer, type == '%' ? JINJA_T_BLOCK_BEGIN : JINJA_T_VARIABLE_BEGIN, 0, at,
                      at + 2));
    return jinja_lex_tag(lexer, type == '%');
}

enum status jinja_lex(struct span source, struct arena *arena, struct jinja_tokens *tokens,
                      struct error *error) {
    struct lexer lexer = {.bytes = source.bytes,
                          .n = source.n,
                          .line = 1,
                          .line_starting = true,
                          .arena = arena,
                          .error = error};
    while (lexer.pos < lexer.n)
        TRY(jinja_lex_root(&lexer));
    TRY(jinja_lex_add(&lexer, JINJA_T_END, 0, lexer.n, lexer.n));
    *tokens = (struct jinja_tokens){lexer.tokens, lexer.n_tokens};
    return STATUS_OK;
}
