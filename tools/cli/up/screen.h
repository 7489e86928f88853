/* tools/cli/up/screen.h: lines for people on standard error, and below them one that is redrawn.
 *
 * Where standard error is a terminal, the line of screen_status() is taken away before each other
 * line and put below it again; elsewhere there is none. All of it goes through log_writer.h: nobody
 * waits for a terminal. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does standard error redraw? Looked at once: a terminal, and not a dumb one ($TERM). */
bool screen_redraws(void);

/* The terminal's width in columns; 80 where it does not say. */
size_t screen_width(void);

/* One line that stays. */
void screen_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Log lines of children are said in words from here on (words.h), with the time of day before them; `all`: even what is of no
 * interest beyond the log. */
void screen_use_words(bool all);

/* A line that the child `who` (or NULL) has logged. */
void screen_log(const char *who, const char *line);

/* The line below all others, of at most the terminal's width; "": none. Nothing where
 * screen_redraws() is false. */
void screen_status(const char *text);
