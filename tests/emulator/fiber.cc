#include "tests/emulator/fiber.h"

#include "tests/emulator/pages.h"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the emulator switches stacks on x86-64 only"
#endif
/* Saves the callee's registers on this stack and takes those on the other. */
extern "C" void emu_switch(void **save, void *load);
asm(".text\n.globl emu_switch\n.hidden emu_switch\n.type emu_switch, @function\nemu_switch:\n"
    "endbr64\npush %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size emu_switch, .-emu_switch\n");

unsigned char *fiber_stacks_new(uint32_t n) {
    unsigned char *stacks =
        (unsigned char *)mmap(nullptr, n * FIBER_STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return nullptr;
    for (uint32_t i = 0; i < n; i++) /* who runs over meets this page */
        if (mprotect(stacks + i * FIBER_STACK, PAGE, PROT_NONE) != 0) {
            munmap(stacks, n * FIBER_STACK);
            return nullptr;
        }
    return stacks;
}

void fiber_stacks_free(unsigned char *stacks, uint32_t n) {
    if (!stacks)
        return;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stacks, n * FIBER_STACK);
#endif
    munmap(stacks, n * FIBER_STACK);
}

void fiber_prepare(struct fiber *fiber, void (*entry)(void), bool left) {
#if defined(__SANITIZE_ADDRESS__)
    /* A fiber ends inside its calls; what these had marked is marked still. */
    size_t marked = left ? FIBER_STACK - PAGE : PAGE;
    __asan_unpoison_memory_region(fiber->stack + FIBER_STACK - marked, marked);
#else
    (void)left;
#endif
    void **sp = (void **)(fiber->stack + FIBER_STACK - 64);
    *--sp = nullptr; /* entry()'s frame is aligned as after a call */
    *--sp = (void *)entry;
    for (int r = 0; r < 6; r++)
        *--sp = nullptr;
    fiber->sp = sp;
    fiber->bottom = fiber->stack;
    fiber->n_bytes = FIBER_STACK;
}

void fiber_begin(struct fiber *from) {
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom;
    size_t n_bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &n_bytes);
    if (from) {
        from->bottom = bottom;
        from->n_bytes = n_bytes;
    }
#else
    (void)from;
#endif
}

void fiber_go(struct fiber *from, const struct fiber *to, bool ends) {
#if defined(__SANITIZE_ADDRESS__)
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake, to->bottom, to->n_bytes);
    emu_switch(&from->sp, to->sp);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    (void)ends;
    emu_switch(&from->sp, to->sp);
#endif
}
