/* Prompts, piece by piece, for the members that write them and for the tokenizer. */
#include "base/assert.h"
#include "model/text/template/template.h"
#include "model/text/tokenizer/bpe/normalize.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdlib.h>

const char *const template_role_names[TEMPLATE_ROLE_COUNT + 1] = {
    [TEMPLATE_SYSTEM] = "system", [TEMPLATE_DEVELOPER] = "developer",
    [TEMPLATE_USER] = "user",     [TEMPLATE_ASSISTANT] = "assistant",
    [TEMPLATE_TOOL] = "tool",
};

const char *template_role_name(enum template_role role) {
    ASSERT((unsigned)role < TEMPLATE_ROLE_COUNT);
    return template_role_names[role];
}

enum template_role template_role_given(const struct template *chosen, enum template_role role) {
    return chosen->as_system & 1u << role ? TEMPLATE_SYSTEM : role;
}

enum status template_role_parse(struct span name, enum template_role *role) {
    for (unsigned i = 0; i < TEMPLATE_ROLE_COUNT; i++) {
        if (span_is(name, template_role_names[i])) {
            *role = (enum template_role)i;
            return STATUS_OK;
        }
    }
    return STATUS_NOT_FOUND;
}

void template_prompt_fini(struct template_prompt *prompt) {
    if (!prompt)
        return;
    free(prompt->segments);
    free(prompt->text);
    *prompt = (struct template_prompt){0};
}

enum status template_add(struct template_prompt *prompt, struct template_segment segment) {
    if (segment.text.n == 0 && segment.kind != TEMPLATE_ID)
        return STATUS_OK;
    if (prompt->n == prompt->size) {
        size_t size = prompt->size ? 2 * prompt->size : 32;
        struct template_segment *segments = reallocarray(prompt->segments, size, sizeof *segments);
        if (!segments)
            return STATUS_NOMEM;
        prompt->segments = segments;
        prompt->size = size;
    }
    prompt->segments[prompt->n++] = segment;
    return STATUS_OK;
}

enum status template_find_marker(const struct template_source *source,
                                 const struct template_marker *marker, uint32_t *id,
                                 struct error *error) {
    const struct tokenizer *tokenizer = source->tokenizer;
    uint32_t n_vocab = source->n_vocab ? source->n_vocab
                       : tokenizer     ? tokenizer_n_tokens(tokenizer)
                                       : UINT32_MAX;
    uint32_t found = tokenizer ? tokenizer_find(tokenizer, marker->name) : TOKEN_NONE;
    if (found == TOKEN_NONE)
        found = marker->known;
    if (found >= n_vocab)
        return error_set(error, STATUS_CORRUPT,
                         "the marker %.*s is token %u, beyond the vocabulary of %u",
                         span_shown(marker->name), marker->name.bytes, found, n_vocab);
    *id = found;
    return STATUS_OK;
}

enum status template_add_marker(struct template_prompt *prompt,
                                const struct template_marker *marker, uint32_t id) {
    return template_add(
        prompt, (struct template_segment){.kind = TEMPLATE_ID, .id = id, .text = marker->name});
}

enum status template_refuse_tools(const struct template *chosen, const struct template_input *input,
                                  struct error *error) {
    if (json_array_size(input->tools) > 0)
        return error_field(error, STATUS_UNSUPPORTED, "tools", "the format %s has no tools",
                           chosen->kind->name);
    if (json_array_size(input->documents) > 0)
        return error_field(error, STATUS_UNSUPPORTED, "documents", "the format %s has no documents",
                           chosen->kind->name);
    return STATUS_OK;
}

enum status template_refuse_calls(const struct template *chosen, const struct template_input *input,
                                  struct error *error) {
    for (size_t i = 0; i < input->n_messages; i++)
        if (input->messages[i].has_calls)
            return error_field(error, STATUS_UNSUPPORTED, "tool_calls",
                               "`messages[%zu].tool_calls` has no place in the format %s", i,
                               chosen->kind->name);
    return STATUS_OK;
}

enum status template_end_in_message(const struct template_input *input,
                                    struct template_prompt *prompt, struct error *error) {
    struct span text = input->messages[input->n_messages - 1].content;
    size_t n = prompt->n;
    while (text.n > 0 && n > 0 &&
           (prompt->segments[n - 1].text.bytes != text.bytes ||
            prompt->segments[n - 1].text.n != text.n))
        n--;
    if (text.n == 0 || n == 0)
        return error_field(error, STATUS_INVALID, "continue_final_message",
                           "the last message has no text to continue");
    prompt->n = n;
    return STATUS_OK;
}

void template_prompt_text(const struct template_prompt *prompt, struct buf *out) {
    for (size_t i = 0; i < prompt->n; i++)
        buf_append(out, prompt->segments[i].text.bytes, prompt->segments[i].text.n);
}

/* Text that waits for the next special token, cut or the end. */
struct template_prompt_run {
    const struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct ids *ids;
    struct error *error;
    struct buf text;
    bool continues; /* a token stands before the text, which nothing cuts from it */
    bool strips;    /* and takes the white space between them */
};

static void template_prompt_add_text(struct template_prompt_run *run, struct span text) {
    size_t n = run->strips ? normalize_blank_prefix(text) : 0;
    run->strips = run->strips && n == text.n;
    buf_append(&run->text, text.bytes + n, text.n - n);
}

static enum status template_prompt_flush_run(struct template_prompt_run *run) {
    if (buf_status(&run->text) != STATUS_OK)
        return error_set(run->error, buf_status(&run->text), "the prompt has more than %zu bytes",
                         TOKENIZER_TEXT_MAX);
    if (run->text.n == 0)
        return STATUS_OK;
    struct span text = {run->text.data, run->text.n};
    unsigned flags = run->continues ? TOKENIZER_CONTINUES : TOKENIZER_PLAIN;
    TRY(tokenizer_encode(run->tokenizer, run->scratch, text, flags, run->ids, run->error));
    buf_clear(&run->text);
    return STATUS_OK;
}

static enum status template_prompt_add_id(struct template_prompt_run *run, uint32_t id) {
    TRY(template_prompt_flush_run(run));
    run->continues = true;
    run->strips = false;
    if (ids_push(run->ids, id) != STATUS_OK)
        return error_set(run->error, STATUS_LIMIT, "the text has more than %zu tokens",
                         run->ids->limit);
    return STATUS_OK;
}

/* As plain text it would be something that the model was never shown. */
static enum status template_prompt_check_rows(const struct template_prompt_run *run,
                                              const char *text, size_t n) {
    const struct vocabulary *vocabulary = &run->tokenizer->vocabulary;
    uint32_t id = vocabulary_match_beyond(vocabulary, text, n);
    if (id == TOKEN_NONE)
        return STATUS_OK;
    struct span name = vocabulary_bytes(vocabulary, id);
    return error_field(run->error, STATUS_INVALID, "messages",
                       "the model's chat template writes token %u (\"%.*s\"), but the model has "
                       "only %u",
                       id, span_shown(name), name.bytes, vocabulary->n_tokens);
}

/* A token of the template's, with the white space around it that it asks for. */
static enum status template_prompt_add_marker(struct template_prompt_run *run, uint32_t id) {
    const uint8_t flags = run->tokenizer->vocabulary.flags[id];
    const struct span before = {run->text.data, run->text.n};
    if ((flags & TOKEN_STRIPS_LEFT) && before.n > 0)
        buf_truncate(&run->text, before.n - normalize_blank_suffix(before));
    TRY(template_prompt_add_id(run, id));
    run->strips = (flags & TOKEN_STRIPS_RIGHT) != 0;
    return STATUS_OK;
}

static enum status template_prompt_add_markup(struct template_prompt_run *run, struct span text) {
    const struct vocabulary *vocabulary = &run->tokenizer->vocabulary;
    size_t begin = 0;
    for (size_t at = 0; at < text.n;) {
        size_t length = 0;
        TRY(template_prompt_check_rows(run, text.bytes + at, text.n - at));
        uint32_t id =
            vocabulary_match_special(vocabulary, text.bytes + at, text.n - at, true, &length);
        if (id == TOKEN_NONE) {
            at++;
            continue;
        }
        template_prompt_add_text(run, (struct span){text.bytes + begin, at - begin});
        TRY(template_prompt_add_marker(run, id));
        at += length;
        begin = at;
    }
    template_prompt_add_text(run, (struct span){text.bytes + begin, text.n - begin});
    return STATUS_OK;
}

static enum status template_prompt_add_segment(struct template_prompt_run *run,
                                               const struct template_segment *segment) {
    switch (segment->kind) {
    case TEMPLATE_ID:
        return template_prompt_add_id(run, segment->id);
    case TEMPLATE_MARKUP:
        return template_prompt_add_markup(run, segment->text);
    case TEMPLATE_PLAIN:
        break;
    }
    template_prompt_add_text(run, segment->text);
    return STATUS_OK;
}

/* What follows is tokenized as a text of its own. */
static enum status template_prompt_cut_run(struct template_prompt_run *run) {
    TRY(template_prompt_flush_run(run));
    run->continues = run->strips = false;
    return STATUS_OK;
}

enum status template_prompt_encode(const struct template_prompt *prompt,
                                   const struct tokenizer *tokenizer,
                                   struct tokenizer_scratch *scratch, struct ids *ids,
                                   struct error *error) {
    struct template_prompt_run run = {
        .tokenizer = tokenizer, .scratch = scratch, .ids = ids, .error = error};
    enum status status = STATUS_OK;
    size_t n_before = ids->n;
    buf_init(&run.text, TOKENIZER_TEXT_MAX);
    for (size_t i = 0; i < prompt->n && status == STATUS_OK; i++) {
        const struct template_segment *segment = &prompt->segments[i];
        if (segment->is_cut)
            status = template_prompt_cut_run(&run);
        if (status == STATUS_OK)
            status = template_prompt_add_segment(&run, segment);
    }
    if (status == STATUS_OK)
        status = template_prompt_flush_run(&run);
    if (status != STATUS_OK)
        ids->n = n_before;
    buf_fini(&run.text);
    return status;
}
