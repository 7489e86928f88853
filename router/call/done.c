#include "router/call/done.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/log/note.h"
#include "router/api/errors.h"
#include "router/call/call.h"
#include "router/call/meter.h"
#include "router/call/quota.h"
#include "router/call/serving.h"

#include <inttypes.h>
#include <stdio.h>

static enum meter_outcome call_done_outcome_of(const struct call *call) {
    if (call->client.state == CLIENT_GONE)
        return METER_ABORT;
    if (call->failed)
        return METER_ERROR;
    bool is_cut = call->n_sequences > 0 && call->sequences[0].end.finish == FINISH_LENGTH;
    return is_cut ? METER_LENGTH : METER_STOP;
}

/* As the client saw it: an error within a stream comes behind a 200. 499: nobody saw it. */
static unsigned call_done_http_status(const struct call *call) {
    if (call->client.state == CLIENT_GONE)
        return 499;
    bool is_error = call->failed && call->client.state == CLIENT_WAITS;
    return is_error ? (unsigned)errors_http(&call->error) : 200;
}

/* What workers and notes call a sequence; "" where it was not let in. */
static const char *call_done_attempt_text(char out[NOTE_ID_MAX], const struct request_end *end) {
    const struct attempt_id *attempt = &end->attempt;
    return note_id_text(out, (struct note_id){attempt->req.hi, attempt->req.lo, attempt->attempt});
}

/* One line for each choice, for those who follow one through the workers. */
static void call_log_sequences(const struct call *call) {
    char attempt[NOTE_ID_MAX];
    if (!log_is_on(LOG_DEBUG))
        return;
    for (uint32_t i = 0; i < call->n_sequences; i++)
        log_debug("sequence done", "id=%s request=%s sequence=%u tokens=%u", call->reply.id,
                  call_done_attempt_text(attempt, &call->sequences[i].end), i,
                  call->sequences[i].end.n_emitted);
}

/* Where a call that failed or was left did so; of its sequences the first that failed tells. */
static enum request_stage call_done_ended_in(const struct call *call) {
    for (uint32_t i = 0; call->left == STAGE_STREAM && i < call->n_sequences; i++)
        if (call->sequences[i].end.kind != END_DONE)
            return call->sequences[i].end.stage;
    return call->left;
}

/* "parse_us=12 tokenize_us=3 ...": all stages in order; 0 where the call was not. */
static const char *call_done_stage_times(const struct call *call, char *out, size_t size) {
    size_t n = 0;
    for (unsigned i = 0; i < STAGE_COUNT && n < size; i++) {
        uint64_t ns = call->stage_ns[i] == CALL_NEVER ? 0 : call->stage_ns[i];
        int more = snprintf(out + n, size - n, "%s%s_us=%" PRIu64, n > 0 ? " " : "",
                            stage_name((enum request_stage)i), (uint64_t)(ns / NS_PER_US));
        n += more > 0 ? (size_t)more : 0;
    }
    return out;
}

static void call_log_done(const struct call *call, enum meter_outcome outcome, unsigned http) {
    static const char *const outcomes[METER_OUTCOMES] = {[METER_STOP] = "ok",
                                                         [METER_LENGTH] = "ok",
                                                         [METER_ABORT] = "gone",
                                                         [METER_ERROR] = "error"};
    static const struct request_end nobody;
    const struct request_end *end = call->n_sequences > 0 ? &call->sequences[0].end : &nobody;
    uint64_t first_ns =
        call->first_token_ns > call->received_ns ? call->first_token_ns - call->received_ns : 0;
    char worker[2][MESSAGE_NAME_MAX + 8];
    char request_id[2 * EXCHANGE_ID_MAX];
    char attempt[NOTE_ID_MAX];
    char trace[NOTE_TRACE_MAX];
    char times[32 * STAGE_COUNT];
    call_log_sequences(call);
    log_info("request done",
             "id=%s request=%s request_id=%s traceparent=%s trace=%s key=%s dialect=%s outcome=%s "
             "status=%u "
             "error=%s stage=%s "
             "choices=%u prompt_tokens=%u tokens=%u cached_tokens=%u replays=%u %s "
             "first_token_us=%" PRIu64 " prefill=%s decode=%s",
             call->reply.id, call_done_attempt_text(attempt, end),
             log_text(request_id, sizeof request_id, call->request_id), call->traceparent,
             call->trace.is_known ? note_trace_text(trace, call->trace.trace.trace_id) : "",
             call->quota ? call->quota->name : "", call->dialect->name, outcomes[outcome], http,
             call->failed ? status_name(call->error.status) : "",
             stage_name(call_done_ended_in(call)), call->n_sequences, call->reply.n_prompt_tokens,
             call->reply.n_completion_tokens, call->reply.n_cached_tokens, call->n_replays,
             call_done_stage_times(call, times, sizeof times), (uint64_t)(first_ns / NS_PER_US),
             log_text(worker[0], sizeof worker[0], end->prefill_worker),
             log_text(worker[1], sizeof worker[1], end->decode_worker));
}

static uint32_t call_done_longest(const struct call *call) {
    uint32_t n = 0;
    for (unsigned i = 0; i < call->n_sequences; i++)
        n = call->sequences[i].n_read > n ? call->sequences[i].n_read : n;
    return n;
}

static void call_count_done(const struct call *call, enum meter_outcome outcome, unsigned http) {
    struct meter *meter = call->serving->meter;
    const struct usage_call usage = call_usage(call);
    meter_http(meter, call->dialect->name, http);
    usage_add(call->serving->usage, call->quota ? call->quota->name : "", &usage);
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        if (call->stage_ns[i] != CALL_NEVER)
            meter_stage(meter, (enum request_stage)i, call->stage_ns[i]);
    if (call->n_sequences == 0)
        return; /* refused before admission, or nothing was to be generated */
    const struct meter_call figures = {
        .outcome = outcome,
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
        .n_longest = call_done_longest(call),
    };
    meter_call(meter, &figures);
}

void done_tell(const struct call *call) {
    enum meter_outcome outcome = call_done_outcome_of(call);
    unsigned http = call_done_http_status(call);
    call_count_done(call, outcome, http);
    call_log_done(call, outcome, http);
    call_trace_done(call, http);
}
