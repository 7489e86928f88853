/* model/template.h: the seam of chat templates: messages in, prompt out.
 *
 * A prompt is a list of segments that say where their bytes come from: the template's own markup,
 * whose special tokens count, or the user's text, in which they never do. So no user text can end a
 * turn or open another, whatever it says. Members stand in template.c; today's choice is ChatML,
 * recognised by its marker; an interpreter for any template will be another member.
 *
 * A struct template is read-only after template_choose(): any thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/status.h"
#include "model/ids.h"
#include "model/span.h"

#include <stdbool.h>
#include <stddef.h>

#define TEMPLATE_MESSAGES_MAX 4096u
#define TEMPLATE_SYSTEM_MAX   4096u

enum template_role {
    TEMPLATE_SYSTEM,
    TEMPLATE_DEVELOPER,
    TEMPLATE_USER,
    TEMPLATE_ASSISTANT,
    TEMPLATE_TOOL,
    TEMPLATE_ROLE_COUNT
};

struct template_message {
    enum template_role role;
    struct span content; /* borrowed: the user's bytes, plain text */
    struct span name;    /* borrowed: the speaker's name, empty when there is none */
};

struct template_input {
    const struct template_message *messages; /* borrowed (n_messages) */
    size_t n_messages;
    bool add_generation_prompt; /* end with the opening of the assistant's turn */
};

struct template_segment {
    bool is_markup; /* the template's own: special tokens in it are those tokens */
    struct span text;
};

/* What a template made of its input. Texts are borrowed from the input and the template. */
struct template_prompt {
    struct template_segment *segments; /* owned (n) */
    size_t n;
    size_t size;
};

struct template;

/* One kind of template. */
struct template_kind {
    const char *name; /* constant: "chatml" */
    /* Whether this member renders a model's template, given as found in its files. */
    bool (*recognise)(struct span source);
    /* Reads what it needs of the source into the template. */
    enum status (*open)(struct template *chosen, struct span source, struct error *error);
    /* Appends segments with template_add(). */
    enum status (*render)(const struct template *chosen, const struct template_input *input,
                          struct template_prompt *prompt);
};

struct template {
    const struct template_kind *kind; /* NULL: the model has no chat template */
    char system[TEMPLATE_SYSTEM_MAX]; /* said first when the first message is not `system` */
    size_t n_system;                  /* 0: nothing */
};

/* Picks the member that renders `source`. An empty source gives a template without kind, which
 * template_render() refuses. STATUS_UNSUPPORTED when no member recognises it. */
NODISCARD enum status template_choose(struct template *chosen, struct span source,
                                      struct error *error);

/* The members in order of choice, for walks; NULL past the last. */
const struct template_kind *template_nth_kind(size_t n);

/* ChatML without a default system line: the template of `hash`. */
void template_chatml(struct template *chosen);

/* On success the caller ends *prompt with template_prompt_fini(). STATUS_UNSUPPORTED when the model
 * has no chat template, STATUS_INVALID without messages, STATUS_LIMIT for too many, STATUS_NOMEM.
 */
NODISCARD enum status template_render(const struct template *chosen,
                                      const struct template_input *input,
                                      struct template_prompt *prompt, struct error *error);
void template_prompt_fini(struct template_prompt *prompt);

/* The prompt as text. */
void template_prompt_text(const struct template_prompt *prompt, struct buf *out);

struct tokenizer;
struct tokenizer_scratch;

/* Appends the prompt's ids. Neighbouring plain text is tokenized as one, as if the prompt had been
 * one text, so that the ids are those that the model was trained on. Errors as tokenizer_encode().
 */
NODISCARD enum status template_prompt_encode(const struct template_prompt *prompt,
                                             const struct tokenizer *tokenizer,
                                             struct tokenizer_scratch *scratch, struct ids *ids,
                                             struct error *error);

/* For members: adds a segment. Empty texts are left out. */
NODISCARD enum status template_add(struct template_prompt *prompt, bool is_markup,
                                   struct span text);

/* "system", "developer", "user", "assistant", "tool". */
const char *template_role_name(enum template_role role);
NODISCARD enum status template_role_parse(struct span name, enum template_role *role);
