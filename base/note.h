/* base/note.h: what a pure core has to say for the log: a constant message with named values.
 *
 * The cores of router and worker read no clock and write nothing; they hand notes to their shell,
 * which logs them with note_log(). Each core has a table of its kinds, one row for each. */
#pragma once

#include "base/log.h"

#include <stddef.h>
#include <stdint.h>

#define NOTE_VALUES     2
#define NOTE_NO_REQUEST UINT64_MAX

struct note_kind {
    const char *message; /* searchable, and the same for all notes of the kind */
    enum log_level level;
    const char *who;                 /* the key of a note's `name` */
    const char *values[NOTE_VALUES]; /* the keys of its values; NULL: there is none */
};

struct note {
    const struct note_kind *kind;
    const char *name;   /* of a worker or router, from outside; NULL: left out */
    const char *reason; /* a constant; NULL: left out */
    uint64_t request;   /* the shell's number for what it concerns, or NOTE_NO_REQUEST */
    uint64_t values[NOTE_VALUES];
};

/* Writes the note's data as logfmt into `out` (of `size` bytes), cut where that is too small, and
 * returns out: `name=w0 request=ID reason=hung after_ms=1034`. `request` is the id that clients and
 * the log know, or NULL. */
const char *note_text(char *out, size_t size, const struct note *note, const char *request);

/* One line at the kind's level. Any thread. */
void note_log(const struct note *note, const char *request);
