#include "model/text/template/jinja/value/jinja_run.h"

#include "base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status(jinja_fail)(struct jinja_run *run, enum status status, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(run->error, status, "line %u: %s", run->line, text);
}

enum status jinja_charge(struct jinja_run *run, size_t n_steps) {
    if (n_steps > run->steps_max - run->n_steps)
        return jinja_fail(run, STATUS_LIMIT, "the template takes more than %zu steps",
                          run->steps_max);
    run->n_steps += n_steps;
    return STATUS_OK;
}

enum status jinja_enter(struct jinja_run *run) {
    if (run->depth == JINJA_DEPTH_MAX)
        return jinja_fail(run, STATUS_LIMIT, "more than %u evaluations inside each other",
                          JINJA_DEPTH_MAX);
    run->depth++;
    return STATUS_OK;
}

enum status jinja_alloc(struct jinja_run *run, size_t n, size_t size, void *memory) {
    uint64_t bytes;
    void *made = checked_mul(n, size, &bytes) ? arena_alloc(&run->arena, bytes) : NULL;
    if (!made)
        return jinja_fail(run, STATUS_LIMIT, "the template needs more than %zu bytes of memory",
                          run->arena.limit);
    memcpy(memory, &made, sizeof made);
    return STATUS_OK;
}

enum status jinja_grow(struct jinja_run *run, void *items, size_t n, size_t *size,
                       size_t item_size) {
    size_t wanted = *size ? 2 * *size : 8;
    void *old;
    char *grown;
    if (n < *size)
        return STATUS_OK;
    TRY(jinja_alloc(run, wanted, item_size, &grown));
    memcpy(&old, items, sizeof old);
    if (n > 0)
        memcpy(grown, old, n * item_size);
    memcpy(items, &grown, sizeof grown);
    *size = wanted;
    return STATUS_OK;
}
