/* router/api/ask.h: what a client asks for, in any dialect.
 *
 * Made by a dialect's parse(), on the loop's thread or, for long bodies, on one of the text pool's;
 * owned by one thread at a time. The body lives until ask_drop_body(), once the prompts are ids;
 * what lives on is in the arena. */
#pragma once

#include "base/arena.h"
#include "base/interval.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/grammar/grammar.h"
#include "model/text/template/template_request.h"
#include "model/text/template/thought_start.h"
#include "model/text/tokenizer/vocabulary/ids.h"
#include "proto/message.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define ASK_STOPS_MAX       64 /* each is looked for in every token's text */
#define ASK_STOP_BYTES_MAX  256
#define ASK_CHOICES_MAX     64
#define ASK_PROMPTS_MAX     1024
#define ASK_UNCUT_IDS_MAX   (MESSAGE_TOKENS_MAX * 4u) /* of a prompt that is cut afterwards */
#define ASK_SEQUENCES_MAX   1024                      /* choices times prompts */
#define ASK_TOP_CHAT_MAX    20
#define ASK_NAME_BYTES_MAX  256
#define ASK_ARENA_BYTES     (1u << 20)
#define ASK_TOKENS_DEFAULT  16 /* of a completion without max_tokens */
#define ASK_TEMPERATURE_MAX 100.0
#define ASK_LEFT_OUT_MAX    16 /* kinds of tools; further ones are left out, and not told */

struct json_tree;
struct tool_format;

/* What a request is checked against. Borrowed, read-only, any thread. */
struct ask_limits {
    const char *model; /* the only id that is served */
    uint32_t n_tokens; /* of the model's vocabulary, those without text included */
    uint32_t n_textless;
    const struct interval *textless; /* (n_textless) ids that no answer can hold */
    uint32_t n_ends;
    const uint32_t *ends;                /* (n_ends) ids with which the model ends an answer */
    uint32_t prompt_max;                 /* ids of one prompt */
    const struct generation *generation; /* what holds where a request is silent; NULL: nothing */
    uint32_t max_new; /* tokens of an answer if the request sets no limit; 0: the dialect's own */
    const struct tool_format *tool_format; /* of the model's calls; NULL: none that is known */
    unsigned tool_marks_special; /* bit i: its mark i is a special token, which no text spells */
    const struct thought_format *thought_format; /* of what the model thinks; NULL: it does not */
    bool thought_mark_special;                   /* its opening mark is a special token, */
    bool thought_end_special;                    /* and this its closing one */
};

/* One prompt: text, ids or a conversation. */
struct ask_prompt {
    bool is_ids;
    struct span text; /* borrowed from the body */
    struct ids ids;   /* owned: as given, or filled by text_prepare() */
};

/* A grammar that a custom tool's text must be of. */
struct ask_input {
    const struct grammar_part *part; /* of the arena */
    const struct ask_input *next;
    char field[48]; /* that says so */
};

struct ask {
    struct arena arena;     /* owned: stops, stop ids, bias */
    json_t *body;           /* owned, or the tree's; NULL once dropped */
    struct json_tree *tree; /* owned; or NULL */

    uint64_t timeout_ns; /* of the whole call, by its headers and body; 0: none */
    float timeout_s;     /* the body's; 0: none */
    char encoding[16];   /* of compressed messages (gRPC), or "" */

    bool only_tokens;             /* nothing is generated; set before parse() */
    bool is_chat;                 /* then there is one prompt, made of `chat` */
    bool is_continued;            /* the answer goes on in the last message */
    struct template_request chat; /* owned; dropped with the body, which it borrows from */

    struct ask_prompt *prompts; /* owned (n_prompts) */
    uint32_t n_prompts;
    bool add_special;
    bool parse_special; /* special tokens in texts are special; never in messages */
    uint32_t truncate;  /* keep so many of the prompt's last tokens; 0: all */

    uint32_t n_choices; /* for each prompt */
    bool has_max_new;   /* false: the next, as far as the context goes */
    uint32_t max_new;   /* 0: the rest of the context */
    bool has_seed;
    struct sampling sampling; /* seed and max_new are set at admission where absent; ids are of the
                                 arena */
    const struct grammar_part
        *format;           /* what the answer must look like, of the arena; NULL: anything */
    char format_field[64]; /* that says so */
    bool calls; /* the answer may call tools; then `format` says how it is read (tools.h) */
    struct grammar *calls_grammar; /* owned: that, compiled; or NULL */
    bool joins_thoughts;           /* what the model thinks stays in the text, as it writes it */
    bool hides_thoughts;           /* or is left out */
    enum thought_start
        thinks; /* how the answer begins; set with all that follows once the prompt is made (thoughts.h) */
    const struct thought_format *thoughts; /* NULL with THOUGHT_NONE */
    const struct grammar_part
        *proper; /* with them: `format` without what may be thought before it; or NULL */
    const struct ask_input *inputs; /* of the arena: parts of `format` */
    struct span *stops;             /* (n_stops) of the arena */
    uint32_t n_stops;
    bool include_stop;
    bool skip_special;

    bool echo;
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool return_token_ids;
    bool tokens_as_ids;   /* in logprobs: "token_id:123" for the text */
    bool return_strings;  /* /tokenize: token_strs */
    bool seals_thoughts;  /* /v1/responses: a thought comes as encrypted_content, too */
    struct span repeated; /* of the arena: members of the request that its reply has, too */

    int32_t priority;         /* lower runs first */
    struct span cache_salt;   /* of the arena */
    struct span request_name; /* of the arena: the client's own name for it, or n = 0 */
    char unknown[64];         /* the first unknown field, or "" */

    uint32_t n_left_out;
    const char *left_out[ASK_LEFT_OUT_MAX]; /* (n_left_out) of the arena: kinds of tools that no
                                               model calls, each once */
};

void ask_init(struct ask *ask); /* defaults */
void ask_fini(struct ask *ask); /* fine on a zeroed ask */
void ask_drop_body(struct ask *ask);

/* The least of all limits holds. */
void ask_limit_time(struct ask *ask, uint64_t timeout_ns);
#define ASK_TIMEOUT_S_MAX 86400

/* Room for n prompts, zeroed. */
NODISCARD enum status ask_set_prompts(struct ask *ask, uint32_t n);
