#include "model/tokenizer/bpe/regex.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "model/tokenizer/bpe/regex_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Steps of one match. A good pattern needs a few steps per character. */
#define MATCH_LIMIT 100000000u
#define DEPTH_LIMIT 100000u
#define STACK_MIN   (32u << 10)
#define STACK_MAX   (1u << 20)

static enum status compile(struct regex *regex, struct span text, struct error *error) {
    char message[128];
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return error_set(error, STATUS_NOMEM, "no memory for a regular expression");
    /* Ruby's ^ and $ are those of lines, whose end is \n. */
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    regex->code = pcre2_compile((PCRE2_SPTR)text.bytes, text.n,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                &code, &at, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        if (pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message) < 0)
            message[0] = 0;
        return error_set(error, STATUS_UNSUPPORTED, "a regular expression cannot be used: %s",
                         message);
    }
    regex->is_jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    return STATUS_OK;
}

enum status regex_init(struct regex *regex, struct span pattern, bool is_literal,
                       struct error *error) {
    struct buf text;
    enum status status = STATUS_OK;
    *regex = (struct regex){0};
    if (pattern.n > REGEX_BYTES_MAX)
        return error_set(error, STATUS_LIMIT,
                         "a regular expression of %zu bytes, at most %u are "
                         "read",
                         pattern.n, REGEX_BYTES_MAX);
    if (!utf8_valid(pattern.bytes, pattern.n))
        return error_set(error, STATUS_CORRUPT, "a regular expression is not valid UTF-8");
    buf_init(&text, 0);
    if (is_literal)
        regex_quote(pattern, &text);
    else
        status = regex_translate(pattern, &text, error);
    if (status == STATUS_OK && buf_status(&text) != STATUS_OK)
        status = error_set(error, STATUS_NOMEM, "no memory for a regular expression");
    if (status == STATUS_OK)
        status = compile(regex, (struct span){text.data ? text.data : "", text.n}, error);
    buf_fini(&text);
    return status;
}

void regex_fini(struct regex *regex) {
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    *regex = (struct regex){0};
}

enum status regex_scratch_init(struct regex_scratch *scratch) {
    *scratch = (struct regex_scratch){0};
    scratch->match = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    if (!scratch->match || !scratch->context) {
        regex_scratch_fini(scratch);
        return STATUS_NOMEM;
    }
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_depth_limit(scratch->context, DEPTH_LIMIT);
    /* NULL where PCRE2 was built without JIT, or memory is short: it then has a small stack. */
    scratch->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL);
    if (scratch->stack)
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return STATUS_OK;
}

void regex_scratch_fini(struct regex_scratch *scratch) {
    if (!scratch)
        return;
    pcre2_jit_stack_free(scratch->stack);
    pcre2_match_context_free(scratch->context);
    pcre2_match_data_free(scratch->match);
    *scratch = (struct regex_scratch){0};
}

/* STATUS_NOT_FOUND when nothing from `at` on matches. */
static enum status match(const struct regex *regex, struct regex_scratch *scratch, struct span text,
                         size_t at, size_t *begin, size_t *end) {
    int code;
    if (regex->is_jit)
        code = pcre2_jit_match(regex->code, (PCRE2_SPTR)text.bytes, text.n, at, 0, scratch->match,
                               scratch->context);
    else
        code = pcre2_match(regex->code, (PCRE2_SPTR)text.bytes, text.n, at, PCRE2_NO_UTF_CHECK,
                           scratch->match, scratch->context);
    if (code == PCRE2_ERROR_NOMATCH)
        return STATUS_NOT_FOUND;
    if (code < 0)
        return STATUS_LIMIT;
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(scratch->match);
    *begin = found[0];
    *end = found[1];
    ASSERT(*begin >= at && *begin <= *end && *end <= text.n); /* no \K: the dialect refuses it */
    return STATUS_OK;
}

enum status regex_next(const struct regex *regex, struct regex_scratch *scratch, struct span text,
                       struct regex_cursor *cursor, size_t *begin, size_t *end) {
    while (cursor->at <= text.n) {
        TRY(match(regex, scratch, text, cursor->at, begin, end));
        if (*begin < *end || !cursor->has_last || cursor->last_end != *end) {
            cursor->at = cursor->last_end = *end;
            cursor->has_last = true;
            return STATUS_OK;
        }
        uint32_t point;
        unsigned length = cursor->at < text.n
                              ? utf8_decode(text.bytes + cursor->at, text.n - cursor->at, &point)
                              : 0;
        cursor->at += length > 0 ? length : 1;
    }
    return STATUS_NOT_FOUND;
}

enum status regex_replace(const struct regex *regex, struct regex_scratch *scratch,
                          struct span text, struct span by, struct buf *out) {
    struct regex_cursor cursor = {0};
    size_t done = 0;
    for (;;) {
        size_t begin;
        size_t end;
        enum status status = regex_next(regex, scratch, text, &cursor, &begin, &end);
        if (status == STATUS_NOT_FOUND)
            break;
        TRY(status);
        buf_append(out, text.bytes + done, begin - done);
        buf_append(out, by.bytes, by.n);
        done = end;
        TRY(buf_status(out)); /* it may grow with each match */
    }
    buf_append(out, text.bytes + done, text.n - done);
    return buf_status(out);
}
