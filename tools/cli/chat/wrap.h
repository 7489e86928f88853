/* tools/cli/chat/wrap.h: a stream of text on a terminal, with whole words on its lines. Pure: what is to be printed goes into a
 * buffer. One thread. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define WRAP_WORD_MAX 512 /* bytes of a word that are held */

/* Zeroed but for `width`: at the begin of a line. */
struct wrap {
    unsigned width;  /* columns of the terminal; 0: nothing is wrapped */
    unsigned column; /* where the next character goes */
    unsigned blanks; /* after the last word, not printed yet */
    char word[WRAP_WORD_MAX];
    size_t n_word;
    bool is_begun; /* the present word is printed as it comes */
};

/* Takes text in pieces as they come, cut anywhere. A word is appended to `out` once it is known on which line it
 * begins. Blanks at the end of a line
 * that is broken here go; those at the begin of a line of the text stay. */
void wrap_feed(struct wrap *wrap, const char *text, size_t n, struct buf *out);

/* The text ends: the last word is appended, and all is as at the begin. */
void wrap_end(struct wrap *wrap, struct buf *out);
