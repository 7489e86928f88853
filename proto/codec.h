/* proto/codec.h: messages (proto/message.h) to frames and back.
 *
 * A message is one frame, or two. The first is a header of 24 bytes, little-endian, and the
 * protobuf body of proto/tandem.proto behind it:
 *
 *   offset 0 magic u16, 2 version u8, 3 type u8, 4 flags u16, 6 header length u16,
 *          8 session u64, 16 seq u64
 *
 * A longer header length is skipped, so that later minor versions may add to it. Flag bit 0 says
 * that a raw frame follows: token ids of a SUBMIT (u32 each), prefix keys of a RESERVE (hi u64, lo
 * u64), bytes of a CHUNK.
 *
 * Everything that comes in is hostile until it passed codec_decode(): sizes are capped before
 * unpacking, unpacking runs in an arena of 8 bytes per byte of frame and 1 MiB, counts agree with
 * frame sizes and with the bounds of message.h, enums are in range, floats finite, text is UTF-8
 * without NUL. One owner thread per codec. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/status.h"
#include "proto/message.h"

#include <stddef.h>
#include <stdint.h>

#define CODEC_HEADER_BYTES 24

struct frames {
    const void *head; /* borrowed: header and body */
    size_t n_head;
    const void *raw; /* borrowed; NULL: no raw frame */
    size_t n_raw;
};

struct codec {
    struct arena in;  /* what the last decoded message borrows */
    struct arena out; /* pieces of the message being encoded */
    uint8_t *buffer;  /* owned: the last encoded head */
    size_t buffer_size;
};

NODISCARD enum status codec_init(struct codec *codec);
void codec_fini(struct codec *codec); /* fine on a zeroed codec */

/* The frames borrow from the codec (head) and from the message (raw) until the next call.
 * STATUS_LIMIT: beyond a bound of message.h. STATUS_INVALID: no such type, a float that is
 * not finite. Logprobs that are not finite are sent as -9999. */
NODISCARD enum status codec_encode(struct codec *codec, const struct message *message,
                                   struct frames *frames);

/* The seq of frames that codec_encode() made, written late: when they really leave. */
void codec_stamp(void *head, uint64_t seq);

/* The message borrows from the codec and the frames until the next call. STATUS_CORRUPT: not our
 * frames, or they contradict themselves; STATUS_LIMIT: over a bound; STATUS_INVALID: a field out of
 * range; STATUS_UNSUPPORTED: another version, or an unknown type. */
NODISCARD enum status codec_decode(struct codec *codec, const struct frames *frames,
                                   struct message *message, struct error *error);
