/* router/api/tools_parameters.h: the parameters of a function one by one, for formats that write each of them by itself. Pure, any
 * thread. */
#pragma once

#include "router/api/tools_form.h"

/* Parameters of all tools that may be called. */
#define TOOLS_PARAMETERS_MAX 256

struct tools_parameter {
    const char *name;     /* not empty */
    const json_t *schema; /* NULL: a value of any kind */
    bool must_come;
};

/* Of a format that does not write arguments as a JSON object: STATUS_LIMIT where the tools have more parameters, STATUS_UNSUPPORTED
 * where a strict tool's schema says more of its object than is kept. */
NODISCARD enum status tools_parameters_check(const struct toolbox *box);

/* The tool's parameters (n), of the ask's arena: in the order of its schema, then names that must come and that it says nothing of.
 * STATUS_NOMEM. */
NODISCARD enum status tools_parameters(struct ask *ask, const struct tool *tool,
                                       struct tools_parameter **parameters, size_t *n_parameters);

/* Where a schema is nothing but a reference into the root's definitions, what it points to; else the schema. */
const json_t *tools_parameters_follow(const json_t *schema, const json_t *root);
