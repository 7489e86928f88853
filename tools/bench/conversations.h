/* tools/bench/conversations.h: the prompts of files like ShareGPT's. */
#pragma once

#include "base/error.h"
#include "base/span.h"

#include <stdint.h>

/* The text's first byte that is no blank begins a list or an object: it is read as JSON and as nothing else. */
bool conversations_begin(struct span text);

/* The first turns of all conversations with at least two, a system message not counted. A conversation is
 * an object with "conversations" or "messages", or a list itself; of its turns, "value" or "content" is
 * the text (also as parts with "text"), and "from" or "role" says whose it is. The text is a list of
 * conversations, one conversation, or a line for each. Numbers may have any length. STATUS_CORRUPT with path, line and column
 * where it is not JSON; STATUS_INVALID where there is no such turn, with the members that were looked for.
 * The caller frees the texts one by one, and then *texts. */
NODISCARD enum status conversations_read(const char *path, struct span text, char ***texts,
                                         uint32_t *n_texts, struct error *error);
