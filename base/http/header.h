/* base/http/header.h: one header field, on its way in or out. */
#pragma once

#include <stddef.h>
#include <strings.h>

struct header {
    const char *name;  /* a token; compared without case */
    const char *value; /* without blanks around it; no control bytes */
};

/* The value of the first of headers (n) of that name, or NULL. */
static inline const char *header_find(const struct header *headers, unsigned n, const char *name) {
    for (unsigned i = 0; i < n; i++)
        if (strcasecmp(headers[i].name, name) == 0)
            return headers[i].value;
    return NULL;
}
