/* base/http/http1_head.h: the head of a request, once all of it is there. For http1.c alone. */
#pragma once

#include "base/http/http1.h"

/* Sets status and reason; answers false, so that checks can `return http1_refuse(...)`. */
bool http1_refuse(struct http1 *http1, unsigned status, const char *reason);

/* Cuts http1->head (CRLF line ends checked, the last empty line included) into method, path, query
 * and fields, and finds the body's framing: `chunked` or `left`. False: refused. *preface: it is
 * the beginning of HTTP/2. */
bool http1_parse_head(struct http1 *http1, bool *preface);

/* Cuts "name: value" in place and checks both. `line` has n bytes without its end, and one byte of
 * room behind. False: refused. */
bool http1_parse_field(struct http1 *http1, char *line, size_t n, struct header *field);
