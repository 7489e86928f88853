#include "tools/cli/chat/chat_input.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HISTORY_LINES 500
#define INPUT_MAX     (16u << 20)

struct chat_input {
    EditLine *edit;   /* owned */
    History *history; /* owned */
    struct buf line;
};

static char *chat_input_prompt(EditLine *edit) {
    static char text[] = "> ";
    (void)edit;
    return text;
}

/* Only there to end the read: the terminal's Ctrl-C is otherwise our end. */
static void chat_input_on_interrupt(int number) {
    (void)number;
}

enum status chat_input_new(struct chat_input **out) {
    struct chat_input *input = calloc(1, sizeof *input);
    if (!input)
        return STATUS_NOMEM;
    setlocale(LC_CTYPE, ""); /* letters of more than one byte are edited as one */
    buf_init(&input->line, 0);
    input->edit = el_init("tandem", stdin, stderr, stderr);
    input->history = history_init();
    if (!input->edit || !input->history) {
        chat_input_free(input);
        return STATUS_NOMEM;
    }
    HistEvent event;
    history(input->history, &event, H_SETSIZE, HISTORY_LINES);
    history(input->history, &event, H_SETUNIQUE, 1);
    el_set(input->edit, EL_PROMPT, chat_input_prompt);
    el_set(input->edit, EL_EDITOR, "emacs");
    el_set(input->edit, EL_SIGNAL, 0);
    el_set(input->edit, EL_HIST, history, input->history);
    el_source(input->edit, NULL); /* ~/.editrc */
    *out = input;
    return STATUS_OK;
}

void chat_input_free(struct chat_input *input) {
    if (!input)
        return;
    if (input->edit)
        el_end(input->edit);
    if (input->history)
        history_end(input->history);
    buf_fini(&input->line);
    free(input);
}

enum chat_turn chat_input_line(struct chat_input *input, const char **line) {
    struct sigaction interrupt = {.sa_handler = chat_input_on_interrupt},
                     before; /* without SA_RESTART */
    int n = 0;
    sigaction(SIGINT, &interrupt, &before);
    errno = 0;
    const char *typed = el_gets(input->edit, &n);
    bool interrupted = !typed && errno == EINTR;
    sigaction(SIGINT, &before, NULL);
    if (interrupted) {
        fputs("^C\n", stderr);
        el_reset(input->edit);
        return CHAT_NOTHING;
    }
    if (!typed || n <= 0) {
        fputc('\n', stderr); /* the shell's prompt gets a line of its own */
        return CHAT_END;
    }
    buf_clear(&input->line);
    buf_append(&input->line, typed, (size_t)n - (typed[n - 1] == '\n'));
    buf_append(&input->line, "", 1);
    if (buf_status(&input->line) != STATUS_OK)
        return CHAT_END;
    *line = input->line.data;
    HistEvent event;
    if ((*line)[0])
        history(input->history, &event, H_ENTER, *line);
    return CHAT_LINE;
}

enum status chat_input_all(struct buf *text, struct error *error) {
    char bytes[65536];
    ssize_t n;
    while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(error, STATUS_IO, "standard input: %s", strerror(errno));
        if (memchr(bytes, 0, (size_t)n))
            return error_set(error, STATUS_INVALID,
                             "standard input is not text: it contains NUL bytes");
        if (text->n + (size_t)n > INPUT_MAX)
            return error_set(error, STATUS_LIMIT, "standard input is longer than 16 MiB");
        buf_append(text, bytes, (size_t)n);
    }
    while (text->n > 0 && text->data[text->n - 1] == '\n')
        buf_truncate(text, text->n - 1);
    return buf_status(text);
}
