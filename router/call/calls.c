#include "router/call/calls.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/log.h"
#include "base/note.h"
#include "model/model.h"
#include "router/api/dialect.h"
#include "router/api/errors.h"
#include "router/call/admission.h"
#include "router/call/answer.h"
#include "router/call/call.h"
#include "router/call/meter.h"
#include "router/call/prepare.h"
#include "router/call/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum call_step { CALL_NEXT, CALL_WAIT };

static enum call_step parse_call(struct call *call) {
    return prepare_parse(call) ? CALL_NEXT : CALL_WAIT;
}

static enum call_step tokenize_call(struct call *call) {
    return prepare_tokenize(call) ? CALL_NEXT : CALL_WAIT;
}

static enum call_step admit_call(struct call *call) {
    admission_run(call);
    return CALL_NEXT;
}

static enum call_step stream_call(struct call *call) {
    answer_advance(call);
    return call->n_ended == call->n_sequences && !call->blocked ? CALL_NEXT : CALL_WAIT;
}

static enum call_step finish_call(struct call *call);

/* The way of a call. Between admission and the first token the core places and dispatches its
 * sequences (router/core/path.c). */
static enum call_step (*const path[STAGE_COUNT])(struct call *call) = {
    [STAGE_PARSE] = parse_call,   [STAGE_TOKENIZE] = tokenize_call, [STAGE_ADMIT] = admit_call,
    [STAGE_STREAM] = stream_call, [STAGE_FINISH] = finish_call,
};

static void free_call(struct call *call) {
    struct calls *calls = call->serving->calls;
    ASSERT(!call->working);
    for (uint32_t i = 0; i < call->n_sequences; i++) {
        struct sequence *sequence = &call->sequences[i];
        ASSERT(!sequence->alive);
        call_give_number(calls, sequence);
        text_stream_fini(&sequence->stream);
        buf_fini(&sequence->text);
        free(sequence->tokens);
        free(sequence->logprobs);
    }
    for (uint32_t i = 0; call->hashes && i < call->ask.n_prompts; i++)
        free(call->hashes[i].keys);
    free(call->hashes);
    free(call->sequences);
    prepare_drop_body(call);
    buf_fini(&call->pending);
    buf_fini(&call->whole);
    ask_fini(&call->ask);
    list_remove(&call->link);
    list_remove(&call->every);
    list_remove(&call->waits);
    calls->n_calls--;
    free(call);
}

/* Nobody waits for the answer any more. */
static void cancel_sequences(struct call *call) {
    for (uint32_t i = 0; i < call->n_sequences; i++)
        if (call->sequences[i].alive)
            router_cancel(call->serving->core, clock_now_ns(), call->sequences[i].request);
}

/* What workers and notes call a sequence; "" where it was not let in. */
static const char *attempt_text(char out[NOTE_ID_MAX], const struct request_end *end) {
    const struct attempt_id *attempt = &end->attempt;
    return note_id_text(out, (struct note_id){attempt->req.hi, attempt->req.lo, attempt->attempt});
}

/* One line for each choice, for those who follow one through the workers. */
static void log_sequences(const struct call *call) {
    char attempt[NOTE_ID_MAX];
    if (!log_is_on(LOG_DEBUG))
        return;
    for (uint32_t i = 0; i < call->n_sequences; i++)
        log_debug("sequence done", "id=%s request=%s sequence=%u tokens=%u", call->reply.id,
                  attempt_text(attempt, &call->sequences[i].end), i,
                  call->sequences[i].end.n_emitted);
}

/* Where a call that failed or was left did so; of its sequences the first that failed tells. */
static enum request_stage ended_in(const struct call *call) {
    for (uint32_t i = 0; call->left == STAGE_STREAM && i < call->n_sequences; i++)
        if (call->sequences[i].end.kind != END_DONE)
            return call->sequences[i].end.stage;
    return call->left;
}

/* "parse_us=12 tokenize_us=3 ...": all stages in order; 0 where the call was not. */
static const char *stage_times(const struct call *call, char *out, size_t size) {
    size_t n = 0;
    for (unsigned i = 0; i < STAGE_COUNT && n < size; i++) {
        uint64_t ns = call->stage_ns[i] == CALL_NEVER ? 0 : call->stage_ns[i];
        int more = snprintf(out + n, size - n, "%s%s_us=%" PRIu64, n > 0 ? " " : "",
                            stage_name((enum request_stage)i), (uint64_t)(ns / NS_PER_US));
        n += more > 0 ? (size_t)more : 0;
    }
    return out;
}

static void log_done(const struct call *call) {
    static const struct request_end nobody;
    const struct request_end *end = call->n_sequences > 0 ? &call->sequences[0].end : &nobody;
    uint64_t first_ns =
        call->first_token_ns > call->received_ns ? call->first_token_ns - call->received_ns : 0;
    char worker[2][MESSAGE_NAME_MAX + 8];
    char request_id[2 * EXCHANGE_ID_MAX];
    char attempt[NOTE_ID_MAX];
    char times[32 * STAGE_COUNT];
    log_sequences(call);
    log_info("request done",
             "id=%s request=%s request_id=%s dialect=%s outcome=%s status=%d stage=%s choices=%u "
             "prompt_tokens=%u tokens=%u cached_tokens=%u replays=%u %s first_token_us=%" PRIu64
             " prefill=%s decode=%s",
             call->reply.id, attempt_text(attempt, end),
             log_text(request_id, sizeof request_id, call->request_id), call->dialect->name,
             call->gone     ? "gone"
             : call->failed ? "error"
                            : "ok",
             call->gone     ? 499
             : call->failed ? errors_http(&call->error)
                            : 200,
             stage_name(ended_in(call)), call->n_sequences, call->reply.n_prompt_tokens,
             call->reply.n_completion_tokens, call->reply.n_cached_tokens, call->n_replays,
             stage_times(call, times, sizeof times), (uint64_t)(first_ns / NS_PER_US),
             log_text(worker[0], sizeof worker[0], end->prefill_worker),
             log_text(worker[1], sizeof worker[1], end->decode_worker));
}

static enum meter_outcome outcome_of(const struct call *call) {
    if (call->gone)
        return METER_ABORT;
    if (call->failed)
        return METER_ERROR;
    return call->sequences[0].end.finish == FINISH_LENGTH ? METER_LENGTH : METER_STOP;
}

static void count_done(const struct call *call) {
    struct meter *meter = call->serving->meter;
    unsigned http = call->gone                     ? 499
                    : call->failed && !call->begun ? (unsigned)errors_http(&call->error)
                                                   : 200;
    meter_http(meter, call->dialect->name, http);
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        if (call->stage_ns[i] != CALL_NEVER)
            meter_stage(meter, (enum request_stage)i, call->stage_ns[i]);
    if (call->n_sequences == 0)
        return; /* refused before admission, or nothing was to be generated */
    const struct meter_call figures = {
        .outcome = outcome_of(call),
        .n_prompt_tokens = call->reply.n_prompt_tokens,
        .n_completion_tokens = call->reply.n_completion_tokens,
        .n_cached_tokens = call->reply.n_cached_tokens,
        .n_choices = call->ask.n_choices,
        .has_max_new = call->ask.has_max_new,
        .max_new = call->ask.sampling.max_new,
        .received_ns = call->received_ns,
        .tokenized_ns =
            call->received_ns + call->stage_ns[STAGE_PARSE] + call->stage_ns[STAGE_TOKENIZE],
        .queued_ns = call->sequences[0].end.queued_ns,
        .first_token_ns = call->first_token_ns,
        .n_first = call->sequences[0].n_read,
    };
    meter_call(meter, &figures);
}

static void enter(struct call *call, enum request_stage next) {
    uint64_t now_ns = clock_now_ns();
    call->stage_ns[call->stage] = now_ns - call->since_ns;
    call->since_ns = now_ns;
    call->stage = next;
}

/* Its time in the core, too, by the first sequence, which the stage stream had as its own. */
static void close_times(struct call *call) {
    uint64_t *ns = call->stage_ns;
    enter(call, STAGE_FINISH);
    if (call->n_sequences == 0 || ns[STAGE_STREAM] == CALL_NEVER)
        return;
    const struct request_end *end = &call->sequences[0].end;
    ns[STAGE_PLACE] = end->queued_ns;
    ns[STAGE_DISPATCH] = end->dispatch_ns;
    uint64_t before_ns = end->queued_ns + end->dispatch_ns;
    ns[STAGE_STREAM] -= ns[STAGE_STREAM] > before_ns ? before_ns : ns[STAGE_STREAM];
}

/* The last word to the client, the log and the metrics. */
static enum call_step finish_call(struct call *call) {
    cancel_sequences(call);
    if (!answer_build(call))
        return CALL_WAIT;
    if (!call->gone) {
        struct exchange *exchange = exchange_find(call->serving->exchanges, call->exchange);
        if (exchange)
            exchange->gone = NULL;
        answer_finish(call);
    }
    call->exchange = 0;
    close_times(call);
    count_done(call);
    log_done(call);
    return CALL_NEXT;
}

/* As far as it can go now; frees the call at its end. */
static void advance(struct call *call) {
    if (call->working)
        return;
    for (;;) {
        if ((call->failed || call->gone) && call->stage != STAGE_FINISH) {
            call->left = call->stage;
            enter(call, STAGE_FINISH);
        }
        if (path[call->stage](call) == CALL_WAIT && !call->failed)
            return;
        if (call->stage == STAGE_FINISH)
            break;
        if (!call->failed)
            enter(call, call->stage == STAGE_ADMIT ? STAGE_STREAM : call->stage + 1);
    }
    free_call(call);
}

static void calls_flush(void *user) {
    struct calls *calls = user;
    /* Calls noted on the way (a cancelled sibling's end) are this turn's work too. */
    while (!list_empty(&calls->noted)) {
        struct call *call = list_entry(list_first(&calls->noted), struct call, link);
        list_remove(&call->link);
        advance(call);
    }
}

static void on_gone(struct exchange *exchange) {
    struct call *call = exchange->user;
    call->gone = true;
    call->exchange = 0;
    call_note(call);
}

static void on_drained(struct exchange *exchange) {
    struct call *call = exchange->user;
    call->blocked = false;
    call_note(call);
}

void calls_begin(struct serving *serving, struct exchange *exchange, const struct dialect *dialect,
                 const char *origin) {
    struct call *call = calloc(1, sizeof *call);
    if (!call) {
        struct exchange_reply reply = {.status = 503};
        exchange_reply(serving->exchanges, exchange->id, &reply);
        return;
    }
    list_init(&call->link);
    list_push_back(&serving->calls->every, &call->every);
    serving->calls->n_calls++;
    call->serving = serving;
    call->dialect = dialect;
    call->exchange = exchange->id;
    list_init(&call->waits);
    call->n_bytes = call->n_charged = exchange->n_body;
    exchange_take_body(exchange, &call->body);
    call->received_ns = call->since_ns = exchange->received_ns;
    call->stage = STAGE_PARSE;
    call->left = STAGE_FINISH;
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        call->stage_ns[i] = CALL_NEVER;
    ask_init(&call->ask);
    buf_init(&call->pending, 0);
    call->reply = (struct reply){.ask = &call->ask,
                                 .tokenizer = text_model(serving->text)->tokenizer,
                                 .model = serving->model,
                                 .created = clock_unix_s(),
                                 .context = serving_context(serving)};
    serving_fingerprint(serving, call->reply.fingerprint);
    snprintf(call->request_id, sizeof call->request_id, "%s", exchange->request_id);
    snprintf(call->reply.id, sizeof call->reply.id, "%s%016" PRIx64,
             dialect->writer ? dialect->writer->id_prefix : "", random_next(&serving->random));
    call->origin = origin;
    exchange->user = call;
    exchange->gone = on_gone;
    exchange->drained = on_drained;
    advance(call);
}

static struct sequence *find_sequence(const struct calls *calls, uint64_t user) {
    ASSERT(user < calls->n_max && calls->sequences[user]);
    return calls->sequences[user];
}

static bool keep_logprobs(struct sequence *sequence, const struct token_run *run) {
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
    struct sequence *sequence = find_sequence(calls, user);
    struct call *call = sequence->call;
    ASSERT(run->first_index == sequence->n_emitted);
    if (call->ask.sampling.want_logprobs && !keep_logprobs(sequence, run))
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
    struct sequence *sequence = find_sequence(calls, user);
    ASSERT(sequence->alive);
    sequence->alive = false;
    sequence->end = *end;
    sequence->call->n_alive--;
    retry_ended(&sequence->call->serving->retry, clock_now_ns());
    sequence->call->n_replays += end->n_replays;
    call_note(sequence->call);
}

const char *calls_id(const struct calls *calls, uint64_t user) {
    return find_sequence(calls, user)->call->reply.id;
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
    list_each(link, &calls->every) {
        struct call *call = list_entry(link, struct call, every);
        struct exchange *exchange = exchange_find(calls->serving->exchanges, call->exchange);
        if (exchange)
            exchange->gone = NULL;
        cancel_sequences(call);
        free_call(call);
    }
    loop_kick_remove(&calls->kick);
    free(calls->sequences);
    free(calls->free);
    free(calls);
}
