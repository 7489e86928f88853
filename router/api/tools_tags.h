/* router/api/tools_tags.h: the form of arguments that are written in tags, a parameter each. Pure, any thread. */
#pragma once

#include "router/api/tools_form.h"

/* The one parameter of a custom tool, and the end. Any text is written as it is, up to the tag
 * after it. One of a grammar is a JSON string, as that grammar might have the tag in its texts. Of
 * the ask's arena. STATUS_NOMEM. */
NODISCARD enum status tools_tags_input(struct ask *ask, const struct toolbox *box,
                                       const struct tool *tool, struct grammar_part *part);

/* The tool's parameters in the order of its schema, those that must come and those that may, and the end. A value whose schema says
 * that it is a string is a text as it is, one of `enum` where that has texts alone; a strict string that more is said of, and
 * everything else, is JSON. What a schema says of its object beside `properties` and `required` is not kept, but that no
 * other properties come. Of the ask's arena.
 * STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status tools_tags_part(struct ask *ask, const struct toolbox *box,
                                      const struct tool *tool, struct grammar_part *part);
