/* tests/emulator/figures.h: what the launches of the calling thread met so far, for reports and gates. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emu_figures {
    uint64_t n_launches;
    uint64_t n_blocks;
    uint64_t n_threads;
    uint64_t n_switches;       /* from one thread to another */
    uint64_t n_ldmatrix;       /* matrices of 8 rows */
    uint64_t n_bank_conflicts; /* passes of ldmatrix beyond those it must take */
};
void emu_figures_now(struct emu_figures *figures);

/* A launch, as a GPU would be told of it. */
struct emu_seen {
    void (*kernel)(void); /* the address of its function */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
};
/* From now on launches are shown in their order, where the stream comes to them, and none is run; NULL: they run
 * again. *watch stays until then. For one thread with one device: copies still are done. */
struct emu_watch {
    void (*seen)(void *context, const struct emu_seen *launch);
    void *context;
};
void emu_watch_launches(const struct emu_watch *watch);

#ifdef __cplusplus
}
#endif
