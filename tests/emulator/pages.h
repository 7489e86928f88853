/* tests/emulator/pages.h: the host's pages, of which the emulator's memory is made. */
#pragma once

#include <stdint.h>

#define PAGE 4096

/* So many bytes, and what is left of their last page. */
static inline uint64_t pages(uint64_t n_bytes) {
    return (n_bytes + PAGE - 1) / PAGE * PAGE;
}
