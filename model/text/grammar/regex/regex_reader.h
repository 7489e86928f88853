/* model/text/grammar/regex/regex_reader.h: where a regular expression is being read. Of its two parsers
 * alone: characters and sets (regex_set.c), what is made of them (regex_parse.c). */
#pragma once

#include "model/text/grammar/regex/regex.h"

#include <string.h>

struct reader {
    struct span source;
    size_t at;
    unsigned flags; /* enum regex_flags */
    uint32_t depth_max;
    struct regex *regex; /* borrowed */
    struct error *error;
};

/* Fails with the column. */
enum status reader_fail(struct reader *reader, enum status status, const char *what);

NODISCARD enum status reader_add(struct reader *reader, struct regex_node node, uint32_t *made);

static inline bool reader_at_end(const struct reader *reader) {
    return reader->at >= reader->source.n;
}

/* 0 at the end, and for a byte 0: ask reader_at_end(). */
static inline char reader_peek(const struct reader *reader) {
    return reader_at_end(reader) ? 0 : reader->source.bytes[reader->at];
}

/* Whether a byte is one of a text's; a byte 0 is none. */
static inline bool reader_is(char c, const char *of) {
    return c != 0 && strchr(of, c) != NULL;
}

static inline bool reader_take(struct reader *reader, const char *text) {
    struct span rest = {reader->source.bytes + reader->at, reader->source.n - reader->at};
    if (!span_begins(rest, text))
        return false;
    reader->at += strlen(text);
    return true;
}

/* --- regex_set.c: each reads one atom into a node. Errors of regex_parse(). */

/* Behind "[". */
NODISCARD enum status reader_set(struct reader *reader, uint32_t *made);
/* Behind ".". */
NODISCARD enum status reader_dot(struct reader *reader, uint32_t *made);
/* Behind a backslash. */
NODISCARD enum status reader_escape(struct reader *reader, uint32_t *made);
/* A character that stands for itself. */
NODISCARD enum status reader_plain(struct reader *reader, uint32_t *made);
