#include "proto/codec.h"

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

struct body {
    encode_body *encode;
    decode_body *decode;
    const ProtobufCMessageDescriptor *descriptor;
    size_t raw_max; /* bytes; 0: no raw frame */
};

static const struct body bodies[MESSAGE_TYPES] = {
    [MESSAGE_ANNOUNCE] = {encode_announce, decode_announce, &wire__announce__descriptor, 0},
    [MESSAGE_HELLO] = {encode_hello, decode_hello, &wire__hello__descriptor, 0},
    [MESSAGE_WELCOME] = {encode_welcome, decode_welcome, &wire__welcome__descriptor, 0},
    [MESSAGE_PEERS] = {encode_peers, decode_peers, &wire__peers__descriptor, 0},
    [MESSAGE_PING] = {encode_ping, decode_ping, &wire__ping__descriptor, 0},
    [MESSAGE_BEAT] = {encode_beat, decode_beat, &wire__beat__descriptor, 0},
    [MESSAGE_DIGEST] = {encode_digest, decode_digest, &wire__digest__descriptor, 0},
    [MESSAGE_RESERVE] = {encode_reserve, decode_reserve, &wire__reserve__descriptor,
                         MESSAGE_CONTROL_MAX},
    [MESSAGE_RESERVED] = {encode_reserved, decode_reserved, &wire__reserved__descriptor, 0},
    [MESSAGE_REFUSED] = {encode_refused, decode_refused, &wire__refused__descriptor, 0},
    [MESSAGE_SUBMIT] = {encode_submit, decode_submit, &wire__submit__descriptor,
                        MESSAGE_CONTROL_MAX},
    [MESSAGE_STEP] = {encode_step, decode_step, &wire__step__descriptor, 0},
    [MESSAGE_FORGET] = {encode_forget, decode_forget, &wire__forget__descriptor, 0},
    [MESSAGE_RESEND] = {encode_resend, decode_resend, &wire__resend__descriptor, 0},
    [MESSAGE_CANCEL] = {encode_cancel, decode_cancel, &wire__cancel__descriptor, 0},
    [MESSAGE_CANCELLED] = {encode_cancel, decode_cancel, &wire__cancel__descriptor, 0},
    [MESSAGE_FAILED] = {encode_failed, decode_failed, &wire__failed__descriptor, 0},
    [MESSAGE_RESET] = {encode_reset, decode_reset, &wire__reset__descriptor, 0},
    [MESSAGE_DRAIN] = {encode_drain, decode_drain, &wire__drain__descriptor, 0},
    [MESSAGE_KV_HELLO] = {encode_kv_hello, decode_kv_hello, &wire__kv_hello__descriptor, 0},
    [MESSAGE_KV_WELCOME] = {encode_kv_hello, decode_kv_hello, &wire__kv_hello__descriptor, 0},
    [MESSAGE_CHUNK] = {encode_chunk, decode_chunk, &wire__chunk__descriptor, MESSAGE_CHUNK_MAX},
    [MESSAGE_CHUNK_ACK] = {encode_chunk_ack, decode_chunk_ack, &wire__chunk_ack__descriptor, 0},
    [MESSAGE_COMMIT] = {encode_commit, decode_commit, &wire__commit__descriptor, 0},
    [MESSAGE_COMMIT_ACK] = {encode_transfer_end, decode_transfer_end,
                            &wire__transfer_end__descriptor, 0},
    [MESSAGE_ABORT] = {encode_transfer_end, decode_transfer_end, &wire__transfer_end__descriptor,
                       0},
    [MESSAGE_FENCED] = {encode_transfer_end, decode_transfer_end, &wire__transfer_end__descriptor,
                        0},
};

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

void codec_stamp(void *head, uint64_t seq) {
    head_put_u64((uint8_t *)head + 16, seq);
}

enum status codec_encode(struct codec *codec, const struct message *message,
                         struct frames *frames) {
    if (message->type <= MESSAGE_NONE || message->type >= MESSAGE_TYPES)
        return STATUS_INVALID;
    arena_reset(&codec->out);
    struct frames made = {0};
    struct encoder encoder = {.codec = codec,
                              .type = (uint8_t)message->type,
                              .session = message->session,
                              .seq = message->seq,
                              .frames = &made};
    TRY(bodies[message->type].encode(&encoder, message));
    if (made.n_raw > bodies[message->type].raw_max)
        return STATUS_LIMIT;
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
    const struct body *body = &bodies[type];
    if (((head_get_u16(head + 4) & HEAD_FLAG_RAW) != 0) != (n_raw > 0))
        return error_set(error, STATUS_CORRUPT, "raw frame and its flag disagree");
    if (n_raw > body->raw_max)
        return error_set(error, STATUS_LIMIT, "raw frame of %zu bytes", n_raw);

    arena_reset(&codec->in);
    codec->in.limit = ARENA_PER_BYTE * (frames->n_head + n_raw) + ARENA_EXTRA_BYTES;
    ProtobufCAllocator allocator = {arena_hook_alloc, arena_hook_free, &codec->in};
    const void *unpacked = protobuf_c_message_unpack(body->descriptor, &allocator,
                                                     frames->n_head - n_header, head + n_header);
    if (!unpacked)
        return error_set(error, STATUS_CORRUPT, "%s: body cannot be unpacked",
                         message_name((enum message_type)type));
    struct decoder decoder = {.arena = &codec->in,
                              .raw = n_raw > 0 ? frames->raw : NULL,
                              .n_raw = n_raw,
                              .status = STATUS_CORRUPT,
                              .error = error};
    struct message made = {.type = (enum message_type)type,
                           .session = head_get_u64(head + 8),
                           .seq = head_get_u64(head + 16)};
    if (!body->decode(&decoder, unpacked, &made)) {
        error_prefix(error, "%s", message_name(made.type));
        return decoder.status;
    }
    *message = made;
    return STATUS_OK;
}
