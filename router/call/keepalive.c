#include "router/call/pulse.h"

#include "base/clock.h"
#include "router/call/call.h"
#include "router/call/serving.h"

#include <stdlib.h>

struct pulse {
    struct serving *serving;  /* borrowed */
    struct loop_timer *timer; /* owned */
    uint64_t silence_ns;
};

static bool is_silent(const struct call *call, uint64_t until_ns) {
    const struct client *client = &call->client;
    return call->stage == STAGE_STREAM && call->ask.stream && !call->failed &&
           (client->state == CLIENT_WAITS || client->state == CLIENT_STREAMS) &&
           client->form->ping && client->told_ns <= until_ns;
}

static void on_timer(void *user) {
    struct pulse *pulse = user;
    uint64_t now_ns = clock_now_ns();
    list_each_entry(call, &pulse->serving->calls->every, struct call, every) {
        if (!is_silent(call, now_ns - pulse->silence_ns))
            continue;
        call->client.form->ping(&call->client.pending);
        if (client_send(&call->client) != STATUS_OK) {
            call_fail(call, STATUS_NOMEM, NULL, "No memory for the reply");
            call_note(call);
        }
    }
    loop_timer_after(pulse->timer, pulse->silence_ns / 4);
}

enum status pulse_new(struct serving *serving, uint64_t silence_ns, struct pulse **out) {
    struct pulse *pulse = calloc(1, sizeof *pulse);
    if (!pulse)
        return STATUS_NOMEM;
    *pulse = (struct pulse){.serving = serving, .silence_ns = silence_ns};
    if (loop_timer_new(serving->loop, on_timer, pulse, &pulse->timer) != STATUS_OK) {
        free(pulse);
        return STATUS_NOMEM;
    }
    loop_timer_after(pulse->timer, silence_ns / 4);
    *out = pulse;
    return STATUS_OK;
}

void pulse_free(struct pulse *pulse) {
    if (!pulse)
        return;
    loop_timer_free(pulse->timer);
    free(pulse);
}
