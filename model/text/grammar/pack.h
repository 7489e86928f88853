/* model/text/grammar/pack.h: a grammar's description as bytes, to be sent to another process.
 *
 * A byte that says the format's version (1; 2 where a part is a GRAMMAR_JSON_STRING, which readers of
 * version 1 do not know), then the part; all numbers u32, little-endian:
 *
 *   kind u8, flags u8 (bit 0: lenient), min, max, length of region, length of text, n,
 *   region, text, and behind them n parts, or of GRAMMAR_CHOICE n times (length, text)
 *
 * What is unpacked hashes to the same (grammar_hash) and packs to the same bytes. Nothing is compiled here:
 * the sources inside may be wrong. Any thread. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/grammar/grammar.h"

/* Bytes at most: of parts, at least 22 each, there are so few that unpacking them takes 256 KiB. */
#define GRAMMAR_PACKED_MAX 65536

#define GRAMMAR_PACKED_STRINGS 2 /* the version, where there are JSON strings */

/* Appends the description. STATUS_LIMIT where it has over GRAMMAR_PACKED_MAX bytes or its parts nest
 * deeper than grammar_limits.depth; STATUS_NOMEM; `to` is then as before, but for its memory. */
NODISCARD enum status grammar_pack(const struct grammar_part *part, struct buf *to);

/* The parts live in the arena and borrow their texts from `bytes`. STATUS_LIMIT as above;
 * STATUS_UNSUPPORTED for another version or an unknown kind; STATUS_CORRUPT; STATUS_NOMEM. */
NODISCARD enum status grammar_unpack(struct span bytes, struct arena *arena,
                                     const struct grammar_part **part, struct error *error);
