#include "router/api/tools_text.h"

#include <stdlib.h>

static int tools_text_by_bytes(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = memcmp(x->bytes, y->bytes, n);
    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

/* How many of the texts from `from` on have the same byte at `at`. */
static size_t tools_text_count_alike(const struct span *starts, size_t n, size_t from, size_t at) {
    size_t end = from + 1;
    while (end < n && starts[end].bytes[at] == starts[from].bytes[at])
        end++;
    return end - from;
}

/* A byte as literals and sets have it. */
static void tools_text_put_byte(char byte, struct buf *out) {
    if (byte >= 'a' && byte <= 'z')
        buf_putc(out, byte);
    else
        buf_printf(out, "\\x%02x", (unsigned char)byte);
}

/* The rule of what may follow the first `at` bytes, which all n texts share and none ends with; then those that it names. A text
 * that is whole with its next byte sorts before the longer ones that begin with it, and all of them are left out. */
static void tools_text_put_rule(const struct span *all, const struct span *starts, size_t n,
                                size_t at, struct buf *out) {
    buf_printf(out, "r%zu-%zu::=(", (size_t)(starts - all), at);
    for (size_t i = 0, n_alike; i < n; i += n_alike) {
        n_alike = tools_text_count_alike(starts, n, i, at);
        if (starts[i].n == at + 1)
            continue;
        buf_putc(out, '"');
        tools_text_put_byte(starts[i].bytes[at], out);
        buf_printf(out, "\"r%zu-%zu|", (size_t)(starts + i - all), at + 1);
    }
    buf_puts(out, "[^");
    for (size_t i = 0; i < n; i += tools_text_count_alike(starts, n, i, at))
        tools_text_put_byte(starts[i].bytes[at], out);
    buf_puts(out, "]any)?\n");
    for (size_t i = 0, n_alike; i < n; i += n_alike) {
        n_alike = tools_text_count_alike(starts, n, i, at);
        if (starts[i].n > at + 1)
            tools_text_put_rule(all, starts + i, n_alike, at + 1, out);
    }
}

void tools_text_other(struct span *starts, size_t n, struct buf *out) {
    qsort(starts, n, sizeof *starts, tools_text_by_bytes);
    buf_puts(out, "root::=r0-0\nany::=.*\n");
    tools_text_put_rule(starts, starts, n, 0, out);
}
