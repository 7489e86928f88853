/* router/call/sequence.h: one choice of one prompt of a call. */
#pragma once

#include "base/buf.h"
#include "router/call/text.h"
#include "router/core/router.h"

#include <stdbool.h>
#include <stdint.h>

struct call;
struct tool_reader;

/* One choice of one prompt: what the core calls a request. */
struct sequence {
    struct call *call;
    uint32_t user;    /* its number for the core: index in struct calls */
    uint64_t request; /* the core's name, while `alive` */
    bool alive;       /* the core may still call back */
    bool ended;       /* its last piece was made */
    uint32_t *tokens; /* owned (n_prompt + max_new): prompt first, then what was generated */
    uint32_t n_prompt;
    uint32_t n_emitted;              /* by the core */
    uint32_t n_read;                 /* of them turned into text */
    uint32_t n_written;              /* of them in a chunk; stays 0 for plain replies */
    uint32_t text_offset;            /* characters of the choice before token n_written */
    struct token_logprobs *logprobs; /* owned (n_emitted of logprobs_size), or NULL */
    uint32_t logprobs_size;
    struct text_stream stream;
    struct tool_reader *reader; /* owned: where the answer has parts; made with its first text */
    struct buf text;            /* read and not yet written; all of it for plain replies */
    bool is_first;              /* nothing was written yet */
    int stop;                   /* the stop string that matched, or -1 */
    struct request_end end;     /* when no longer alive */
    uint64_t last_token_ns;
};
