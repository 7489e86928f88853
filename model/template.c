#include "model/template.h"

#include "base/assert.h"
#include "model/template_kinds.h"
#include "model/tokenizer.h"

#include <stdlib.h>

static const struct template_kind *const kinds[] = {&template_kind_chatml};

static const char *const role_names[TEMPLATE_ROLE_COUNT] = {
    [TEMPLATE_SYSTEM] = "system", [TEMPLATE_DEVELOPER] = "developer",
    [TEMPLATE_USER] = "user",     [TEMPLATE_ASSISTANT] = "assistant",
    [TEMPLATE_TOOL] = "tool",
};

const char *template_role_name(enum template_role role) {
    ASSERT((unsigned)role < TEMPLATE_ROLE_COUNT);
    return role_names[role];
}

enum status template_role_parse(struct span name, enum template_role *role) {
    for (unsigned i = 0; i < TEMPLATE_ROLE_COUNT; i++) {
        if (span_is(name, role_names[i])) {
            *role = (enum template_role)i;
            return STATUS_OK;
        }
    }
    return STATUS_NOT_FOUND;
}

enum status template_choose(struct template *chosen, struct span source, struct error *error) {
    struct template opened = {0};
    if (source.n == 0) {
        *chosen = opened;
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i]->recognise(source))
            continue;
        opened.kind = kinds[i];
        TRY(kinds[i]->open(&opened, source, error));
        *chosen = opened;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "the chat template is none that is known; ChatML is");
}

const struct template_kind *template_nth_kind(size_t n) {
    return n < sizeof kinds / sizeof *kinds ? kinds[n] : NULL;
}

void template_chatml(struct template *chosen) {
    *chosen = (struct template){.kind = &template_kind_chatml};
}

enum status template_render(const struct template *chosen, const struct template_input *input,
                            struct template_prompt *prompt, struct error *error) {
    struct template_prompt made = {0};
    if (!chosen->kind)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the model has no chat template that is known here");
    if (input->n_messages == 0)
        return error_field(error, STATUS_INVALID, "messages", "there is no message");
    if (input->n_messages > TEMPLATE_MESSAGES_MAX)
        return error_field(error, STATUS_LIMIT, "messages", "%zu messages, at most %u are taken",
                           input->n_messages, TEMPLATE_MESSAGES_MAX);
    enum status status = chosen->kind->render(chosen, input, &made);
    if (status != STATUS_OK) {
        template_prompt_fini(&made);
        return error_set(error, status, "no memory for the prompt");
    }
    *prompt = made;
    return STATUS_OK;
}

void template_prompt_fini(struct template_prompt *prompt) {
    if (!prompt)
        return;
    free(prompt->segments);
    *prompt = (struct template_prompt){0};
}

enum status template_add(struct template_prompt *prompt, bool is_markup, struct span text) {
    if (text.n == 0)
        return STATUS_OK;
    if (prompt->n == prompt->size) {
        size_t size = prompt->size ? 2 * prompt->size : 32;
        struct template_segment *segments = reallocarray(prompt->segments, size, sizeof *segments);
        if (!segments)
            return STATUS_NOMEM;
        prompt->segments = segments;
        prompt->size = size;
    }
    prompt->segments[prompt->n++] = (struct template_segment){is_markup, text};
    return STATUS_OK;
}

void template_prompt_text(const struct template_prompt *prompt, struct buf *out) {
    for (size_t i = 0; i < prompt->n; i++)
        buf_append(out, prompt->segments[i].text.bytes, prompt->segments[i].text.n);
}

/* Plain text that waits for the next special token or the end. */
struct run {
    const struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct ids *ids;
    struct error *error;
    struct buf text;
};

static enum status flush_run(struct run *run) {
    if (buf_status(&run->text) != STATUS_OK)
        return error_set(run->error, buf_status(&run->text), "the prompt has more than %zu bytes",
                         TOKENIZER_TEXT_MAX);
    if (run->text.n == 0)
        return STATUS_OK;
    struct span text = {run->text.data, run->text.n};
    TRY(tokenizer_encode(run->tokenizer, run->scratch, text, TOKENIZER_PLAIN, run->ids,
                         run->error));
    buf_clear(&run->text);
    return STATUS_OK;
}

static enum status add_markup(struct run *run, struct span text) {
    const struct vocabulary *vocabulary = &run->tokenizer->vocabulary;
    size_t begin = 0;
    for (size_t at = 0; at < text.n;) {
        size_t length = 0;
        uint32_t id =
            vocabulary_match_special(vocabulary, text.bytes + at, text.n - at, true, &length);
        if (id == TOKEN_NONE) {
            at++;
            continue;
        }
        buf_append(&run->text, text.bytes + begin, at - begin);
        TRY(flush_run(run));
        if (ids_push(run->ids, id) != STATUS_OK)
            return error_set(run->error, STATUS_LIMIT, "the text has more than %zu tokens",
                             run->ids->limit);
        at += length;
        begin = at;
    }
    buf_append(&run->text, text.bytes + begin, text.n - begin);
    return STATUS_OK;
}

enum status template_prompt_encode(const struct template_prompt *prompt,
                                   const struct tokenizer *tokenizer,
                                   struct tokenizer_scratch *scratch, struct ids *ids,
                                   struct error *error) {
    struct run run = {.tokenizer = tokenizer, .scratch = scratch, .ids = ids, .error = error};
    enum status status = STATUS_OK;
    size_t n_before = ids->n;
    buf_init(&run.text, TOKENIZER_TEXT_MAX);
    for (size_t i = 0; i < prompt->n && status == STATUS_OK; i++) {
        const struct template_segment *segment = &prompt->segments[i];
        if (segment->is_markup)
            status = add_markup(&run, segment->text);
        else
            buf_append(&run.text, segment->text.bytes, segment->text.n);
    }
    if (status == STATUS_OK)
        status = flush_run(&run);
    if (status != STATUS_OK)
        ids->n = n_before;
    buf_fini(&run.text);
    return status;
}
