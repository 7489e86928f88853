#include "router/call/call.h"

#include "base/clock.h"
#include "router/api/errors.h"
#include "router/call/serving.h"

void call_fail(struct call *call, enum status status, const char *code, const char *text) {
    if (call->failed)
        return;
    call->failed = true;
    call->error.code = code;
    call->error.status = text ? error_set(&call->error.error, status, "%s", text) : status;
}

/* The workers of now cannot hold one of the call's prompts. */
static void call_too_long(struct call *call) {
    size_t longest = 0;
    if (call->failed)
        return;
    for (uint32_t i = 0; i < call->n_sequences; i++)
        if (call->sequences[i].n_prompt > longest)
            longest = call->sequences[i].n_prompt;
    call_fail(call, STATUS_LIMIT, NULL, NULL);
    errors_too_long(&call->error.error, call->ask.is_chat ? "messages" : "prompt",
                    serving_context(call->serving), longest);
}

void call_refuse(struct call *call, enum status status) {
    char text[320];
    switch (status) {
    case STATUS_BUSY:
        call_fail(call, status, "queue_full", "The queue is full; try again later");
        break;
    case STATUS_CLOSED:
        call_fail(call, status, NULL, serving_no_worker(call->serving, text, sizeof text));
        break;
    case STATUS_LIMIT:
        call_too_long(call);
        break;
    case STATUS_TIMEOUT:
        call_fail(call, status, NULL, "The deadline passed before the answer was complete");
        break;
    case STATUS_NOMEM:
        call_fail(call, status, NULL, "No memory for the request");
        break;
    default:
        call_fail(call, status, NULL, "The request cannot be served");
    }
}

struct usage_call call_usage(const struct call *call) {
    uint32_t n_choices = call->ask.n_choices, n_prompt = 0;
    for (uint32_t i = 0; i < call->n_sequences; i += n_choices) {
        bool was_sent = false;
        for (uint32_t k = i; k < i + n_choices; k++)
            was_sent |= call->sequences[k].end.attempt.attempt > 0;
        n_prompt += was_sent ? call->sequences[i].n_prompt : 0;
    }
    return (struct usage_call){.n_prompt_tokens = n_prompt,
                               .n_completion_tokens = call->reply.n_completion_tokens,
                               .n_cached_tokens = call->reply.n_cached_tokens};
}

struct answer call_answer(struct call *call) {
    return (struct answer){.dialect = call->dialect,
                           .ask = &call->ask,
                           .reply = &call->reply,
                           .sequences = call->sequences,
                           .n_sequences = call->n_sequences,
                           .core = call->serving->core};
}

void call_cancel(struct call *call) {
    for (uint32_t i = 0; i < call->n_sequences; i++)
        if (call->sequences[i].alive)
            router_cancel(call->serving->core, clock_now_ns(), call->sequences[i].request);
}

void call_note(struct call *call) {
    struct calls *calls = call->serving->calls;
    if (list_empty(&call->link))
        list_push_back(&calls->noted, &call->link);
    loop_kick_add(call->serving->loop, &calls->kick);
}

enum status call_take_number(struct calls *calls, struct sequence *sequence) {
    if (calls->n_free == 0)
        return STATUS_BUSY;
    sequence->user = calls->free[--calls->n_free];
    calls->sequences[sequence->user] = sequence;
    return STATUS_OK;
}

void call_give_number(struct calls *calls, struct sequence *sequence) {
    if (sequence->user >= calls->n_max || calls->sequences[sequence->user] != sequence)
        return; /* it never got one */
    calls->sequences[sequence->user] = NULL;
    calls->free[calls->n_free++] = sequence->user;
}
