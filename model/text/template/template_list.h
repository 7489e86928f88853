/* model/text/template/template_list.h: lists of a request some of whose entries templates see otherwise.
 *
 * For the members of model/text/template alone. Pure; any thread. */
#pragma once

#include "base/status.h"

#include <jansson.h>

/* What a template sees in place of an entry, as a new reference: to the entry itself where that fits,
 * NULL where it is left out. STATUS_NOMEM. */
typedef enum status template_list_entry(const json_t *entry, const void *how, json_t **fitting);

/* The list of what fit() makes of its entries, as a new reference: to `list` itself where all of them
 * fit, and where it is no array. NULL when memory is short. */
json_t *template_list_fit(const json_t *list, template_list_entry *fit, const void *how);

/* The object with the list of its member `name` in the same way. */
json_t *template_list_fit_member(const json_t *object, const char *name, template_list_entry *fit,
                                 const void *how);
