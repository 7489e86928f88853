#include "model/pretokenize.h"

#include "base/assert.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Steps of one match. A match is one piece; the patterns below need a few steps per character. */
#define MATCH_LIMIT 100000000u
#define DEPTH_LIMIT 100000u
#define STACK_MIN   (32u << 10)
#define STACK_MAX   (1u << 20)

/* White_Space of Unicode. PCRE2's \s would add U+180E, which has not been a space since 6.3. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"

/* GPT-2's pattern (openai/gpt-2 encoder.py). `gpt-2` cuts with it alone.
 *
 * `smollm` makes two passes (llama.cpp, src/llama-vocab.cpp; the same as the Digits and ByteLevel
 * pre-tokenizers of the model's tokenizer.json): every \p{N} is cut off alone, then GPT-2's pattern
 * cuts what lies between. One pattern gives the same pieces: inside the second pass no number
 * occurs, so a number is an alternative of its own that takes no blank before it; and the end of a
 * part, where \s+(?!\S) may take all blanks, is the end of the text or a number. The suite checks
 * it against the two passes. */
static const struct {
    const char *name;
    const char *pattern;
} patterns[] = {
    {"gpt-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|"
              "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"},
    {"smollm", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|"
               "[" SPACE "]+(?![^" SPACE "\\p{N}])|[" SPACE "]+"},
};

enum status pretokenizer_init(struct pretokenizer *pretokenizer, struct span name,
                              struct error *error) {
    *pretokenizer = (struct pretokenizer){0};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        int code;
        PCRE2_SIZE at;
        if (!span_is(name, patterns[i].name))
            continue;
        pcre2_code *compiled =
            pcre2_compile((PCRE2_SPTR)patterns[i].pattern, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
        if (!compiled)
            return error_set(error, STATUS_UNSUPPORTED,
                             "PCRE2 does not take the pattern of pre-tokenizer %s (error %d at "
                             "%zu)",
                             patterns[i].name, code, at);
        pretokenizer->name = patterns[i].name;
        pretokenizer->code = compiled;
        pretokenizer->is_jit = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "pre-tokenizer \"%.*s\" is not supported; smollm and gpt-2 are",
                     span_shown(name), name.bytes);
}

void pretokenizer_fini(struct pretokenizer *pretokenizer) {
    if (!pretokenizer)
        return;
    pcre2_code_free(pretokenizer->code);
    *pretokenizer = (struct pretokenizer){0};
}

enum status pretokenize_scratch_init(struct pretokenize_scratch *scratch) {
    *scratch = (struct pretokenize_scratch){0};
    scratch->match = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    if (!scratch->match || !scratch->context) {
        pretokenize_scratch_fini(scratch);
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

void pretokenize_scratch_fini(struct pretokenize_scratch *scratch) {
    if (!scratch)
        return;
    pcre2_jit_stack_free(scratch->stack);
    pcre2_match_context_free(scratch->context);
    pcre2_match_data_free(scratch->match);
    *scratch = (struct pretokenize_scratch){0};
}

enum status pretokenize_next(const struct pretokenizer *pretokenizer,
                             struct pretokenize_scratch *scratch, const char *text, size_t n,
                             size_t at, size_t *end) {
    int code;
    DASSERT(at < n);
    if (pretokenizer->is_jit)
        code = pcre2_jit_match(pretokenizer->code, (PCRE2_SPTR)text, n, at, 0, scratch->match,
                               scratch->context);
    else
        code = pcre2_match(pretokenizer->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK,
                           scratch->match, scratch->context);
    if (code < 0)
        return STATUS_LIMIT;
    *end = pcre2_get_ovector_pointer(scratch->match)[1];
    /* Every alternative takes at least one character, so the caller's loop ends. */
    ASSERT(*end > at && *end <= n);
    return STATUS_OK;
}
