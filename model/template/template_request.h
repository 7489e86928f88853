/* model/template/template_request.h: a chat request in JSON as a template's input.
 *
 * The object is what transformers' apply_chat_template() takes, with the names of the OpenAI API:
 * messages (role, content as text or as parts {type: text, text}, name, tool_calls, tool_call_id,
 * reasoning_content, ...), tools, documents, add_generation_prompt, chat_template_kwargs,
 * bos_token, eos_token. One owner thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/template/template.h"

#include <jansson.h>

struct template_request {
    struct template_input input;
    struct template_message *messages; /* owned (input.n_messages) */
    json_t *texts;                     /* owned: contents that were put together from parts */
};

/* Reads an object, which must outlive the request. bos and eos stay empty when it does not name
 * them. On success the caller ends *request with template_request_fini(). STATUS_INVALID for a
 * field of the wrong kind or an unknown role, STATUS_UNSUPPORTED for a field that is not rendered
 * or a part that is no text, STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status template_request_read(json_t *object, struct template_request *request,
                                            struct error *error);
void template_request_fini(struct template_request *request);
