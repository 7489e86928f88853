#include "tools/cli/up/screen.h"

#include "tools/cli/up/words.h"

#include "base/log/log.h"
#include "base/log/log_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* ECMA-48: up one line (CUU), to its begin, and all of it erased (EL). */
#define UP        "\x1b[1A"
#define TAKE_AWAY UP "\r\x1b[2K"

static char status[512]; /* the line below; "" */
static bool uses_words, tells_all;

bool screen_redraws(void) {
    static int known = -1;
    const char *term = getenv("TERM");
    if (known < 0)
        known = isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
    return known != 0;
}

size_t screen_width(void) {
    struct winsize size;
    bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : 80;
}

void screen_say(const char *format, ...) {
    char line[LOG_LINE_MAX + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (!status[0]) {
        log_words("%s", line);
        return;
    }
    log_words(TAKE_AWAY "%s", line);
    log_words("%s", status);
}

void screen_use_words(bool all) {
    uses_words = true;
    tells_all = all;
}

void screen_log(const char *who, const char *line) {
    char words[WORDS_LINE_MAX], clock[16];
    time_t now = time(NULL);
    struct tm local;
    if (!uses_words || !words_of(line, who, tells_all, words))
        screen_say("%s", line);
    else if (words[0] && localtime_r(&now, &local) &&
             strftime(clock, sizeof clock, "%H:%M:%S", &local) > 0)
        screen_say("%s %s", clock, words);
}

void screen_status(const char *text) {
    if (!screen_redraws() || strcmp(text, status) == 0)
        return;
    bool was_there = status[0] != 0;
    snprintf(status, sizeof status, "%s", text);
    if (status[0])
        log_words("%s%s", was_there ? TAKE_AWAY : "", status);
    else
        log_words(TAKE_AWAY UP); /* which ends with a newline, as all lines do */
}
