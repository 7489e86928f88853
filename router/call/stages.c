#include "router/call/stages.h"

#include "base/clock.h"
#include "router/call/admission.h"
#include "router/call/answer.h"
#include "router/call/call.h"
#include "router/call/client.h"
#include "router/call/done.h"
#include "router/call/prepare.h"
#include "router/call/serving.h"

/* Tokens of a reply that are written in about a millisecond. */
#define BUILD_INLINE_TOKENS 4096u

enum call_step { CALL_NEXT, CALL_WAIT };

static enum call_step stage_parse_call(struct call *call) {
    return prepare_parse(call) ? CALL_NEXT : CALL_WAIT;
}

static enum call_step stage_tokenize_call(struct call *call) {
    return prepare_tokenize(call) ? CALL_NEXT : CALL_WAIT;
}

static enum call_step stage_admit_call(struct call *call) {
    admission_run(call);
    return CALL_NEXT;
}

/* An end that is no answer: the first one is the call's. */
static void stage_fail_by_end(struct call *call, const struct request_end *end) {
    bool is_too_long = end->status == STATUS_LIMIT && end->reason == REASON_TOO_LONG;
    if (end->kind == END_CANCELLED) /* by nobody but us: then the call has failed already */
        call_fail(call, STATUS_CLOSED, NULL, "The request was cancelled");
    else if (is_too_long || end->status == STATUS_TIMEOUT || end->status == STATUS_CLOSED ||
             end->status == STATUS_BUSY)
        call_refuse(call, end->status);
    else if (end->status == STATUS_INVALID)
        call_fail(call, end->status, NULL, "The workers refuse the request as invalid");
    else if (end->reason == REASON_GRAMMAR)
        call_fail(call, STATUS_INVALID, "no_token_left",
                  "No token is left that the request's own bounds let follow: the answer's form, "
                  "`allowed_token_ids`, `logit_bias`, `min_tokens`");
    else if (end->reason == REASON_NUMERICS)
        call_fail(call, STATUS_CORRUPT, "numerics", "The model's numbers were unusable");
    else
        call_fail(call, STATUS_IO, "attempts_exhausted",
                  "The workers failed on the request again and again");
}

/* What there is to say leaves with one write; a client that cannot take it stops the call here. */
static void stage_send_events(struct call *call) {
    if (client_send(&call->client) != STATUS_OK)
        call_fail(call, STATUS_NOMEM, NULL, "No memory for the reply");
}

static enum call_step stage_stream_call(struct call *call) {
    struct client *client = &call->client;
    const struct answer answer = call_answer(call);
    const struct request_end *failed;
    if (client->state != CLIENT_BLOCKED)
        stage_send_events(call); /* left from the last time */
    if (client->state == CLIENT_BLOCKED)
        return CALL_WAIT;
    if (answer_read(&answer, &client->pending) != STATUS_OK)
        call_fail(call, STATUS_CORRUPT, NULL, "A token could not be turned into text");
    stage_send_events(call);
    bool has_ended = answer_has_ended(&answer, &failed);
    if (failed)
        stage_fail_by_end(call, failed);
    return has_ended && client->state != CLIENT_BLOCKED ? CALL_NEXT : CALL_WAIT;
}

static void stage_run_build(struct pool_job *job) {
    struct call *call = list_entry(job, struct call, job);
    const struct answer answer = call_answer(call);
    call->build_status = answer_whole(&answer, &call->whole);
}

static void stage_build_done(struct pool_job *job, enum status status) {
    struct call *call = list_entry(job, struct call, job);
    call->working = false;
    call->made = MADE_REPLY;
    if (status != STATUS_OK)
        call->build_status = status;
    call_note(call);
}

/* The end of a stream goes the way of its events: a slow client gets it, too. */
static void stage_build_end(struct call *call) {
    if (call->dialect->writer->end)
        call->dialect->writer->end(&call->reply, &call->client.pending);
    call->made = MADE_REPLY;
}

/* Makes the reply of a call whose sequences have all ended: nobody but the job touches them. False:
 * it is a long one, which a thread of the pool makes meanwhile. */
static bool stage_build_reply(struct call *call) {
    const struct answer answer = call_answer(call);
    if (call->made == MADE_REPLY || call->failed || call->client.state == CLIENT_GONE)
        return true;
    if (call->client.state != CLIENT_WAITS) {
        stage_build_end(call);
        return true;
    }
    call->job = (struct pool_job){.run = stage_run_build, .done = stage_build_done};
    list_init(&call->job.link);
    if (answer_cost(&answer) > BUILD_INLINE_TOKENS &&
        pool_submit(call->serving->pool, &call->job) == STATUS_OK) {
        call->working = true;
        return false;
    }
    call->build_status = answer_whole(&answer, &call->whole);
    call->made = MADE_REPLY;
    return true;
}

/* The failure as the last events of a stream. */
static void stage_put_failure(struct call *call) {
    const struct dialect_writer *writer = call->dialect->writer;
    struct buf *out = &call->client.pending;
    if (writer && writer->failed)
        writer->failed(&call->reply, &call->error, out);
    else if (call->client.form->error_event)
        call->client.form->error_event(&call->error, out);
}

static void stage_reply_error(struct call *call) {
    if (call->error.error.text[0] == 0)
        error_set(&call->error.error, call->error.status, "%s", status_name(call->error.status));
    if (call->client.state != CLIENT_WAITS) {
        stage_put_failure(call);
        client_fail(&call->client, &call->error);
        return;
    }
    client_refuse(&call->client, call->serving, &call->error);
}

/* The end of the reply: of the stream, or the whole of it, or the error. */
static enum call_step stage_answer_client(struct call *call) {
    if (call->made == MADE_REPLY && call->build_status != STATUS_OK)
        call_fail(call, STATUS_NOMEM, NULL, "No memory for the reply");
    if (!call->failed && call->client.state != CLIENT_WAITS) {
        stage_send_events(call);
        if (call->client.state == CLIENT_BLOCKED)
            return CALL_WAIT;
    }
    if (call->failed)
        stage_reply_error(call);
    else if (call->client.state == CLIENT_WAITS)
        client_reply(&call->client, 200, call->client.form->content_type, &call->whole);
    else
        client_end(&call->client);
    return CALL_NEXT;
}

static void stage_enter(struct call *call, enum request_stage next) {
    uint64_t now_ns = clock_now_ns();
    call->stage_ns[call->stage] = now_ns - call->since_ns;
    call->since_ns = now_ns;
    call->stage = next;
}

/* Its time in the core, too, by the first sequence, which the stage stream had as its own. */
static void stage_close_times(struct call *call) {
    uint64_t *ns = call->stage_ns;
    stage_enter(call, STAGE_FINISH);
    if (call->n_sequences == 0 || ns[STAGE_STREAM] == CALL_NEVER)
        return;
    const struct request_end *end = &call->sequences[0].end;
    ns[STAGE_PLACE] = end->queued_ns;
    ns[STAGE_DISPATCH] = end->dispatch_ns;
    uint64_t before_ns = end->queued_ns + end->dispatch_ns;
    ns[STAGE_STREAM] -= ns[STAGE_STREAM] > before_ns ? before_ns : ns[STAGE_STREAM];
}

/* The last word to the client, the log and the metrics. */
static enum call_step stage_finish_call(struct call *call) {
    if (call->made != MADE_REPLY) {
        call_cancel(call);
        call->reply.n_cached_tokens = 0;
        for (uint32_t i = 0; i < call->n_sequences; i += call->ask.n_choices)
            call->reply.n_cached_tokens += call->sequences[i].end.cached_tokens;
    }
    if (!stage_build_reply(call))
        return CALL_WAIT;
    if (call->client.state != CLIENT_GONE && stage_answer_client(call) == CALL_WAIT)
        return CALL_WAIT;
    call->client.exchange = 0;
    stage_close_times(call);
    done_tell(call);
    return CALL_NEXT;
}

/* The way of a call. Between admission and the first token the core places and dispatches its
 * sequences (router/core/path.c). */
static enum call_step (*const path[STAGE_COUNT])(struct call *call) = {
    [STAGE_PARSE] = stage_parse_call,   [STAGE_TOKENIZE] = stage_tokenize_call,
    [STAGE_ADMIT] = stage_admit_call,   [STAGE_STREAM] = stage_stream_call,
    [STAGE_FINISH] = stage_finish_call,
};

bool stages_advance(struct call *call) {
    if (call->working)
        return false;
    for (;;) {
        bool is_over = call->failed || call->client.state == CLIENT_GONE;
        if (is_over && call->stage != STAGE_FINISH) {
            call->left = call->stage;
            stage_enter(call, STAGE_FINISH);
        }
        if (path[call->stage](call) == CALL_WAIT && !call->failed)
            return false;
        if (call->stage == STAGE_FINISH)
            return true;
        if (!call->failed)
            stage_enter(call, call->stage == STAGE_ADMIT ? STAGE_STREAM : call->stage + 1);
    }
}
