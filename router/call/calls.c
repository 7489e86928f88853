#include "router/call/calls.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/http/exchange.h"
#include "model/model.h"
#include "router/api/dialect.h"
#include "router/api/tool_reader.h"
#include "router/call/call.h"
#include "router/call/meter.h"
#include "router/call/prepare.h"
#include "router/call/quota.h"
#include "router/call/serving.h"
#include "router/call/stages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the tokens of its answer have not used goes back before the call does. */
static void give_quota(const struct call *call) {
    const struct usage_call usage = call_usage(call);
    uint64_t n_used = (uint64_t)usage.n_prompt_tokens + usage.n_completion_tokens;
    if (call->n_taken > n_used)
        quota_give_tokens(call->quota, call->n_taken - n_used);
    quota_give(call->quota);
}

static void calls_free_call(struct call *call) {
    struct calls *calls = call->serving->calls;
    ASSERT(!call->working);
    if (call->quota)
        give_quota(call);
    for (uint32_t i = 0; i < call->n_sequences; i++) {
        struct sequence *sequence = &call->sequences[i];
        ASSERT(!sequence->alive);
        call_give_number(calls, sequence);
        text_stream_fini(&sequence->stream);
        tool_reader_free(sequence->reader);
        buf_fini(&sequence->text);
        free(sequence->tokens);
        free(sequence->logprobs);
    }
    for (uint32_t i = 0; call->hashes && i < call->ask.n_prompts; i++)
        free(call->hashes[i].keys);
    free(call->hashes);
    free(call->sequences);
    prepare_drop_body(call);
    buf_fini(&call->client.pending);
    buf_fini(&call->whole);
    ask_fini(&call->ask);
    call_trace_fini(&call->trace);
    if (call->reply.state && call->dialect->writer->drop)
        call->dialect->writer->drop(call->reply.state);
    free(call->reply.state);
    list_remove(&call->link);
    list_remove(&call->every);
    list_remove(&call->waits);
    calls->n_calls--;
    free(call);
}

static void calls_flush(void *user) {
    struct calls *calls = user;
    /* Calls noted on the way (a cancelled sibling's end) are this turn's work too. */
    while (!list_empty(&calls->noted)) {
        struct call *call = list_entry(list_first(&calls->noted), struct call, link);
        list_remove(&call->link);
        if (stages_advance(call))
            calls_free_call(call);
    }
}

static void calls_on_gone(struct exchange *exchange) {
    struct call *call = exchange->user;
    call->client.state = CLIENT_GONE;
    call->client.exchange = 0;
    call_note(call);
}

static void calls_on_drained(struct exchange *exchange) {
    struct call *call = exchange->user;
    if (call->client.state == CLIENT_BLOCKED)
        call->client.state = CLIENT_STREAMS;
    call_note(call);
}

/* "30" or "0.5": seconds. */
static enum status calls_read_timeout(struct call *call, const char *value) {
    char *end = NULL;
    double s = value ? strtod(value, &end) : 0;
    if (!value)
        return STATUS_OK;
    if (value[strspn(value, "0123456789.")] || *end || !(s > 0 && s <= ASK_TIMEOUT_S_MAX))
        return error_set(&call->error.error, STATUS_INVALID,
                         "x-request-timeout: `%.40s` is not a number of seconds up to %d", value,
                         ASK_TIMEOUT_S_MAX);
    ask_limit_time(&call->ask, (uint64_t)(s * (double)NS_PER_S));
    return STATUS_OK;
}

/* What any dialect's request may have, then the dialect's own. */
static enum status calls_read_headers(struct call *call, const struct exchange *exchange) {
    call_trace_begin(call, exchange);
    if (call->dialect->headers)
        TRY(call->dialect->headers(exchange, &call->ask, &call->error));
    return calls_read_timeout(call, exchange_header(exchange, "x-request-timeout"));
}

void calls_begin(struct serving *serving, struct exchange *exchange, const struct dialect *dialect,
                 const char *origin, struct quota *quota) {
    size_t state_size = dialect->writer ? dialect->writer->state_size : 0;
    struct call *call = calloc(1, sizeof *call);
    void *state = state_size > 0 ? calloc(1, state_size) : NULL;
    if (!call || (state_size > 0 && !state)) {
        free(call);
        free(state);
        if (quota)
            quota_give(quota);
        struct exchange_reply reply = {.status = 503};
        exchange_reply(serving->exchanges, exchange->id, &reply);
        return;
    }
    list_init(&call->link);
    list_push_back(&serving->calls->every, &call->every);
    serving->calls->n_calls++;
    call->serving = serving;
    call->quota = quota;
    call->dialect = dialect;
    call->client = (struct client){.exchanges = serving->exchanges,
                                   .form = dialect->form,
                                   .exchange = exchange->id,
                                   .told_ns = exchange->received_ns,
                                   .origin = origin};
    buf_init(&call->client.pending, 0);
    list_init(&call->waits);
    call->n_bytes = call->n_charged = exchange->n_body;
    exchange_take_body(exchange, &call->body);
    call->received_ns = call->since_ns = exchange->received_ns;
    call->stage = STAGE_PARSE;
    call->left = STAGE_FINISH;
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        call->stage_ns[i] = CALL_NEVER;
    ask_init(&call->ask);
    call->reply = (struct reply){.ask = &call->ask,
                                 .tokenizer = text_model(serving->text)->tokenizer,
                                 .model = serving->model,
                                 .created = clock_unix_s(),
                                 .context = serving_context(serving),
                                 .state = state};
    enum status status = calls_read_headers(call, exchange);
    if (status != STATUS_OK)
        call_fail(call, status, call->error.code, NULL);
    serving_fingerprint(serving, call->reply.fingerprint);
    snprintf(call->request_id, sizeof call->request_id, "%s", exchange->request_id);
    snprintf(call->reply.id, sizeof call->reply.id, "%s%016" PRIx64,
             dialect->writer ? dialect->writer->id_prefix : "", random_next(&serving->random));
    exchange->user = call;
    exchange->gone = calls_on_gone;
    exchange->drained = calls_on_drained;
    if (stages_advance(call))
        calls_free_call(call);
}

static struct sequence *calls_find_sequence(const struct calls *calls, uint64_t user) {
    ASSERT(user < calls->n_max && calls->sequences[user]);
    return calls->sequences[user];
}

static bool calls_keep_logprobs(struct sequence *sequence, const struct token_run *run) {
    uint32_t need = run->first_index + run->n_tokens;
    if (need > sequence->logprobs_size) {
        uint32_t size = need < 16 ? 16 : need > UINT32_MAX / 2 ? need : need * 2;
        void *grown = reallocarray(sequence->logprobs, size, sizeof *sequence->logprobs);
        if (!grown)
            return false;
        sequence->logprobs = grown;
        sequence->logprobs_size = size;
    }
    struct token_logprobs *to = sequence->logprobs + run->first_index;
    memcpy(to, run->logprobs, run->n_tokens * sizeof *to);
    return true;
}

void calls_tokens(struct calls *calls, uint64_t user, const struct token_run *run) {
    struct sequence *sequence = calls_find_sequence(calls, user);
    struct call *call = sequence->call;
    ASSERT(run->first_index == sequence->n_emitted);
    if (call->ask.sampling.want_logprobs && !calls_keep_logprobs(sequence, run))
        call_fail(call, STATUS_NOMEM, NULL, "no memory for the logprobs");
    uint64_t now_ns = clock_now_ns();
    if (call->first_token_ns == 0) {
        call->first_token_ns = now_ns;
        retry_open(&call->serving->retry);
    }
    if (sequence->n_emitted > 0)
        meter_gap(call->serving->meter, now_ns - sequence->last_token_ns, run->n_tokens);
    sequence->last_token_ns = now_ns;
    sequence->n_emitted += run->n_tokens;
    call_note(call);
}

void calls_end(struct calls *calls, uint64_t user, const struct request_end *end) {
    struct sequence *sequence = calls_find_sequence(calls, user);
    ASSERT(sequence->alive);
    sequence->alive = false;
    sequence->end = *end;
    retry_ended(&sequence->call->serving->retry, clock_now_ns());
    sequence->call->n_replays += end->n_replays;
    call_note(sequence->call);
}

const char *calls_id(const struct calls *calls, uint64_t user) {
    return calls_find_sequence(calls, user)->call->reply.id;
}

void calls_abort(struct calls *calls, const struct dialect *dialect, struct span name) {
    list_each_entry(call, &calls->every, struct call, every) {
        if (call->working || call->made == MADE_REPLY || call->dialect != dialect || name.n == 0 ||
            call->ask.request_name.n != name.n ||
            memcmp(call->ask.request_name.bytes, name.bytes, name.n) != 0)
            continue;
        call_fail(call, STATUS_CLOSED, "aborted", "The call was aborted");
        call_note(call);
    }
}

uint32_t calls_count(const struct calls *calls) {
    return calls->n_calls;
}

enum status calls_new(struct serving *serving, uint32_t n_sequences, struct calls **out) {
    ASSERT(n_sequences > 0);
    struct calls *calls = calloc(1, sizeof *calls);
    if (!calls)
        return STATUS_NOMEM;
    calls->serving = serving;
    calls->n_max = calls->n_free = n_sequences;
    calls->sequences = calloc(n_sequences, sizeof *calls->sequences);
    calls->free = calloc(n_sequences, sizeof *calls->free);
    list_init(&calls->noted);
    list_init(&calls->every);
    loop_kick_init(&calls->kick, calls_flush, calls);
    *out = calls;
    if (!calls->sequences || !calls->free) {
        calls_free(calls);
        *out = NULL;
        return STATUS_NOMEM;
    }
    for (uint32_t i = 0; i < n_sequences; i++)
        calls->free[i] = n_sequences - 1 - i;
    return STATUS_OK;
}

void calls_free(struct calls *calls) {
    if (!calls)
        return;
    list_each_entry(call, &calls->every, struct call, every) {
        struct exchange *exchange = exchange_find(calls->serving->exchanges, call->client.exchange);
        if (exchange)
            exchange->gone = NULL;
        call_cancel(call);
        calls_free_call(call);
    }
    loop_kick_remove(&calls->kick);
    free(calls->sequences);
    free(calls->free);
    free(calls);
}
