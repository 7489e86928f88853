/* worker/loading.h: while a model is loaded: how far it is, said in the log and to the routers.
 *
 * Loading takes the engine thread, one tensor after the other, each up to seconds. A small thread
 * of its own therefore says how far it is. From loading_begin() to loading_end() that thread alone
 * owns the control bus. Start-up only; one loading at a time in a process. */
#pragma once

#include "base/error.h"
#include "base/status.h"

struct links;
struct links_self;
struct loading;

/* links: NULL says it in the log alone. Both are borrowed until the end. */
NODISCARD enum status loading_begin(struct links *links, const struct links_self *self,
                                    struct loading **loading, struct error *error);
void loading_end(struct loading *loading); /* NULL is fine */
