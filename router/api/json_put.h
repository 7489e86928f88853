/* router/api/json_put.h: JSON written straight into a buffer.
 *
 * A chunk through a JSON tree costs 3 us, written directly 10 ns: a stream's chunks are most of
 * what the router writes. Bytes that are not UTF-8 come out as U+FFFD, so what is written always
 * parses. Pure. */
#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The number for minus infinity in logprob fields, as in vLLM: JSON has no infinities. */
#define JSON_PUT_LOGPROB_MIN -9999.0f

/* The escaped bytes, without quotes. */
void json_put_text(struct buf *out, const char *bytes, size_t n);

void json_put_string(struct buf *out, const char *bytes, size_t n); /* quoted */
void json_put_string_or_null(struct buf *out, const char *text);    /* NULL: null */

void json_put_int(struct buf *out, int64_t value);
void json_put_logprob(struct buf *out, float value);
void json_put_ids(struct buf *out, const uint32_t *ids, size_t n); /* [1,2,3] */

/* Any value as it was read, compact. Without memory for it `out` has failed. */
void json_put_value(struct buf *out, const json_t *value);

/* The bytes as a list of numbers: [104,105]. */
void json_put_bytes(struct buf *out, const char *bytes, size_t n);

/* "name":"value", and "name":value, each with a comma behind it. `name` is a constant. */
void json_put_member(struct buf *out, const char *name, const char *value);
void json_put_number(struct buf *out, const char *name, uint64_t value);

/* ,"name": of the next member of an object that has one already. */
void json_put_key(struct buf *out, const char *name);

/* A member that is copied, and the name that it gets. */
struct json_put_copy {
    const char *name;
    const char *as; /* NULL: the same */
};

/* "name":value of each of the n members that `object` has and that are not null, with commas between them. */
void json_put_members(struct buf *out, const json_t *object, const struct json_put_copy *members,
                      size_t n);

/* The comma behind the last member or element becomes the bracket. */
void json_put_close(struct buf *out, char bracket);
