/* model/text/template/template_calls.h: calls of earlier messages, for templates that are not in the language of templates. Pure, any
 * thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <jansson.h>

struct template_call {
    struct span name;  /* borrowed from the message */
    json_t *arguments; /* owned: an object */
};

/* The arguments of a call, which come as the text of an object: NULL where they do not. The caller's to drop. */
json_t *template_call_arguments(const json_t *call);

/* What a message's call says. STATUS_INVALID, naming `field`, where it has no name or its arguments are no JSON object. */
NODISCARD enum status template_call_read(const json_t *json, const char *field,
                                         struct template_call *call, struct error *error);
void template_call_fini(struct template_call *call); /* fine on a zeroed one */

/* Appends an object's members as the keyword arguments of a function in Python, their values spelled as Python does, strings in
 * double quotes. STATUS_NOMEM. */
NODISCARD enum status template_put_python_call(const json_t *arguments, struct buf *out);
