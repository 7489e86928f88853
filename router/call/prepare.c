#include "router/call/prepare.h"

#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/log/log.h"
#include "router/api/thoughts.h"
#include "router/api/tools.h"
#include "router/call/call.h"
#include "router/call/formats.h"
#include "router/call/quota.h"
#include "router/call/serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A body of this size parses in about a millisecond: jansson takes up to 100 ns a byte of objects with many members. */
#define PARSE_INLINE_BYTES (12u << 10)

/* Tokenizing is about 100 ns a byte at worst; a thread's turn costs 20 us or more. */
#define TOKENIZE_INLINE_BYTES 1024u

static enum status prepare_parse_body(struct call *call) {
    const struct span body = {call->body.data ? call->body.data : "", call->body.n};
    enum status status =
        call->dialect->parse(&body, &call->serving->limits, &call->ask, &call->error);
    ask_limit_time(&call->ask, (uint64_t)((double)call->ask.timeout_s * (double)NS_PER_S));
    if (status != STATUS_BUSY)
        call->made = MADE_ASK;
    return status;
}

static enum status prepare_encode_prompt(struct call *call, struct ask_prompt *prompt,
                                         enum thought_start *start) {
    struct ask *ask = &call->ask;
    struct text *text = call->serving->text;
    if (prompt->is_ids)
        return STATUS_OK;
    /* A prompt that is cut afterwards may be longer first. */
    ids_init(&prompt->ids, ask->truncate ? ASK_UNCUT_IDS_MAX : call->serving->limits.prompt_max);
    struct error *error = &call->error.error;
    const struct text_reading reading = {ask->add_special, ask->parse_special};
    enum status status =
        ask->is_chat
            ? text_encode_chat(text, &ask->chat.input, ask->add_special, &prompt->ids, start, error)
            : text_encode(text, prompt->text, reading, &prompt->ids, error);
    if (status == STATUS_OK)
        return STATUS_OK;
    const char *field = ask->is_chat ? "messages" : "prompt";
    if (status == STATUS_LIMIT && !ask->truncate)
        return errors_too_long(error, field, call->serving->limits.prompt_max, 0);
    if (error->field[0] == 0 && status != STATUS_NOMEM) {
        struct error plain = *error;
        return error_field(error, status, field, "%s", plain.text);
    }
    return status;
}

static void prepare_cut_front(struct ids *ids, uint32_t n_keep) {
    if (n_keep == 0 || ids->n <= n_keep)
        return;
    memmove(ids->at, ids->at + (ids->n - n_keep), n_keep * sizeof *ids->at);
    ids->n = n_keep;
}

/* Both are keyed hashes: nobody reaches another key's share by a salt of his own. */
static uint64_t prepare_salt_of(const struct call *call) {
    const struct text *text = call->serving->text;
    uint64_t salt = text_salt(text, call->ask.cache_salt);
    if (!call->quota || !call->quota->salt[0])
        return salt;
    const struct span own = {call->quota->salt, strlen(call->quota->salt)};
    return salt + text_salt(text, own) * 0x9e3779b97f4a7c15u;
}

static enum status prepare_hash_prompts(struct call *call) {
    struct ask *ask = &call->ask;
    call->salt = prepare_salt_of(call);
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
    if (call->made == MADE_NOTHING)
        TRY(prepare_parse_body(call));
    struct ask *ask = &call->ask;
    const struct dialect_writer *writer = call->dialect->writer;
    enum thought_start start = THOUGHT_NONE;
    for (uint32_t i = 0; i < ask->n_prompts; i++) {
        TRY(prepare_encode_prompt(call, &ask->prompts[i], &start));
        prepare_cut_front(&ask->prompts[i].ids, ask->truncate);
    }
    if (writer && writer->splits_thoughts)
        TRY(thoughts_set(ask, &call->serving->limits, start, &call->error.error));
    if (ask->format && writer)
        TRY(formats_check(call->serving->formats, ask, &call->error.error));
    if (ask->calls && writer)
        TRY(tools_compile(ask, &call->error.error));
    if (writer && prepare_hash_prompts(call) != STATUS_OK)
        return error_set(&call->error.error, STATUS_NOMEM, "no memory for the prompt");
    ask_drop_body(ask);
    call->made = MADE_IDS;
    return STATUS_OK;
}

static void prepare_fail_with(struct call *call, enum status status) {
    if (status != STATUS_OK)
        call_fail(call, status, call->error.code, NULL);
}

/* Did it only lack memory that other trees have now? It is as it was, then. */
static bool prepare_is_crowded(const struct call *call, enum status status) {
    return status == STATUS_BUSY && call->made == MADE_NOTHING;
}

void prepare_drop_body(struct call *call) {
    buf_fini(&call->body);
    if (call->n_charged > 0)
        exchanges_give_body(call->serving->exchanges, call->n_charged);
    call->n_charged = 0;
}

/* Large trees and bodies end here and not on the loop's thread, which may be in a hurry. */
static void prepare_run_job(struct pool_job *job) {
    struct call *call = list_entry(job, struct call, job);
    enum status status = prepare(call);
    call->error.status = status;
    if (prepare_is_crowded(call, status))
        return;
    if (status != STATUS_OK)
        ask_drop_body(&call->ask);
    buf_fini(&call->body);
}

static void prepare_job_done(struct pool_job *job, enum status status);

static void prepare_submit(struct call *call) {
    struct serving *serving = call->serving;
    call->job = (struct pool_job){.run = prepare_run_job, .done = prepare_job_done};
    list_init(&call->job.link);
    call->working = true;
    serving->n_jobs++;
    if (pool_submit(serving->pool, &call->job) == STATUS_OK)
        return;
    serving->n_jobs--;
    call->working = false;
    call_fail(call, STATUS_BUSY, NULL, "too many requests are being tokenized");
}

/* The first of those that wait for memory, once it may be there. One at a time: what it frees in
 * its turn wakes the next. Trees live outside of jobs only while one is about to begin. */
static void prepare_try_crowded(struct serving *serving) {
    if (list_empty(&serving->crowded))
        return;
    struct call *call = list_entry(list_first(&serving->crowded), struct call, waits);
    list_remove(&call->waits);
    prepare_submit(call);
    if (call->failed)
        call_note(call);
}

static void prepare_wait_for_memory(struct call *call) {
    struct serving *serving = call->serving;
    call->error = (struct api_error){0};
    list_push_back(&serving->crowded, &call->waits);
    if (serving->n_jobs == 0)
        prepare_try_crowded(serving);
}

static void prepare_job_done(struct pool_job *job, enum status status) {
    struct call *call = list_entry(job, struct call, job);
    struct serving *serving = call->serving;
    call->working = false;
    serving->n_jobs--;
    if (status == STATUS_OK && prepare_is_crowded(call, call->error.status) &&
        call->client.state != CLIENT_GONE) {
        prepare_wait_for_memory(call);
        return;
    }
    prepare_drop_body(call);
    prepare_fail_with(call, status == STATUS_OK ? call->error.status : status);
    call_note(call);
    if (status == STATUS_OK)
        prepare_try_crowded(serving);
}

/* Names that clients chose. Each is told once, and only so many are. */
struct told {
    unsigned n;
    char names[32][64];
};

static bool prepare_is_new(struct told *told, const char *name) {
    for (unsigned i = 0; i < told->n; i++)
        if (strcmp(told->names[i], name) == 0)
            return false;
    if (name[0] == 0 || told->n == sizeof told->names / sizeof told->names[0])
        return false;
    snprintf(told->names[told->n++], sizeof told->names[0], "%s", name);
    return true;
}

/* What a request asked for in vain. */
static void prepare_log_ignored(const struct ask *ask) {
    static struct told fields, kinds;
    char shown[160];
    if (prepare_is_new(&fields, ask->unknown))
        log_info("unknown field ignored", "field=%s", log_text(shown, sizeof shown, ask->unknown));
    for (uint32_t i = 0; i < ask->n_left_out; i++)
        if (prepare_is_new(&kinds, ask->left_out[i]))
            log_info("tools of this kind are left out", "kind=%s",
                     log_text(shown, sizeof shown, ask->left_out[i]));
}

bool prepare_parse(struct call *call) {
    if (call->made != MADE_NOTHING || call->failed)
        return true;
    if (call->body.n <= PARSE_INLINE_BYTES) {
        enum status status = prepare_parse_body(call);
        if (prepare_is_crowded(call, status)) {
            prepare_wait_for_memory(call);
            return false;
        }
        prepare_drop_body(call);
        prepare_fail_with(call, status);
        return true;
    }
    prepare_submit(call);
    return false;
}

/* How much text there is to tokenize; a template may write all that a chat's body says. */
static size_t prepare_text_bytes(const struct call *call) {
    const struct ask *ask = &call->ask;
    size_t n = ask->is_chat ? call->n_bytes : 0;
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        n += ask->prompts[i].text.n + ask->prompts[i].ids.n / 4;
    return n;
}

bool prepare_tokenize(struct call *call) {
    bool is_long = call->ask.format || prepare_text_bytes(call) > TOKENIZE_INLINE_BYTES;
    if (call->made != MADE_IDS && is_long) {
        prepare_submit(call);
        return false;
    }
    if (call->made != MADE_IDS)
        prepare_fail_with(call, prepare(call));
    prepare_log_ignored(&call->ask);
    return true;
}
