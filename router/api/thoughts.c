#include "router/api/thoughts.h"

#include "base/buf.h"
#include "model/text/grammar/pack.h"

#include <string.h>

static struct grammar_part *new_parts(struct ask *ask, size_t n) {
    struct grammar_part *parts = arena_alloc(&ask->arena, n * sizeof *parts);
    if (parts)
        memset(parts, 0, n * sizeof *parts);
    return parts;
}

static struct grammar_part list_part(enum grammar_kind kind, const struct grammar_part *parts,
                                     size_t n) {
    return (struct grammar_part){.kind = kind, .parts = parts, .n = n};
}

static struct grammar_part mark_part(struct span mark, bool special) {
    return (struct grammar_part){.kind = special ? GRAMMAR_TOKEN : GRAMMAR_TEXT, .text = mark};
}

/* Behind its opening mark: a thought, the closing mark, and the line ends before the answer proper. */
static size_t put_thought(const struct thought_format *format, bool special,
                          struct grammar_part *parts) {
    size_t n = 0;
    parts[n++] = (struct grammar_part){.kind = GRAMMAR_UNTIL, .text = format->end_mark};
    parts[n++] = mark_part(format->end_mark, special);
    if (format->behind.n > 0)
        parts[n++] = mark_part(format->behind, false);
    return n;
}

/* Where the model need not think: a thought with its opening mark, before which there may be a line end; or nothing. */
static enum status put_maybe(struct ask *ask, const struct ask_limits *limits, bool special,
                             struct grammar_part *to) {
    struct grammar_part *parts = new_parts(ask, 5), *line_end = new_parts(ask, 1);
    struct grammar_part *thought = new_parts(ask, 1);
    if (!parts || !line_end || !thought)
        return STATUS_NOMEM;
    *line_end = mark_part(SPAN("\n"), false);
    parts[0] = list_part(GRAMMAR_REPEAT, line_end, 1);
    parts[0].max = 1;
    parts[1] = mark_part(limits->thought_format->mark, special && limits->thought_mark_special);
    size_t n =
        put_thought(limits->thought_format, special && limits->thought_end_special, parts + 2);
    *thought = list_part(GRAMMAR_SEQUENCE, parts, 2 + n);
    *to = list_part(GRAMMAR_REPEAT, thought, 1);
    to->max = 1;
    return STATUS_OK;
}

/* What the model thinks, and then the form. `special`: marks that are special tokens are named as such. */
static enum status put_answer(struct ask *ask, const struct ask_limits *limits, bool special,
                              const struct grammar_part *form, struct grammar_part *to) {
    struct grammar_part *parts = new_parts(ask, 4);
    size_t n = 1;
    if (!parts)
        return STATUS_NOMEM;
    if (ask->thinks == THOUGHT_OPEN)
        n = put_thought(limits->thought_format, special && limits->thought_end_special, parts);
    else
        TRY(put_maybe(ask, limits, special, parts));
    parts[n++] = *form;
    *to = list_part(GRAMMAR_SEQUENCE, parts, n);
    return STATUS_OK;
}

/* What workers follow, with special tokens where marks are such; and what is checked, where all is text. */
static enum status put_form(struct ask *ask, const struct ask_limits *limits) {
    const struct span given = {(const char *)ask->sampling.grammar, ask->sampling.n_grammar};
    const struct grammar_part *masked = NULL;
    struct grammar_part *text = new_parts(ask, 1), whole;
    struct error error;
    struct buf packed;
    if (!text)
        return STATUS_NOMEM;
    TRY(grammar_unpack(given, &ask->arena, &masked, &error));
    TRY(put_answer(ask, limits, true, masked, &whole));
    TRY(put_answer(ask, limits, false, ask->format, text));
    buf_init(&packed, GRAMMAR_PACKED_MAX);
    enum status status = grammar_pack(&whole, &packed);
    char *copy = status == STATUS_OK ? arena_copy(&ask->arena, packed.data, packed.n) : NULL;
    if (status == STATUS_OK && !copy)
        status = STATUS_NOMEM;
    if (status == STATUS_OK) {
        ask->format = text;
        ask->sampling.grammar = (const void *)copy;
        ask->sampling.n_grammar = (uint32_t)packed.n;
    }
    buf_fini(&packed);
    return status;
}

enum status thoughts_set(struct ask *ask, const struct ask_limits *limits, enum thought_start start,
                         struct error *error) {
    if (!limits->thought_format || start == THOUGHT_NONE || ask->joins_thoughts)
        return STATUS_OK;
    ask->thinks = start;
    ask->thoughts = limits->thought_format;
    ask->proper = ask->format;
    if (limits->thought_mark_special || limits->thought_end_special)
        ask->skip_special = false; /* they are read, and never shown */
    enum status status = ask->format ? put_form(ask, limits) : STATUS_OK;
    if (status == STATUS_LIMIT)
        return error_field(error, STATUS_INVALID, ask->format_field,
                           "`%s` is too long: with the marks of what the model thinks it has more "
                           "than %d bytes",
                           ask->format_field, GRAMMAR_PACKED_MAX);
    if (status != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for the request");
    return STATUS_OK;
}
