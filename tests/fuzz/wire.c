/* What comes off the wire: two frames, cut from one input. Its first four bytes say how long the
 * raw frame at its end is. What decodes must encode again, and then mean the same. */
#include "base/assert.h"
#include "proto/codec.h"
#include "tests/support/message_random.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct codec codec;
    static struct codec other;
    uint32_t n_raw;
    if (!codec.in.chunk)
        ASSERT(codec_init(&codec) == STATUS_OK && codec_init(&other) == STATUS_OK);
    if (size < sizeof n_raw)
        return 0;
    memcpy(&n_raw, data, sizeof n_raw);
    data += sizeof n_raw;
    size -= sizeof n_raw;
    if (n_raw > size)
        return 0;
    struct frames frames = {.head = data,
                            .n_head = size - n_raw,
                            .raw = n_raw > 0 ? data + (size - n_raw) : NULL,
                            .n_raw = n_raw};
    struct message message;
    struct message again;
    struct error error = {0};
    if (codec_decode(&codec, &frames, &message, &error) != STATUS_OK) {
        ASSERT(error.text[0] != '\0');
        return 0;
    }
    ASSERT(codec_encode(&codec, &message, &frames) == STATUS_OK);
    ASSERT(codec_decode(&other, &frames, &again, &error) == STATUS_OK);
    ASSERT(message_equal(&message, &again));
    return 0;
}
