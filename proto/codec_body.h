/* proto/codec_body.h: what the files of the codec share. Private to proto/.
 *
 * For each message an encoder, which fills the generated struct with borrowed pointers and packs
 * it, and a decoder, which takes the unpacked struct apart. */
#pragma once

#include "proto/codec.h"

#include "tandem.pb-c.h"

#include <stdbool.h>

struct encoder {
    struct codec *codec;
    uint8_t type;
    uint64_t session;
    uint64_t seq;
    struct frames *frames; /* raw is set by the message's encoder before encoder_pack() */
};

struct decoder {
    struct arena *arena;
    const void *raw; /* borrowed; NULL: none */
    size_t n_raw;
    enum status status; /* of the first failure */
    struct error *error;
};

/* Writes header and body into the codec's buffer and finishes the frames. */
NODISCARD enum status encoder_pack(struct encoder *encoder, const ProtobufCMessage *body);

/* These answer false and keep the reason in the decoder. */
bool decoder_fail(struct decoder *decoder, enum status status, const char *field,
                  const char *problem);
bool take_text(struct decoder *decoder, ProtobufCBinaryData from, char *to, size_t size,
               const char *field);
bool take_name(struct decoder *decoder, ProtobufCBinaryData from, char *to, size_t size,
               const char *field); /* not empty */
bool take_bytes(struct decoder *decoder, ProtobufCBinaryData from, uint8_t *to, size_t n,
                const char *field); /* exactly n */
bool take_enum(struct decoder *decoder, uint32_t from, uint32_t count, uint32_t *to,
               const char *field);
bool take_count(struct decoder *decoder, size_t n, size_t max, const char *field);
bool take_request(struct decoder *decoder, uint64_t hi, uint64_t lo, struct request_id *to);
bool take_floats(struct decoder *decoder, const float *values, size_t n, const char *field);
/* The raw frame as an array of n elements of `size` bytes, aligned for them (copied if it must). */
bool take_raw(struct decoder *decoder, size_t n, size_t size, const void **to, const char *field);
/* Zeroed memory for n elements; NULL and a kept reason when the budget is used up. */
void *take_array(struct decoder *decoder, size_t n, size_t size);

ProtobufCBinaryData body_text(const char *text);
ProtobufCBinaryData body_bytes(const uint8_t *bytes, size_t n);

void load_put(Wire__Load *to, const struct load *from);
void load_take(const Wire__Load *from, struct load *to); /* from may be NULL: all zero */

/* logprobs: (n) in columns; the columns live in the codec's arena. */
NODISCARD enum status logprobs_put(struct encoder *encoder, Wire__Logprobs *to,
                                   const struct token_logprobs *logprobs, uint32_t n);
bool logprobs_take(struct decoder *decoder, const Wire__Logprobs *from, uint32_t n,
                   struct token_logprobs *to);

typedef enum status encode_body(struct encoder *encoder, const struct message *message);
typedef bool decode_body(struct decoder *decoder, const void *body, struct message *message);

encode_body encode_announce, encode_hello, encode_welcome, encode_peers, encode_ping, encode_beat,
    encode_digest, encode_reset, encode_drain;
decode_body decode_announce, decode_hello, decode_welcome, decode_peers, decode_ping, decode_beat,
    decode_digest, decode_reset, decode_drain;
encode_body encode_reserve, encode_reserved, encode_refused, encode_submit, encode_forget,
    encode_resend, encode_cancel, encode_failed;
decode_body decode_reserve, decode_reserved, decode_refused, decode_submit, decode_forget,
    decode_resend, decode_cancel, decode_failed;
encode_body encode_step;
decode_body decode_step;
encode_body encode_kv_hello, encode_chunk, encode_chunk_ack, encode_commit, encode_transfer_end;
decode_body decode_kv_hello, decode_chunk, decode_chunk_ack, decode_commit, decode_transfer_end;
