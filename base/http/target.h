/* base/http/target.h: what a request is for: its target and its host, read once and alike in every
 * protocol. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct target {
    const char *path;  /* percent-decoded once: begins with '/', valid UTF-8, no control bytes, no
                        * "." or ".." segment; or "*" */
    const char *query; /* behind the '?', as sent; "" when there is none */
    bool as_sent;      /* the path is the target's first part, and no byte of it was encoded */
};

/* Cuts `text` in place; *target points into it. `options`: "*" is a target, too. NULL: read; else
 * the reason for a 400, a constant sentence. */
const char *target_read(char *text, bool options, struct target *target);

/* Why CONNECT is a 501. */
extern const char *const target_no_proxy;

/* The bytes of a method or of a field's name (RFC 9110, 5.6.2); not empty. */
bool target_is_token(const char *text, size_t n);

/* Can `host` be the value of a Host field? An empty one can. */
bool target_is_host(const char *host);
