#include "router/call/call_trace.h"

#include "base/clock.h"
#include "base/http/exchange.h"
#include "router/api/errors.h"
#include "router/api/tool_reader.h"
#include "router/call/call.h"
#include "router/call/quota.h"
#include "router/call/serving.h"
#include "router/trace/traceparent.h"
#include "router/trace/tracer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void call_trace_begin(struct call *call, const struct exchange *exchange) {
    struct call_trace *own = &call->trace;
    struct serving *serving = call->serving;
    const char *parent = exchange_header(exchange, "traceparent");
    own->has_parent = own->is_known = traceparent_read(parent, &own->trace);
    if (own->has_parent) {
        snprintf(call->traceparent, sizeof call->traceparent, "%s", parent);
        memcpy(own->parent_id, own->trace.span_id, sizeof own->parent_id);
        own->trace.flags &= TRACE_FLAG_SAMPLED;
    }
    if (!serving->tracer)
        return;
    if (own->has_parent) {
        traceparent_draw_span(&serving->random, own->trace.span_id);
    } else {
        traceparent_draw(&serving->random, &own->trace);
        own->trace.flags = tracer_records(serving->tracer, &own->trace) ? TRACE_FLAG_SAMPLED : 0;
    }
    own->is_known = true;
    own->is_recorded = own->trace.flags & TRACE_FLAG_SAMPLED;
    const char *state = exchange_header(exchange, "tracestate");
    if (own->is_recorded && own->has_parent && state && traceparent_keeps_state(state))
        own->state = strdup(state); /* without memory for it, it is left out */
}

void call_trace_fini(struct call_trace *trace) {
    free(trace->state);
    trace->state = NULL;
}

/* --- the span -------------------------------------------------------------------------------- */

/* gen_ai.operation.name of OpenTelemetry's conventions; of what is none of theirs, or was not
 * understood, the dialect's name. */
static const char *call_trace_operation(const struct call *call) {
    if (!call->dialect->writer || call->left == STAGE_PARSE)
        return call->dialect->name;
    return call->ask.is_chat ? "chat" : "text_completion";
}

/* The words of a failure, but those that may quote the request, which is nobody's to keep: of these
 * its code and the field. */
static const char *call_trace_error(const struct call *call, char *out, size_t size) {
    const struct api_error *error = &call->error;
    const char *code = errors_code(error);
    code = code ? code : status_name(error->status);
    int http = errors_http(error);
    bool is_of_request = http < 429 || http == 501;
    if (!is_of_request && error->error.text[0])
        snprintf(out, size, "%s", error->error.text);
    else
        snprintf(out, size, "%s%s%s", code, error->error.field[0] ? ": " : "", error->error.field);
    return out;
}

static const char *call_trace_finish(const struct sequence *sequence) {
    bool calls = sequence->reader && tool_reader_n_calls(sequence->reader) > 0 &&
                 sequence->end.finish == FINISH_STOP;
    return calls ? "tool_calls" : reply_finish_name(sequence->end.finish);
}

/* When each stage began; and the first token in between. The core's stages begin while the call is
 * still in admit, whose end waits for nothing. */
static void call_trace_events(const struct call *call, uint64_t unix_ns, struct trace_span *span) {
    const uint64_t *ns = call->stage_ns;
    uint64_t at_ns = call->received_ns, first_ns = call->first_token_ns;
    for (unsigned i = 0; i < STAGE_COUNT; i++) {
        if (ns[i] == CALL_NEVER)
            continue;
        if (i == STAGE_PLACE && call->admitted_ns > 0)
            at_ns = call->admitted_ns;
        if (i == STAGE_FINISH)
            at_ns = call->since_ns - ns[i];
        if (first_ns > 0 && first_ns <= at_ns) {
            trace_span_event(span, "first_token", unix_ns + first_ns);
            first_ns = 0;
        }
        trace_span_event(span, stage_name((enum request_stage)i), unix_ns + at_ns);
        at_ns += ns[i];
    }
    if (first_ns > 0)
        trace_span_event(span, "first_token", unix_ns + first_ns);
}

static void call_trace_asked(const struct call *call, struct trace_span *span) {
    const struct ask *ask = &call->ask;
    const char *operation = call_trace_operation(call);
    trace_span_text(span, "gen_ai.operation.name", operation);
    trace_span_text(span, "gen_ai.provider.name", "tandem");
    trace_span_text(span, "gen_ai.request.model", call->serving->model);
    if (!call->dialect->writer || call->left == STAGE_PARSE)
        return;
    if (ask->has_max_new)
        trace_span_number(span, "gen_ai.request.max_tokens", ask->sampling.max_new);
    trace_span_real(span, "gen_ai.request.temperature", (double)ask->sampling.temperature);
    trace_span_real(span, "gen_ai.request.top_p", (double)ask->sampling.top_p);
    if (ask->n_choices != 1)
        trace_span_number(span, "gen_ai.request.choice.count", ask->n_choices);
}

/* `finishes`: room for as many as a span takes. */
static void call_trace_answered(const struct call *call, const char **finishes,
                                struct trace_span *span) {
    const struct reply *reply = &call->reply;
    uint32_t n = call->n_sequences < TRACE_TEXTS_MAX ? call->n_sequences : TRACE_TEXTS_MAX;
    if (call->n_sequences == 0)
        return;
    trace_span_text(span, "gen_ai.response.id", reply->id);
    trace_span_text(span, "gen_ai.response.model", call->serving->model);
    trace_span_number(span, "gen_ai.usage.input_tokens", reply->n_prompt_tokens);
    trace_span_number(span, "gen_ai.usage.output_tokens", reply->n_completion_tokens);
    trace_span_number(span, "gen_ai.usage.cache_read.input_tokens", reply->n_cached_tokens);
    if (call->failed || call->client.state == CLIENT_GONE)
        return;
    for (uint32_t i = 0; i < n; i++)
        finishes[i] = call_trace_finish(&call->sequences[i]);
    trace_span_texts(span, "gen_ai.response.finish_reasons", finishes, n);
}

/* What no convention has a name for. */
static void call_trace_own(const struct call *call, char attempt[NOTE_ID_MAX],
                           struct trace_span *span) {
    trace_span_text(span, "tandem.dialect", call->dialect->name);
    trace_span_text(span, "tandem.request_id", call->request_id);
    trace_span_text(span, "tandem.key", call->quota ? call->quota->name : "");
    if (call->n_sequences == 0)
        return;
    const struct request_end *end = &call->sequences[0].end;
    const struct attempt_id *id = &end->attempt;
    trace_span_text(span, "tandem.request",
                    note_id_text(attempt, (struct note_id){id->req.hi, id->req.lo, id->attempt}));
    trace_span_text(span, "tandem.prefill_worker", end->prefill_worker);
    trace_span_text(span, "tandem.decode_worker", end->decode_worker);
    trace_span_number(span, "tandem.replays", call->n_replays);
}

void call_trace_make(const struct call *call, unsigned http, struct call_span *made) {
    const struct call_trace *own = &call->trace;
    const char *code = errors_code(&call->error);
    uint64_t unix_ns = clock_unix_ns() - clock_now_ns(); /* of the moment that is 0 here */
    struct trace_span *span = &made->span;
    snprintf(made->name, sizeof made->name, "%s %s", call_trace_operation(call),
             call->serving->model);
    *span = (struct trace_span){.trace = own->trace,
                                .has_parent = own->has_parent,
                                .state = own->state,
                                .name = made->name,
                                .start_ns = unix_ns + call->received_ns,
                                .end_ns = unix_ns + call->since_ns};
    memcpy(span->parent_id, own->parent_id, sizeof span->parent_id);
    call_trace_asked(call, span);
    call_trace_answered(call, made->finishes, span);
    trace_span_number(span, "http.response.status_code", http);
    if (call->client.state == CLIENT_GONE) {
        trace_span_text(span, "error.type", "client_gone");
    } else if (call->failed) {
        trace_span_text(span, "error.type", code ? code : status_name(call->error.status));
        span->error = call_trace_error(call, made->error, sizeof made->error);
    }
    call_trace_own(call, made->attempt, span);
    call_trace_events(call, unix_ns, span);
}

void call_trace_done(const struct call *call, unsigned http) {
    struct call_span made;
    if (!call->trace.is_recorded)
        return;
    call_trace_make(call, http, &made);
    tracer_add(call->serving->tracer, &made.span);
}
