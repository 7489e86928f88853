/* tests/unit/model/text/template/jinja/jinja_check.h: small templates rendered, for the tests of
 * the language. */
#pragma once

#include "tests/support/suite.h"

#include "model/text/template/jinja/jinja.h"

/* The variables that the templates see, as JSON. */
extern const char *jinja_check_variables;

/* What parsing or rendering answers; the output is filled on STATUS_OK. */
enum status jinja_check_run(const char *source, struct jinja_output *output, struct error *error);

void jinja_check_text(const char *source, const char *wanted);

/* Refused with this status and a line that holds `words`. */
void jinja_check_refused(const char *source, enum status status, const char *words);
