/* tools/lib/terminal.h: notices that a terminal is gone: its window was closed, or the line broke.
 *
 * SIGHUP says so too, but may be ignored, and does not reach every process. A descriptor of a terminal
 * that is gone can always be read and gives nothing: a loop that waited for it would spin, so it is
 * looked at once a second. */
#pragma once

#include "base/net/loop.h"

struct terminal {
    struct loop_timer *timer; /* owned; NULL: there is none to look at */
    int fd;                   /* borrowed */
    loop_fn *gone;
    void *user;
};

bool terminal_is_gone(int fd);

/* Calls gone(user) once, in the second after the terminal went. Where `fd` is no terminal, nothing ever
 * happens. */
NODISCARD enum status terminal_init(struct terminal *terminal, struct loop *loop, int fd,
                                    loop_fn *gone, void *user);
void terminal_fini(struct terminal *terminal); /* before the loop; fine on a zeroed one */
