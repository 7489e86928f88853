#include "proto/codec.h"

#include "base/assert.h"
#include "proto/codec_body.h"
#include "proto/codec_head.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_FIRST_BYTES 65536
#define ARENA_PER_BYTE    8
#define ARENA_EXTRA_BYTES (1u << 20)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "raw frames are borrowed as arrays: big-endian hosts need a copy that swaps");
_Static_assert(sizeof(struct map_key) == 16, "prefix keys lie in the raw frame as they are");

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
static enum status pack(struct codec *codec, const struct message *message,
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
    uint8_t *head = codec->buffer;
    head_put_u16(head, HEAD_MAGIC);
    head[2] = PROTO_MAJOR;
    head[3] = (uint8_t)message->type;
    head_put_u16(head + 4, frames->n_raw > 0 ? HEAD_FLAG_RAW : 0);
    head_put_u16(head + 6, CODEC_HEADER_BYTES);
    head_put_u64(head + 8, message->session);
    head_put_u64(head + 16, message->seq);
    size_t packed = protobuf_c_message_pack(body, head + CODEC_HEADER_BYTES);
    ASSERT(packed == n - CODEC_HEADER_BYTES);
    frames->head = head;
    frames->n_head = n;
    return STATUS_OK;
}

void codec_stamp(void *head, uint64_t seq) {
    head_put_u64((uint8_t *)head + 16, seq);
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
    TRY(pack(codec, message, body, &made));
    *frames = made;
    return STATUS_OK;
}

static void *arena_hook_alloc(void *arena, size_t size) {
    return arena_alloc(arena, size);
}

static void arena_hook_free(void *arena, void *memory) {
    (void)arena; /* dropped as a whole with the next message */
    (void)memory;
}

enum status codec_decode(struct codec *codec, const struct frames *frames, struct message *message,
                         struct error *error) {
    const uint8_t *head = frames->head;
    size_t n_raw = frames->raw ? frames->n_raw : 0;
    if (frames->n_head > MESSAGE_CONTROL_MAX)
        return error_set(error, STATUS_LIMIT, "first frame of %zu bytes", frames->n_head);
    if (frames->n_head < CODEC_HEADER_BYTES || head_get_u16(head) != HEAD_MAGIC)
        return error_set(error, STATUS_CORRUPT, "not a frame of ours");
    if (head[2] != PROTO_MAJOR)
        return error_set(error, STATUS_UNSUPPORTED, "protocol version %u, this is %u", head[2],
                         PROTO_MAJOR);
    uint8_t type = head[3];
    if (type == MESSAGE_NONE || type >= MESSAGE_TYPES)
        return error_set(error, STATUS_UNSUPPORTED, "unknown message type %u", type);
    size_t n_header = head_get_u16(head + 6);
    if (n_header < CODEC_HEADER_BYTES || n_header > frames->n_head)
        return error_set(error, STATUS_CORRUPT, "header of %zu bytes", n_header);
    const struct shape *shape = message_shape((enum message_type)type);
    if (((head_get_u16(head + 4) & HEAD_FLAG_RAW) != 0) != (n_raw > 0))
        return error_set(error, STATUS_CORRUPT, "raw frame and its flag disagree");
    if (n_raw > message_raw_max((enum message_type)type))
        return error_set(error, STATUS_LIMIT, "raw frame of %zu bytes", n_raw);

    arena_reset(&codec->in);
    codec->in.limit = ARENA_PER_BYTE * (frames->n_head + n_raw) + ARENA_EXTRA_BYTES;
    ProtobufCAllocator allocator = {arena_hook_alloc, arena_hook_free, &codec->in};
    const void *unpacked = protobuf_c_message_unpack(shape->descriptor, &allocator,
                                                     frames->n_head - n_header, head + n_header);
    if (!unpacked)
        return error_set(error, STATUS_CORRUPT, "%s: body cannot be unpacked",
                         message_name((enum message_type)type));
    struct decoder decoder = {.arena = &codec->in,
                              .raw = n_raw > 0 ? frames->raw : NULL,
                              .n_raw = n_raw,
                              .status = STATUS_CORRUPT,
                              .error = error};
    struct message made;
    memset(&made, 0, sizeof made); /* all of the union: rows may leave their field alone */
    made.type = (enum message_type)type;
    made.session = head_get_u64(head + 8);
    made.seq = head_get_u64(head + 16);
    if (!shape_take(&decoder, shape, unpacked, &made.u)) {
        error_prefix(error, "%s", message_name(made.type));
        return decoder.status;
    }
    *message = made;
    return STATUS_OK;
}
