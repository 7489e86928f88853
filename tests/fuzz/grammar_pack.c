/* Any bytes as a packed grammar: what is unpacked packs to the same bytes, and compiles or says why
 * not, within small bounds. */
#include "base/arena.h"
#include "base/assert.h"
#include "base/buf.h"
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena;
    struct buf again;
    struct error error = {0};
    const struct grammar_part *part;
    arena_init(&arena, (size_t)1 << 20);
    buf_init(&again, 0);
    if (grammar_unpack((struct span){(const char *)data, size}, &arena, &part, &error) ==
        STATUS_OK) {
        ASSERT(grammar_pack(part, &again) == STATUS_OK);
        ASSERT(again.n == size && memcmp(again.data, data, size) == 0);
        struct grammar_limits limits = grammar_limits;
        limits.n_nodes = 4000;
        limits.n_steps = 200000;
        struct grammar *grammar;
        if (grammar_compile(part, NULL, &limits, &grammar, &error) == STATUS_OK)
            grammar_unref(grammar);
        else
            ASSERT(error.text[0] != '\0');
    } else
        ASSERT(error.text[0] != '\0');
    buf_fini(&again);
    arena_fini(&arena);
    return 0;
}
