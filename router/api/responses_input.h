/* router/api/responses_input.h: the items of a request of OpenAI's Responses API as the messages of a chat.
 *
 * What the assistant thought, said and called in items that follow each other is one message of the chat, as the model
 * wrote it: so the prompt of a turn begins as that of the turn before. Pure, any thread. */
#pragma once

#include "base/buf.h"
#include "base/json/json_get.h"

/* In front of a thought's text where a reply has it as `encrypted_content`: those of other servers cannot be read. */
#define RESPONSES_THOUGHT_MARK "thought:"

/* Appends `instructions` and `input` as a list of messages. STATUS_INVALID or STATUS_UNSUPPORTED with the item. */
NODISCARD enum status responses_put_messages(const struct json_get *get, struct buf *out);
