/* What became of attempts, and when: which losses count, what rests after a death, who runs alone,
 * whose tokens a router takes, and that no time ends late. */
#include "tests/sim/judge.h"

#include "base/log/note.h"
#include "router/core/core.h"
#include "router/core/note.h"
#include "router/core/replay.h"

#include <string.h>

#define REST_NS  (50 * NS_PER_MS) /* what a death cost is not placed again before */
#define SLACK_NS (10 * NS_PER_US) /* timers are rounded up, by nanoseconds */

/* The request that a note speaks of; NULL: it is over. */
static struct client *client_of_note(struct sim *sim, const struct note *note) {
    struct client *client = &sim->clients[note->request & 0xffff];
    if ((note->request & 0xffff) >= SIM_CLIENTS || !client->used ||
        client->serial != note->request >> 16)
        return NULL;
    return client;
}

void judge_replaced(struct sim *sim, uint32_t router, const struct note *note) {
    struct client *client = client_of_note(sim, note);
    if (note->event != NOTE_REPLACED || !client || !strcmp(note->reason, "moved"))
        return;
    bool died = !strcmp(note->reason, "worker_died");
    if (died && !client->attempt.submitted)
        sim_fail(sim, "router %u counts a reservation of client %llu as lost with its worker",
                 router, (unsigned long long)client->serial);
    if (client->attempt.token == client->attempt.number)
        return; /* it had got somewhere */
    client->losses.n++;
    if (died)
        client->losses.rests_until_ns = sim_clock(sim, router) + REST_NS;
}

void judge_replacement(struct sim *sim, const struct client *client, uint32_t slot) {
    const struct router *router = sim->nodes[client->router].router;
    const struct request *req = request_find(&router->requests, client->request);
    if (sim_clock(sim, client->router) < client->losses.rests_until_ns)
        sim_fail(sim, "client %llu is placed at once after a death",
                 (unsigned long long)client->serial);
    bool alone = req && router->alone == req->index;
    if (!alone && client->losses.n >= REPLAY_LOSSES_ALONE)
        sim_fail(sim, "client %llu lost %u workers and does not run alone",
                 (unsigned long long)client->serial, client->losses.n);
    if (!alone && router->alone != SLOT_NONE && router->alone_slot == slot)
        sim_fail(sim, "client %llu is placed where another runs alone",
                 (unsigned long long)client->serial);
}

/* Those that ran beside it were moved away. */
void judge_alone(struct sim *sim, uint32_t node) {
    const struct router *router = sim->nodes[node].router;
    if (router->alone != SLOT_NONE && router->fleet.slots[router->alone_slot].n_assigned > 1)
        sim_fail(sim, "router %u: %u requests are where one runs alone", node,
                 router->fleet.slots[router->alone_slot].n_assigned);
}

/* Tokens are those of an entry that names the attempt in force. */
void judge_tokens(struct sim *sim, const struct client *client, const struct token_run *run) {
    for (uint32_t i = 0; sim->step && i < sim->step->n; i++) {
        const struct step_entry *entry = &sim->step->entries[i];
        if (entry->req.lo == client->request && entry->attempt == client->attempt.number &&
            entry->first_index <= run->first_index &&
            run->first_index - entry->first_index < entry->n_tokens)
            return;
    }
    sim_fail(sim, "client %llu gets tokens that are not of attempt %u",
             (unsigned long long)client->serial, client->attempt.number);
}

/* Its time is up at its deadline, and not when somebody happens to look. */
void judge_in_time(struct sim *sim, const struct client *client) {
    uint64_t now_ns = sim_clock(sim, client->router);
    bool paused = sim->now_ns <= sim->nodes[client->router].paused_until_ns + SLACK_NS;
    if (client->deadline_ns != 0 && now_ns > client->deadline_ns + SLACK_NS && !paused)
        sim_fail(sim, "client %llu ends %llu us after its deadline",
                 (unsigned long long)client->serial,
                 (unsigned long long)((now_ns - client->deadline_ns) / NS_PER_US));
}
