/* tools/cli/chat/chat_show.h: an answer on standard output while it comes: its text in whole words, and on a terminal before it, dimmed,
 * what the model thinks. In a pipe there is the text alone. One thread. */
#pragma once

#include "base/buf.h"
#include "tools/cli/chat/wrap.h"

#include <stdbool.h>

struct chat_show {
    struct wrap wrap;
    struct buf shown;  /* owned: what a piece comes to */
    const char *dim;   /* constant: begins what is thought */
    const char *plain; /* constant: ends it */
    bool is_thinking;  /* what was shown last */
};

void chat_show_init(struct chat_show *show);
void chat_show_fini(struct chat_show *show); /* fine on a zeroed one */

void chat_show_text(struct chat_show *show, const char *text);
void chat_show_thought(struct chat_show *show, const char *text);

/* The last word, and a line that is not ended. */
void chat_show_end(struct chat_show *show);
