#include "tests/sim/form.h"

#include "tests/sim/judge.h"

#include <string.h>

void form_draw(struct sim *sim) {
    sim->draws.forms = (struct random){.state = mix64(sim->seed ^ FORM_SALT)};
    sim->options.forms = draw_chance(&sim->draws.forms, FORM_PERCENT);
}

static struct form form_begin(const uint8_t *bytes, uint32_t n) {
    struct form form = {.state = FORM_SALT};
    for (uint32_t i = 0; i < n; i++)
        form_push(&form, bytes[i]);
    return form;
}

void form_plan(struct sim *sim, struct client *client) {
    if (!sim->options.forms || mix64(client->seed ^ FORM_SALT) % FORM_AMONG != 0)
        return;
    uint64_t key = mix64(client->seed);
    client->has_form = true;
    memcpy(client->form_bytes, &key, sizeof client->form_bytes);
    client->form = form_begin(client->form_bytes, FORM_BYTES);
}

void form_sampling(const struct client *client, struct sampling *sampling) {
    if (!client->has_form)
        return;
    sampling->grammar = client->form_bytes;
    sampling->n_grammar = FORM_BYTES;
}

enum status form_open(struct sim *sim, uint32_t i, uint32_t slot, uint64_t serial,
                      const struct submit *submit) {
    struct node *node = &sim->nodes[i];
    struct form_kept *kept = &node->forms[slot];
    bool waits = draw_chance(&sim->draws.forms, 50);
    uint64_t delay_ns = waits ? draw_about(&sim->draws.forms, sim->options.step_ns) + 1 : 0;
    *kept =
        (struct form_kept){.form = form_begin(submit->sampling.grammar, submit->sampling.n_grammar),
                           .serial = serial,
                           .n = submit->n_prompt,
                           .ready_ns = sim->now_ns + delay_ns,
                           .is_ready = !waits};
    if (submit->n_tokens > submit->n_prompt)
        sim_saw(sim, SIGHT_FORM_REPLAYED);
    if (submit->phase != PHASE_BOTH)
        sim_saw(sim, SIGHT_FORM_HANDED);
    if (!waits)
        return STATUS_OK;
    time_stepped(sim, delay_ns);
    sim_at(sim, kept->ready_ns,
           (struct cell_event){.type = EVENT_FORM, .node = i, .c = node->epoch});
    return STATUS_BUSY;
}

void form_look(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    for (uint32_t slot = 0; slot < sim->options.max_seqs; slot++) {
        struct form_kept *kept = &node->forms[slot];
        if (kept->is_ready || kept->serial == 0 || kept->ready_ns > sim->now_ns)
            continue;
        kept->is_ready = true;
        sim_saw(sim, SIGHT_FORM_WAITED);
        engine_constrained(node->engine, sim_clock(sim, i), slot, kept->serial, STATUS_OK);
    }
}

void form_due(struct sim *sim, const struct cell_event *event) {
    const struct node *node = &sim->nodes[event->node];
    bool looks = !node->in_step || sim->options.messages_in_step; /* else at the step's end */
    if (node->up && node->epoch == event->c && looks)
        form_look(sim, event->node);
}

const struct form *form_of(struct sim *sim, uint32_t i, uint32_t slot,
                           const struct sequence_view *view) {
    struct form_kept *kept = &sim->nodes[i].forms[slot];
    if (view->sampling->n_grammar == 0)
        return NULL;
    if (kept->serial != view->serial || !kept->is_ready || kept->n > view->n_tokens) {
        sim_fail(sim, "worker %u: slot %u chooses without its form", i, slot);
        return NULL;
    }
    for (; kept->n < view->n_tokens; kept->n++)
        form_push(&kept->form, view->ids[kept->n]);
    sim_saw(sim, SIGHT_FORM);
    return &kept->form;
}
