/* router/api/reply.h: from tokens to the bytes of a reply: the parts that the dialects share.
 *
 * Everything is written directly, plain replies too, because both carry the same logprobs. A test
 * parses every kind back. Pure; the loop's thread. */
#pragma once

#include "base/buf.h"
#include "base/span.h"
#include "model/text/tokenizer/tokenizer.h"
#include "router/api/ask.h"

#include <stdbool.h>
#include <stdint.h>

struct tool_reader;

/* What all pieces of one answer have in common. */
struct reply {
    const struct ask *ask;             /* borrowed */
    const struct tokenizer *tokenizer; /* borrowed */
    const char *model;                 /* borrowed */
    char id[40];                       /* "chatcmpl-..." */
    char fingerprint[20];              /* "fp_...": what computes it (serving_fingerprint()) */
    int64_t created;                   /* Unix seconds */
    uint32_t context;                  /* most tokens of a sequence, prompt and answer */
    uint32_t n_prompt_tokens;          /* of all prompts, each once */
    uint32_t n_completion_tokens;      /* of all choices so far */
    uint32_t n_cached_tokens;          /* of the prompts; known at the end */
    uint32_t
        n_thought_tokens; /* of answers that have ended: up to the closing mark and with it; all, where it never came */
    bool counts_thoughts; /* the model thinks, */
    bool misses_thoughts; /* but of some answer it is not known in how many tokens */
    bool has_begun;       /* a chunk was written */
    void *state;          /* owned by the call: the writer's own (state_size), or NULL */
};

/* What one choice says: in one chunk, or in all. Everything is borrowed. */
struct reply_choice {
    uint32_t index;
    bool is_first;    /* role and prompt_token_ids come with it */
    struct span text; /* whole characters */
    const struct tool_reader
        *reader; /* of an answer that has parts: its pieces, instead of `text`; or NULL */
    uint32_t n_tokens;
    const uint32_t *tokens;                /* (n_tokens) */
    const struct token_logprobs *logprobs; /* (n_tokens), or NULL */
    uint32_t text_offset;                  /* characters of the choice before tokens[0] */
    uint32_t n_prompt;
    const uint32_t *prompt; /* (n_prompt) */
    bool has_ended;
    enum finish finish;      /* when ended */
    bool stopped_by_id;      /* stop_reason is stop_id */
    uint32_t stop_id;        /* one of stop_token_ids */
    struct span stop_string; /* stop_reason when not empty */
};

/* `,"usage":{...}`, with prompt_tokens_details at the end of an answer. */
void reply_put_usage(const struct reply *reply, bool at_end, struct buf *out);

/* What follows a chunk's choices: usage so far, or null where it comes at the end. */
void reply_put_chunk_end(const struct reply *reply, struct buf *out);

/* `"finish_reason":...,"stop_reason":...` */
void reply_put_finish(const struct reply_choice *choice, struct buf *out);

/* `,"token_ids":[...]` where asked for, and `,"prompt_token_ids"` with the first piece. */
void reply_put_ids(const struct reply *reply, const struct reply_choice *choice, struct buf *out);

/* A token as logprob fields show it, quoted: its text, special ones too, or "token_id:N". */
void reply_put_token(const struct reply *reply, uint32_t id, struct buf *out);

/* "token_id:N", quoted. */
void reply_put_token_id(uint32_t id, struct buf *out);

/* The token's bytes; none for an id beyond the vocabulary. */
struct span reply_token_bytes(const struct reply *reply, uint32_t id);

/* "stop", "length" or "error". */
const char *reply_finish_name(enum finish finish);

/* Appends what the ids of the only prompt spell, special tokens too. STATUS_NOMEM. */
NODISCARD enum status reply_spell(const struct reply *reply, struct buf *text);

/* How many characters of the text begin in this token; 0 for one that is not shown. */
uint32_t reply_token_chars(const struct reply *reply, uint32_t id);

/* `"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...,` */
void reply_put_head(const struct reply *reply, const char *object, struct buf *out);
