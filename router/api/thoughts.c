#include "router/api/thoughts.h"

#include "model/text/grammar/pack.h"
#include "router/api/errors.h"
#include "router/api/form.h"

/* Behind its opening mark: a thought, the closing mark, and the line ends before the answer proper. */
static size_t thoughts_put_thought(const struct thought_format *format, bool special,
                                   struct grammar_part *parts) {
    size_t n = 0;
    parts[n++] = (struct grammar_part){.kind = GRAMMAR_UNTIL, .text = format->end_mark};
    parts[n++] = form_mark(format->end_mark, special);
    if (format->behind.n > 0)
        parts[n++] = form_text(format->behind);
    return n;
}

/* Where the model need not think: a thought with its opening mark, before which there may be a line end; or nothing. */
static enum status thoughts_put_maybe(struct ask *ask, const struct ask_limits *limits,
                                      bool special, struct grammar_part *to) {
    struct grammar_part *parts = form_array(ask, 5), *line_end = form_array(ask, 1);
    struct grammar_part *thought = form_array(ask, 1);
    if (!parts || !line_end || !thought)
        return STATUS_NOMEM;
    *line_end = form_text(SPAN("\n"));
    parts[0] = form_maybe(line_end);
    parts[1] = form_mark(limits->thought_format->mark, special && limits->thought_mark_special);
    size_t n = thoughts_put_thought(limits->thought_format, special && limits->thought_end_special,
                                    parts + 2);
    *thought = form_list(GRAMMAR_SEQUENCE, parts, 2 + n);
    *to = form_maybe(thought);
    return STATUS_OK;
}

/* What the model thinks, and then the form. `special`: marks that are special tokens are named as such. */
static enum status thoughts_put_answer(struct ask *ask, const struct ask_limits *limits,
                                       bool special, const struct grammar_part *form,
                                       struct grammar_part *to) {
    struct grammar_part *parts = form_array(ask, 4);
    size_t n = 1;
    if (!parts)
        return STATUS_NOMEM;
    if (ask->thinks == THOUGHT_OPEN)
        n = thoughts_put_thought(limits->thought_format, special && limits->thought_end_special,
                                 parts);
    else
        TRY(thoughts_put_maybe(ask, limits, special, parts));
    parts[n++] = *form;
    *to = form_list(GRAMMAR_SEQUENCE, parts, n);
    return STATUS_OK;
}

/* What workers follow, with special tokens where marks are such; and what is checked, where all is text. */
static enum status thoughts_put_form(struct ask *ask, const struct ask_limits *limits) {
    const struct span given = {(const char *)ask->sampling.grammar, ask->sampling.n_grammar};
    const struct grammar_part *masked = NULL;
    struct grammar_part *text = form_array(ask, 1), whole;
    struct error error;
    if (!text)
        return STATUS_NOMEM;
    TRY(grammar_unpack(given, &ask->arena, &masked, &error));
    TRY(thoughts_put_answer(ask, limits, true, masked, &whole));
    TRY(thoughts_put_answer(ask, limits, false, ask->format, text));
    TRY(form_pack(ask, &whole));
    ask->format = text;
    return STATUS_OK;
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
    enum status status = ask->format ? thoughts_put_form(ask, limits) : STATUS_OK;
    if (status == STATUS_LIMIT)
        return error_field(error, STATUS_INVALID, ask->format_field,
                           "`%s` is too long: with the marks of what the model thinks it has more "
                           "than %d bytes",
                           ask->format_field, GRAMMAR_PACKED_MAX);
    if (status != STATUS_OK)
        return errors_no_memory(error);
    return STATUS_OK;
}
