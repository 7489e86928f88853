/* model/text/template/template.h: the seam of chat templates: messages in, prompt out.
 *
 * A prompt is a list of segments that say where their bytes come from: the template's own markup,
 * whose special tokens count, or the user's text, in which they never do. So no user text can end a
 * turn or open another, whatever it says. A model's own template is rendered by the interpreter in
 * model/text/template/jinja/; models that ship none get the format they were trained with, by their
 * family.
 *
 * A struct template is read-only after template_choose(): any thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/vocabulary/ids.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEMPLATE_MESSAGES_MAX 4096u
#define TEMPLATE_MARKERS_MAX  6u
#define TEMPLATE_STOPS_MAX    4u

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
    bool has_calls;      /* it calls tools, which stand in the JSON alone */
};

/* What a request says. JSON is borrowed; only its reference counts move while a render lasts, so
 * one value must not be rendered by two threads at a time. */
struct template_input {
    const struct template_message *messages; /* borrowed (n_messages) */
    size_t n_messages;
    bool add_generation_prompt;   /* end with the opening of the assistant's turn */
    bool continue_final_message;  /* end behind the last message's text, for the model to go on */
    const json_t *json_messages;  /* the same messages with all they have (tool_calls, content as
                                     parts), or NULL: a template sees role, content and name */
    const json_t *tools;          /* an array, or NULL: none */
    const json_t *documents;      /* an array, or NULL: none */
    const json_t *kwargs;         /* an object: further variables of a template, or NULL */
    struct span reasoning_effort; /* a variable of that name, or empty: none */
    bool has_enable_thinking;     /* there is a variable of that name, and this is it: */
    bool enable_thinking;
    struct span bos; /* text of the model's own tokens, for templates that write them */
    struct span eos;
    int64_t now_s; /* seconds since 1970, for templates that name the day */
};

enum template_segment_kind {
    TEMPLATE_PLAIN,  /* the user's text: special tokens in it are only text */
    TEMPLATE_MARKUP, /* the template's own: special tokens in it are those tokens */
    TEMPLATE_ID,     /* one token; text is its name */
};

struct template_segment {
    enum template_segment_kind kind;
    bool is_cut; /* tokenized apart from what is before it, as the model's own routine did */
    uint32_t id; /* TEMPLATE_ID */
    struct span text;
};

/* What a template made of its input. Texts are borrowed from the input, the template and `text`. */
struct template_prompt {
    struct template_segment *segments; /* owned (n) */
    size_t n;
    size_t size;
    char *text; /* owned: bytes that segments point into; NULL when there are none */
};

struct template;
struct tokenizer;
struct jinja_program;
struct thought_format;
struct tool_format;

/* What a model's files say. */
struct template_source {
    struct span text;                  /* borrowed: its template; empty when it ships none */
    const char *family;                /* "qwen", or NULL */
    const struct tokenizer *tokenizer; /* borrowed, or NULL: for markers by their names */
    uint32_t n_vocab;                  /* ids are below it; 0: as many as the tokenizer has */
};

/* One kind of template. */
struct template_kind {
    const char *name; /* constant: "jinja" */
    /* Whether this member renders such a model's prompts. */
    bool (*recognise)(const struct template_source *source);
    /* Reads what it needs of the source into the template, which template_fini() ends. */
    enum status (*open)(struct template *chosen, const struct template_source *source,
                        struct error *error);
    /* Appends segments with template_add(). */
    enum status (*render)(const struct template *chosen, const struct template_input *input,
                          struct template_prompt *prompt, struct error *error);
};

struct template {
    const struct template_kind *kind; /* NULL: the model has no chat template */
    struct jinja_program *program;    /* owned; kind jinja */
    struct span system;               /* constant: said first when no system message is; chatml */
    uint32_t markers[TEMPLATE_MARKERS_MAX]; /* ids by a member's own numbers */
    uint32_t stop_ids[TEMPLATE_STOPS_MAX];  /* (n_stop_ids): answers end with these too */
    uint32_t n_stop_ids;
    const struct tool_format *tool_format;       /* of calls; NULL: none that is known */
    const struct thought_format *thought_format; /* of thoughts; NULL: none that is known */
    bool has_metadata;    /* answers begin with a line of metadata, empty in ordinary ones */
    uint8_t takes_parts;  /* bits by role; kind jinja: content as parts is rendered as its texts */
    bool takes_null;      /* kind jinja: so is an answer without content, as null or absent */
    uint8_t needs_parts;  /* bits by role; kind jinja: only content as parts is rendered */
    uint8_t as_system;    /* bits by role: it does not know them, and is given `system` */
    uint8_t dropped;      /* bits by role: it would leave such messages out; they are refused */
    uint8_t dropped_bare; /* the same of requests without tools */
    char refusal[256];    /* kind NULL: why the model's template cannot be used, or "" */
};

/* Picks the member that renders such a model's prompts and ends with template_fini(). A source
 * without text of a family without format gives a template without kind, which template_render()
 * refuses. STATUS_INVALID, STATUS_UNSUPPORTED or STATUS_LIMIT for a template that cannot be used
 * (jinja_parse()), STATUS_CORRUPT when a format's tokens are not in the vocabulary,
 * STATUS_NOMEM. */
NODISCARD enum status template_choose(struct template *chosen, const struct template_source *source,
                                      struct error *error);
void template_fini(struct template *chosen); /* fine on a zeroed one */

/* The members in order of choice, for walks; NULL past the last. */
const struct template_kind *template_nth_kind(size_t n);

/* ChatML without a default system line: the template of `hash`. */
void template_chatml(struct template *chosen);

/* On success the caller ends *prompt with template_prompt_fini(). STATUS_UNSUPPORTED when the model
 * has no chat template or its format has no place for what is asked (tools, a role), STATUS_INVALID without
 * messages or when the template refuses them, STATUS_LIMIT for too many or past a budget of
 * model/text/template/jinja/jinja.h, STATUS_NOMEM. */
NODISCARD enum status template_render(const struct template *chosen,
                                      const struct template_input *input,
                                      struct template_prompt *prompt, struct error *error);
void template_prompt_fini(struct template_prompt *prompt);

/* The prompt as text. */
void template_prompt_text(const struct template_prompt *prompt, struct buf *out);

struct tokenizer_scratch;

/* Appends the prompt's ids. Neighbouring text is tokenized as one, as if the prompt had been one
 * text, so that the ids are those that the model was trained on; but a segment that is cut begins
 * anew. Errors as tokenizer_encode(), and STATUS_INVALID for markup with a token that the model has
 * no row for (tokenizer_limit()). */
NODISCARD enum status template_prompt_encode(const struct template_prompt *prompt,
                                             const struct tokenizer *tokenizer,
                                             struct tokenizer_scratch *scratch, struct ids *ids,
                                             struct error *error);

/* For members: adds a segment. Empty texts are left out. */
NODISCARD enum status template_add(struct template_prompt *prompt, struct template_segment segment);

/* For members: what stands for a role or a prompt's begin. */
struct template_marker {
    struct span name;
    uint32_t known; /* its id in the models that the format is of */
};

/* For members: the id of a marker by its name in the vocabulary, else the known one.
 * STATUS_CORRUPT when that is beyond the vocabulary. */
NODISCARD enum status template_find_marker(const struct template_source *source,
                                           const struct template_marker *marker, uint32_t *id,
                                           struct error *error);

/* For members: adds a marker of that id. */
NODISCARD enum status template_add_marker(struct template_prompt *prompt,
                                          const struct template_marker *marker, uint32_t id);

/* For members whose format has no place for tools and documents, or for messages' calls of tools:
 * STATUS_UNSUPPORTED when there are any. */
NODISCARD enum status template_refuse_tools(const struct template *chosen,
                                            const struct template_input *input,
                                            struct error *error);
NODISCARD enum status template_refuse_calls(const struct template *chosen,
                                            const struct template_input *input,
                                            struct error *error);

/* For members whose segments borrow the messages' texts: cuts what stands behind the last one.
 * STATUS_INVALID when that is empty. */
NODISCARD enum status template_end_in_message(const struct template_input *input,
                                              struct template_prompt *prompt, struct error *error);

/* "system", "developer", "user", "assistant", "tool". */
extern const char *const template_role_names[TEMPLATE_ROLE_COUNT + 1]; /* NULL behind the last */
const char *template_role_name(enum template_role role);
/* The role by which this template is given such a message. */
enum template_role template_role_given(const struct template *chosen, enum template_role role);
NODISCARD enum status template_role_parse(struct span name, enum template_role *role);
