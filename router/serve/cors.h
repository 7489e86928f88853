/* router/serve/cors.h: what pages of other origins are told that they may send and read.
 *
 * Fetch standard, "CORS protocol": https://fetch.spec.whatwg.org/#http-cors-protocol. Pure. */
#pragma once

#define CORS_HEADERS_MAX 4096 /* bytes of the names that a page may send */

/* Writes the names that a preflight asks for (`asked`, the value of Access-Control-Request-Headers, or
 * NULL), as far as they are names of headers and together at most CORS_HEADERS_MAX bytes; where none is left, the ones that our
 * clients send. Answers `allowed`. */
const char *cors_headers(const char *asked, char allowed[CORS_HEADERS_MAX + 1]);
