#include "router/call/answer.h"

#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/http/sse.h"
#include "router/call/call.h"
#include "router/call/serving.h"

#include <stdlib.h>

/* Tokens of a reply that are written in about a millisecond. */
#define BUILD_INLINE_TOKENS 4096u

static bool has_stop_id(const struct sampling *sampling, uint32_t id) {
    for (uint32_t i = 0; i < sampling->n_stop_ids; i++)
        if (sampling->stop_ids[i] == id)
            return true;
    return false;
}

/* Is this the token that ended the answer by itself? Its text is not a part of it. */
static bool is_end_token(const struct sequence *sequence, uint32_t index) {
    return !sequence->alive && sequence->end.kind == END_DONE &&
           sequence->end.finish == FINISH_STOP && sequence->stop < 0 &&
           index + 1 == sequence->n_emitted;
}

static enum status read_token(struct sequence *sequence) {
    const struct ask *ask = &sequence->call->ask;
    uint32_t index = sequence->n_read++;
    if (is_end_token(sequence, index) && !ask->include_stop)
        return STATUS_OK;
    return text_stream_push(&sequence->stream, sequence->tokens[sequence->n_prompt + index],
                            &sequence->text, &sequence->stop);
}

/* A stop string matched: what the worker sent beyond it never was. */
static void stop_here(struct sequence *sequence) {
    sequence->n_emitted = sequence->n_read;
    if (sequence->alive)
        router_stop(sequence->call->serving->core, clock_now_ns(), sequence->request,
                    sequence->n_read);
    sequence->end.kind = END_DONE;
    sequence->end.finish = FINISH_STOP;
}

static enum status read_tokens(struct sequence *sequence) {
    while (sequence->n_read < sequence->n_emitted && sequence->stop < 0)
        TRY(read_token(sequence));
    if (sequence->stop >= 0) {
        stop_here(sequence);
        return STATUS_OK;
    }
    if (!sequence->alive && sequence->end.kind == END_DONE)
        return text_stream_end(&sequence->stream, &sequence->text);
    return STATUS_OK;
}

static struct reply_choice describe(const struct sequence *sequence) {
    const struct call *call = sequence->call;
    uint32_t from = sequence->n_written;
    return (struct reply_choice){
        .index = (uint32_t)(sequence - call->sequences),
        .is_first = sequence->is_first,
        .text = {sequence->text.n > 0 ? sequence->text.data : "", sequence->text.n},
        .n_tokens = sequence->n_read - from,
        .tokens = sequence->tokens + sequence->n_prompt + from,
        .logprobs = sequence->logprobs ? sequence->logprobs + from : NULL,
        .text_offset = sequence->text_offset,
        .n_prompt = sequence->n_prompt,
        .prompt = sequence->tokens,
    };
}

static void describe_end(const struct sequence *sequence, struct reply_choice *choice) {
    const struct ask *ask = &sequence->call->ask;
    choice->has_ended = true;
    choice->finish = sequence->end.finish;
    if (sequence->stop >= 0) {
        choice->stop_string = ask->stops[sequence->stop];
    } else if (sequence->end.finish == FINISH_STOP && sequence->n_read > 0) {
        uint32_t last = sequence->tokens[sequence->n_prompt + sequence->n_read - 1];
        choice->stopped_by_id = has_stop_id(&ask->sampling, last);
        choice->stop_id = last;
    }
}

static void written(struct sequence *sequence) {
    const struct call *call = sequence->call;
    if (call->ask.sampling.want_logprobs && !call->ask.is_chat)
        for (uint32_t i = sequence->n_written; i < sequence->n_read; i++)
            sequence->text_offset +=
                reply_token_chars(&call->reply, sequence->tokens[sequence->n_prompt + i]);
    sequence->n_written = sequence->n_read;
    sequence->is_first = false;
    buf_clear(&sequence->text);
}

/* The events of one sequence: what it says now, and its end. */
static void write_events(struct sequence *sequence, struct buf *out) {
    struct call *call = sequence->call;
    const struct dialect_writer *writer = call->dialect->writer;
    bool ends = !sequence->alive && sequence->end.kind == END_DONE;
    bool has_news = sequence->n_read > sequence->n_written;
    bool shows_ids = call->ask.return_token_ids || call->ask.sampling.want_logprobs;
    bool has_first = sequence->is_first && (has_news || ends);
    bool says = sequence->text.n > 0 || has_first || (shows_ids && has_news);
    if (says && (!ends || writer->splits_end)) {
        struct reply_choice choice = describe(sequence);
        writer->chunk(&call->reply, &choice, out);
        written(sequence);
    }
    if (ends) {
        struct reply_choice choice = describe(sequence);
        describe_end(sequence, &choice);
        writer->chunk(&call->reply, &choice, out);
        written(sequence);
    }
}

static void begin_stream(struct call *call) {
    const struct header headers[] = {{"Cache-Control", "no-cache"},
                                     {"X-Accel-Buffering", "no"},
                                     {"Vary", "Origin"},
                                     {"Access-Control-Allow-Origin", call->origin}};
    struct exchange_reply reply = {.status = 200,
                                   .content_type = SSE_CONTENT_TYPE,
                                   .headers = headers,
                                   .n_headers = call->origin ? 4 : 2};
    exchange_begin_stream(call->serving->exchanges, call->exchange, &reply);
    call->begun = true;
}

/* Everything for this client in one go. What a slow client cannot take stays in `pending`, and the
 * call rests until the server says that it drained. */
static void send_pending(struct call *call) {
    struct buf *pending = &call->pending;
    if (pending->n == 0)
        return;
    if (buf_status(pending) != STATUS_OK) {
        call_fail(call, STATUS_NOMEM, NULL, "No memory for the reply");
        return;
    }
    if (!call->begun)
        begin_stream(call);
    enum status status =
        exchange_write(call->serving->exchanges, call->exchange, pending->data, pending->n);
    call->blocked = status == STATUS_BUSY;
    if (!call->blocked)
        buf_fini(pending); /* an idle stream holds no buffers */
}

/* An end that is no answer: the first one is the call's. */
static void fail_by_end(struct call *call, const struct request_end *end) {
    char text[320];
    if (end->kind == END_CANCELLED) /* by nobody but us: then the call has failed already */
        call_fail(call, STATUS_CLOSED, NULL, "The request was cancelled");
    else if (end->status == STATUS_TIMEOUT)
        call_fail(call, end->status, NULL, "The deadline passed before the answer was complete");
    else if (end->status == STATUS_CLOSED)
        call_fail(call, end->status, NULL, serving_no_worker(call->serving, text, sizeof text));
    else if (end->status == STATUS_BUSY)
        call_fail(call, end->status, "queue_full", "The queue is full; try again later");
    else if (end->status == STATUS_LIMIT && end->reason == REASON_TOO_LONG)
        call_too_long(call);
    else if (end->status == STATUS_INVALID)
        call_fail(call, end->status, NULL, "The workers refuse the request as invalid");
    else if (end->reason == REASON_NUMERICS)
        call_fail(call, STATUS_CORRUPT, "numerics", "The model's numbers were unusable");
    else
        call_fail(call, STATUS_IO, "attempts_exhausted",
                  "The workers failed on the request again and again");
}

static void count_ended(struct call *call) {
    call->n_ended = 0;
    for (uint32_t i = 0; i < call->n_sequences; i++) {
        const struct sequence *sequence = &call->sequences[i];
        if (sequence->alive || sequence->n_read < sequence->n_emitted)
            continue;
        call->n_ended++;
        if (sequence->end.kind != END_DONE)
            fail_by_end(call, &sequence->end);
    }
}

void answer_advance(struct call *call) {
    if (call->blocked)
        return;
    send_pending(call); /* left from the last time */
    if (call->blocked)
        return;
    for (uint32_t i = 0; i < call->n_sequences; i++) {
        struct sequence *sequence = &call->sequences[i];
        uint32_t n_before = sequence->n_read;
        if (sequence->ended)
            continue;
        if (read_tokens(sequence) != STATUS_OK)
            call_fail(call, STATUS_CORRUPT, NULL, "A token could not be turned into text");
        call->reply.n_completion_tokens += sequence->n_read - n_before;
        if (call->ask.stream)
            write_events(sequence, &call->pending);
        sequence->ended = !sequence->alive;
    }
    send_pending(call);
    count_ended(call);
}

static void reply_with(struct call *call, unsigned status, const struct serving_retry *retry,
                       struct buf *body) {
    struct header headers[4];
    unsigned n = 0;
    if (retry) {
        headers[n++] = (struct header){"Retry-After", retry->s};
        headers[n++] = (struct header){"retry-after-ms", retry->ms};
    }
    if (call->origin) {
        headers[n++] = (struct header){"Vary", "Origin"};
        headers[n++] = (struct header){"Access-Control-Allow-Origin", call->origin};
    }
    struct exchange_reply reply = {.status = status,
                                   .content_type = "application/json",
                                   .headers = headers,
                                   .n_headers = n,
                                   .body_buf = body};
    exchange_reply(call->serving->exchanges, call->exchange, &reply);
}

static void finish_error(struct call *call) {
    struct buf body;
    buf_init(&body, 0);
    if (call->error.error.text[0] == 0)
        error_set(&call->error.error, call->error.status, "%s", status_name(call->error.status));
    if (call->begun) {
        buf_append(&body, call->pending.data, call->pending.n);
        errors_put_event(&call->error, &body);
        sse_done(&body);
        /* A client that reads too slowly for its error is cut off: the stream is incomplete. */
        if (exchange_write(call->serving->exchanges, call->exchange, body.data, body.n) ==
            STATUS_OK)
            exchange_end(call->serving->exchanges, call->exchange);
        else
            exchange_abort(call->serving->exchanges, call->exchange);
    } else {
        struct serving_retry retry;
        bool may_retry = serving_retry(call->serving, &call->error, &retry);
        errors_put(&call->error, &body);
        reply_with(call, (unsigned)errors_http(&call->error), may_retry ? &retry : NULL, &body);
    }
    buf_fini(&body);
}

static void finish_stream(struct call *call) {
    struct buf body;
    buf_init(&body, 0);
    if (call->ask.include_usage)
        call->dialect->writer->usage(&call->reply, &body);
    sse_done(&body);
    if (exchange_write(call->serving->exchanges, call->exchange, body.data, body.n) == STATUS_OK)
        exchange_end(call->serving->exchanges, call->exchange);
    else
        exchange_abort(call->serving->exchanges, call->exchange);
    buf_fini(&body);
}

static enum status put_whole(struct call *call, struct buf *body) {
    if (call->dialect->reply) {
        call->dialect->reply(&call->reply, body);
        return buf_status(body);
    }
    struct reply_choice *choices = calloc(call->n_sequences, sizeof *choices);
    if (!choices)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < call->n_sequences; i++) {
        choices[i] = describe(&call->sequences[i]);
        describe_end(&call->sequences[i], &choices[i]);
    }
    call->dialect->writer->whole(&call->reply, choices, call->n_sequences, body);
    free(choices);
    return buf_status(body);
}

/* How much there is to write, in tokens: one with its logprobs is about a hundred bytes for each of
 * them. */
static uint64_t reply_cost(const struct call *call) {
    const struct sampling *sampling = &call->ask.sampling;
    uint64_t n = 0;
    if (call->dialect->reply)
        return call->ask.n_prompts > 0 ? call->ask.prompts[0].ids.n : 0;
    for (uint32_t i = 0; i < call->n_sequences; i++)
        n += call->sequences[i].n_read + call->sequences[i].text.n / 64;
    return sampling->want_logprobs ? n * (2 + sampling->n_top) : n;
}

static void run_build(struct pool_job *job) {
    struct call *call = list_entry(job, struct call, job);
    call->build_status = put_whole(call, &call->whole);
}

static void build_done(struct pool_job *job, enum status status) {
    struct call *call = list_entry(job, struct call, job);
    call->working = false;
    if (status != STATUS_OK)
        call->build_status = status;
    call_note(call);
}

/* All sequences have ended: nobody but the job touches them. */
bool answer_build(struct call *call) {
    if (call->built || call->failed || call->begun || call->gone)
        return true;
    call->built = true;
    for (uint32_t i = 0; i < call->n_sequences; i += call->ask.n_choices)
        call->reply.n_cached_tokens += call->sequences[i].end.cached_tokens;
    call->job = (struct pool_job){.run = run_build, .done = build_done};
    list_init(&call->job.link);
    if (reply_cost(call) > BUILD_INLINE_TOKENS &&
        pool_submit(call->serving->pool, &call->job) == STATUS_OK) {
        call->working = true;
        return false;
    }
    call->build_status = put_whole(call, &call->whole);
    return true;
}

void answer_finish(struct call *call) {
    if (call->built && !call->failed && call->build_status != STATUS_OK)
        call_fail(call, STATUS_NOMEM, NULL, "No memory for the reply");
    if (!call->built)
        for (uint32_t i = 0; i < call->n_sequences; i += call->ask.n_choices)
            call->reply.n_cached_tokens += call->sequences[i].end.cached_tokens;
    if (call->failed)
        finish_error(call);
    else if (call->begun)
        finish_stream(call);
    else
        reply_with(call, 200, NULL, &call->whole);
}
