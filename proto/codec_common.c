/* Checks of what comes in, and log-probabilities: for the tables and for what is written by hand. */
#include "proto/codec_body.h"

#include "base/checked.h"

#include <math.h>
#include <string.h>

#define LOGPROB_LEAST -9999.0f

bool decoder_fail(struct decoder *decoder, enum status status, const char *field,
                  const char *problem) {
    decoder->status = status;
    error_field(decoder->error, status, field, "%s %s", field, problem);
    return false;
}

bool take_count(struct decoder *decoder, size_t n, size_t max, uint32_t *to, const char *field) {
    if (n > max)
        return decoder_fail(decoder, STATUS_LIMIT, field, "has too many entries");
    *to = (uint32_t)n;
    return true;
}

bool take_enum(struct decoder *decoder, uint32_t from, uint32_t count, uint32_t *to,
               const char *field) {
    if (from >= count)
        return decoder_fail(decoder, STATUS_INVALID, field, "is out of range");
    *to = from;
    return true;
}

bool take_request(struct decoder *decoder, uint64_t hi, uint64_t lo, struct request_id *to,
                  const char *field) {
    if (hi == 0 && lo == 0)
        return decoder_fail(decoder, STATUS_INVALID, field, "is missing");
    *to = (struct request_id){hi, lo};
    return true;
}

bool take_floats(struct decoder *decoder, const float *values, size_t n, const char *field) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return decoder_fail(decoder, STATUS_INVALID, field, "is not finite");
    return true;
}

void *take_array(struct decoder *decoder, size_t n, size_t size) {
    uint64_t bytes;
    void *array = NULL;
    if (checked_mul(n, size, &bytes))
        array = arena_alloc(decoder->arena, bytes > 0 ? bytes : 1);
    if (!array)
        decoder_fail(decoder, STATUS_LIMIT, "body", "needs more memory than its size allows");
    return array;
}

static float codec_clamp_logprob(float value) {
    return isfinite(value) ? value : LOGPROB_LEAST;
}

enum status logprobs_put(struct encoder *encoder, Wire__Logprobs *to,
                         const struct token_logprobs *logprobs, uint32_t n) {
    struct arena *arena = encoder->arena;
    size_t n_tops = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (logprobs[i].n_top > MESSAGE_TOP_MAX)
            return STATUS_LIMIT;
        n_tops += logprobs[i].n_top;
    }
    wire__logprobs__init(to);
    to->logprobs = arena_alloc(arena, n * sizeof *to->logprobs);
    to->tops_per_token = arena_alloc(arena, n * sizeof *to->tops_per_token);
    to->top_ids = arena_alloc(arena, n_tops * sizeof *to->top_ids);
    to->top_logprobs = arena_alloc(arena, n_tops * sizeof *to->top_logprobs);
    if (!to->logprobs || !to->tops_per_token || !to->top_ids || !to->top_logprobs)
        return STATUS_LIMIT;
    to->n_logprobs = n;
    to->n_tops_per_token = n;
    for (uint32_t i = 0; i < n; i++) {
        const struct token_logprobs *token = &logprobs[i];
        to->logprobs[i] = codec_clamp_logprob(token->logprob);
        to->tops_per_token[i] = token->n_top;
        for (uint32_t k = 0; k < token->n_top; k++) {
            to->top_ids[to->n_top_ids++] = token->top_ids[k];
            to->top_logprobs[to->n_top_logprobs++] = codec_clamp_logprob(token->top_logprobs[k]);
        }
    }
    return STATUS_OK;
}

bool logprobs_take(struct decoder *decoder, const Wire__Logprobs *from, uint32_t n,
                   struct token_logprobs *to) {
    if (from->n_logprobs != n || from->n_tops_per_token != n ||
        from->n_top_ids != from->n_top_logprobs)
        return decoder_fail(decoder, STATUS_CORRUPT, "logprobs", "disagrees with its tokens");
    if (!take_floats(decoder, from->logprobs, n, "logprobs") ||
        !take_floats(decoder, from->top_logprobs, from->n_top_logprobs, "top_logprobs"))
        return false;
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_top = from->tops_per_token[i];
        if (n_top > MESSAGE_TOP_MAX || n_top > from->n_top_ids - at)
            return decoder_fail(decoder, STATUS_CORRUPT, "tops_per_token", "is out of range");
        to[i].logprob = from->logprobs[i];
        to[i].n_top = n_top;
        if (n_top > 0) {
            memcpy(to[i].top_ids, from->top_ids + at, n_top * sizeof *to[i].top_ids);
            memcpy(to[i].top_logprobs, from->top_logprobs + at, n_top * sizeof *to[i].top_logprobs);
        }
        at += n_top;
    }
    if (at != from->n_top_ids)
        return decoder_fail(decoder, STATUS_CORRUPT, "top_ids", "disagrees with its tokens");
    return true;
}
