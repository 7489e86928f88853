/* tests/unit/router/core/fake.h: a router core between fake workers and a fake shell that
 * remembers. */
#pragma once

#include "base/clock.h"
#include "router/core/router.h"

#include <stdbool.h>
#include <stdint.h>

#define FAKE_SLOTS    12
#define FAKE_MESSAGES 512
#define FAKE_USERS    64
#define FAKE_PROMPT   40
#define FAKE_VOCAB    2000
#define FAKE_NEW      64
#define FAKE_NOTES    64

/* A message as it was sent; of SUBMIT the tokens are copied, other pointers are dropped. */
struct fake_message {
    uint32_t slot;
    struct message message;
    uint32_t tokens[FAKE_PROMPT + FAKE_NEW];
    struct attempt_id forgets[16];
};

struct fake_user {
    uint32_t tokens[FAKE_PROMPT + FAKE_NEW];
    uint64_t name; /* router_request()'s answer */
    uint32_t got[FAKE_NEW];
    uint32_t n_got;
    uint32_t n_logprobs;
    uint32_t n_ends;
    struct request_end end;
};

struct fake {
    struct router *router;
    struct router_config config;
    uint64_t now_ns;
    uint32_t n_sent;
    struct fake_message sent[FAKE_MESSAGES];
    struct fake_user users[FAKE_USERS];
    uint64_t session[FAKE_SLOTS];
    bool open[FAKE_SLOTS];
    uint64_t progress[FAKE_SLOTS];
    uint32_t n_opened, n_closed;
    uint32_t n_touched; /* events, as the core tells them */
    struct announce announced[FAKE_SLOTS];
    uint32_t n_notes;
    uint32_t n_decisions;
    char decisions[FAKE_NOTES][200]; /* about requests, at debug: the last ones */
    char notes[FAKE_NOTES][200];     /* "worker lost name=a reason=hung after_ms=1034 requests=0" */
};

/* A config to change before fake_open(). */
struct router_config fake_config(void);
void fake_open(struct fake *fake, const struct router_config *config);
void fake_open_default(struct fake *fake);
void fake_close(struct fake *fake); /* checks the ledgers once more */

/* A welcome with the usual fingerprints; change it before fake_join(). */
struct welcome fake_welcome(const char *name, enum worker_role role);
/* Announces and welcomes; answers the slot. */
uint32_t fake_join(struct fake *fake, const struct welcome *welcome);
uint32_t fake_worker(struct fake *fake, const char *name, enum worker_role role);

/* Asks for `max_new` tokens after a prompt of `n_prompt` ids. */
enum status fake_ask(struct fake *fake, uint32_t user, uint32_t n_prompt, uint32_t max_new);
enum status fake_ask_spec(struct fake *fake, uint32_t user, struct request_spec spec);
struct request_spec fake_spec(struct fake *fake, uint32_t user, uint32_t n_prompt,
                              uint32_t max_new);

/* The last message of this type to this slot since fake_forget_sent(), or NULL. slot UINT32_MAX:
 * to any. */
const struct fake_message *fake_last(const struct fake *fake, enum message_type type,
                                     uint32_t slot);
uint32_t fake_count(const struct fake *fake, enum message_type type, uint32_t slot);

/* The last SUBMIT that went to `slot`; fails the test when there was none. Its ids are borrowed. */
struct submit fake_submitted(const struct fake *fake, uint32_t slot);
/* The same of the last RESERVE: which request and attempt it names. */
struct submit fake_reserving(const struct fake *fake, uint32_t slot);
void fake_forget_sent(struct fake *fake);

/* A worker speaks; session is filled in. */
void fake_says(struct fake *fake, uint32_t slot, struct message message);
void fake_beat(struct fake *fake, uint32_t slot); /* it ended a step meanwhile */
void fake_step(struct fake *fake, uint32_t slot, const struct submit *submit, uint32_t first_index,
               uint32_t n_tokens, enum finish finish);
void fake_reserved(struct fake *fake, uint32_t slot, uint32_t gen, uint32_t cached_tokens);
void fake_refuses(struct fake *fake, uint32_t slot, const struct submit *submit,
                  enum reason reason);
void fake_fails(struct fake *fake, uint32_t slot, const struct submit *submit, enum reason reason);

/* Lets time pass in steps of at most 50 ms; workers in `alive` (bit mask) beat meanwhile. */
void fake_pass(struct fake *fake, uint64_t ns, uint32_t alive);
/* The router itself stands still for that long: nothing happens until its tick at the end. */
void fake_stand_still(struct fake *fake, uint64_t ns);
void fake_lose(struct fake *fake, uint32_t slot);

/* The token that index i of user's answer has in these tests. */
uint32_t fake_token(uint32_t index);
void fake_expect(const struct fake *fake, uint32_t user, uint32_t n_got);
/* What was decided of a request last, or `back` decisions before: "placed worker=w ..."; or "". */
const char *fake_decision(const struct fake *fake, uint32_t back);
/* The last note that begins so, or NULL; and how many do. */
const char *fake_note(const struct fake *fake, const char *begin);
uint32_t fake_count_notes(const struct fake *fake, const char *begin);
/* SLOT_FREE where no worker is. */
enum slot_state fake_state(const struct fake *fake, uint32_t slot);
/* The worker answers the last PING it was sent. */
void fake_pong(struct fake *fake, uint32_t slot);
struct router_stats fake_stats(const struct fake *fake);
