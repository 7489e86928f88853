/* proto/codec_head.h: the numbers before a message's body. Private to proto/.
 *
 * Little-endian: magic (2), PROTO_MAJOR (1), type (1), flags (2), the header's own length (2),
 * session (8), seq (8). */
#pragma once

#include <stdint.h>
#include <string.h>

#define HEAD_MAGIC    0x4454 /* "TD" */
#define HEAD_FLAG_RAW 1u     /* a raw frame follows */

static inline void head_put_u16(uint8_t *to, uint16_t value) {
    memcpy(to, &value, sizeof value);
}

static inline void head_put_u64(uint8_t *to, uint64_t value) {
    memcpy(to, &value, sizeof value);
}

static inline uint16_t head_get_u16(const uint8_t *from) {
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint64_t head_get_u64(const uint8_t *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}
