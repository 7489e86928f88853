#include "model/text/tokenizer/bpe/pretokenize.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "model/text/tokenizer/bpe/alphabet.h"

/* Buffers larger than this are freed after the text that needed them. */
#define KEEP_BYTES ((size_t)1 << 20)

static enum status pretokenize_new_step(struct pretokenizer *pretokenizer,
                                        struct pretokenize_step **step, struct error *error) {
    /* A step behind a ByteLevel sees its alphabet. */
    uint32_t n_more = pretokenizer->is_byte_level && !pretokenizer->is_spelled ? 2 : 1;
    if (pretokenizer->n_steps + n_more > PRETOKENIZE_STEPS_MAX)
        return error_set(error, STATUS_LIMIT, "more than %u steps of pre-tokenizing",
                         PRETOKENIZE_STEPS_MAX);
    if (n_more == 2) {
        pretokenizer->steps[pretokenizer->n_steps++] =
            (struct pretokenize_step){.kind = STEP_ALPHABET};
        pretokenizer->is_spelled = true;
    }
    *step = &pretokenizer->steps[pretokenizer->n_steps++];
    **step = (struct pretokenize_step){0};
    return STATUS_OK;
}

enum status pretokenizer_add_split(struct pretokenizer *pretokenizer, struct span pattern,
                                   bool is_literal, enum pretokenize_cut cut, bool is_inverted,
                                   struct error *error) {
    struct pretokenize_step *step;
    TRY(pretokenize_new_step(pretokenizer, &step, error));
    step->kind = STEP_SPLIT;
    step->cut = cut;
    step->is_inverted = is_inverted;
    return regex_init(&step->regex, pattern, is_literal, error);
}

enum status pretokenizer_add_byte_level(struct pretokenizer *pretokenizer, bool add_prefix_space,
                                        bool use_regex, struct error *error) {
    struct pretokenize_step *step;
    if (pretokenizer->is_byte_level)
        return error_set(error, STATUS_UNSUPPORTED, "a second ByteLevel is not supported");
    if (add_prefix_space) {
        TRY(pretokenize_new_step(pretokenizer, &step, error));
        step->kind = STEP_BLANK_FIRST;
    }
    if (use_regex)
        TRY(pretokenizer_add_split(pretokenizer, SPAN(PRETOKENIZE_GPT2), false, CUT_ISOLATED, false,
                                   error));
    pretokenizer->is_byte_level = true;
    return STATUS_OK;
}

enum status pretokenizer_add_metaspace(struct pretokenizer *pretokenizer, struct span mark,
                                       enum pretokenize_prepend prepend, bool split,
                                       struct error *error) {
    struct pretokenize_step *step;
    uint32_t point;
    if (mark.n == 0 || utf8_decode(mark.bytes, mark.n, &point) != mark.n)
        return error_field(error, STATUS_CORRUPT, "replacement",
                           "a Metaspace's replacement is not one character");
    if (pretokenizer->is_byte_level)
        return error_set(error, STATUS_UNSUPPORTED, "a Metaspace after a ByteLevel");
    TRY(pretokenize_new_step(pretokenizer, &step, error));
    step->kind = STEP_METASPACE;
    step->n_mark = (uint8_t)mark.n;
    memcpy(step->mark, mark.bytes, mark.n);
    step->prepend = prepend;
    if (!split)
        return STATUS_OK;
    return pretokenizer_add_split(pretokenizer, mark, true, CUT_MERGED_NEXT, false, error);
}

void pretokenizer_fini(struct pretokenizer *pretokenizer) {
    if (!pretokenizer)
        return;
    for (uint32_t i = 0; i < pretokenizer->n_steps; i++)
        regex_fini(&pretokenizer->steps[i].regex);
    *pretokenizer = (struct pretokenizer){0};
}

enum status pretokenize_scratch_init(struct pretokenize_scratch *scratch) {
    *scratch = (struct pretokenize_scratch){0};
    for (size_t i = 0; i <= PRETOKENIZE_STEPS_MAX; i++)
        buf_init(&scratch->texts[i], PRETOKENIZE_BYTES_MAX);
    return regex_scratch_init(&scratch->regex);
}

void pretokenize_scratch_fini(struct pretokenize_scratch *scratch) {
    if (!scratch)
        return;
    regex_scratch_fini(&scratch->regex);
    for (size_t i = 0; i <= PRETOKENIZE_STEPS_MAX; i++)
        buf_fini(&scratch->texts[i]);
}

void pretokenize_scratch_trim(struct pretokenize_scratch *scratch) {
    for (size_t i = 0; i <= PRETOKENIZE_STEPS_MAX; i++) {
        if (scratch->texts[i].size <= KEEP_BYTES)
            continue;
        buf_fini(&scratch->texts[i]);
        buf_init(&scratch->texts[i], PRETOKENIZE_BYTES_MAX);
    }
}

/* A walk through the steps: each hands its pieces to the next, so that no list of
 * pieces is made. */
struct pretokenize_walk {
    const struct pretokenizer *pretokenizer;
    struct pretokenize_scratch *scratch;
    pretokenize_take *take;
    void *context;
};

/* The piece of one split that is not handed on yet, since what follows may belong to it. */
struct pending {
    struct pretokenize_walk *walk;
    struct span text;
    uint32_t step;
    bool at_start;
    size_t begin;
    size_t end; /* begin == end: none */
    bool last_matched;
};

static enum status pretokenize_walk_step(struct pretokenize_walk *walk, uint32_t step,
                                         struct span text, bool at_start);

static enum status pretokenize_hand_on(struct pending *pending) {
    struct span piece = {pending->text.bytes + pending->begin, pending->end - pending->begin};
    bool at_start = pending->at_start && pending->begin == 0;
    pending->begin = pending->end;
    return piece.n > 0 ? pretokenize_walk_step(pending->walk, pending->step + 1, piece, at_start)
                       : STATUS_OK;
}

/* Takes the next match, or the text between two. An empty match joins nothing, it only ends what is
 * pending. */
static enum status pretokenize_add_part(struct pending *pending, size_t begin, size_t end,
                                        bool is_match) {
    const struct pretokenize_step *step = &pending->walk->pretokenizer->steps[pending->step];
    bool joins = false;
    is_match ^= step->is_inverted;
    switch (step->cut) {
    case CUT_REMOVED:
    case CUT_ISOLATED:
        break;
    case CUT_CONTIGUOUS:
        joins = is_match == pending->last_matched;
        break;
    case CUT_MERGED_PREVIOUS:
        joins = is_match && !pending->last_matched;
        break;
    case CUT_MERGED_NEXT:
        joins = !is_match && pending->last_matched;
        break;
    }
    pending->last_matched = is_match;
    if (!joins || pending->end != begin) {
        TRY(pretokenize_hand_on(pending));
        pending->begin = begin;
    }
    pending->end = end;
    if (is_match && step->cut == CUT_REMOVED)
        pending->begin = end;
    return STATUS_OK;
}

static enum status pretokenize_walk_split(struct pretokenize_walk *walk, uint32_t at_step,
                                          struct span text, bool at_start) {
    const struct regex *regex = &walk->pretokenizer->steps[at_step].regex;
    struct pending pending = {.walk = walk, .text = text, .step = at_step, .at_start = at_start};
    struct regex_cursor cursor = {0};
    size_t done = 0;
    for (;;) {
        size_t begin;
        size_t end;
        enum status status = regex_next(regex, &walk->scratch->regex, text, &cursor, &begin, &end);
        if (status == STATUS_NOT_FOUND)
            break;
        TRY(status);
        if (begin > done)
            TRY(pretokenize_add_part(&pending, done, begin, false));
        TRY(pretokenize_add_part(&pending, begin, end, true));
        done = end;
    }
    if (done < text.n)
        TRY(pretokenize_add_part(&pending, done, text.n, false));
    return pretokenize_hand_on(&pending);
}

static enum status pretokenize_walk_respelled(struct pretokenize_walk *walk, uint32_t step,
                                              bool at_start) {
    const struct buf *out = &walk->scratch->texts[step];
    TRY(buf_status(out));
    return pretokenize_walk_step(walk, step + 1, (struct span){out->data, out->n}, at_start);
}

static void pretokenize_put_metaspace(const struct pretokenize_step *step, struct span text,
                                      bool at_start, struct buf *out) {
    bool wanted = step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && at_start);
    bool begins = text.bytes[0] == ' ' ||
                  (text.n >= step->n_mark && memcmp(text.bytes, step->mark, step->n_mark) == 0);
    if (wanted && !begins)
        buf_append(out, step->mark, step->n_mark);
    for (size_t at = 0; at < text.n;) {
        const char *blank = memchr(text.bytes + at, ' ', text.n - at);
        size_t n = blank ? (size_t)(blank - text.bytes) - at : text.n - at;
        buf_append(out, text.bytes + at, n);
        if (blank)
            buf_append(out, step->mark, step->n_mark);
        at += n + (blank != NULL);
    }
}

static enum status pretokenize_hand_out(struct pretokenize_walk *walk, struct span text) {
    if (!walk->pretokenizer->is_spelled)
        return walk->take(walk->context, text);
    /* A piece of the alphabet has at least as many bytes as it stands for. */
    struct buf *out = &walk->scratch->texts[PRETOKENIZE_STEPS_MAX];
    size_t n = 0;
    buf_clear(out);
    buf_append(out, text.bytes, text.n);
    TRY(buf_status(out));
    bool known = alphabet_decode(text.bytes, text.n, out->data, &n);
    ASSERT(known);
    return walk->take(walk->context, (struct span){out->data, n});
}

/* Recursion of at most PRETOKENIZE_STEPS_MAX. */
static enum status pretokenize_walk_step(struct pretokenize_walk *walk, uint32_t at_step,
                                         struct span text, bool at_start) {
    if (at_step == walk->pretokenizer->n_steps)
        return pretokenize_hand_out(walk, text);
    const struct pretokenize_step *step = &walk->pretokenizer->steps[at_step];
    struct buf *out = &walk->scratch->texts[at_step];
    switch (step->kind) {
    case STEP_SPLIT:
        return pretokenize_walk_split(walk, at_step, text, at_start);
    case STEP_BLANK_FIRST:
        if (text.bytes[0] == ' ')
            return pretokenize_walk_step(walk, at_step + 1, text, at_start);
        buf_clear(out);
        buf_putc(out, ' ');
        buf_append(out, text.bytes, text.n);
        return pretokenize_walk_respelled(walk, at_step, at_start);
    case STEP_ALPHABET:
        buf_clear(out);
        alphabet_encode(text.bytes, text.n, out);
        return pretokenize_walk_respelled(walk, at_step, at_start);
    case STEP_METASPACE:
        buf_clear(out);
        pretokenize_put_metaspace(step, text, at_start, out);
        return pretokenize_walk_respelled(walk, at_step, at_start);
    }
    return STATUS_UNSUPPORTED;
}

enum status pretokenize(const struct pretokenizer *pretokenizer,
                        struct pretokenize_scratch *scratch, struct span text, bool at_start,
                        pretokenize_take *take, void *context) {
    struct pretokenize_walk walk = {
        .pretokenizer = pretokenizer, .scratch = scratch, .take = take, .context = context};
    return text.n > 0 ? pretokenize_walk_step(&walk, 0, text, at_start) : STATUS_OK;
}
