#include "router/call/admission.h"

#include "base/clock.h"
#include "model/model.h"
#include "model/text/template/tool_format.h"
#include "router/call/call.h"
#include "router/call/quota.h"
#include "router/call/serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every prompt leaves room for one token of an answer, if there is to be one. */
static bool admission_check_lengths(struct call *call) {
    struct ask *ask = &call->ask;
    const char *field = ask->is_chat ? "messages" : "prompt";
    for (uint32_t i = 0; i < ask->n_prompts; i++) {
        size_t n = ask->prompts[i].ids.n;
        if (n == 0) {
            call_fail(call, STATUS_INVALID, NULL, NULL);
            error_field(&call->error.error, STATUS_INVALID, field, "The prompt has no tokens");
            return false;
        }
        uint32_t n_new = ask->has_max_new && ask->sampling.max_new == 0 ? 0 : 1;
        if (n + n_new > call->reply.context) {
            call_fail(call, STATUS_LIMIT, NULL, NULL);
            errors_too_long(&call->error.error, field, call->reply.context, n);
            return false;
        }
        call->reply.n_prompt_tokens += (uint32_t)n;
    }
    return true;
}

/* The echoed prompt is the beginning of the choice's text. */
static enum status admission_echo_prompt(struct call *call, struct sequence *sequence) {
    struct detokenizer detokenizer;
    detokenizer_init(&detokenizer, call->ask.skip_special);
    for (uint32_t i = 0; i < sequence->n_prompt; i++)
        TRY(detokenizer_push_any(&detokenizer, call->reply.tokenizer, sequence->tokens[i],
                                 &sequence->text));
    return detokenizer_flush(&detokenizer, &sequence->text);
}

static enum status admission_make_sequence(struct call *call, struct sequence *sequence,
                                           const struct ids *prompt, uint32_t max_new) {
    sequence->tokens = reallocarray(NULL, prompt->n + max_new, sizeof *sequence->tokens);
    if (!sequence->tokens)
        return STATUS_NOMEM;
    memcpy(sequence->tokens, prompt->at, prompt->n * sizeof *prompt->at);
    sequence->n_prompt = (uint32_t)prompt->n;
    return call->ask.echo ? admission_echo_prompt(call, sequence) : STATUS_OK;
}

/* What was asked for, or the default; an answer ends where the context does. */
static uint32_t admission_max_new_of(const struct call *call, uint32_t at) {
    const struct ask *ask = &call->ask;
    uint32_t rest = call->reply.context - (uint32_t)ask->prompts[at / ask->n_choices].ids.n;
    uint32_t wanted = ask->has_max_new ? ask->sampling.max_new : ask->max_new;
    bool is_bounded = ask->has_max_new || ask->max_new > 0;
    return is_bounded && wanted < rest ? wanted : rest;
}

static struct request_spec admission_spec_of(const struct call *call, uint32_t at) {
    const struct ask *ask = &call->ask;
    const struct sequence *sequence = &call->sequences[at];
    const struct prefix_hashes *hashes = &call->hashes[at / ask->n_choices];
    uint32_t max_new = admission_max_new_of(call, at);
    struct request_spec spec = {
        .user = sequence->user,
        .tokens = sequence->tokens,
        .n_prompt = sequence->n_prompt,
        .capacity = sequence->n_prompt + max_new,
        .hashes = hashes->keys,
        .n_hashes = hashes->n,
        .salt = call->salt,
        .priority = (uint32_t)ask->priority + 0x80000000u, /* the same order, unsigned */
        .tenant = call->quota ? call->quota->tenant : 0,
        .deadline_ns = call->deadline_ns,
        .has_trace = call->trace.is_known,
        .trace = call->trace.trace,
        .sampling = ask->sampling,
    };
    spec.sampling.choice = at % ask->n_choices;
    spec.sampling.max_new = max_new;
    if (spec.sampling.min_new > max_new)
        spec.sampling.min_new = max_new;
    return spec;
}

/* All sequences or none. */
static enum status admission_ask_core(struct call *call) {
    uint32_t n = call->n_sequences;
    struct request_spec *specs = calloc(n, sizeof *specs);
    uint64_t *requests = calloc(n, sizeof *requests);
    enum status status = specs && requests ? STATUS_OK : STATUS_NOMEM;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++) {
        status = call_take_number(call->serving->calls, &call->sequences[i]);
        if (status == STATUS_OK)
            specs[i] = admission_spec_of(call, i);
    }
    if (status == STATUS_OK) {
        /* Alive before the call, because their ends may come before it returns. */
        for (uint32_t i = 0; i < n; i++)
            call->sequences[i].alive = true;
        call->admitted_ns = clock_now_ns();
        status = router_request_all(call->serving->core, call->admitted_ns, specs, n, requests);
        for (uint32_t i = 0; i < n; i++)
            if (status == STATUS_OK)
                call->sequences[i].request = requests[i];
            else
                call->sequences[i].alive = false;
    }
    free(specs);
    free(requests);
    return status;
}

/* Its prompts and the longest answers that they may get. */
static enum status take_tokens(struct call *call) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < call->ask.n_prompts; i++)
        n += call->ask.prompts[i].ids.n;
    for (uint32_t i = 0; i < call->n_sequences; i++)
        n += admission_max_new_of(call, i);
    struct api_error *error = &call->error;
    if (!call->quota || quota_take_tokens(call->quota, clock_now_ns(), n, &call->n_taken,
                                          &error->retry_ms) == STATUS_OK)
        return STATUS_OK;
    char text[128];
    snprintf(text, sizeof text,
             "This key has reached its limit of tokens a minute; try again in %u ms",
             error->retry_ms);
    call_fail(call, STATUS_BUSY, "rate_limit_exceeded", text);
    return STATUS_BUSY;
}

/* Nothing is to be generated: echoes alone. */
static void admission_end_at_once(struct call *call) {
    for (uint32_t i = 0; i < call->n_sequences; i++)
        call->sequences[i].end = (struct request_end){.kind = END_DONE, .finish = FINISH_LENGTH};
    call_note(call);
}

/* A deadline may have passed while the prompt was tokenized: the core would look at it only at its
 * next timer, and a worker may be faster. */
static enum status admission_admit_all(struct call *call) {
    const struct ask *ask = &call->ask;
    if (call->deadline_ns != 0 && clock_now_ns() >= call->deadline_ns)
        return STATUS_TIMEOUT;
    for (uint32_t i = 0; i < call->n_sequences; i++)
        TRY(admission_make_sequence(call, &call->sequences[i],
                                    &ask->prompts[i / ask->n_choices].ids,
                                    admission_max_new_of(call, i)));
    if (admission_max_new_of(call, 0) == 0) {
        admission_end_at_once(call);
        return STATUS_OK;
    }
    TRY(take_tokens(call));
    return admission_ask_core(call);
}

void admission_run(struct call *call) {
    struct ask *ask = &call->ask;
    struct serving *serving = call->serving;
    if (!call->dialect->writer)
        return; /* it needs no tokens but the prompt's */
    if (!admission_check_lengths(call))
        return;
    uint64_t ns = call->ask.timeout_ns;
    if (ns == 0 || (serving->deadline_ns > 0 && serving->deadline_ns < ns))
        ns = serving->deadline_ns;
    if (ns > 0)
        call->deadline_ns = ns < UINT64_MAX - call->received_ns ? call->received_ns + ns : 0;
    if (!ask->has_seed)
        ask->sampling.seed = random_next(&serving->random);
    call->stops = (struct text_stops){.strings = ask->stops,
                                      .n = ask->n_stops,
                                      .n_min = ask->sampling.min_new,
                                      .include_stop = ask->include_stop};
    uint32_t n = ask->n_prompts * ask->n_choices;
    call->sequences = calloc(n, sizeof *call->sequences);
    if (!call->sequences) {
        call_refuse(call, STATUS_NOMEM);
        return;
    }
    call->n_sequences = n;
    const struct tool_format *format = serving->limits.tool_format;
    const bool reads_line = ask->calls && format->before_text.n > 0; /* tells a text from a call */
    for (uint32_t i = 0; i < n; i++) {
        struct sequence *sequence = &call->sequences[i];
        *sequence =
            (struct sequence){.call = call, .user = UINT32_MAX, .is_first = true, .stop = -1};
        buf_init(&sequence->text, 0);
        text_stream_init(&sequence->stream, serving->text, &call->stops, ask->skip_special);
        if (!ask->is_chat || ask->is_continued) /* the answer goes on with its prompt's text */
            detokenizer_continue(&sequence->stream.detokenizer);
        else if (text_model(serving->text)->template.has_metadata)
            text_stream_skip_metadata(&sequence->stream, reads_line);
    }
    enum status status = admission_admit_all(call);
    if (status != STATUS_OK) {
        call_refuse(call, status);
        return;
    }
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        ids_fini(&ask->prompts[i].ids);
}
