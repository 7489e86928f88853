#include "router/call/text.h"

#include "model/model.h"
#include "model/text/tokenizer/tokenizer.h"
#include "proto/prefix.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(TEXT_BLOCK_TOKENS == PREFIX_BLOCK_TOKENS, "blocks are the prefix cache's");

#define N_SCRATCHES 8 /* kept between jobs: about one for each thread of the pool */

/* Locking: `lock` guards the spare scratches alone; the rest never changes. */
struct text {
    const struct model *model; /* borrowed */
    struct prefix_key key;
    pthread_mutex_t lock;
    struct tokenizer_scratch *spare[N_SCRATCHES]; /* owned (n_spare) */
    unsigned n_spare;
};

enum status text_new(const struct model *model, uint64_t prefix_seed, struct text **text) {
    struct text *made = calloc(1, sizeof *made);
    if (!made)
        return STATUS_NOMEM;
    made->model = model;
    made->key = prefix_key_of(prefix_seed);
    pthread_mutex_init(&made->lock, NULL);
    *text = made;
    return STATUS_OK;
}

void text_free(struct text *text) {
    if (!text)
        return;
    while (text->n_spare > 0)
        tokenizer_scratch_free(text->spare[--text->n_spare]);
    pthread_mutex_destroy(&text->lock);
    free(text);
}

const struct model *text_model(const struct text *text) {
    return text->model;
}

static struct tokenizer_scratch *call_text_take_scratch(struct text *text) {
    struct tokenizer_scratch *scratch = NULL;
    pthread_mutex_lock(&text->lock);
    if (text->n_spare > 0)
        scratch = text->spare[--text->n_spare];
    pthread_mutex_unlock(&text->lock);
    return scratch ? scratch : tokenizer_scratch_new();
}

static void call_text_give_scratch(struct text *text, struct tokenizer_scratch *scratch) {
    pthread_mutex_lock(&text->lock);
    bool kept = text->n_spare < N_SCRATCHES;
    if (kept)
        text->spare[text->n_spare++] = scratch;
    pthread_mutex_unlock(&text->lock);
    if (!kept)
        tokenizer_scratch_free(scratch);
}

enum status text_encode(struct text *text, struct span prompt, struct text_reading reading,
                        struct ids *ids, struct error *error) {
    struct tokenizer_scratch *scratch = call_text_take_scratch(text);
    if (!scratch)
        return error_set(error, STATUS_NOMEM, "no memory to tokenize the prompt");
    unsigned flags = reading.add_special ? TOKENIZER_ADD_BOS : TOKENIZER_PLAIN;
    if (reading.parse_special)
        flags |= TOKENIZER_PARSE_SPECIAL;
    enum status status =
        tokenizer_encode(text->model->tokenizer, scratch, prompt, flags, ids, error);
    call_text_give_scratch(text, scratch);
    return status;
}

/* How many ids at the front of a prompt are what stands before a text anyway: many templates write
 * it themselves, as a whole or in part, and no model was trained with two. */
static size_t call_text_count_repeated(const struct tokenizer_ends *before, const uint32_t *ids,
                                       size_t n) {
    size_t most = 0;
    for (size_t begin = 0; begin < before->n; begin++) {
        size_t same = 0;
        while (same < n && begin + same < before->n && ids[same] == before->ids[begin + same])
            same++;
        most = same > most ? same : most;
    }
    return most;
}

static enum status call_text_encode_prompt(const struct tokenizer *tokenizer,
                                           const struct template_prompt *prompt, bool add_special,
                                           struct tokenizer_scratch *scratch, struct ids *ids,
                                           struct error *error) {
    size_t begin = ids->n;
    if (add_special && tokenizer_begin(tokenizer, ids) != STATUS_OK) {
        ids->n = begin;
        return error_set(error, STATUS_LIMIT, "the text has more than %zu tokens", ids->limit);
    }
    size_t at = ids->n;
    TRY(template_prompt_encode(prompt, tokenizer, scratch, ids, error));
    if (at == begin)
        return STATUS_OK;
    size_t n = call_text_count_repeated(&tokenizer->before, ids->at + at, ids->n - at);
    ids->n -= n;
    memmove(ids->at + at, ids->at + at + n, (ids->n - at) * sizeof *ids->at);
    return STATUS_OK;
}

enum status text_encode_chat(struct text *text, const struct template_input *input,
                             bool add_special, struct ids *ids, enum thought_start *start,
                             struct error *error) {
    const struct tokenizer *tokenizer = text->model->tokenizer;
    const struct template *template = &text->model->template;
    struct template_prompt prompt;
    struct template_input whole = *input;
    whole.now_s = time(NULL);
    if (tokenizer->bos_id != TOKEN_NONE)
        whole.bos = tokenizer_bytes(tokenizer, tokenizer->bos_id);
    if (tokenizer->eos_id != TOKEN_NONE)
        whole.eos = tokenizer_bytes(tokenizer, tokenizer->eos_id);
    TRY(template_render(template, &whole, &prompt, error));
    struct tokenizer_scratch *scratch = call_text_take_scratch(text);
    enum status status = scratch ? STATUS_OK : STATUS_NOMEM;
    if (!scratch)
        error_set(error, STATUS_NOMEM, "no memory to tokenize the messages");
    if (status == STATUS_OK)
        status = call_text_encode_prompt(tokenizer, &prompt, add_special, scratch, ids, error);
    if (scratch)
        call_text_give_scratch(text, scratch);
    if (status == STATUS_OK && start)
        *start = thought_start_of(template->thought_format, input, &prompt);
    template_prompt_fini(&prompt);
    return status;
}

uint64_t text_salt(const struct text *text, struct span salt) {
    return prefix_salt(&text->key, salt.bytes, salt.n);
}

uint32_t text_hash(const struct text *text, uint64_t salt, const uint32_t *ids, size_t n_ids,
                   struct map_key *hashes) {
    return (uint32_t)prefix_hash_chain(&text->key, salt, PREFIX_START, ids, n_ids, hashes);
}

void text_stream_init(struct text_stream *stream, const struct text *text,
                      const struct text_stops *stops, bool skip_special) {
    *stream = (struct text_stream){.tokenizer = text->model->tokenizer, .stops = stops};
    detokenizer_init(&stream->detokenizer, skip_special);
    buf_init(&stream->held, 0);
}

void text_stream_fini(struct text_stream *stream) {
    if (stream)
        buf_fini(&stream->held);
}

/* The stop string that begins first in the text; of two the one that is first in the list. */
static int call_text_find_stop(const struct text_stops *stops, const char *text, size_t n,
                               size_t *at) {
    int found = -1;
    *at = n;
    for (uint32_t i = 0; i < stops->n; i++) {
        const char *hit = memmem(text, n, stops->strings[i].bytes, stops->strings[i].n);
        if (hit && (size_t)(hit - text) < *at) {
            *at = (size_t)(hit - text);
            found = (int)i;
        }
    }
    return found;
}

/* How many bytes at the end of text could begin a stop string. */
static size_t call_text_held_tail(const struct text_stops *stops, const char *text, size_t n) {
    size_t most = 0;
    for (uint32_t i = 0; i < stops->n; i++) {
        size_t length = stops->strings[i].n - 1;
        if (length > n)
            length = n;
        while (length > most && memcmp(text + n - length, stops->strings[i].bytes, length) != 0)
            length--;
        if (length > most)
            most = length;
    }
    return most;
}

void text_stream_skip_metadata(struct text_stream *stream, bool keeps_line) {
    stream->start = keeps_line ? TEXT_AT_LINE : TEXT_AT_METADATA;
}

/* Takes what is not a part of the answer off the text that came at `begin` of `to`. */
static void call_text_skip_start(struct text_stream *stream, struct buf *to, size_t begin) {
    size_t at = begin;
    if (stream->start != TEXT_AT_BLANKS && at < to->n) {
        begin += stream->start == TEXT_AT_LINE;
        stream->start = to->data[at++] == '\n' ? TEXT_AT_BLANKS : TEXT_STARTED;
    }
    if (stream->start == TEXT_STARTED)
        return;
    while (at < to->n && to->data[at] == ' ')
        at++;
    if (at < to->n)
        stream->start = TEXT_STARTED;
    memmove(to->data + begin, to->data + at, to->n - at);
    buf_truncate(to, to->n - (at - begin));
}

/* What the token completes. */
static enum status call_text_push_text(struct text_stream *stream, uint32_t id, struct buf *to) {
    size_t begin = to->n;
    TRY(detokenizer_push_any(&stream->detokenizer, stream->tokenizer, id, to));
    if (stream->start != TEXT_STARTED && to->n > begin)
        call_text_skip_start(stream, to, begin);
    return STATUS_OK;
}

enum status text_stream_push(struct text_stream *stream, uint32_t id, struct buf *out,
                             int *matched) {
    const struct text_stops *stops = stream->stops;
    *matched = -1;
    stream->n_tokens++;
    if (stops->n == 0)
        return call_text_push_text(stream, id, out);
    struct buf *held = &stream->held;
    TRY(call_text_push_text(stream, id, held));
    if (held->n == 0)
        return STATUS_OK;
    if (stream->n_tokens > stops->n_min) {
        size_t at;
        int found = call_text_find_stop(stops, held->data, held->n, &at);
        if (found >= 0) {
            if (stops->include_stop)
                at += stops->strings[found].n;
            buf_append(out, held->data, at);
            buf_clear(held);
            *matched = found;
            return buf_status(out);
        }
    }
    /* Before n_min no string counts, not even one that began earlier. */
    size_t keep =
        stream->n_tokens < stops->n_min ? 0 : call_text_held_tail(stops, held->data, held->n);
    buf_append(out, held->data, held->n - keep);
    buf_consume(held, held->n - keep);
    return buf_status(out);
}

enum status text_stream_end(struct text_stream *stream, struct buf *out) {
    if (stream->held.n > 0)
        buf_append(out, stream->held.data, stream->held.n);
    buf_clear(&stream->held);
    TRY(detokenizer_flush(&stream->detokenizer, out));
    return buf_status(out);
}
