#include "model/text/tokenizer/bpe/normalize.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

/* Buffers larger than this are freed after the text that needed them. */
#define KEEP_BYTES ((size_t)1 << 20)

/* Texts are brought to a normal form in parts of about this size, so that the memory it takes
 * (four bytes a character, which a compatibility form may multiply) stays small. */
#define PART_BYTES ((size_t)64 << 10)

static enum status normalize_new_step(struct normalizer *normalizer, enum normalize_kind kind,
                                      struct normalize_step **step, struct error *error) {
    if (normalizer->n_steps == NORMALIZE_STEPS_MAX)
        return error_set(error, STATUS_LIMIT, "more than %u normalizers", NORMALIZE_STEPS_MAX);
    *step = &normalizer->steps[normalizer->n_steps++];
    **step = (struct normalize_step){.kind = kind};
    return STATUS_OK;
}

static enum status normalize_set_text(struct normalize_step *step, struct span text,
                                      struct error *error) {
    if (text.n > NORMALIZE_TEXT_MAX)
        return error_set(error, STATUS_LIMIT,
                         "a normalizer's text has %zu bytes, at most %u are "
                         "read",
                         text.n, NORMALIZE_TEXT_MAX);
    step->text = malloc(text.n + 1);
    if (!step->text)
        return error_set(error, STATUS_NOMEM, "no memory for a normalizer");
    if (text.n > 0)
        memcpy(step->text, text.bytes, text.n);
    step->n_text = text.n;
    return STATUS_OK;
}

enum status normalizer_add(struct normalizer *normalizer, enum normalize_kind kind,
                           struct error *error) {
    struct normalize_step *step;
    return normalize_new_step(normalizer, kind, &step, error);
}

enum status normalizer_add_strip(struct normalizer *normalizer, bool left, bool right,
                                 struct error *error) {
    struct normalize_step *step;
    TRY(normalize_new_step(normalizer, NORMALIZE_STRIP, &step, error));
    step->left = left;
    step->right = right;
    return STATUS_OK;
}

enum status normalizer_add_prepend(struct normalizer *normalizer, struct span text,
                                   struct error *error) {
    struct normalize_step *step;
    TRY(normalize_new_step(normalizer, NORMALIZE_PREPEND, &step, error));
    return normalize_set_text(step, text, error);
}

enum status normalizer_add_replace(struct normalizer *normalizer, struct span pattern,
                                   bool is_literal, struct span text, struct error *error) {
    struct normalize_step *step;
    TRY(normalize_new_step(normalizer, NORMALIZE_REPLACE, &step, error));
    TRY(normalize_set_text(step, text, error));
    return regex_init(&step->regex, pattern, is_literal, error);
}

void normalizer_fini(struct normalizer *normalizer) {
    if (!normalizer)
        return;
    for (uint32_t i = 0; i < normalizer->n_steps; i++) {
        free(normalizer->steps[i].text);
        regex_fini(&normalizer->steps[i].regex);
    }
    *normalizer = (struct normalizer){0};
}

void normalize_scratch_init(struct normalize_scratch *scratch) {
    buf_init(&scratch->texts[0], NORMALIZE_BYTES_MAX);
    buf_init(&scratch->texts[1], NORMALIZE_BYTES_MAX);
}

void normalize_scratch_fini(struct normalize_scratch *scratch) {
    if (!scratch)
        return;
    buf_fini(&scratch->texts[0]);
    buf_fini(&scratch->texts[1]);
}

void normalize_scratch_trim(struct normalize_scratch *scratch) {
    for (int i = 0; i < 2; i++) {
        if (scratch->texts[i].size <= KEEP_BYTES)
            continue;
        buf_fini(&scratch->texts[i]);
        buf_init(&scratch->texts[i], NORMALIZE_BYTES_MAX);
    }
}

static bool normalize_is_ascii(struct span text) {
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.bytes[i] & 0x80)
            return false;
    return true;
}

/* Up to U+02FF everything is in form C already and joins nothing before it (UAX 15). */
static bool normalize_is_latin(struct span text) {
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.bytes[i] >= 0xcc)
            return false;
    return true;
}

/* Where the part ends that begins at `at`: before an ASCII character, which joins nothing. */
static size_t normalize_part_end(struct span text, size_t at) {
    size_t end = at + PART_BYTES;
    while (end < text.n && ((unsigned char)text.bytes[end] & 0x80))
        end++;
    return end < text.n ? end : text.n;
}

static enum status normalize_put_form(enum normalize_kind kind, struct span text, struct buf *out) {
    static const utf8proc_option_t options[] = {
        [NORMALIZE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [NORMALIZE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [NORMALIZE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [NORMALIZE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    for (size_t at = 0; at < text.n;) {
        struct span part = {text.bytes + at, normalize_part_end(text, at) - at};
        utf8proc_uint8_t *formed = NULL;
        at += part.n;
        if (normalize_is_ascii(part) || (kind == NORMALIZE_NFC && normalize_is_latin(part))) {
            buf_append(out, part.bytes, part.n);
            continue;
        }
        utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)part.bytes,
                                          (utf8proc_ssize_t)part.n, &formed, options[kind]);
        if (n < 0)
            return n == UTF8PROC_ERROR_NOMEM ? STATUS_NOMEM : STATUS_LIMIT;
        buf_append(out, formed, (size_t)n);
        free(formed);
    }
    return STATUS_OK;
}

static void normalize_put_point(uint32_t point, struct buf *out) {
    char text[4];
    buf_append(out, text, utf8_encode(point, text));
}

static void normalize_put_lowercase(struct span text, struct buf *out) {
    for (size_t at = 0; at < text.n;) {
        uint32_t point = 0;
        at += utf8_decode(text.bytes + at, text.n - at, &point);
        normalize_put_point((uint32_t)utf8proc_tolower((utf8proc_int32_t)point), out);
        if (point == 0x130) /* the one letter whose lower case is two characters */
            normalize_put_point(0x307, out);
    }
}

static void normalize_put_without_accents(struct span text, struct buf *out) {
    for (size_t at = 0; at < text.n;) {
        uint32_t point = 0;
        unsigned n = utf8_decode(text.bytes + at, text.n - at, &point);
        utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
        if (category < UTF8PROC_CATEGORY_MN || category > UTF8PROC_CATEGORY_ME)
            buf_append(out, text.bytes + at, n);
        at += n;
    }
}

/* White_Space of Unicode. */
static bool normalize_is_space(uint32_t point) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return (point >= 9 && point <= 13) || point == 0x85 ||
           (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

size_t normalize_blank_prefix(struct span text) {
    size_t at = 0;
    while (at < text.n) {
        uint32_t point = 0;
        unsigned n = utf8_decode(text.bytes + at, text.n - at, &point);
        if (n == 0 || !normalize_is_space(point))
            break;
        at += n;
    }
    return at;
}

size_t normalize_blank_suffix(struct span text) {
    size_t end = text.n;
    while (end > 0) {
        size_t begin = end - 1;
        uint32_t point = 0;
        while (begin > 0 && ((unsigned char)text.bytes[begin] & 0xc0) == 0x80)
            begin--;
        if (utf8_decode(text.bytes + begin, end - begin, &point) == 0 || !normalize_is_space(point))
            break;
        end = begin;
    }
    return text.n - end;
}

static void normalize_strip(const struct normalize_step *step, struct span *text,
                            bool *lost_front) {
    if (step->left) {
        size_t n = normalize_blank_prefix(*text);
        text->bytes += n;
        text->n -= n;
        *lost_front |= n > 0;
    }
    if (step->right)
        text->n -= normalize_blank_suffix(*text);
}

static enum status normalize_put_step(const struct normalize_step *step,
                                      struct regex_scratch *regex, struct span text,
                                      struct buf *out) {
    switch (step->kind) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        return normalize_put_form(step->kind, text, out);
    case NORMALIZE_LOWERCASE:
        normalize_put_lowercase(text, out);
        return STATUS_OK;
    case NORMALIZE_STRIP_ACCENTS:
        normalize_put_without_accents(text, out);
        return STATUS_OK;
    case NORMALIZE_PREPEND:
        if (text.n > 0)
            buf_append(out, step->text, step->n_text);
        buf_append(out, text.bytes, text.n);
        return STATUS_OK;
    case NORMALIZE_REPLACE:
        if (text.n == 0) /* not even an empty match is looked for, as in the tokenizers library */
            return STATUS_OK;
        return regex_replace(&step->regex, regex, text, (struct span){step->text, step->n_text},
                             out);
    case NORMALIZE_STRIP:
        break; /* needs no copy */
    }
    return STATUS_OK;
}

enum status normalize(const struct normalizer *normalizer, struct normalize_scratch *scratch,
                      struct regex_scratch *regex, struct span text, struct span *out,
                      bool *lost_front) {
    unsigned turn = 0;
    *lost_front = false;
    for (uint32_t i = 0; i < normalizer->n_steps; i++) {
        const struct normalize_step *step = &normalizer->steps[i];
        struct buf *to = &scratch->texts[turn];
        if (step->kind == NORMALIZE_STRIP) {
            normalize_strip(step, &text, lost_front);
            continue;
        }
        if (step->kind == NORMALIZE_NFC && normalize_is_latin(text))
            continue; /* most texts are, and stay where they are */
        buf_clear(to);
        TRY(normalize_put_step(step, regex, text, to));
        TRY(buf_status(to));
        text = (struct span){to->data ? to->data : "", to->n};
        turn ^= 1;
    }
    *out = text;
    return STATUS_OK;
}
