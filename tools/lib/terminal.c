#include "tools/lib/terminal.h"

#include "base/clock.h"

#include <poll.h>
#include <unistd.h>

bool terminal_is_gone(int fd) {
    struct pollfd look = {.fd = fd};
    return poll(&look, 1, 0) == 1 && (look.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void terminal_look_again(void *user) {
    struct terminal *terminal = user;
    if (terminal_is_gone(terminal->fd))
        terminal->gone(terminal->user);
    else
        loop_timer_after(terminal->timer, NS_PER_S);
}

enum status terminal_init(struct terminal *terminal, struct loop *loop, int fd, loop_fn *gone,
                          void *user) {
    *terminal = (struct terminal){.fd = fd, .gone = gone, .user = user};
    if (!isatty(fd))
        return STATUS_OK;
    TRY(loop_timer_new(loop, terminal_look_again, terminal, &terminal->timer));
    loop_timer_after(terminal->timer, NS_PER_S);
    return STATUS_OK;
}

void terminal_fini(struct terminal *terminal) {
    loop_timer_free(terminal->timer);
    terminal->timer = NULL;
}
