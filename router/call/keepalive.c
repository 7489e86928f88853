#include "router/call/keepalive.h"

#include "base/clock.h"
#include "router/call/call.h"
#include "router/call/serving.h"

#include <stdlib.h>

struct keepalive {
    struct serving *serving;  /* borrowed */
    struct loop_timer *timer; /* owned */
    uint64_t silence_ns;
};

static bool keepalive_is_silent(const struct call *call, uint64_t until_ns) {
    const struct client *client = &call->client;
    return call->stage == STAGE_STREAM && call->ask.stream && !call->failed &&
           (client->state == CLIENT_WAITS || client->state == CLIENT_STREAMS) &&
           client->form->ping && client->told_ns <= until_ns;
}

static void keepalive_on_timer(void *user) {
    struct keepalive *keepalive = user;
    uint64_t now_ns = clock_now_ns();
    list_each_entry(call, &keepalive->serving->calls->every, struct call, every) {
        if (!keepalive_is_silent(call, now_ns - keepalive->silence_ns))
            continue;
        call->client.form->ping(&call->client.pending);
        if (client_send(&call->client) != STATUS_OK) {
            call_fail(call, STATUS_NOMEM, NULL, "No memory for the reply");
            call_note(call);
        }
    }
    loop_timer_after(keepalive->timer, keepalive->silence_ns / 4);
}

enum status keepalive_new(struct serving *serving, uint64_t silence_ns, struct keepalive **out) {
    struct keepalive *keepalive = calloc(1, sizeof *keepalive);
    if (!keepalive)
        return STATUS_NOMEM;
    *keepalive = (struct keepalive){.serving = serving, .silence_ns = silence_ns};
    if (loop_timer_new(serving->loop, keepalive_on_timer, keepalive, &keepalive->timer) !=
        STATUS_OK) {
        free(keepalive);
        return STATUS_NOMEM;
    }
    loop_timer_after(keepalive->timer, silence_ns / 4);
    *out = keepalive;
    return STATUS_OK;
}

void keepalive_free(struct keepalive *keepalive) {
    if (!keepalive)
        return;
    loop_timer_free(keepalive->timer);
    free(keepalive);
}
