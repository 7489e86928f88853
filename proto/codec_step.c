/* STEP: the one message whose cost counts, since every token of every stream rides in one. */
#include "proto/codec_body.h"

enum status encode_step(struct encoder *encoder, const struct message *message) {
    const struct step *from = &message->u.step;
    if (from->n > MESSAGE_ENTRIES_MAX)
        return STATUS_LIMIT;
    struct arena *arena = &encoder->codec->out;
    Wire__StepEntry *entries = arena_alloc(arena, from->n * sizeof *entries);
    Wire__StepEntry **pointers = arena_alloc(arena, from->n * sizeof *pointers);
    if (!entries || !pointers)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < from->n; i++) {
        const struct step_entry *entry = &from->entries[i];
        Wire__StepEntry *to = &entries[i];
        wire__step_entry__init(to);
        to->req_hi = entry->req.hi;
        to->req_lo = entry->req.lo;
        to->attempt = entry->attempt;
        to->first_index = entry->first_index;
        to->n_tokens = entry->n_tokens;
        to->tokens = (uint32_t *)(uintptr_t)entry->tokens; /* packing only reads */
        to->finish = entry->finish;
        to->cached_tokens = entry->cached_tokens;
        if (entry->logprobs) {
            to->logprobs = arena_alloc(arena, sizeof *to->logprobs);
            if (!to->logprobs)
                return STATUS_NOMEM;
            TRY(logprobs_put(encoder, to->logprobs, entry->logprobs, entry->n_tokens));
        }
        pointers[i] = to;
    }
    Wire__Load load;
    load_put(&load, &from->load);
    Wire__Step to = WIRE__STEP__INIT;
    to.n_entries = from->n;
    to.entries = pointers;
    to.load = &load;
    return encoder_pack(encoder, &to.base);
}

static bool entry_take(struct decoder *decoder, const Wire__StepEntry *from,
                       struct step_entry *to) {
    uint32_t finish;
    if (!take_request(decoder, from->req_hi, from->req_lo, &to->req) ||
        !take_enum(decoder, from->finish, FINISH_ERROR + 1, &finish, "finish") ||
        !take_count(decoder, from->n_tokens, MESSAGE_TOKENS_MAX, "tokens"))
        return false;
    uint64_t end = (uint64_t)from->first_index + from->n_tokens;
    if (end > UINT32_MAX)
        return decoder_fail(decoder, STATUS_INVALID, "first_index", "is out of range");
    to->attempt = from->attempt;
    to->first_index = from->first_index;
    to->n_tokens = (uint32_t)from->n_tokens;
    to->tokens = from->tokens;
    to->finish = (enum finish)finish;
    to->cached_tokens = from->cached_tokens;
    if (!from->logprobs)
        return true;
    struct token_logprobs *logprobs = take_array(decoder, to->n_tokens, sizeof *logprobs);
    to->logprobs = logprobs;
    return logprobs && logprobs_take(decoder, from->logprobs, to->n_tokens, logprobs);
}

bool decode_step(struct decoder *decoder, const void *body, struct message *message) {
    const Wire__Step *from = body;
    struct step *to = &message->u.step;
    if (!take_count(decoder, from->n_entries, MESSAGE_ENTRIES_MAX, "entries"))
        return false;
    to->n = (uint32_t)from->n_entries;
    to->entries = take_array(decoder, to->n, sizeof *to->entries);
    if (!to->entries)
        return false;
    for (uint32_t i = 0; i < to->n; i++)
        if (!entry_take(decoder, from->entries[i], &to->entries[i]))
            return false;
    load_take(from->load, &to->load);
    return true;
}
