/* model/text/tokenizer/files/tokenizer_bytes.h: the tokenizer of a model that comes without one:
 * dummies, and checkpoints that are looked at and never talked to. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdint.h>

struct tokenizer;

/* Ids below 256 are bytes; any other is written "<hhhh>", in as many hex digits as the largest id
 * needs and at least four. A text's ids are its bytes, modulo n_tokens where there are fewer than
 * 256. No special tokens. n_tokens > 0. On success the caller owns *tokenizer. STATUS_LIMIT,
 * STATUS_NOMEM. */
NODISCARD enum status tokenizer_open_bytes(uint32_t n_tokens, struct tokenizer **tokenizer,
                                           struct error *error);
