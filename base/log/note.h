/* base/log/note.h: what a pure core has to say for the log: a constant message with named values.
 *
 * The cores of router and worker read no clock and write nothing; they hand notes to their shell,
 * which logs them with note_log(). Each core has a table of its kinds, one row for each. */
#pragma once

#include "base/log/log.h"

#include <stddef.h>
#include <stdint.h>

#define NOTE_VALUES     2
#define NOTE_NO_REQUEST UINT64_MAX
#define NOTE_ID_MAX     48 /* bytes of an id's text with NUL */
#define NOTE_TRACE_MAX  33 /* the same of a trace's */

/* An attempt at a request, by the numbers that the protocol has for it. All zero: none. */
struct note_id {
    uint64_t hi;
    uint64_t lo;
    uint32_t attempt;
};

struct note_kind {
    const char *message; /* searchable, and the same for all notes of the kind */
    enum log_level level;
    const char *who;                 /* the key of a note's `name` */
    const char *values[NOTE_VALUES]; /* the keys of its values; NULL: there is none */
};

struct note {
    const struct note_kind *kind;
    unsigned event;         /* the kind's number in its core's table: for tests and simulators */
    const char *name;       /* of a worker or router, from outside; NULL: left out */
    const char *reason;     /* a constant; NULL: left out */
    const char *key;        /* of `word`: a constant */
    const char *word;       /* any text; NULL: left out */
    uint64_t request;       /* the shell's number for what it concerns, or NOTE_NO_REQUEST */
    struct note_id attempt; /* the attempt that it concerns */
    const uint8_t *trace;   /* (16) the id of the trace that it belongs to; NULL: none */
    struct note_id other;   /* the one for whose sake it happened */
    uint64_t values[NOTE_VALUES];
};

/* Writes "HI.LO.ATTEMPT", hexadecimal without leading zeros, and returns out: every log of router
 * and worker names an attempt so. An id that is none is written as "". */
const char *note_id_text(char out[NOTE_ID_MAX], struct note_id id);

/* Writes the id of a trace (16 bytes) as W3C Trace Context has it, 32 digits, and returns out. */
const char *note_trace_text(char out[NOTE_TRACE_MAX], const uint8_t *trace);

/* Writes the note's data as logfmt into `out` (of `size` bytes), cut where that is too small, and
 * returns out: `name=w0 id=ID request=5.1.1 reason=hung after_ms=1034`. `id` is the id that the
 * client knows, or NULL. */
const char *note_text(char *out, size_t size, const struct note *note, const char *id);

/* One line at the kind's level; formats nothing when that level is not written. Any thread. */
void note_log(const struct note *note, const char *id);
