/* router/api/responses_output.h: the answer to a request of OpenAI's Responses API as items, one after the other: what was
 * thought, text, and calls; and the events that tell how they grow. Pure; one thread at a time. */
#pragma once

#include "base/buf.h"
#include "router/api/reply.h"

/* In an item's event its number is `n_items`. */
enum output_kind { OUTPUT_NONE, OUTPUT_MESSAGE, OUTPUT_THOUGHT, OUTPUT_FUNCTION, OUTPUT_CUSTOM };

/* How far an answer is written; zeroed at first. Of an item that has ended only its JSON is kept: the last event has them
 * all. It grows with the answer, which the context bounds. */
struct responses_output {
    uint32_t n_events;
    uint32_t n_items;      /* that have ended, */
    struct buf items;      /* owned: as JSON, each with a comma behind it */
    enum output_kind kind; /* of the open one, or NONE */
    uint32_t call;         /* its number, of a call */
    struct buf name;       /* owned: of a call, escaped */
    struct buf text;       /* owned: escaped */
    struct buf logprobs;   /* owned: of a message: entries with a comma behind each, */
    struct buf unsaid;     /* owned: and those that no delta has had yet */
    uint64_t n_read;       /* bytes of the answer's tokens */
    bool is_cut;           /* by the most tokens that it may have */
};

/* What is written where. */
struct responses_writing {
    const struct reply *reply;
    struct responses_output *output;
    struct buf *events; /* NULL: a whole reply has none */
};

void responses_output_fini(struct responses_output *output); /* fine on a zeroed one */

/* Takes what the choice says, and with its end the end of the last item. */
void responses_output_read(const struct responses_writing *to, const struct reply_choice *choice);

/* Appends the items that have ended as a list. */
void responses_output_put(const struct responses_output *output, struct buf *out);

/* An event with its number: `"type":...,"sequence_number":...` to begin with, and what closes it. `name` is a constant. */
void responses_begin_event(const struct responses_writing *to, const char *name);
void responses_end_event(const struct responses_writing *to);
