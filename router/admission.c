#include "router/admission.h"

#include "base/assert.h"
#include "base/clock.h"
#include "model/model.h"
#include "router/call.h"
#include "router/serving.h"

#include <stdlib.h>
#include <string.h>

static void too_long(struct call *call, const char *field, size_t n_prompt) {
    call_fail(call, STATUS_LIMIT, "context_length_exceeded", NULL);
    struct ask *ask = &call->ask;
    if (ask->has_max_new)
        error_field(&call->error.error, STATUS_LIMIT, field,
                    "The prompt has %zu tokens and %u are asked for; together they must be at most "
                    "%u",
                    n_prompt, ask->sampling.max_new, call->reply.context);
    else
        error_field(&call->error.error, STATUS_LIMIT, field,
                    "The prompt has %zu tokens; it must have less than %u", n_prompt,
                    call->reply.context);
}

/* Every prompt with its answer fits the context; a chat without a bound gets the rest of it. */
static bool check_lengths(struct call *call) {
    struct ask *ask = &call->ask;
    const char *field = ask->is_chat ? "messages" : "prompt";
    for (uint32_t i = 0; i < ask->n_prompts; i++) {
        size_t n = ask->prompts[i].ids.n;
        if (n == 0) {
            call_fail(call, STATUS_INVALID, NULL, NULL);
            error_field(&call->error.error, STATUS_INVALID, field, "The prompt has no tokens");
            return false;
        }
        if (n > call->reply.context ||
            (ask->has_max_new && ask->sampling.max_new > call->reply.context - n)) {
            too_long(call, n < call->reply.context ? "max_tokens" : field, n);
            return false;
        }
        if (!ask->has_max_new && n >= call->reply.context) {
            too_long(call, field, n);
            return false;
        }
        call->reply.n_prompt_tokens += (uint32_t)n;
    }
    return true;
}

/* The echoed prompt is the beginning of the choice's text. */
static enum status echo_prompt(struct call *call, struct sequence *sequence) {
    struct detokenizer detokenizer;
    detokenizer_init(&detokenizer, call->ask.skip_special);
    for (uint32_t i = 0; i < sequence->n_prompt; i++)
        TRY(detokenizer_push(&detokenizer, call->reply.tokenizer, sequence->tokens[i],
                             &sequence->text));
    return detokenizer_flush(&detokenizer, &sequence->text);
}

static enum status make_sequence(struct call *call, struct sequence *sequence,
                                 const struct ids *prompt, uint32_t max_new) {
    sequence->tokens = reallocarray(NULL, prompt->n + max_new, sizeof *sequence->tokens);
    if (!sequence->tokens)
        return STATUS_NOMEM;
    memcpy(sequence->tokens, prompt->at, prompt->n * sizeof *prompt->at);
    sequence->n_prompt = (uint32_t)prompt->n;
    return call->ask.echo ? echo_prompt(call, sequence) : STATUS_OK;
}

static enum status ask_core(struct call *call, struct sequence *sequence, uint32_t prompt,
                            uint32_t choice, uint32_t max_new) {
    struct ask *ask = &call->ask;
    TRY(calls_take(call->serving->calls, sequence));
    struct request_spec spec = {
        .user = sequence->user,
        .tokens = sequence->tokens,
        .n_prompt = sequence->n_prompt,
        .capacity = sequence->n_prompt + max_new,
        .hashes = call->hashes[prompt].keys,
        .n_hashes = call->hashes[prompt].n,
        .salt = call->salt,
        .priority = ask->priority,
        .deadline_ns = call->deadline_ns,
        .sampling = ask->sampling,
    };
    spec.sampling.choice = choice;
    spec.sampling.max_new = max_new;
    if (spec.sampling.min_new > max_new)
        spec.sampling.min_new = max_new;
    /* Alive before the call, because its end may come before the call returns. */
    sequence->alive = true;
    call->n_alive++;
    enum status status =
        router_request(call->serving->core, clock_now_ns(), &spec, &sequence->request);
    if (status != STATUS_OK) {
        sequence->alive = false;
        call->n_alive--;
    }
    return status;
}

static void refuse(struct call *call, enum status status) {
    switch (status) {
    case STATUS_BUSY:
        call_fail(call, status, "queue_full", "The queue is full; try again later");
        break;
    case STATUS_CLOSED:
        call_fail(call, status, NULL,
                  call->serving->draining ? "This router is shutting down; try again elsewhere"
                                          : "No worker can serve the request now");
        break;
    case STATUS_LIMIT:
        call_fail(call, status, NULL, "The request is longer than any worker's context");
        break;
    case STATUS_NOMEM:
        call_fail(call, status, NULL, "No memory for the request");
        break;
    default:
        call_fail(call, status, NULL, "The request cannot be served");
    }
}

/* Nothing is to be generated: an echo alone. */
static void end_at_once(struct call *call, struct sequence *sequence) {
    sequence->end = (struct request_end){.kind = END_DONE, .finish = FINISH_LENGTH};
    calls_note(call);
}

static enum status admit_sequence(struct call *call, uint32_t at) {
    struct ask *ask = &call->ask;
    struct sequence *sequence = &call->sequences[at];
    uint32_t prompt = at / ask->n_choices;
    const struct ids *ids = &ask->prompts[prompt].ids;
    uint32_t max_new =
        ask->has_max_new ? ask->sampling.max_new : call->reply.context - (uint32_t)ids->n;
    TRY(make_sequence(call, sequence, ids, max_new));
    if (max_new > 0)
        return ask_core(call, sequence, prompt, at % ask->n_choices, max_new);
    end_at_once(call, sequence);
    return STATUS_OK;
}

void admission_run(struct call *call) {
    struct ask *ask = &call->ask;
    struct serving *serving = call->serving;
    if (!call->dialect->writer)
        return; /* it needs no tokens but the prompt's */
    if (!check_lengths(call))
        return;
    if (serving->draining) {
        refuse(call, STATUS_CLOSED);
        return;
    }
    if (serving->deadline_ns > 0)
        call->deadline_ns = call->received_ns + serving->deadline_ns;
    if (!ask->has_seed)
        ask->sampling.seed = random_next(&serving->random);
    call->stops = (struct text_stops){.strings = ask->stops,
                                      .n = ask->n_stops,
                                      .n_min = ask->sampling.min_new,
                                      .include_stop = ask->include_stop};
    uint32_t n = ask->n_prompts * ask->n_choices;
    call->sequences = calloc(n, sizeof *call->sequences);
    if (!call->sequences) {
        refuse(call, STATUS_NOMEM);
        return;
    }
    call->n_sequences = n;
    for (uint32_t i = 0; i < n; i++) {
        struct sequence *sequence = &call->sequences[i];
        *sequence =
            (struct sequence){.call = call, .user = UINT32_MAX, .is_first = true, .stop = -1};
        buf_init(&sequence->text, 0);
        text_stream_init(&sequence->stream, serving->text, &call->stops, ask->skip_special);
        if (!ask->is_chat) /* a completion goes on with its prompt's text */
            detokenizer_continue(&sequence->stream.detokenizer);
        else if (text_model(serving->text)->template.has_metadata)
            text_stream_skip_metadata(&sequence->stream);
    }
    for (uint32_t i = 0; i < n; i++) {
        enum status status = admit_sequence(call, i);
        if (status != STATUS_OK) {
            refuse(call, status); /* the call's end cancels those before */
            return;
        }
    }
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        ids_fini(&ask->prompts[i].ids);
}
