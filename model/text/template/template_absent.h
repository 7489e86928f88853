/* model/text/template/template_absent.h: members of a request that say nothing, or that templates know by another name.
 *
 * Clients send messages back with every member that their type has, null where there is nothing.
 * Templates ask whether a member is there, or how many entries a list has, so a null member and an
 * empty list of calls must be as if they had not been sent. Pure; any thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* The list (of objects) without null members and empty `tool_calls` in its entries, in the calls
 * and parts of these and in their functions, as a new reference: to `list` itself where there are
 * none. Of messages a null `content` stays, and a text `reasoning` is `reasoning_content`, too, where that is absent. What a caller defines himself (arguments, schemas) is
 * not looked at. NULL when memory is short. */
json_t *template_leave_out_absent(const json_t *list, bool of_messages);
