#include "tools/cli/top/top_terminal.h"

#ifdef TANDEM_CURSES

#include <curses.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#define CONTROL_L 0x0c

static SCREEN *terminal; /* NULL: not open */
static attr_t styles[TOP_HEAD + 1];

static void top_set_styles(bool has_color) {
    static const short colors[] = {
        [TOP_GOOD] = COLOR_GREEN, [TOP_WARN] = COLOR_YELLOW, [TOP_BAD] = COLOR_RED};
    styles[TOP_BOLD] = A_BOLD;
    styles[TOP_DIM] = A_DIM;
    styles[TOP_WARN] = A_BOLD;
    styles[TOP_BAD] = A_BOLD | A_UNDERLINE;
    styles[TOP_HEAD] = A_REVERSE;
    if (!has_color || !has_colors() || start_color() != OK || use_default_colors() != OK)
        return;
    for (int i = TOP_GOOD; i <= TOP_BAD; i++)
        if (init_pair((short)i, colors[i], -1) == OK)
            styles[i] = (attr_t)COLOR_PAIR(i) | (i == TOP_BAD ? A_BOLD : A_NORMAL);
}

bool top_terminal_open(bool has_color) {
    int found = 0;
    if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
        return false; /* newterm() would say no more, and lose memory */
    del_curterm(cur_term);
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return false;
    set_term(terminal);
    cbreak();
    noecho();
    nonl();
    intrflush(stdscr, FALSE);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    top_set_styles(has_color);
    return true;
}

void top_terminal_close(void) {
    if (!terminal)
        return;
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

bool top_terminal_is_gone(void) {
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&keys, 1, 0) == 1 && (keys.revents & (POLLHUP | POLLERR | POLLNVAL));
}

void top_terminal_resized(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
}

void top_terminal_size(unsigned *width, unsigned *height) {
    *width = COLS > 0 ? (unsigned)COLS : 0;
    *height = LINES > 0 ? (unsigned)LINES : 0;
}

void top_terminal_redraw(void) {
    clearok(curscr, TRUE);
}

void top_terminal_draw(const struct top_screen *screen) {
    erase();
    for (unsigned y = 0; y < screen->height; y++)
        for (unsigned x = 0; x < screen->width; x++) {
            const struct top_cell *cell = &screen->cells[y * screen->width + x];
            if (cell->text[0] == '\0')
                continue; /* the second half of a wide character */
            attrset(styles[cell->style]);
            mvaddstr((int)y, (int)x, cell->text);
        }
    attrset(A_NORMAL);
    refresh();
}

enum top_key top_terminal_key(void) {
    static const struct {
        int code;
        enum top_key key;
    } keys[] = {
        {'q', TOP_KEY_QUIT},
        {'Q', TOP_KEY_QUIT},
        {'?', TOP_KEY_HELP},
        {'h', TOP_KEY_HELP},
        {'s', TOP_KEY_SORT},
        {'S', TOP_KEY_SORT_BACK},
        {'r', TOP_KEY_REVERSE},
        {'p', TOP_KEY_PAUSE},
        {' ', TOP_KEY_PAUSE},
        {KEY_UP, TOP_KEY_UP},
        {'k', TOP_KEY_UP},
        {KEY_DOWN, TOP_KEY_DOWN},
        {'j', TOP_KEY_DOWN},
        {KEY_PPAGE, TOP_KEY_PAGE_UP},
        {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
        {KEY_HOME, TOP_KEY_FIRST},
        {KEY_END, TOP_KEY_LAST},
        {'+', TOP_KEY_FASTER},
        {'-', TOP_KEY_SLOWER},
        {CONTROL_L, TOP_KEY_REDRAW},
    };
    int code = getch();
    if (code == ERR)
        return TOP_KEY_NONE;
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].code == code)
            return keys[i].key;
    return TOP_KEY_OTHER;
}

#else /* without libncurses-dev: `tandem top` prints lines */

bool top_terminal_open(bool has_color) {
    (void)has_color;
    return false;
}

void top_terminal_close(void) {
}

bool top_terminal_is_gone(void) {
    return false;
}

void top_terminal_resized(void) {
}

void top_terminal_size(unsigned *width, unsigned *height) {
    *width = *height = 0;
}

void top_terminal_draw(const struct top_screen *screen) {
    (void)screen;
}

void top_terminal_redraw(void) {
}

enum top_key top_terminal_key(void) {
    return TOP_KEY_NONE;
}

#endif
