/* Special tokens in text, with what they may ask of their neighbourhood (added tokens of Hugging
 * Face's tokenizers: single_word, lstrip, rstrip, normalized). */
#include "base/utf8.h"
#include "model/text/tokenizer/tokenizer_kinds.h"

#include <utf8proc.h>

/* A word's character as Unicode's regular expressions (UTS 18) have it: a letter (or what counts as
 * one), a mark, a digit, a connector. */
static bool special_token_is_word(uint32_t point) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC || point == 0x200c || point == 0x200d;
}

static bool special_token_word_before(struct span text, size_t at) {
    uint32_t point;
    size_t begin = at;
    while (begin > 0) {
        begin--;
        if (((unsigned char)text.bytes[begin] & 0xc0) != 0x80)
            break;
    }
    return at > 0 && utf8_decode(text.bytes + begin, at - begin, &point) > 0 &&
           special_token_is_word(point);
}

static bool special_token_word_behind(struct span text, size_t at) {
    uint32_t point;
    return at < text.n && utf8_decode(text.bytes + at, text.n - at, &point) > 0 &&
           special_token_is_word(point);
}

struct search {
    const struct vocabulary *vocabulary;
    bool control;
};

static bool special_token_accept(const void *context, uint32_t id) {
    const struct search *search = context;
    return id < search->vocabulary->n_tokens &&
           (search->control || search->vocabulary->kinds[id] == TOKEN_USER_DEFINED);
}

static uint32_t special_token_match_at(const struct tokenizer *tokenizer, struct span text,
                                       size_t at, bool control, bool normalized, size_t *length) {
    struct search search = {&tokenizer->vocabulary, control};
    if (!normalized)
        return vocabulary_match_special(&tokenizer->vocabulary, text.bytes + at, text.n - at,
                                        control, length);
    return trie_match(&tokenizer->normalized_specials, text.bytes + at, text.n - at,
                      special_token_accept, &search, length);
}

bool tokenizer_next_special(const struct tokenizer *tokenizer, struct span text, size_t done,
                            size_t at, bool control, bool normalized, struct special_match *match) {
    if (normalized && tokenizer->normalized_specials.n_nodes == 0)
        return false;
    while (at < text.n) {
        size_t length = 0;
        uint32_t id = special_token_match_at(tokenizer, text, at, control, normalized, &length);
        if (id == TOKEN_NONE) {
            at++;
            continue;
        }
        uint8_t flags = tokenizer->vocabulary.flags[id];
        size_t end = at + length;
        if ((flags & TOKEN_SINGLE_WORD) &&
            (special_token_word_before(text, at) || special_token_word_behind(text, end))) {
            at = end;
            continue;
        }
        *match = (struct special_match){.id = id, .begin = at, .end = end, .next = end};
        if (flags & TOKEN_STRIPS_LEFT) {
            match->begin = at - normalize_blank_suffix((struct span){text.bytes, at});
            match->begin = match->begin > done ? match->begin : done;
        }
        if (flags & TOKEN_STRIPS_RIGHT)
            match->end += normalize_blank_prefix((struct span){text.bytes + end, text.n - end});
        return true;
    }
    return false;
}
