#include "tools/cli/chat/chat_show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Of standard output; 0 where it is no terminal. */
static unsigned chat_show_terminal_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO))
        return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void chat_show_init(struct chat_show *show) {
    const char *no_color = getenv("NO_COLOR");
    bool dims = !no_color || !no_color[0];
    *show = (struct chat_show){.dim = dims ? "\033[2m" : "", .plain = dims ? "\033[22m" : ""};
    show->wrap.width = chat_show_terminal_width();
    buf_init(&show->shown, 0);
}

void chat_show_fini(struct chat_show *show) {
    buf_fini(&show->shown);
}

static void chat_show_put(struct chat_show *show) {
    fwrite(show->shown.data, 1, show->shown.n, stdout);
    buf_clear(&show->shown);
}

static void chat_show_put_now(struct chat_show *show) {
    chat_show_put(show);
    fflush(stdout);
}

void chat_show_text(struct chat_show *show, const char *text) {
    if (show->is_thinking) {
        wrap_end(&show->wrap, &show->shown);
        buf_puts(&show->shown, show->plain);
        buf_puts(&show->shown, "\n\n");
        show->is_thinking = false;
    }
    wrap_feed(&show->wrap, text, strlen(text), &show->shown);
    chat_show_put_now(show);
}

void chat_show_thought(struct chat_show *show, const char *text) {
    if (show->wrap.width == 0)
        return;
    if (!show->is_thinking)
        buf_puts(&show->shown, show->dim);
    show->is_thinking = true;
    wrap_feed(&show->wrap, text, strlen(text), &show->shown);
    chat_show_put_now(show);
}

void chat_show_end(struct chat_show *show) {
    wrap_end(&show->wrap, &show->shown);
    if (show->is_thinking)
        buf_puts(&show->shown, show->plain);
    show->is_thinking = false;
    buf_putc(&show->shown, '\n');
    chat_show_put(show); /* at the end of the program, which says why it cannot be written */
}
