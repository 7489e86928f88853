/* Any bytes as a file of efficiencies: rows within their bounds, or an error that names a line. */
#include "worker/device/efficiencies.h"
#include "base/assert.h"
#include "base/buf.h"

#include <stdint.h>
#include <stdlib.h>

#define ROWS 4

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    struct efficiencies rows[ROWS], again[ROWS];
    struct error error = {0};
    struct buf text;
    size_t n = 0, n_again = 0;
    if (efficiencies_read((const char *)bytes, n_bytes, rows, ROWS, &n, &error) != STATUS_OK) {
        ASSERT(error.text[0]);
        return 0;
    }
    ASSERT(n > 0 && n <= ROWS);
    buf_init(&text, 0);
    for (size_t i = 0; i < n; i++)
        efficiencies_write(&rows[i], &text);
    ASSERT(efficiencies_read(text.data, text.n, again, ROWS, &n_again, &error) == STATUS_OK);
    ASSERT(n_again == n);
    buf_fini(&text);
    return 0;
}
