/* model/text/template/template_request.h: a chat request's JSON as what a template is given.
 *
 * The one reader of conversations: the router's dialects and `tandem model render` both call it, so
 * that the same request gives the same prompt. A template sees what transformers'
 * apply_chat_template() would give it: each message with all its members as they were sent, in
 * their order, absent ones undefined. Null ones are as absent (template_absent.h); tools that no
 * model calls are left out (template_tools.h). */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/text/template/template.h"

#include <jansson.h>
#include <stdbool.h>

#define TEMPLATE_TOOLS_MAX   1024u /* also of documents, and of one message's calls or parts */
#define TEMPLATE_KWARGS_MAX  64u   /* variables of chat_template_kwargs */
#define TEMPLATE_MEMBERS_MAX 64u   /* of one message */
#define TEMPLATE_NAME_MAX    256u  /* bytes of `name`, `tool_call_id`, `reasoning_effort` */
#define TEMPLATE_CONTENT_MAX ((size_t)32 << 20) /* bytes of one message's text */

struct template_request {
    struct template_input input;       /* borrows from the object that was read, and from below */
    struct template_message *messages; /* owned (input.n_messages) */
    json_t *made;                      /* owned: contents put together from parts, and lists without
                                          absent members */
};

/* Reads the members that make a prompt: `messages`, `tools`, `documents`, `chat_template_kwargs`,
 * `add_generation_prompt`, `continue_final_message`, `enable_thinking`, `reasoning_effort`; others are left alone. The
 * object must outlive the request. Without `add_generation_prompt` the prompt ends with the opening
 * of an answer where `opens_answer` says so and no message is continued. On success the caller ends
 * *request with template_request_fini(). STATUS_INVALID for a value of the wrong kind or out of
 * bounds, with its full name in error->field; STATUS_UNSUPPORTED for a part that is not text;
 * STATUS_NOMEM. Any thread. */
NODISCARD enum status template_request_read(const json_t *object, bool opens_answer,
                                            struct template_request *request, struct error *error);
void template_request_fini(struct template_request *request); /* fine on a zeroed one */

/* Whether template_request_read() reads a member of that name. */
bool template_request_reads(const char *name);
