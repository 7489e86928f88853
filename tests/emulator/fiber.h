/* tests/emulator/fiber.h: stacks, and going from one to another within a thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FIBER_STACK ((size_t)128 * 1024)

struct fiber {
    void *sp; /* of a fiber that does not run */
    unsigned char
        *stack; /* (FIBER_STACK); the lowest page may not be touched. NULL: the thread's own */
    const void *bottom; /* of `stack`, or of the thread's own once fiber_begin() saw it */
    size_t n_bytes;
};

/* Stacks for n fibers, or NULL. */
unsigned char *fiber_stacks_new(uint32_t n);
void fiber_stacks_free(unsigned char *stacks, uint32_t n);

/* The fiber will begin with entry() when somebody goes to it; entry() calls fiber_begin() first and
 * never returns. `left`: it may have been left in the middle of a call. */
void fiber_prepare(struct fiber *fiber, void (*entry)(void), bool left);
/* from: who went here, or NULL if that is known. */
void fiber_begin(struct fiber *from);

/* Returns when somebody goes back to `from`; never when it `ends`. */
void fiber_go(struct fiber *from, const struct fiber *to, bool ends);
