/* The reader of server-sent events: any bytes, cut in any pieces, give the same events, and no event has an
 * end of a line that the stream did not have. */
#include "tools/lib/sse_client.h"

#include "base/assert.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void on_event(void *user, const char *data, size_t n) {
    struct buf *seen = user;
    ASSERT(memchr(data, '\r', n) == NULL);
    buf_append(seen, data, n);
    buf_append(seen, "\r", 1);
}

static void read_in_pieces(const uint8_t *bytes, size_t n_bytes, size_t step, struct buf *seen) {
    struct sse_client sse;
    buf_init(seen, 0);
    sse_client_init(&sse, on_event, seen);
    for (size_t at = 0; at < n_bytes; at += step) {
        size_t n = n_bytes - at < step ? n_bytes - at : step;
        char *piece =
            malloc(n); /* of its own size: the sanitizer sees a look beyond it, or after it */
        if (!piece)
            abort();
        memcpy(piece, bytes + at, n);
        ASSERT(sse_client_feed(&sse, piece, n) == STATUS_OK || n_bytes > SSE_EVENT_MAX);
        free(piece);
    }
    sse_client_fini(&sse);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static const size_t steps[] = {1, 2, 3, 7, 64};
    struct buf whole, cut;
    read_in_pieces(bytes, n_bytes, n_bytes ? n_bytes : 1, &whole);
    ASSERT(whole.n <= n_bytes);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        read_in_pieces(bytes, n_bytes, steps[i], &cut);
        ASSERT(cut.n == whole.n && (cut.n == 0 || memcmp(cut.data, whole.data, cut.n) == 0));
        buf_fini(&cut);
    }
    buf_fini(&whole);
    return 0;
}
