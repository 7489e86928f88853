#include "router/prepare.h"

#include "base/log.h"
#include "model/json/json_get.h"
#include "router/call.h"
#include "router/serving.h"

#include <stdlib.h>
#include <string.h>

/* A body of this size parses in about a millisecond (jansson, token ids). */
#define PARSE_INLINE_BYTES (64u << 10)

/* Tokenizing is about 100 ns a byte at worst; a thread's turn costs 20 us or more. */
#define TOKENIZE_INLINE_BYTES 1024u

static enum status parse_body(struct call *call) {
    struct ask *ask = &call->ask;
    call->parsed = true;
    TRY(json_get_parse(call->bytes, call->n_bytes, &ask->body, &call->error.error));
    return call->dialect->parse(ask->body, &call->serving->limits, ask, &call->error);
}

static enum status encode_prompt(struct call *call, struct ask_prompt *prompt) {
    struct ask *ask = &call->ask;
    struct text *text = call->serving->text;
    if (prompt->is_ids)
        return STATUS_OK;
    /* A prompt that is cut afterwards may be longer first. */
    ids_init(&prompt->ids,
             ask->truncate ? MESSAGE_TOKENS_MAX * 4u : call->serving->limits.prompt_max);
    struct template_input input = {.messages = ask->messages,
                                   .n_messages = ask->n_messages,
                                   .add_generation_prompt = ask->add_generation_prompt};
    struct error *error = &call->error.error;
    enum status status =
        ask->is_chat ? text_encode_chat(text, &input, ask->add_special, &prompt->ids, error)
                     : text_encode(text, prompt->text, ask->add_special, &prompt->ids, error);
    if (status == STATUS_OK)
        return STATUS_OK;
    const char *field = ask->is_chat ? "messages" : "prompt";
    if (status == STATUS_LIMIT)
        return error_field(error, status, field,
                           "The prompt is longer than the context (%u tokens)",
                           call->serving->limits.prompt_max);
    if (error->field[0] == 0 && status != STATUS_NOMEM) {
        struct error plain = *error;
        return error_field(error, status, field, "%s", plain.text);
    }
    return status;
}

static void cut_front(struct ids *ids, uint32_t n_keep) {
    if (n_keep == 0 || ids->n <= n_keep)
        return;
    memmove(ids->at, ids->at + (ids->n - n_keep), n_keep * sizeof *ids->at);
    ids->n = n_keep;
}

static enum status hash_prompts(struct call *call) {
    struct ask *ask = &call->ask;
    call->salt = text_salt(call->serving->text, ask->cache_salt);
    call->hashes = calloc(ask->n_prompts, sizeof *call->hashes);
    if (!call->hashes)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < ask->n_prompts; i++) {
        const struct ids *ids = &ask->prompts[i].ids;
        struct prefix_hashes *hashes = &call->hashes[i];
        if (ids->n < TEXT_BLOCK_TOKENS)
            continue;
        hashes->keys = calloc(ids->n / TEXT_BLOCK_TOKENS, sizeof *hashes->keys);
        if (!hashes->keys)
            return STATUS_NOMEM;
        hashes->n = text_hash(call->serving->text, call->salt, ids->at, ids->n, hashes->keys);
    }
    return STATUS_OK;
}

/* Parses what is not parsed yet, and makes ids of it. On either kind of thread; touches nothing but
 * the call, the limits and the text. */
static enum status prepare(struct call *call) {
    if (!call->parsed)
        TRY(parse_body(call));
    struct ask *ask = &call->ask;
    for (uint32_t i = 0; i < ask->n_prompts; i++) {
        TRY(encode_prompt(call, &ask->prompts[i]));
        cut_front(&ask->prompts[i].ids, ask->truncate);
    }
    if (call->dialect->writer && hash_prompts(call) != STATUS_OK)
        return error_set(&call->error.error, STATUS_NOMEM, "no memory for the prompt");
    ask_drop_body(ask);
    call->tokenized = true;
    return STATUS_OK;
}

static void fail_with(struct call *call, enum status status) {
    if (status != STATUS_OK)
        call_fail(call, status, call->error.code, NULL);
}

static void run_job(struct pool_job *job) {
    struct call *call = list_entry(job, struct call, job);
    call->error.status = prepare(call);
}

static void job_done(struct pool_job *job, enum status status) {
    struct call *call = list_entry(job, struct call, job);
    call->working = false;
    free(call->body);
    call->body = NULL;
    fail_with(call, status == STATUS_OK ? call->error.status : status);
    calls_note(call);
}

static void submit(struct call *call) {
    call->job = (struct pool_job){.run = run_job, .done = job_done};
    list_init(&call->job.link);
    call->working = true;
    if (pool_submit(call->serving->pool, &call->job) == STATUS_OK)
        return;
    call->working = false;
    call_fail(call, STATUS_BUSY, NULL, "too many requests are being tokenized");
}

/* R2: once for each name, and only so many names: they are the client's choice. */
static void log_unknown(const char *name) {
    static char seen[32][64];
    static unsigned n_seen;
    for (unsigned i = 0; i < n_seen; i++)
        if (strcmp(seen[i], name) == 0)
            return;
    if (name[0] == 0 || n_seen == sizeof seen / sizeof seen[0])
        return;
    char shown[160];
    memcpy(seen[n_seen++], name, sizeof seen[0]);
    log_info("unknown field ignored", "field=%s", log_text(shown, sizeof shown, name));
}

bool prepare_parse(struct call *call) {
    if (call->parsed || call->failed)
        return true;
    if (call->n_bytes <= PARSE_INLINE_BYTES) {
        fail_with(call, parse_body(call));
        return true;
    }
    /* The request's memory ends with the client: the pool works on a copy. */
    call->body = malloc(call->n_bytes);
    if (!call->body) {
        call_fail(call, STATUS_NOMEM, NULL, "no memory for the request");
        return true;
    }
    memcpy(call->body, call->bytes, call->n_bytes);
    call->bytes = call->body;
    submit(call);
    return false;
}

static size_t text_bytes(const struct ask *ask) {
    size_t n = 0;
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        n += ask->prompts[i].text.n + ask->prompts[i].ids.n / 4;
    for (uint32_t i = 0; i < ask->n_messages; i++)
        n += ask->messages[i].content.n + 32;
    return n;
}

bool prepare_tokenize(struct call *call) {
    if (!call->tokenized && text_bytes(&call->ask) > TOKENIZE_INLINE_BYTES) {
        submit(call);
        return false;
    }
    if (!call->tokenized)
        fail_with(call, prepare(call));
    log_unknown(call->ask.unknown);
    return true;
}
