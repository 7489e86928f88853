/* router/api/tools_python.h: the form of arguments that are written as those of a function in Python. Pure, any thread. */
#pragma once

#include "router/api/tools_form.h"

/* The tool's parameters as keyword arguments, in the order of its schema, those that must come and those that may, and the closing
 * bracket. A string of which nothing else is said is Python's, in either quotes; so are True, False, None, and values of `enum` and
 * `const`. Strings of which more is said, numbers, lists and objects are JSON. A custom tool takes one argument, a JSON string.
 * What a schema says of its object beside `properties` and `required` is not kept, but that no other properties come. Where schemas are
 * too long, a function without `strict` takes any arguments. Of the ask's arena. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status tools_python_part(struct ask *ask, const struct toolbox *box,
                                        const struct tool *tool, struct grammar_part *part);
