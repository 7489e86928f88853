/* model/text/tokenizer/bpe/pretokenize.h: cuts text into the pieces within which byte-pair merges
 * happen.
 *
 * A list of steps, each of which cuts (or respells) what the one before it left, as the
 * pre-tokenizers of Hugging Face's tokenizers do; a GGUF file names such a list
 * (tokenizer.ggml.pre, pretokenize_names.c). A struct pretokenizer is read-only after opening: any
 * thread, each with a scratch of its own. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/bpe/regex.h"

#include <stdbool.h>
#include <stdint.h>

#define PRETOKENIZE_STEPS_MAX 24u
#define PRETOKENIZE_BYTES_MAX ((size_t)256 << 20) /* of a respelled text */

/* GPT-2's pattern (openai/gpt-2 encoder.py). */
#define PRETOKENIZE_GPT2                                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* What becomes of a match and of the text between matches. */
enum pretokenize_cut {
    CUT_ISOLATED,        /* each match and each text between is a piece */
    CUT_REMOVED,         /* matches are dropped */
    CUT_MERGED_PREVIOUS, /* a match belongs to the text before it */
    CUT_MERGED_NEXT,     /* a match belongs to the text behind it */
    CUT_CONTIGUOUS,      /* matches that touch are one piece */
};

/* When a Metaspace puts its mark before a piece that does not begin with one. */
enum pretokenize_prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct pretokenize_step {
    enum { STEP_SPLIT, STEP_BLANK_FIRST, STEP_ALPHABET, STEP_METASPACE } kind;
    struct regex regex;       /* STEP_SPLIT */
    enum pretokenize_cut cut; /* STEP_SPLIT */
    bool is_inverted;         /* STEP_SPLIT: what matches and what lies between change places */
    char mark[4];             /* STEP_METASPACE: UTF-8 (n_mark) */
    uint8_t n_mark;
    enum pretokenize_prepend prepend; /* STEP_METASPACE */
};

struct pretokenizer {
    struct pretokenize_step steps[PRETOKENIZE_STEPS_MAX];
    uint32_t n_steps;
    bool is_byte_level; /* a ByteLevel is among them: merges begin with bytes */
    bool is_spelled;    /* pieces leave the last step in GPT-2's alphabet */
};

/* What one thread needs. */
struct pretokenize_scratch {
    struct regex_scratch regex;
    struct buf texts[PRETOKENIZE_STEPS_MAX + 1]; /* owned: respelled text of each step */
};

/* All fields zero is a pretokenizer without steps, to which these add one each. */
NODISCARD enum status pretokenizer_add_split(struct pretokenizer *pretokenizer, struct span pattern,
                                             bool is_literal, enum pretokenize_cut cut,
                                             bool is_inverted, struct error *error);
NODISCARD enum status pretokenizer_add_byte_level(struct pretokenizer *pretokenizer,
                                                  bool add_prefix_space, bool use_regex,
                                                  struct error *error);
/* `mark`: one character of UTF-8, U+2581 as a rule. */
NODISCARD enum status pretokenizer_add_metaspace(struct pretokenizer *pretokenizer,
                                                 struct span mark, enum pretokenize_prepend prepend,
                                                 bool split, struct error *error);
void pretokenizer_fini(struct pretokenizer *pretokenizer);

NODISCARD enum status pretokenize_scratch_init(struct pretokenize_scratch *scratch);
void pretokenize_scratch_fini(struct pretokenize_scratch *scratch);
void pretokenize_scratch_trim(struct pretokenize_scratch *scratch); /* frees what grew large */

/* Takes one piece, which is never empty; what it answers besides STATUS_OK ends the walk. */
typedef enum status pretokenize_take(void *context, struct span piece);

/* Cuts valid UTF-8 text and hands each piece on, in order. `at_start`: the text begins the whole.
 * STATUS_LIMIT when a pattern takes more steps, or a text grows larger, than allowed; STATUS_NOMEM;
 * or what `take` answered. */
NODISCARD enum status pretokenize(const struct pretokenizer *pretokenizer,
                                  struct pretokenize_scratch *scratch, struct span text,
                                  bool at_start, pretokenize_take *take, void *context);
