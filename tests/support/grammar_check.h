/* tests/support/grammar_check.h: what the suites of grammars share. */
#pragma once

#include "model/text/grammar/grammar.h"
#include "model/text/grammar/vocabulary.h"

#include <stdbool.h>

/* Every byte as a token, then common pieces of JSON and words, some twice; behind them the special
 * tokens "<|call|>" and "<think>". Freed by the caller. */
struct grammar_vocabulary *grammar_check_vocabulary(void);

/* The grammar of a part; fails the test otherwise. */
struct grammar *grammar_check_compile(const struct grammar_part *part,
                                      struct grammar_vocabulary *vocabulary);
struct grammar *grammar_check_kind(enum grammar_kind kind, const char *text,
                                   struct grammar_vocabulary *vocabulary);

/* Compiles what must fail; the line lies in *error. */
enum status grammar_check_refused(enum grammar_kind kind, const char *text, struct error *error);

/* Whether a text is whole, followed byte by byte. */
bool grammar_check_takes(struct grammar *grammar, struct span text);
/* Whether it is the beginning of one. */
bool grammar_check_begins(struct grammar *grammar, struct span text);

/* In a state: the mask is what each token alone says. Answers how many are allowed. */
unsigned grammar_check_mask(struct grammar_state *state,
                            const struct grammar_vocabulary *vocabulary);

/* Walks at random under masks, each checked, at most n_steps tokens; the text so far lies in `out`
 * (size), *is_whole says whether it ended. */
void grammar_check_walk(struct grammar *grammar, struct grammar_vocabulary *vocabulary,
                        uint64_t seed, unsigned n_steps, char *out, size_t size, bool *is_whole);
