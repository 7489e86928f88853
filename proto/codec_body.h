/* proto/codec_body.h: what the files of the codec share. Private to proto/.
 *
 * Both directions walk the rows of a struct (proto/field.h) beside protobuf-c's struct: codec_put.c
 * fills that with borrowed pointers to be packed, codec_take.c takes it apart once unpacked. */
#pragma once

#include "proto/codec.h"
#include "proto/field.h"

#include "tandem.pb-c.h"

#include <stdbool.h>

struct encoder {
    struct arena *arena; /* pieces of the message until it is packed */
    const void *raw;     /* borrowed: the raw frame; NULL: none */
    size_t n_raw;
};

struct decoder {
    struct arena *arena;
    const void *raw; /* borrowed; NULL: none */
    size_t n_raw;
    enum status status; /* of the first failure */
    struct error *error;
};

/* wire: an object of the shape's descriptor, not initialised. */
NODISCARD enum status shape_put(struct encoder *encoder, const struct shape *shape,
                                const void *ours, void *wire);
/* ours: zeroed. This and all below answer false, or NULL, and keep the reason in the decoder. */
bool shape_take(struct decoder *decoder, const struct shape *shape, const void *wire, void *ours);

/* logprobs: (n) in columns; the columns live in the encoder's arena. */
NODISCARD enum status logprobs_put(struct encoder *encoder, Wire__Logprobs *to,
                                   const struct token_logprobs *logprobs, uint32_t n);
bool logprobs_take(struct decoder *decoder, const Wire__Logprobs *from, uint32_t n,
                   struct token_logprobs *to);

/* The entries of a STEP, by hand. */
NODISCARD enum status step_entry_put(struct encoder *encoder, const struct step_entry *from,
                                     Wire__StepEntry *to);
bool step_entry_take(struct decoder *decoder, const Wire__StepEntry *from, struct step_entry *to);

bool decoder_fail(struct decoder *decoder, enum status status, const char *field,
                  const char *problem);
bool take_request(struct decoder *decoder, uint64_t hi, uint64_t lo, struct request_id *to,
                  const char *field);
bool take_enum(struct decoder *decoder, uint32_t from, uint32_t count, uint32_t *to,
               const char *field);
bool take_count(struct decoder *decoder, size_t n, size_t max, uint32_t *to, const char *field);
bool take_floats(struct decoder *decoder, const float *values, size_t n, const char *field);
/* Zeroed memory for n elements; NULL and a kept reason when the budget is used up. */
void *take_array(struct decoder *decoder, size_t n, size_t size);

send_rule submit_sendable;
read_rule submit_readable, sampling_readable, trace_readable, chunk_readable;
