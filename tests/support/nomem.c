#include "tests/support/nomem.h"

#include <stddef.h>

static uint64_t countdown;
static bool struck;
static int64_t n_live;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
void __real_free(void *memory);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n);
void __wrap_free(void *memory);

void nomem_fail(uint64_t n) {
    countdown = n;
    struck = false;
}

bool nomem_struck(void) {
    return struck;
}

int64_t nomem_live(void) {
    return n_live;
}

static bool fails(void) {
    if (countdown == 0 || --countdown > 0)
        return false;
    struck = true;
    return true;
}

static void *count(void *memory) {
    n_live += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t n) {
    return fails() ? NULL : count(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : count(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t n) {
    if (fails())
        return NULL;
    void *memory = __real_realloc(old, n);
    n_live += !old && memory;
    return memory;
}

void __wrap_free(void *memory) {
    n_live -= memory != NULL;
    __real_free(memory);
}
