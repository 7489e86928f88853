/* Ranges are written under a lock and read without one by the handler, which may interrupt the writer: a
 * range counts once its size is there. */
#include "tests/emulator/fault.h"

#include <atomic>
#include <mutex>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANGES_MAX 64
#define STACK      ((size_t)64 * 1024)

namespace {

struct range {
    std::atomic<const unsigned char *> from;
    std::atomic<size_t> n_bytes;
};
range ranges[RANGES_MAX];
std::mutex lock;
struct sigaction before;
__thread void (*where_of_thread)(const void *p, char *line, size_t n);

struct stack_owner {
    void *own = nullptr;
    ~stack_owner() {
        if (!own)
            return;
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
        free(own);
    }
};

void print(const char *line) {
    size_t n = strlen(line);
    if (write(STDERR_FILENO, line, n) != (ssize_t)n)
        return; /* nobody reads it */
}

void handle(int, siginfo_t *info, void *) {
    const unsigned char *p = (const unsigned char *)info->si_addr;
    char line[256] = "";
    for (range &r : ranges) {
        const unsigned char *from = r.from;
        size_t n = r.n_bytes;
        if (from && p >= from && p < from + n && line[0] == '\0')
            snprintf(
                line, sizeof line,
                "emu: the host touched memory of the device at offset %zu, outside of launches "
                "and copies\n",
                (size_t)(p - from));
    }
    if (where_of_thread) {
        char other[256] = "";
        where_of_thread(p, other, sizeof other);
        if (other[0] != '\0')
            memcpy(line, other, sizeof line);
    }
    if (line[0] != '\0')
        print(line);
    sigaction(SIGSEGV, &before, nullptr); /* and the access is tried again */
}

void install() {
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
}

} // namespace

void fault_watch(const void *from, size_t n_bytes) {
    std::lock_guard<std::mutex> held(lock);
    static bool installed;
    if (!installed)
        install();
    installed = true;
    for (range &r : ranges)
        if (!r.from) {
            r.from = (const unsigned char *)from;
            r.n_bytes = n_bytes;
            return;
        }
}

void fault_forget(const void *from) {
    std::lock_guard<std::mutex> held(lock);
    for (range &r : ranges)
        if (r.from == from) {
            r.n_bytes = 0;
            r.from = nullptr;
        }
}

void fault_thread(void (*where)(const void *p, char *line, size_t n)) {
    static thread_local stack_owner stack;
    where_of_thread = where;
    stack_t there = {};
    if (stack.own || (sigaltstack(nullptr, &there) == 0 && !(there.ss_flags & SS_DISABLE)))
        return; /* a sanitizer has made one */
    stack.own = malloc(STACK);
    if (!stack.own)
        return;
    stack_t made = {};
    made.ss_sp = stack.own;
    made.ss_size = STACK;
    sigaltstack(&made, nullptr);
}
