/* Bodies of the messages about requests, from the router to its workers and back, STEP apart. */
#include "proto/codec_body.h"

#include <math.h>
#include <string.h>

#define PUT_REQUEST(to, from) ((to).req_hi = (from).hi, (to).req_lo = (from).lo)

/* Generated structs have no const; packing only reads. */
#define BORROW(type, pointer) ((type *)(uintptr_t)(pointer))

enum status encode_reserve(struct encoder *encoder, const struct message *message) {
    const struct reserve *from = &message->u.reserve;
    Wire__Reserve to = WIRE__RESERVE__INIT;
    PUT_REQUEST(to, from->req);
    to.attempt = from->attempt;
    to.n_tokens = from->n_tokens;
    to.n_hashes = from->n_hashes;
    encoder->frames->raw = from->n_hashes > 0 ? from->hashes : NULL;
    encoder->frames->n_raw = from->n_hashes * sizeof *from->hashes;
    return encoder_pack(encoder, &to.base);
}

bool decode_reserve(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Reserve *from = body;
    struct reserve *to = &message->u.reserve;
    const void *hashes;
    if (!take_request(decoder, from->req_hi, from->req_lo, &to->req) ||
        !take_raw(decoder, from->n_hashes, sizeof *to->hashes, &hashes, "n_hashes"))
        return false;
    to->attempt = from->attempt;
    to->n_tokens = from->n_tokens;
    to->n_hashes = from->n_hashes;
    to->hashes = hashes;
    return true;
}

enum status encode_reserved(struct encoder *encoder, const struct message *message) {
    const struct reserved *from = &message->u.reserved;
    Wire__Reserved to = WIRE__RESERVED__INIT;
    PUT_REQUEST(to, from->req);
    to.attempt = from->attempt;
    to.gen = from->gen;
    to.cached_tokens = from->cached_tokens;
    to.lease_ms = from->lease_ms;
    return encoder_pack(encoder, &to.base);
}

bool decode_reserved(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Reserved *from = body;
    struct reserved *to = &message->u.reserved;
    to->attempt = from->attempt;
    to->gen = from->gen;
    to->cached_tokens = from->cached_tokens;
    to->lease_ms = from->lease_ms;
    return take_request(decoder, from->req_hi, from->req_lo, &to->req);
}

enum status encode_refused(struct encoder *encoder, const struct message *message) {
    const struct refused *from = &message->u.refused;
    Wire__Refused to = WIRE__REFUSED__INIT;
    PUT_REQUEST(to, from->req);
    to.attempt = from->attempt;
    to.reason = from->reason;
    return encoder_pack(encoder, &to.base);
}

bool decode_refused(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Refused *from = body;
    struct refused *to = &message->u.refused;
    uint32_t reason;
    if (!take_request(decoder, from->req_hi, from->req_lo, &to->req) ||
        !take_enum(decoder, from->reason, REASON_COUNT, &reason, "reason"))
        return false;
    to->attempt = from->attempt;
    to->reason = (enum reason)reason;
    return true;
}

static enum status sampling_put(Wire__Sampling *to, const struct sampling *from) {
    if (from->n_top > MESSAGE_TOP_MAX || from->n_stop_ids > MESSAGE_STOP_IDS_MAX ||
        from->n_bias > MESSAGE_BIAS_MAX || from->n_allowed > MESSAGE_ALLOWED_MAX)
        return STATUS_LIMIT;
    const float numbers[] = {from->temperature, from->top_p,     from->min_p,
                             from->presence,    from->frequency, from->repetition};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i]))
            return STATUS_INVALID;
    for (uint32_t i = 0; i < from->n_bias; i++)
        if (!isfinite(from->bias[i]))
            return STATUS_INVALID;
    wire__sampling__init(to);
    to->temperature = from->temperature;
    to->top_p = from->top_p;
    to->min_p = from->min_p;
    to->top_k = from->top_k;
    to->presence = from->presence;
    to->frequency = from->frequency;
    to->repetition = from->repetition;
    to->seed = from->seed;
    to->choice = from->choice;
    to->max_new = from->max_new;
    to->min_new = from->min_new;
    to->ignore_eos = from->ignore_eos;
    to->want_logprobs = from->want_logprobs;
    to->n_top = from->n_top;
    to->n_stop_ids = from->n_stop_ids;
    to->stop_ids = BORROW(uint32_t, from->stop_ids);
    to->n_bias_ids = from->n_bias;
    to->bias_ids = BORROW(uint32_t, from->bias_ids);
    to->n_bias = from->n_bias;
    to->bias = BORROW(float, from->bias);
    to->n_allowed_ids = from->n_allowed;
    to->allowed_ids = BORROW(uint32_t, from->allowed_ids);
    return STATUS_OK;
}

static bool sampling_take(struct decoder *decoder, const Wire__Sampling *from,
                          struct sampling *to) {
    const float numbers[] = {from->temperature, from->top_p,     from->min_p,
                             from->presence,    from->frequency, from->repetition};
    if (!take_floats(decoder, numbers, sizeof numbers / sizeof *numbers, "sampling") ||
        !take_floats(decoder, from->bias, from->n_bias, "bias") ||
        !take_count(decoder, from->n_top, MESSAGE_TOP_MAX, "n_top") ||
        !take_count(decoder, from->n_stop_ids, MESSAGE_STOP_IDS_MAX, "stop_ids") ||
        !take_count(decoder, from->n_bias_ids, MESSAGE_BIAS_MAX, "bias_ids") ||
        !take_count(decoder, from->n_allowed_ids, MESSAGE_ALLOWED_MAX, "allowed_ids"))
        return false;
    if (from->n_bias != from->n_bias_ids)
        return decoder_fail(decoder, STATUS_CORRUPT, "bias", "disagrees with bias_ids");
    *to = (struct sampling){
        .temperature = from->temperature,
        .top_p = from->top_p,
        .min_p = from->min_p,
        .top_k = from->top_k,
        .presence = from->presence,
        .frequency = from->frequency,
        .repetition = from->repetition,
        .seed = from->seed,
        .choice = from->choice,
        .max_new = from->max_new,
        .min_new = from->min_new,
        .ignore_eos = from->ignore_eos != 0,
        .want_logprobs = from->want_logprobs != 0,
        .n_top = from->n_top,
        .n_stop_ids = (uint32_t)from->n_stop_ids,
        .stop_ids = from->stop_ids,
        .n_bias = (uint32_t)from->n_bias,
        .bias_ids = from->bias_ids,
        .bias = from->bias,
        .n_allowed = (uint32_t)from->n_allowed_ids,
        .allowed_ids = from->allowed_ids,
    };
    return true;
}

enum status encode_submit(struct encoder *encoder, const struct message *message) {
    const struct submit *from = &message->u.submit;
    if (from->n_tokens > MESSAGE_TOKENS_MAX || from->n_prompt > from->n_tokens)
        return STATUS_LIMIT;
    Wire__Submit to = WIRE__SUBMIT__INIT;
    Wire__Sampling sampling;
    Wire__Xfer xfer = WIRE__XFER__INIT;
    TRY(sampling_put(&sampling, &from->sampling));
    PUT_REQUEST(to, from->req);
    to.attempt = from->attempt;
    to.phase = from->phase;
    to.n_prompt = from->n_prompt;
    to.n_tokens = from->n_tokens;
    to.salt = from->salt;
    to.priority = from->priority;
    to.budget_ms = from->budget_ms;
    to.sampling = &sampling;
    if (from->has_xfer) {
        xfer.transfer_id = from->xfer.transfer_id;
        xfer.gen = from->xfer.gen;
        xfer.cached_tokens = from->xfer.cached_tokens;
        xfer.peer = body_text(from->xfer.peer);
        xfer.peer_incarnation = from->xfer.peer_incarnation;
        to.xfer = &xfer;
    }
    encoder->frames->raw = from->n_tokens > 0 ? from->tokens : NULL;
    encoder->frames->n_raw = from->n_tokens * sizeof *from->tokens;
    return encoder_pack(encoder, &to.base);
}

bool decode_submit(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Submit *from = body;
    struct submit *to = &message->u.submit;
    uint32_t phase;
    const void *tokens;
    if (!take_request(decoder, from->req_hi, from->req_lo, &to->req) ||
        !take_enum(decoder, from->phase, PHASE_BOTH + 1, &phase, "phase") ||
        !take_count(decoder, from->n_tokens, MESSAGE_TOKENS_MAX, "n_tokens") ||
        !take_raw(decoder, from->n_tokens, sizeof *to->tokens, &tokens, "n_tokens"))
        return false;
    if (from->n_prompt > from->n_tokens)
        return decoder_fail(decoder, STATUS_CORRUPT, "n_prompt", "is more than n_tokens");
    if (!from->sampling)
        return decoder_fail(decoder, STATUS_INVALID, "sampling", "is missing");
    to->attempt = from->attempt;
    to->phase = (enum phase)phase;
    to->n_prompt = from->n_prompt;
    to->n_tokens = from->n_tokens;
    to->tokens = tokens;
    to->salt = from->salt;
    to->priority = from->priority;
    to->budget_ms = from->budget_ms;
    to->has_xfer = from->xfer != NULL;
    if (from->xfer) {
        to->xfer.transfer_id = from->xfer->transfer_id;
        to->xfer.gen = from->xfer->gen;
        to->xfer.cached_tokens = from->xfer->cached_tokens;
        to->xfer.peer_incarnation = from->xfer->peer_incarnation;
        if (!take_name(decoder, from->xfer->peer, to->xfer.peer, sizeof to->xfer.peer, "peer"))
            return false;
    }
    return sampling_take(decoder, from->sampling, &to->sampling);
}

enum status encode_forget(struct encoder *encoder, const struct message *message) {
    const struct forget *from = &message->u.forget;
    if (from->n > MESSAGE_ENTRIES_MAX)
        return STATUS_LIMIT;
    struct arena *arena = &encoder->codec->out;
    Wire__AttemptId *ids = arena_alloc(arena, from->n * sizeof *ids);
    Wire__AttemptId **pointers = arena_alloc(arena, from->n * sizeof *pointers);
    if (!ids || !pointers)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < from->n; i++) {
        wire__attempt_id__init(&ids[i]);
        PUT_REQUEST(ids[i], from->attempts[i].req);
        ids[i].attempt = from->attempts[i].attempt;
        pointers[i] = &ids[i];
    }
    Wire__Forget to = WIRE__FORGET__INIT;
    to.n_attempts = from->n;
    to.attempts = pointers;
    return encoder_pack(encoder, &to.base);
}

bool decode_forget(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Forget *from = body;
    struct forget *to = &message->u.forget;
    if (!take_count(decoder, from->n_attempts, MESSAGE_ENTRIES_MAX, "attempts"))
        return false;
    to->n = (uint32_t)from->n_attempts;
    to->attempts = take_array(decoder, to->n, sizeof *to->attempts);
    if (!to->attempts)
        return false;
    for (uint32_t i = 0; i < to->n; i++) {
        const Wire__AttemptId *id = from->attempts[i];
        if (!take_request(decoder, id->req_hi, id->req_lo, &to->attempts[i].req))
            return false;
        to->attempts[i].attempt = id->attempt;
    }
    return true;
}

enum status encode_resend(struct encoder *encoder, const struct message *message) {
    Wire__Resend to = WIRE__RESEND__INIT;
    PUT_REQUEST(to, message->u.resend.req);
    to.attempt = message->u.resend.attempt;
    to.from = message->u.resend.from;
    return encoder_pack(encoder, &to.base);
}

bool decode_resend(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Resend *from = body;
    struct resend *to = &message->u.resend;
    to->attempt = from->attempt;
    to->from = from->from;
    return take_request(decoder, from->req_hi, from->req_lo, &to->req);
}

enum status encode_cancel(struct encoder *encoder, const struct message *message) {
    Wire__Cancel to = WIRE__CANCEL__INIT;
    PUT_REQUEST(to, message->u.cancel.req);
    to.attempt = message->u.cancel.attempt;
    to.reason = message->u.cancel.reason;
    return encoder_pack(encoder, &to.base);
}

bool decode_cancel(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Cancel *from = body;
    struct cancel *to = &message->u.cancel;
    uint32_t reason;
    if (!take_request(decoder, from->req_hi, from->req_lo, &to->req) ||
        !take_enum(decoder, from->reason, REASON_COUNT, &reason, "reason"))
        return false;
    to->attempt = from->attempt;
    to->reason = (enum reason)reason;
    return true;
}

enum status encode_failed(struct encoder *encoder, const struct message *message) {
    const struct failed *from = &message->u.failed;
    Wire__Failed to = WIRE__FAILED__INIT;
    PUT_REQUEST(to, from->req);
    to.attempt = from->attempt;
    to.phase = from->phase;
    to.reason = from->reason;
    return encoder_pack(encoder, &to.base);
}

bool decode_failed(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Failed *from = body;
    struct failed *to = &message->u.failed;
    uint32_t phase;
    uint32_t reason;
    if (!take_request(decoder, from->req_hi, from->req_lo, &to->req) ||
        !take_enum(decoder, from->phase, PHASE_BOTH + 1, &phase, "phase") ||
        !take_enum(decoder, from->reason, REASON_COUNT, &reason, "reason"))
        return false;
    to->attempt = from->attempt;
    to->phase = (enum phase)phase;
    to->reason = (enum reason)reason;
    return true;
}
