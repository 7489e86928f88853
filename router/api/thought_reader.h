/* router/api/thought_reader.h: what a model thinks, told apart from its answer proper while the text grows. One user at a time.
 *
 * It looks for the closing mark alone, so that the reader of the rest (tool_reader.h) sees a text as any other model writes it. */
#pragma once

#include "base/buf.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/template/thought_start.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thought_reader {
    const struct thought_format *format; /* borrowed */
    enum { THOUGHT_BEFORE, THOUGHT_WITHIN, THOUGHT_BEHIND, THOUGHT_OVER } place;
    size_t n_skip;      /* line ends behind the closing mark that are no text yet, at most */
    struct buf held;    /* owned: what could be a part of a mark, or line ends before one */
    bool has_said;      /* something was thought */
    uint64_t n_read;    /* bytes of the text so far */
    uint64_t n_thought; /* of them up to the closing mark and with it, once that has come; else 0 */
};

/* `start` is not THOUGHT_NONE. `is_exact`: the answer proper has a form, before which only the format's own line ends may
 * stand; else all line ends there are left out. */
void thought_reader_init(struct thought_reader *reader, const struct thought_format *format,
                         enum thought_start start, bool is_exact);
void thought_reader_fini(struct thought_reader *reader); /* fine on a zeroed one */

/* More of the text, and with is_last its end: appends to `thought` and `rest` what is decided. Line ends around what is
 * thought are no part of it. STATUS_NOMEM. */
NODISCARD enum status thought_read(struct thought_reader *reader, struct span text, bool is_last,
                                   struct buf *thought, struct buf *rest);
