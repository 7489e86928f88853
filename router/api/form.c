#include "router/api/form.h"

#include "model/text/grammar/pack.h"

struct grammar_part *form_array(struct ask *ask, size_t n) {
    return arena_alloc(&ask->arena, n * sizeof(struct grammar_part));
}

struct grammar_part form_text(struct span text) {
    return form_mark(text, false);
}

struct grammar_part form_mark(struct span mark, bool special) {
    return (struct grammar_part){.kind = special ? GRAMMAR_TOKEN : GRAMMAR_TEXT, .text = mark};
}

struct grammar_part form_regex(struct span text) {
    return (struct grammar_part){.kind = GRAMMAR_REGEX, .text = text};
}

struct grammar_part form_list(enum grammar_kind kind, const struct grammar_part *parts, size_t n) {
    return (struct grammar_part){.kind = kind, .parts = parts, .n = n};
}

struct grammar_part form_maybe(const struct grammar_part *part) {
    return (struct grammar_part){.kind = GRAMMAR_REPEAT, .parts = part, .n = 1, .max = 1};
}

enum status form_keep(struct ask *ask, struct buf *written, struct span *kept) {
    enum status status = buf_status(written);
    const char *copy =
        status == STATUS_OK ? arena_copy(&ask->arena, written->data, written->n) : NULL;
    if (copy)
        *kept = (struct span){copy, written->n};
    else if (status == STATUS_OK)
        status = STATUS_NOMEM;
    buf_fini(written);
    return status;
}

enum status form_pack(struct ask *ask, const struct grammar_part *form) {
    struct span kept;
    struct buf packed;
    buf_init(&packed, GRAMMAR_PACKED_MAX);
    enum status status = grammar_pack(form, &packed);
    if (status != STATUS_OK) {
        buf_fini(&packed);
        return status;
    }
    TRY(form_keep(ask, &packed, &kept));
    ask->sampling.grammar = (const void *)kept.bytes;
    ask->sampling.n_grammar = (uint32_t)kept.n;
    return STATUS_OK;
}
