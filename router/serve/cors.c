#include "router/serve/cors.h"

#include "base/http/target.h"
#include "base/span.h"

#include <string.h>

static struct span cors_trimmed(const char *text, size_t n) {
    while (n > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        n--;
    }
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    return (struct span){text, n};
}

const char *cors_headers(const char *asked, char allowed[CORS_HEADERS_MAX + 1]) {
    static const char usual[] =
        "authorization, content-type, x-api-key, x-request-id, x-request-timeout, traceparent";
    _Static_assert(sizeof usual <= CORS_HEADERS_MAX, "they fit");
    size_t n = 0;
    const char *next = NULL;
    for (const char *at = asked; at; at = next) {
        size_t n_part = strcspn(at, ",");
        struct span name = cors_trimmed(at, n_part);
        size_t n_more = name.n + (n > 0 ? 2 : 0);
        next = at[n_part] ? at + n_part + 1 : NULL;
        if (!target_is_token(name.bytes, name.n) || n_more > CORS_HEADERS_MAX - n)
            continue;
        if (n > 0)
            memcpy(allowed + n, ", ", 2);
        memcpy(allowed + n + n_more - name.n, name.bytes, name.n);
        n += n_more;
    }
    allowed[n] = 0;
    return n > 0 ? allowed : memcpy(allowed, usual, sizeof usual);
}
