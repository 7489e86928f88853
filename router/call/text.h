/* router/call/text.h: between text and token ids: prompts in, answers out.
 *
 * Preparing a prompt (template and tokenizer) is work for the text pool's threads; what a choice
 * says is put together token by token on the loop's thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/map.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/template/template.h"
#include "model/text/template/thought_start.h"
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/vocabulary/ids.h"

#include <stdbool.h>
#include <stdint.h>

struct model;
struct text;

/* Borrows the model. `prefix_seed` is the cluster's, equal on all its routers and workers. */
NODISCARD enum status text_new(const struct model *model, uint64_t prefix_seed, struct text **text);
void text_free(struct text *text); /* after the last job; NULL is fine */

const struct model *text_model(const struct text *text);

/* How a raw prompt is read. */
struct text_reading {
    bool add_special;   /* what the model wants before and behind a text is put there */
    bool parse_special; /* texts of special tokens in it are those tokens */
};

/* Appends the ids of a raw prompt. Any thread. Errors as tokenizer_encode(). */
NODISCARD enum status text_encode(struct text *text, struct span prompt,
                                  struct text_reading reading, struct ids *ids,
                                  struct error *error);

/* Appends a conversation's ids, and says how an answer begins (NULL: who asks generates none). Any thread. Errors as
 * template_render(), tokenizer_encode(). */
NODISCARD enum status text_encode_chat(struct text *text, const struct template_input *input,
                                       bool add_special, struct ids *ids, enum thought_start *start,
                                       struct error *error);

/* A tenant's share of the prefix hash; 0 for an empty salt. */
uint64_t text_salt(const struct text *text, struct span salt);

/* Hashes the full blocks of ids (n_ids) into hashes and returns their number: n_ids / 16. */
uint32_t text_hash(const struct text *text, uint64_t salt, const uint32_t *ids, size_t n_ids,
                   struct map_key *hashes);
#define TEXT_BLOCK_TOKENS 16u

/* Where an answer ends besides its own end. Borrowed for the stream's life. */
struct text_stops {
    const struct span *strings; /* (n) none empty, each at most a few hundred bytes */
    uint32_t n;
    uint32_t n_min;    /* tokens before which no string ends the answer */
    bool include_stop; /* the string that ended it is part of the text */
};

/* The text of one choice as it grows: whole characters, and never a part of a stop string. The
 * loop's thread. Holds no memory unless there are stop strings. */
struct text_stream {
    const struct tokenizer *tokenizer; /* borrowed */
    const struct text_stops *stops;    /* borrowed */
    struct detokenizer detokenizer;
    struct buf held; /* owned: text that could begin a stop string */
    uint32_t n_tokens;
    enum text_start { TEXT_STARTED, TEXT_AT_METADATA, TEXT_AT_LINE, TEXT_AT_BLANKS } start;
};

void text_stream_init(struct text_stream *stream, const struct text *text,
                      const struct text_stops *stops, bool skip_special);
void text_stream_fini(struct text_stream *stream);

/* For answers that begin with a line of metadata (struct template): where that line is empty, it
 * and the blanks behind it are not part of the text; but the line's end is where `keeps_line`. Before the first token. */
void text_stream_skip_metadata(struct text_stream *stream, bool keeps_line);

/* Appends to out what the token completes. `*matched` is the index of the stop string that ended
 * the answer with this token, or -1: after a match nothing may be pushed. STATUS_INVALID for an id
 * beyond the vocabulary, STATUS_NOMEM. */
NODISCARD enum status text_stream_push(struct text_stream *stream, uint32_t id, struct buf *out,
                                       int *matched);

/* The end without a match: what was held back was not a stop string after all. */
NODISCARD enum status text_stream_end(struct text_stream *stream, struct buf *out);
