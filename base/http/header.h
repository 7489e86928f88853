/* base/http/header.h: one header field, on its way in or out. */
#pragma once

struct header {
    const char *name;  /* a token; compared without case */
    const char *value; /* without blanks around it; no control bytes */
};
