#include "proto/codec.h"

#include "base/assert.h"
#include "proto/codec_body.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_MAGIC        0x4454 /* "TD" */
#define HEAD_FLAG_RAW     1u     /* a raw frame follows */
#define ARENA_FIRST_BYTES 65536
#define ARENA_PER_BYTE    8
#define ARENA_EXTRA_BYTES (1u << 20)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "raw frames are borrowed as arrays: big-endian hosts need a copy that swaps");
_Static_assert(sizeof(struct map_key) == 16, "prefix keys lie in the raw frame as they are");

/* What stands before the body (codec.h). */
struct codec_header {
    uint16_t magic;
    uint8_t version, type;
    uint16_t flags, n_bytes;
    uint64_t session, seq;
};
_Static_assert(sizeof(struct codec_header) == CODEC_HEADER_BYTES, "it lies in the frame as it is");

enum status codec_init(struct codec *codec) {
    *codec = (struct codec){0};
    arena_init(&codec->in, ARENA_EXTRA_BYTES);
    arena_init(&codec->out, ARENA_PER_BYTE * (size_t)MESSAGE_CONTROL_MAX);
    /* An arena keeps its first chunk: taken large, it serves ordinary messages without malloc. */
    if (!arena_alloc(&codec->in, ARENA_FIRST_BYTES) ||
        !arena_alloc(&codec->out, ARENA_FIRST_BYTES)) {
        codec_fini(codec);
        return STATUS_NOMEM;
    }
    arena_reset(&codec->in);
    arena_reset(&codec->out);
    return STATUS_OK;
}

void codec_fini(struct codec *codec) {
    if (!codec)
        return;
    arena_fini(&codec->in);
    arena_fini(&codec->out);
    free(codec->buffer);
    *codec = (struct codec){0};
}

/* Writes header and body into the codec's buffer and finishes the frames. */
static enum status codec_pack(struct codec *codec, const struct message *message,
                              const ProtobufCMessage *body, struct frames *frames) {
    size_t n = CODEC_HEADER_BYTES + protobuf_c_message_get_packed_size(body);
    if (n > MESSAGE_CONTROL_MAX)
        return STATUS_LIMIT;
    if (n > codec->buffer_size) {
        uint8_t *grown = realloc(codec->buffer, 2 * n);
        if (!grown)
            return STATUS_NOMEM;
        codec->buffer = grown;
        codec->buffer_size = 2 * n;
    }
    const struct codec_header header = {.magic = HEAD_MAGIC,
                                        .version = PROTO_MAJOR,
                                        .type = (uint8_t)message->type,
                                        .flags = frames->n_raw > 0 ? HEAD_FLAG_RAW : 0,
                                        .n_bytes = CODEC_HEADER_BYTES,
                                        .session = message->session,
                                        .seq = message->seq};
    memcpy(codec->buffer, &header, sizeof header);
    size_t packed = protobuf_c_message_pack(body, codec->buffer + CODEC_HEADER_BYTES);
    ASSERT(packed == n - CODEC_HEADER_BYTES);
    frames->head = codec->buffer;
    frames->n_head = n;
    return STATUS_OK;
}

void codec_stamp(void *head, uint64_t seq) {
    memcpy((uint8_t *)head + offsetof(struct codec_header, seq), &seq, sizeof seq);
}

enum status codec_encode(struct codec *codec, const struct message *message,
                         struct frames *frames) {
    if (message->type <= MESSAGE_NONE || message->type >= MESSAGE_TYPES)
        return STATUS_INVALID;
    arena_reset(&codec->out);
    const struct shape *shape = message_shape(message->type);
    struct encoder encoder = {.arena = &codec->out};
    void *body = arena_alloc(&codec->out, shape->descriptor->sizeof_message);
    if (!body)
        return STATUS_NOMEM;
    TRY(shape_put(&encoder, shape, &message->u, body));
    if (encoder.n_raw > message_raw_max(message->type))
        return STATUS_LIMIT;
    struct frames made = {.raw = encoder.raw, .n_raw = encoder.n_raw};
    TRY(codec_pack(codec, message, body, &made));
    *frames = made;
    return STATUS_OK;
}

static void *codec_arena_alloc(void *arena, size_t size) {
    return arena_alloc(arena, size);
}

static void codec_arena_free(void *arena, void *memory) {
    (void)arena; /* dropped as a whole with the next message */
    (void)memory;
}

enum status codec_decode(struct codec *codec, const struct frames *frames, struct message *message,
                         struct error *error) {
    struct codec_header header = {0};
    size_t n_raw = frames->raw ? frames->n_raw : 0;
    if (frames->n_head > MESSAGE_CONTROL_MAX)
        return error_set(error, STATUS_LIMIT, "first frame of %zu bytes", frames->n_head);
    if (frames->n_head >= sizeof header)
        memcpy(&header, frames->head, sizeof header);
    if (header.magic != HEAD_MAGIC)
        return error_set(error, STATUS_CORRUPT, "not a frame of ours");
    if (header.version != PROTO_MAJOR)
        return error_set(error, STATUS_UNSUPPORTED, "protocol version %u, this is %u",
                         header.version, PROTO_MAJOR);
    enum message_type type = (enum message_type)header.type;
    if (type == MESSAGE_NONE || type >= MESSAGE_TYPES)
        return error_set(error, STATUS_UNSUPPORTED, "unknown message type %u", header.type);
    if (header.n_bytes < CODEC_HEADER_BYTES || header.n_bytes > frames->n_head)
        return error_set(error, STATUS_CORRUPT, "header of %u bytes", header.n_bytes);
    const struct shape *shape = message_shape(type);
    if (((header.flags & HEAD_FLAG_RAW) != 0) != (n_raw > 0))
        return error_set(error, STATUS_CORRUPT, "raw frame and its flag disagree");
    if (n_raw > message_raw_max(type))
        return error_set(error, STATUS_LIMIT, "raw frame of %zu bytes", n_raw);

    arena_reset(&codec->in);
    codec->in.limit = ARENA_PER_BYTE * (frames->n_head + n_raw) + ARENA_EXTRA_BYTES;
    ProtobufCAllocator allocator = {codec_arena_alloc, codec_arena_free, &codec->in};
    const void *unpacked =
        protobuf_c_message_unpack(shape->descriptor, &allocator, frames->n_head - header.n_bytes,
                                  (const uint8_t *)frames->head + header.n_bytes);
    if (!unpacked)
        return error_set(error, STATUS_CORRUPT, "%s: body cannot be unpacked", message_name(type));
    struct decoder decoder = {.arena = &codec->in,
                              .raw = n_raw > 0 ? frames->raw : NULL,
                              .n_raw = n_raw,
                              .status = STATUS_CORRUPT,
                              .error = error};
    struct message made;
    memset(&made, 0, sizeof made); /* all of the union: rows may leave their field alone */
    made.type = type;
    made.session = header.session;
    made.seq = header.seq;
    if (!shape_take(&decoder, shape, unpacked, &made.u)) {
        error_prefix(error, "%s", message_name(type));
        return decoder.status;
    }
    *message = made;
    return STATUS_OK;
}
