/* model/text/template/jinja/jinja.h: chat templates in Jinja, rendered in a closed interpreter.
 *
 * The language is the part of Jinja (palletsprojects.com, 3.1) that chat templates use, with the
 * settings of transformers: trim_blocks, lstrip_blocks, loop controls, `generation`, tojson without
 * HTML escapes, values that a template cannot change. What differs on purpose: there are no
 * imports, no recursive loops and no way out to anything but the values given.
 *
 * Every byte of the text knows whether the template wrote it or the request did, through every
 * operation (concatenation, slices, split, replace, format, tojson, ...): jinja_mark.
 *
 * A program is read-only after jinja_parse(): any thread may render it, many at a time. A render
 * has one arena of its own, dropped at its end. Nothing recurses deeper than JINJA_NESTING_MAX
 * (parsing) or JINJA_DEPTH_MAX (rendering), for any source. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JINJA_SOURCE_MAX      ((size_t)256 << 10) /* bytes of a template */
#define JINJA_NODES_MAX       65536u              /* of its syntax tree */
#define JINJA_NESTING_MAX     200u   /* statements, brackets, postfixes in each other */
#define JINJA_DEPTH_MAX       512u   /* evaluations inside each other, macros' bodies included */
#define JINJA_VALUE_DEPTH_MAX 128u   /* lists and objects inside each other */
#define JINJA_RANGE_MAX       100000 /* items of one range(), as in Jinja's sandbox */

/* One render's budgets; each grows with the request, so that a long conversation is not refused. */
#define JINJA_STEPS_MAX         1000000u /* nodes evaluated; long strings cost more than one */
#define JINJA_STEPS_PER_MESSAGE 2000u
#define JINJA_OUTPUT_MAX        ((size_t)4 << 20)  /* bytes written beyond twice the request's */
#define JINJA_MEMORY_MAX        ((size_t)64 << 20) /* of values, beyond 16 times the request's */

struct jinja_program;

/* Reads a template. On success the caller ends *program with jinja_free(). STATUS_INVALID for bad
 * UTF-8 or syntax, STATUS_UNSUPPORTED for a statement, filter or test that does not exist here,
 * STATUS_LIMIT past a bound above; the error says "line N: ...". STATUS_NOMEM. */
NODISCARD enum status jinja_parse(struct span source, struct jinja_program **program,
                                  struct error *error);
void jinja_free(struct jinja_program *program);

/* Runs of bytes that are all the request's or all the template's. */
struct jinja_mark {
    size_t end;    /* offset behind the run; the next one begins there */
    bool is_plain; /* the request's: special tokens in it are only text */
};

struct jinja_input {
    const json_t *variables;  /* borrowed: an object; its texts are the request's, but for a
                                message's role that is one of `roles` */
    const json_t *constants;  /* borrowed, may be NULL: an object whose texts are the template's:
                                bos_token, eos_token. Wins over variables */
    const char *const *roles; /* borrowed, NULL behind the last; may be NULL */
    int64_t now_s;            /* seconds since 1970, for strftime_now(), in local time */
};

struct jinja_output {
    char *bytes; /* owned (n), NUL-terminated */
    size_t n;
    struct jinja_mark *marks; /* owned (n_marks): neighbours differ; the last one ends at n */
    size_t n_marks;
};

/* On success the caller ends *output with jinja_output_fini(). STATUS_INVALID when the template
 * refuses the request (raise_exception) or does what Python would not (attribute of an undefined
 * value, a number plus a string); STATUS_LIMIT past a budget; the error says "line N: ...".
 * STATUS_NOMEM. */
NODISCARD enum status jinja_render(const struct jinja_program *program,
                                   const struct jinja_input *input, struct jinja_output *output,
                                   struct error *error);
void jinja_output_fini(struct jinja_output *output);
