#include "router/api/reply.h"

#include "model/text/tokenizer/detokenize.h"
#include "router/api/json_put.h"
#include "router/api/tool_reader.h"

#include <string.h>

void reply_put_usage(const struct reply *reply, bool at_end, struct buf *out) {
    uint64_t n_prompt = reply->n_prompt_tokens;
    buf_puts(out, ",\"usage\":{");
    json_put_number(out, "prompt_tokens", n_prompt);
    json_put_number(out, "total_tokens", n_prompt + reply->n_completion_tokens);
    json_put_number(out, "completion_tokens", reply->n_completion_tokens);
    if (at_end)
        buf_printf(out, "\"prompt_tokens_details\":{\"cached_tokens\":%u},",
                   reply->n_cached_tokens);
    if (at_end && reply->counts_thoughts && !reply->misses_thoughts)
        buf_printf(out, "\"completion_tokens_details\":{\"reasoning_tokens\":%u},",
                   reply->n_thought_tokens);
    json_put_close(out, '}');
}

void reply_put_chunk_end(const struct reply *reply, struct buf *out) {
    if (reply->ask->continuous_usage)
        reply_put_usage(reply, false, out);
    else if (reply->ask->include_usage)
        buf_puts(out, ",\"usage\":null");
}

const char *reply_finish_name(enum finish finish) {
    return finish == FINISH_LENGTH ? "length" : finish == FINISH_ERROR ? "error" : "stop";
}

void reply_put_finish(const struct reply_choice *choice, struct buf *out) {
    buf_puts(out, "\"finish_reason\":");
    bool calls =
        choice->reader && tool_reader_n_calls(choice->reader) > 0 && choice->finish == FINISH_STOP;
    const char *name = calls ? "tool_calls" : reply_finish_name(choice->finish);
    json_put_string_or_null(out, choice->has_ended ? name : NULL);
    if (!choice->has_ended)
        return;
    buf_puts(out, ",\"stop_reason\":");
    if (choice->stopped_by_id)
        json_put_int(out, choice->stop_id);
    else if (choice->stop_string.n > 0)
        json_put_string(out, choice->stop_string.bytes, choice->stop_string.n);
    else
        buf_puts(out, "null");
}

void reply_put_ids(const struct reply *reply, const struct reply_choice *choice, struct buf *out) {
    if (!reply->ask->return_token_ids)
        return;
    buf_puts(out, ",\"token_ids\":");
    json_put_ids(out, choice->tokens, choice->n_tokens);
    if (choice->is_first) {
        buf_puts(out, ",\"prompt_token_ids\":");
        json_put_ids(out, choice->prompt, choice->n_prompt);
    }
}

void reply_put_token_id(uint32_t id, struct buf *out) {
    buf_puts(out, "\"token_id:");
    json_put_int(out, id);
    buf_putc(out, '"');
}

void reply_put_token(const struct reply *reply, uint32_t id, struct buf *out) {
    /* Embeddings may have more rows than the tokenizer has tokens. */
    if (reply->ask->tokens_as_ids || id >= tokenizer_n_tokens(reply->tokenizer)) {
        reply_put_token_id(id, out);
        return;
    }
    struct span bytes = reply_token_bytes(reply, id);
    json_put_string(out, bytes.bytes, bytes.n);
}

struct span reply_token_bytes(const struct reply *reply, uint32_t id) {
    if (id >= tokenizer_n_tokens(reply->tokenizer))
        return SPAN("");
    return tokenizer_bytes(reply->tokenizer, id);
}

enum status reply_spell(const struct reply *reply, struct buf *text) {
    const struct ids *ids = &reply->ask->prompts[0].ids;
    struct detokenizer detokenizer;
    detokenizer_init(&detokenizer, false);
    for (size_t i = 0; i < ids->n; i++)
        TRY(detokenizer_push_any(&detokenizer, reply->tokenizer, ids->at[i], text));
    TRY(detokenizer_flush(&detokenizer, text));
    return buf_status(text);
}

uint32_t reply_token_chars(const struct reply *reply, uint32_t id) {
    struct span bytes = reply_token_bytes(reply, id);
    if (bytes.n == 0 || (reply->ask->skip_special && tokenizer_is_special(reply->tokenizer, id)))
        return 0;
    uint32_t n = 0;
    for (size_t i = 0; i < bytes.n; i++)
        n += ((unsigned char)bytes.bytes[i] & 0xc0) != 0x80;
    return n;
}

void reply_put_head(const struct reply *reply, const char *object, struct buf *out) {
    buf_puts(out, "\"id\":\"");
    buf_puts(out, reply->id);
    buf_puts(out, "\",\"object\":\"");
    buf_puts(out, object);
    buf_puts(out, "\",\"created\":");
    json_put_int(out, reply->created);
    buf_puts(out, ",\"model\":");
    json_put_string(out, reply->model, strlen(reply->model));
    buf_puts(out, ",\"system_fingerprint\":");
    json_put_string(out, reply->fingerprint, strlen(reply->fingerprint));
    buf_putc(out, ',');
}
