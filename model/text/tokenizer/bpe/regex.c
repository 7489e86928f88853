#include "model/text/tokenizer/bpe/regex.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "model/text/tokenizer/bpe/regex_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* What matching in a text may take: patterns of real tokenizers take 0.01 to 0.12 us a byte. */
#define TEXT_NS (2 * NS_PER_S)
#define BYTE_NS (1 * NS_PER_US)
#define LOOK_NS (10 * NS_PER_MS)
/* PCRE2 has a limit of steps for each place where a match may begin, and a step may read all that is
 * left of the text: so one call has few places, and few steps at first. */
#define STEPS_MIN   64u
#define PLACES_MAX  4096u
#define CALL_BYTES  100000000u /* that a call's steps may read in all places but one */
#define DEPTH_LIMIT 100000u
#define STACK_MIN   (32u << 10)
#define STACK_MAX   (1u << 20)

static enum status tokenizer_regex_compile(struct regex *regex, struct span text,
                                           struct error *error) {
    char message[128];
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return error_set(error, STATUS_NOMEM, "no memory for a regular expression");
    /* Ruby's ^ and $ are those of lines, whose end is \n. */
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    regex->code = pcre2_compile((PCRE2_SPTR)text.bytes, text.n,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                                    PCRE2_USE_OFFSET_LIMIT,
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
        status = tokenizer_regex_compile(regex, (struct span){text.data ? text.data : "", text.n},
                                         error);
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
    regex_scratch_begin(scratch);
    pcre2_set_depth_limit(scratch->context, DEPTH_LIMIT);
    /* NULL where PCRE2 was built without JIT, or memory is short: it then has a small stack. */
    scratch->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL);
    if (scratch->stack)
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return STATUS_OK;
}

void regex_scratch_begin(struct regex_scratch *scratch) {
    scratch->began_ns = clock_thread_cpu_ns();
    scratch->cpu_ns_max = TEXT_NS;
    scratch->looked_ns = clock_coarse_ns();
}

void regex_scratch_fini(struct regex_scratch *scratch) {
    if (!scratch)
        return;
    pcre2_jit_stack_free(scratch->stack);
    pcre2_match_context_free(scratch->context);
    pcre2_match_data_free(scratch->match);
    *scratch = (struct regex_scratch){0};
}

/* Matches that begin at `at` to `last`, each with at most n_steps. */
static int tokenizer_regex_match_within(const struct regex *regex,
                                        const struct regex_scratch *scratch, struct span text,
                                        size_t at, size_t last, uint32_t n_steps) {
    pcre2_set_match_limit(scratch->context, n_steps);
    pcre2_set_offset_limit(scratch->context, last);
    if (regex->is_jit)
        return pcre2_jit_match(regex->code, (PCRE2_SPTR)text.bytes, text.n, at, 0, scratch->match,
                               scratch->context);
    return pcre2_match(regex->code, (PCRE2_SPTR)text.bytes, text.n, at, PCRE2_NO_UTF_CHECK,
                       scratch->match, scratch->context);
}

/* The thread's clock costs as much as a match, so it is read when some time has passed. */
static bool tokenizer_regex_is_late(struct regex_scratch *scratch) {
    uint64_t now_ns = clock_coarse_ns();
    if (now_ns - scratch->looked_ns < LOOK_NS)
        return false;
    scratch->looked_ns = now_ns;
    return clock_thread_cpu_ns() - scratch->began_ns > scratch->cpu_ns_max;
}

static size_t tokenizer_regex_more_places(size_t n_places, size_t n_left) {
    size_t n_max = CALL_BYTES / STEPS_MIN / (n_left + 1);
    n_max = n_max < PLACES_MAX ? n_max : PLACES_MAX;
    return 2 * n_places < n_max ? 2 * n_places : n_max > 1 ? n_max : 1;
}

/* STATUS_NOT_FOUND when nothing from `at` on matches. A call gets few steps and one place; the next
 * one more places while none of them needs more steps, and one place more steps while it does. */
static enum status tokenizer_regex_match(const struct regex *regex, struct regex_scratch *scratch,
                                         struct span text, size_t at, size_t *begin, size_t *end) {
    uint32_t n_steps = STEPS_MIN;
    size_t n_places = 1;
    int code = PCRE2_ERROR_NOMATCH;
    for (size_t from = at; from <= text.n;) {
        size_t last = text.n - from < n_places ? text.n : from + n_places - 1;
        code = tokenizer_regex_match_within(regex, scratch, text, from, last, n_steps);
        if (tokenizer_regex_is_late(scratch))
            return STATUS_INVALID;
        if (code == PCRE2_ERROR_NOMATCH) {
            for (from = last + 1; from < text.n && utf8_is_tail(text.bytes[from]); from++)
                ;
            n_places = tokenizer_regex_more_places(n_places, text.n - last);
            n_steps = STEPS_MIN;
        } else if (code != PCRE2_ERROR_MATCHLIMIT) {
            break;
        } else if (n_places > 1) {
            n_places = 1;
        } else {
            n_steps = n_steps < UINT32_MAX / 2 ? 2 * n_steps : UINT32_MAX;
        }
    }
    if (code == PCRE2_ERROR_NOMATCH)
        return STATUS_NOT_FOUND;
    if (code < 0) /* the stack for compiled patterns, depth, memory */
        return STATUS_INVALID;
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(scratch->match);
    *begin = found[0];
    *end = found[1];
    ASSERT(*begin >= at && *begin <= *end && *end <= text.n); /* no \K: the dialect refuses it */
    return STATUS_OK;
}

enum status regex_next(const struct regex *regex, struct regex_scratch *scratch, struct span text,
                       struct regex_cursor *cursor, size_t *begin, size_t *end) {
    if (cursor->at == 0 && !cursor->has_last)
        scratch->cpu_ns_max += text.n * BYTE_NS;
    while (cursor->at <= text.n) {
        TRY(tokenizer_regex_match(regex, scratch, text, cursor->at, begin, end));
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
