/* model/text/template/template_continue.h: prompts that end in the middle of the last message.
 *
 * As transformers does (utils/chat_template_utils.py): a tag is put behind the last message's text,
 * and the prompt is cut where the template has written it. Pure; any thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/text/template/jinja/jinja.h"

/* The message (an object) with the tag behind its text, or behind the last part that has one, as a
 * new value that the caller owns. STATUS_INVALID when there is no text, STATUS_NOMEM. */
NODISCARD enum status template_continue_mark(const json_t *message, json_t **marked,
                                             struct error *error);

/* Cuts what was rendered of it at the tag. STATUS_INVALID when the template left out the
 * tag or changed the text of `message`, the one without the tag. */
NODISCARD enum status template_continue_cut(const json_t *message, struct jinja_output *output,
                                            struct error *error);
