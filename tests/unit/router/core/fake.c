#include "tests/unit/router/core/fake.h"

#include "base/log/note.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static void check(const struct fake *fake) {
    const char *flaw = router_check(fake->router);
    ck_assert_msg(!flaw, "router_check: %s", flaw);
}

static void on_open(void *context, uint32_t slot, const struct announce *announce) {
    struct fake *fake = context;
    ck_assert_uint_lt(slot, FAKE_SLOTS);
    ck_assert(!fake->open[slot]);
    fake->open[slot] = true;
    fake->announced[slot] = *announce;
    fake->n_opened++;
}

static void on_close(void *context, uint32_t slot) {
    struct fake *fake = context;
    ck_assert(fake->open[slot]);
    fake->open[slot] = false;
    fake->n_closed++;
}

static void on_send(void *context, uint32_t slot, const struct message *message) {
    struct fake *fake = context;
    ck_assert(fake->open[slot]);
    ck_assert_uint_lt(fake->n_sent, FAKE_MESSAGES);
    struct fake_message *kept = &fake->sent[fake->n_sent++];
    kept->slot = slot;
    kept->message = *message;
    if (message->type == MESSAGE_HELLO)
        fake->session[slot] = message->u.hello.session;
    ck_assert_uint_eq(message->session, fake->session[slot]);
    if (message->type == MESSAGE_SUBMIT) {
        const struct submit *submit = &message->u.submit;
        ck_assert_uint_le(submit->n_tokens, FAKE_PROMPT + FAKE_NEW);
        memcpy(kept->tokens, submit->tokens, submit->n_tokens * sizeof *kept->tokens);
        kept->message.u.submit.tokens = kept->tokens;
    }
    if (message->type == MESSAGE_FORGET) {
        ck_assert_uint_le(message->u.forget.n, 16);
        memcpy(kept->forgets, message->u.forget.attempts,
               message->u.forget.n * sizeof *kept->forgets);
        kept->message.u.forget.attempts = kept->forgets;
    }
}

static void on_tokens(void *context, uint64_t user, const struct token_run *run) {
    struct fake *fake = context;
    struct fake_user *who = &fake->users[user];
    ck_assert_uint_eq(who->n_ends, 0);
    ck_assert_uint_eq(run->first_index, who->n_got);
    for (uint32_t i = 0; i < run->n_tokens; i++) {
        ck_assert_uint_lt(who->n_got, FAKE_NEW);
        who->got[who->n_got++] = run->tokens[i];
    }
    who->n_logprobs += run->logprobs ? run->n_tokens : 0;
}

static void on_end(void *context, uint64_t user, const struct request_end *end) {
    struct fake *fake = context;
    fake->users[user].n_ends++;
    fake->users[user].end = *end;
}

static void on_touched(void *context) {
    struct fake *fake = context;
    fake->n_touched++;
}

static void on_note(void *context, const struct note *note) {
    struct fake *fake = context;
    char text[160];
    if (note->kind->level == LOG_DEBUG && note->request != NOTE_NO_REQUEST) {
        snprintf(fake->decisions[fake->n_decisions++ % FAKE_NOTES], sizeof fake->decisions[0],
                 "%s %s", note->kind->message, note_text(text, sizeof text, note, NULL));
        return;
    }
    ck_assert_uint_lt(fake->n_notes, FAKE_NOTES);
    snprintf(fake->notes[fake->n_notes++], sizeof fake->notes[0], "%s %s", note->kind->message,
             note_text(text, sizeof text, note, NULL));
}

struct router_config fake_config(void) {
    struct router_config config = {
        .router_id = 77,
        .seed = 1,
        .name = "router",
        .max_requests = FAKE_USERS,
        .max_queue = FAKE_USERS,
        .max_workers = FAKE_SLOTS,
        .max_prompt = FAKE_PROMPT,
        .n_vocab = FAKE_VOCAB,
        .policy = "least_load",
        .roles = ROLES_FIXED, /* roles_test.c has the others */
        .no_worker_wait_ns = 5 * NS_PER_S,
        .hang_ns_min = NS_PER_S,
    };
    return config;
}

void fake_open(struct fake *fake, const struct router_config *config) {
    memset(fake, 0, sizeof *fake);
    fake->now_ns = 3600 * NS_PER_S;
    fake->config = *config;
    struct router_sink sink = {.context = fake,
                               .open_link = on_open,
                               .close_link = on_close,
                               .send = on_send,
                               .tokens = on_tokens,
                               .end = on_end,
                               .touched = on_touched,
                               .note = on_note};
    ck_assert_int_eq(router_new(config, &sink, &fake->router), STATUS_OK);
}

void fake_open_default(struct fake *fake) {
    struct router_config config = fake_config();
    fake_open(fake, &config);
}

void fake_close(struct fake *fake) {
    check(fake);
    router_free(fake->router);
}

struct welcome fake_welcome(const char *name, enum worker_role role) {
    static uint64_t incarnation = 100;
    struct welcome welcome = {
        .major = PROTO_MAJOR,
        .incarnation = ++incarnation,
        .role = role,
        .kv = {.n_layers = 4, .block_tokens = 16, .block_bytes = 128, .tp = 1},
        .context = FAKE_PROMPT + FAKE_NEW + 1,
        .max_seqs = 16,
    };
    snprintf(welcome.name, sizeof welcome.name, "%s", name);
    return welcome;
}

uint32_t fake_join(struct fake *fake, const struct welcome *welcome) {
    struct announce announce = {.incarnation = welcome->incarnation};
    memcpy(announce.name, welcome->name, sizeof announce.name);
    router_announce(fake->router, fake->now_ns, &announce);
    for (uint32_t slot = 0; slot < FAKE_SLOTS; slot++) {
        if (!fake->open[slot] || fake->announced[slot].incarnation != welcome->incarnation)
            continue;
        struct message message = {.type = MESSAGE_WELCOME};
        message.u.welcome = *welcome;
        fake_says(fake, slot, message);
        return slot;
    }
    return UINT32_MAX;
}

uint32_t fake_worker(struct fake *fake, const char *name, enum worker_role role) {
    struct welcome welcome = fake_welcome(name, role);
    uint32_t slot = fake_join(fake, &welcome);
    ck_assert_uint_ne(slot, UINT32_MAX);
    return slot;
}

struct request_spec fake_spec(struct fake *fake, uint32_t user, uint32_t n_prompt,
                              uint32_t max_new) {
    struct fake_user *who = &fake->users[user];
    for (uint32_t i = 0; i < n_prompt; i++)
        who->tokens[i] = i + 1;
    struct request_spec spec = {
        .user = user,
        .tokens = who->tokens,
        .n_prompt = n_prompt,
        .capacity = n_prompt + max_new,
        .sampling = {.max_new = max_new},
    };
    return spec;
}

enum status fake_ask_spec(struct fake *fake, uint32_t user, struct request_spec spec) {
    enum status status = router_request(fake->router, fake->now_ns, &spec, &fake->users[user].name);
    check(fake);
    return status;
}

enum status fake_ask(struct fake *fake, uint32_t user, uint32_t n_prompt, uint32_t max_new) {
    return fake_ask_spec(fake, user, fake_spec(fake, user, n_prompt, max_new));
}

const struct fake_message *fake_last(const struct fake *fake, enum message_type type,
                                     uint32_t slot) {
    for (uint32_t i = fake->n_sent; i-- > 0;) {
        if (fake->sent[i].message.type == type &&
            (slot == UINT32_MAX || fake->sent[i].slot == slot))
            return &fake->sent[i];
    }
    return NULL;
}

struct submit fake_submitted(const struct fake *fake, uint32_t slot) {
    const struct fake_message *message = fake_last(fake, MESSAGE_SUBMIT, slot);
    ck_assert_ptr_nonnull(message);
    return message->message.u.submit;
}

uint32_t fake_count(const struct fake *fake, enum message_type type, uint32_t slot) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < fake->n_sent; i++)
        n += fake->sent[i].message.type == type &&
             (slot == UINT32_MAX || fake->sent[i].slot == slot);
    return n;
}

struct submit fake_reserving(const struct fake *fake, uint32_t slot) {
    const struct fake_message *asked = fake_last(fake, MESSAGE_RESERVE, slot);
    ck_assert_ptr_nonnull(asked);
    return (struct submit){.req = asked->message.u.reserve.req,
                           .attempt = asked->message.u.reserve.attempt};
}

void fake_forget_sent(struct fake *fake) {
    fake->n_sent = 0;
}

void fake_says(struct fake *fake, uint32_t slot, struct message message) {
    if (message.session == 0)
        message.session = fake->session[slot];
    router_message(fake->router, fake->now_ns, slot, &message);
    check(fake);
}

void fake_beat(struct fake *fake, uint32_t slot) {
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.load.progress = message.u.beat.load.n_steps = ++fake->progress[slot];
    fake_says(fake, slot, message);
}

uint32_t fake_token(uint32_t index) {
    return 1000 + index;
}

void fake_step(struct fake *fake, uint32_t slot, const struct submit *submit, uint32_t first_index,
               uint32_t n_tokens, enum finish finish) {
    uint32_t tokens[FAKE_NEW];
    for (uint32_t i = 0; i < n_tokens; i++)
        tokens[i] = fake_token(first_index + i);
    struct step_entry entry = {.req = submit->req,
                               .attempt = submit->attempt,
                               .first_index = first_index,
                               .n_tokens = n_tokens,
                               .tokens = tokens,
                               .finish = finish};
    struct message message = {.type = MESSAGE_STEP};
    message.u.step = (struct step){.n = 1, .entries = &entry};
    message.u.step.load.progress = ++fake->progress[slot];
    fake_says(fake, slot, message);
}

void fake_reserved(struct fake *fake, uint32_t slot, uint32_t gen, uint32_t cached_tokens) {
    const struct fake_message *asked = fake_last(fake, MESSAGE_RESERVE, slot);
    ck_assert_ptr_nonnull(asked);
    struct message message = {.type = MESSAGE_RESERVED};
    message.u.reserved = (struct reserved){.req = asked->message.u.reserve.req,
                                           .attempt = asked->message.u.reserve.attempt,
                                           .gen = gen,
                                           .cached_tokens = cached_tokens};
    fake_says(fake, slot, message);
}

void fake_refuses(struct fake *fake, uint32_t slot, const struct submit *submit,
                  enum reason reason) {
    struct message message = {.type = MESSAGE_REFUSED};
    message.u.refused =
        (struct refused){.req = submit->req, .attempt = submit->attempt, .reason = reason};
    fake_says(fake, slot, message);
}

void fake_fails(struct fake *fake, uint32_t slot, const struct submit *submit, enum reason reason) {
    struct message message = {.type = MESSAGE_FAILED};
    message.u.failed = (struct failed){
        .req = submit->req, .attempt = submit->attempt, .phase = submit->phase, .reason = reason};
    fake_says(fake, slot, message);
}

void fake_pass(struct fake *fake, uint64_t ns, uint32_t alive) {
    uint64_t until = fake->now_ns + ns;
    while (fake->now_ns < until) {
        uint64_t left = until - fake->now_ns;
        fake->now_ns += left < 50 * NS_PER_MS ? left : 50 * NS_PER_MS;
        for (uint32_t slot = 0; slot < FAKE_SLOTS; slot++) {
            if (alive >> slot & 1)
                fake_beat(fake, slot);
        }
        router_tick(fake->router, fake->now_ns);
        check(fake);
    }
}

void fake_stand_still(struct fake *fake, uint64_t ns) {
    fake->now_ns += ns;
    router_tick(fake->router, fake->now_ns);
    check(fake);
}

void fake_lose(struct fake *fake, uint32_t slot) {
    fake->open[slot] = false;
    router_link_lost(fake->router, fake->now_ns, slot);
    check(fake);
}

void fake_expect(const struct fake *fake, uint32_t user, uint32_t n_got) {
    const struct fake_user *who = &fake->users[user];
    ck_assert_uint_eq(who->n_got, n_got);
    for (uint32_t i = 0; i < n_got; i++)
        ck_assert_uint_eq(who->got[i], fake_token(i));
}

uint32_t fake_count_notes(const struct fake *fake, const char *begin) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < fake->n_notes; i++)
        n += strncmp(fake->notes[i], begin, strlen(begin)) == 0;
    return n;
}

const char *fake_decision(const struct fake *fake, uint32_t back) {
    return fake->n_decisions > back ? fake->decisions[(fake->n_decisions - 1 - back) % FAKE_NOTES]
                                    : "";
}

const char *fake_note(const struct fake *fake, const char *begin) {
    for (uint32_t i = fake->n_notes; i-- > 0;)
        if (strncmp(fake->notes[i], begin, strlen(begin)) == 0)
            return fake->notes[i];
    return NULL;
}

enum slot_state fake_state(const struct fake *fake, uint32_t slot) {
    struct worker_view view;
    return router_worker(fake->router, slot, &view) == STATUS_OK ? view.state : SLOT_FREE;
}

void fake_pong(struct fake *fake, uint32_t slot) {
    const struct fake_message *ping = fake_last(fake, MESSAGE_PING, slot);
    ck_assert_ptr_nonnull(ping);
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.t_ns = ping->message.u.ping.t_ns;
    message.u.beat.load.progress = ++fake->progress[slot];
    fake_says(fake, slot, message);
}

struct router_stats fake_stats(const struct fake *fake) {
    struct router_stats stats;
    router_stats(fake->router, &stats);
    return stats;
}
