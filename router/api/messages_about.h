/* router/api/messages_about.h: what /openapi.json says of Anthropic's Messages API. Constant; any thread. */
#pragma once

#include "router/api/about.h"

#define MESSAGES_BLOCKS_MAX 4096u /* of one content */

/* The members of a request. Those that are `as` a row of the chat's are passed on to it under that name; the others are read by
 * messages_read.c. */
extern const struct dialect_member messages_members[];

extern const struct dialect_about messages_about;
extern const struct dialect_about
    messages_about_count; /* of requests whose tokens are counted alone */

extern const char messages_error[]; /* SCHEMA() of an error */
