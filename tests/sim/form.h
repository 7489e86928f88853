/* tests/sim/form.h: answers that have a form, as a grammar's: about half of all ids may come next, and
 * which ones follows from the form and from the ids that came so far.
 *
 * The core of a worker knows no forms: its shell makes each ready, at once or some time later, and
 * follows the ids with it when it chooses. So a sequence that runs before its form is ready, or with the form
 * of another one, or that goes on elsewhere behind other ids, has wrong tokens. Which runs and
 * requests have forms is drawn by themselves, so that others are what they were. */
#pragma once

#include "base/random.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define FORM_PERCENT 50 /* of all runs */
#define FORM_AMONG   3  /* one request of so many, there */
#define FORM_BYTES   8
#define FORM_SALT    0xf02au

struct client;
struct cell_event;
struct sampling;
struct sequence_view;
struct sim;
struct submit;

/* Which ids may come next. */
struct form {
    uint64_t state;
};

static inline void form_push(struct form *form, uint32_t id) {
    form->state = mix64(form->state ^ id);
}

static inline bool form_allows(const struct form *form, uint32_t id) {
    return (mix64(form->state + id) & 1) != 0;
}

/* A worker's, of one slot. */
struct form_kept {
    struct form form;
    uint64_t serial; /* of the sequence that it belongs to */
    uint32_t n;      /* ids that it has followed, the prompt's among them */
    uint64_t ready_ns;
    bool is_ready;
};

/* After all other options. */
void form_draw(struct sim *sim);

/* Gives a new client its form, if it has one; and tells the router of it. */
void form_plan(struct sim *sim, struct client *client);
void form_sampling(const struct client *client, struct sampling *sampling);

/* The worker's shell: a Submit with a form has come (engine_sink); those that are due are ready. */
enum status form_open(struct sim *sim, uint32_t node, uint32_t slot, uint64_t serial,
                      const struct submit *submit);
void form_look(struct sim *sim, uint32_t node);
void form_due(struct sim *sim, const struct cell_event *event);

/* What a sequence may choose from now: NULL, anything. It must be its own, and ready. */
const struct form *form_of(struct sim *sim, uint32_t node, uint32_t slot,
                           const struct sequence_view *view);
