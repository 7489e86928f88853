/* model/text/grammar/grammar.h: what a text must look like, as a mask over a model's next tokens and
 * as a reader of the text.
 *
 * A grammar is compiled from a description of parts (JSON schemas, regular expressions, grammars of
 * three notations, literal text, special tokens) for one vocabulary. Compiled, it never changes, but
 * for what it keeps of the work done so far; it is shared by reference. A state is a place in it: it
 * follows tokens or bytes, says which tokens may come next and whether the text may end, and can be
 * set back. Where a state is follows from the grammar and the text alone.
 *
 * Text and special tokens are apart: a special token comes only where the grammar names it, and no
 * grammar's text spells one.
 *
 * Any thread may use a grammar, and several at once: each holds its lock while it works. A state has
 * one user at a time. Nothing here does I/O, reads a clock or logs. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;
struct grammar_mask;
struct grammar_state;
struct grammar_vocabulary;

enum grammar_kind {
    GRAMMAR_TEXT,        /* `text` itself */
    GRAMMAR_TOKEN,       /* the special token that is spelled `text` */
    GRAMMAR_JSON_SCHEMA, /* a JSON value of the schema `text` (draft 2020-12; docs/structured.md) */
    GRAMMAR_JSON_OBJECT, /* any JSON object */
    GRAMMAR_REGEX,       /* what the regular expression `text` matches from end to end */
    GRAMMAR_CHOICE,      /* one of `choices` */
    GRAMMAR_LARK,        /* of the grammar `text`, in Lark's notation */
    GRAMMAR_GBNF,        /* the same in llama.cpp's */
    GRAMMAR_EBNF,        /* the same in the W3C's (XML 1.0, section 6) */
    GRAMMAR_UNTIL,       /* any UTF-8 without `text` in it; of empty `text`, any at all */
    GRAMMAR_SEQUENCE,    /* `parts` one behind the other */
    GRAMMAR_EITHER,      /* one of `parts` */
    GRAMMAR_REPEAT,      /* parts[0] min to max times */
    GRAMMAR_JSON_STRING, /* a JSON string, with its quotes, whose value is of parts[0]; spelled with the
                            shortest escapes. Special tokens and JSON have no place in it */
    GRAMMAR_KINDS
};

#define GRAMMAR_NO_BOUND UINT32_MAX

/* A description, all borrowed. */
struct grammar_part {
    enum grammar_kind kind;
    bool
        lenient; /* of a schema: keywords that cannot be kept are left unenforced and counted; else they
                         are an error that names their path */
    struct span text;
    struct span region; /* a name that is told while this part's text is followed; empty: none */
    const struct span *choices;       /* (n) */
    const struct grammar_part *parts; /* (n) */
    size_t n;
    uint32_t min;
    uint32_t max; /* GRAMMAR_NO_BOUND: none */
};

/* Bounds; each has its error. grammar_limits is what a server takes from strangers. */
struct grammar_limits {
    size_t n_bytes;        /* of all sources together */
    uint32_t depth;        /* of parts, schemas, brackets in each other */
    uint32_t n_nodes;      /* of the network that a grammar becomes */
    uint64_t n_steps;      /* of the compiler's work: some 10 ns each */
    size_t n_bytes_kept;   /* of automata while it is used */
    uint32_t n_frames;     /* of all its stacks */
    uint32_t n_threads;    /* readings of one text at a time */
    uint64_t n_mask_steps; /* of the work of one mask, one token, or 64 bytes that are followed */
};

extern const struct grammar_limits grammar_limits;

/* Compiles for a vocabulary, which must outlive the grammar; NULL: no special tokens, no masks. On
 * success the caller holds *grammar. STATUS_INVALID with a line that names the path in a schema, or line and
 * column in another source; STATUS_UNSUPPORTED the same, for what cannot be kept; STATUS_LIMIT;
 * STATUS_NOMEM. */
NODISCARD enum status grammar_compile(const struct grammar_part *part,
                                      struct grammar_vocabulary *vocabulary,
                                      const struct grammar_limits *limits, struct grammar **grammar,
                                      struct error *error);
struct grammar *grammar_ref(struct grammar *grammar);
void grammar_unref(struct grammar *grammar); /* NULL is fine */

/* Equal for equal descriptions, with any vocabulary. */
void grammar_hash(const struct grammar *grammar, uint64_t hash[2]);

/* A keyword of a lenient schema that is not enforced: its name, how often it stands there, and the path
 * of the first. NULL behind the last. */
struct grammar_unenforced {
    const char *keyword;
    uint32_t n;
    char path[96];
};
const struct grammar_unenforced *grammar_unenforced(const struct grammar *grammar, size_t i);

struct grammar_figures {
    uint32_t n_nodes;  /* of the network */
    uint32_t n_sets;   /* of automata so far */
    uint32_t n_frames; /* of stacks today */
    uint64_t n_bytes;  /* of all that it holds, masks apart */
    uint64_t n_steps;  /* of its compilation */
};
struct grammar_figures grammar_figures(struct grammar *grammar);

/* A place before any text. It holds the grammar. `n_back`: how many tokens it can be set back at most.
 * STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status grammar_state_new(struct grammar *grammar, uint32_t n_back,
                                        struct grammar_state **state);
NODISCARD enum status grammar_state_copy(const struct grammar_state *state,
                                         struct grammar_state **copy);
void grammar_state_free(struct grammar_state *state); /* NULL is fine */

/* Follows one token. STATUS_CONFLICT where it must not come here: the state stays as it was.
 * STATUS_INVALID for an id beyond the vocabulary; STATUS_LIMIT past a bound of the grammar,
 * STATUS_NOMEM: as it was, too. */
NODISCARD enum status grammar_accept(struct grammar_state *state, uint32_t token);

/* Follows bytes; *n_followed of them were, all unless STATUS_CONFLICT or another failure. One call is one step
 * for grammar_back(). */
NODISCARD enum status grammar_follow(struct grammar_state *state, struct span text,
                                     size_t *n_followed);

/* Sets back by n steps (tokens, calls of grammar_follow). STATUS_LIMIT where it does not remember as
 * many. */
NODISCARD enum status grammar_back(struct grammar_state *state, uint32_t n);
void grammar_reset(struct grammar_state *state); /* before any text again */

bool grammar_may_end(const struct grammar_state *state);  /* the text so far is whole */
bool grammar_must_end(const struct grammar_state *state); /* and nothing may follow */

/* Equal for states of one grammar that take the same texts by the same way. */
void grammar_state_key(const struct grammar_state *state, uint64_t key[2]);

/* The tokens that may come next: text, and special ones that the grammar names. Ends are the caller's:
 * grammar_may_end(). Held by the caller until grammar_mask_unref(). STATUS_UNSUPPORTED without a
 * vocabulary; STATUS_LIMIT; STATUS_NOMEM. */
NODISCARD enum status grammar_mask(struct grammar_state *state, const struct grammar_mask **mask);

/* The same, with at most *n_steps of work, where the grammar's own bound is not less; what it took is
 * taken off. A mask that is known takes none. */
NODISCARD enum status grammar_mask_within(struct grammar_state *state, uint64_t *n_steps,
                                          const struct grammar_mask **mask);
void grammar_mask_unref(const struct grammar_mask *mask);

/* ((n_tokens + 31) / 32) words: bit i % 32 of word i / 32 is token i. */
const uint32_t *grammar_mask_bits(const struct grammar_mask *mask);
uint32_t grammar_mask_n_allowed(const struct grammar_mask *mask);

static inline bool grammar_mask_has(const struct grammar_mask *mask, uint32_t token) {
    return grammar_mask_bits(mask)[token / 32] >> token % 32 & 1;
}

/* Regions: from grammar_watch() on, the state keeps which region each followed byte is of. Bytes that
 * two readings put into different regions are undecided until one of the readings ends. Special
 * tokens are of no region. It cannot be set back meanwhile. STATUS_NOMEM. */
NODISCARD enum status grammar_watch(struct grammar_state *state);

/* A run of bytes of one region. */
struct grammar_span {
    const char *region; /* its name; NULL: outside of all */
    uint64_t begin;     /* offsets in what was followed since grammar_watch() */
    uint64_t end;       /* exclusive */
    bool ends;          /* the byte behind is of another region */
};

/* The next run that is decided; false: nothing new. `is_last`: the text is at its end, so that the
 * grammar's first reading counts. Empty regions are not told, and two texts of one region without a byte
 * between them are one run. */
bool grammar_next_span(struct grammar_state *state, bool is_last, struct grammar_span *span);
