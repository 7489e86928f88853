/* base/span.h: bytes that belong to someone else. Not NUL-terminated, any content. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *bytes; /* borrowed (n) */
    size_t n;
};

#define SPAN(literal) ((struct span){literal, sizeof literal - 1})

static inline bool span_is(struct span span, const char *string) {
    size_t n = strlen(string);
    return span.n == n && (n == 0 || memcmp(span.bytes, string, n) == 0);
}

static inline struct span span_of(const char *string) {
    return (struct span){string, strlen(string)};
}

static inline bool span_begins(struct span span, const char *start) {
    size_t n = strlen(start);
    return span.n >= n && (n == 0 || memcmp(span.bytes, start, n) == 0);
}

static inline bool span_ends(struct span span, const char *end) {
    size_t n = strlen(end);
    return span.n >= n && (n == 0 || memcmp(span.bytes + span.n - n, end, n) == 0);
}

static inline bool span_equal(struct span a, struct span b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.bytes, b.bytes, a.n) == 0);
}

/* For printf's "%.*s": the length, cut so that a message stays one line. */
static inline int span_shown(struct span span) {
    return span.n > 96 ? 96 : (int)span.n;
}
