#include "worker/core/flush.h"

#include "worker/core/figures.h"

#define BEAT_NS   100000000ull  /* at least so often a router hears from this worker */
#define DIGEST_NS 1000000000ull /* so often it hears what is held for it */

#define STEP_IDS_MAX      65536u /* of one STEP: what is longer goes with the next one */
#define STEP_LOGPROBS_MAX 2048u

/* One entry's share of a sequence: tokens whose logprobs lie in one piece, or that have none. */
static uint32_t run_end(const struct sequence *sequence, uint32_t begin, bool *logprobs) {
    *logprobs = sequence->sampling.want_logprobs && begin >= sequence->logprobs_from;
    uint32_t end = sequence->n_tokens;
    if (!sequence->sampling.want_logprobs)
        return end;
    uint32_t limit = sequence->logprobs_from;
    if (*logprobs)
        limit = begin - begin % SEQUENCE_LOGPROBS_MAX + SEQUENCE_LOGPROBS_MAX;
    return end < limit ? end : limit;
}

struct step_room {
    uint32_t n_entries;
    uint32_t n_ids;
    uint32_t n_logprobs;
};

/* Entries for all that a sequence has not sent; answers false when the message is full. */
static bool add_entries(struct engine *engine, const struct sequence *sequence,
                        struct step_room *room) {
    uint32_t begin = sequence->n_sent;
    do {
        bool logprobs;
        uint32_t end = run_end(sequence, begin, &logprobs);
        uint32_t n = end - begin;
        if (room->n_entries == MESSAGE_ENTRIES_MAX)
            return false;
        if (n > STEP_IDS_MAX - room->n_ids)
            n = STEP_IDS_MAX - room->n_ids;
        if (logprobs && n > STEP_LOGPROBS_MAX - room->n_logprobs)
            n = STEP_LOGPROBS_MAX - room->n_logprobs;
        if (n == 0 && begin < sequence->n_tokens)
            return false;
        room->n_ids += n;
        room->n_logprobs += logprobs ? n : 0;
        engine->entry_slots[room->n_entries] = sequence->slot;
        engine->entries[room->n_entries++] = (struct step_entry){
            .req = sequence->req,
            .attempt = sequence->attempt,
            .first_index = begin - sequence->n_prompt,
            .n_tokens = n,
            .tokens = sequence->ids + begin,
            .logprobs = logprobs ? sequence->logprobs + begin % SEQUENCE_LOGPROBS_MAX : NULL,
            .finish = begin + n == sequence->n_tokens ? sequence->finish : FINISH_NONE,
            .cached_tokens = sequence->cached_tokens,
        };
        begin += n;
    } while (begin < sequence->n_tokens);
    return true;
}

/* The router's side has it: the sequences move on. */
static void note_sent(struct engine *engine, uint32_t n_entries) {
    for (uint32_t i = 0; i < n_entries; i++) {
        struct sequence *sequence = &engine->sequences.slots[engine->entry_slots[i]];
        sequence->n_sent += engine->entries[i].n_tokens;
        if (engine->entries[i].finish != FINISH_NONE)
            sequence->finish_sent = true;
        if (sequence->n_sent == sequence->n_tokens &&
            (sequence->finish == FINISH_NONE || sequence->finish_sent))
            list_remove(&sequence->dirty);
    }
}

/* All tokens that this router does not have, in as few messages as they fit. */
static enum status send_steps(struct engine *engine, struct outlet *outlet) {
    while (!list_empty(&outlet->dirty)) {
        struct step_room room = {0};
        list_each(link, &outlet->dirty) {
            if (!add_entries(engine, list_entry(link, struct sequence, dirty), &room))
                break;
        }
        struct message message = {.type = MESSAGE_STEP, .session = outlet->session};
        message.u.step.n = room.n_entries;
        message.u.step.entries = engine->entries;
        figures_load(engine, &message.u.step.load);
        TRY(engine->sink.send(engine->sink.context, outlet->link, &message));
        outlet->beat_ns = engine->now_ns + BEAT_NS;
        note_sent(engine, room.n_entries);
    }
    return STATUS_OK;
}

static enum status send_welcome(struct engine *engine, struct outlet *outlet) {
    struct message message = {.type = MESSAGE_WELCOME, .session = outlet->session};
    message.u.welcome = engine->config.welcome;
    message.u.welcome.state = engine->draining ? WORKER_DRAINING : WORKER_READY;
    figures_load(engine, &message.u.welcome.load);
    TRY(engine->sink.send(engine->sink.context, outlet->link, &message));
    outlet->welcome_due = false;
    outlet->beat_ns = engine->now_ns + BEAT_NS;
    return STATUS_OK;
}

static enum status send_beat(struct engine *engine, struct outlet *outlet) {
    struct message message = {.type = MESSAGE_BEAT, .session = outlet->session};
    message.u.beat.t_ns = outlet->ping_t_ns;
    message.u.beat.state = engine->draining ? WORKER_DRAINING : WORKER_READY;
    figures_load(engine, &message.u.beat.load);
    TRY(engine->sink.send(engine->sink.context, outlet->link, &message));
    outlet->beat_ns = engine->now_ns + BEAT_NS;
    return STATUS_OK;
}

static enum status send_digest(struct engine *engine, struct outlet *outlet) {
    struct message message = {.type = MESSAGE_DIGEST, .session = outlet->session};
    struct digest *digest = &message.u.digest;
    digest->seen_seq = outlet->seen_seq;
    digest->entries = engine->digest;
    list_each_entry(sequence, &outlet->sequences, const struct sequence, of_session) {
        engine->digest[digest->n++] = (struct digest_entry){
            .req = sequence->req,
            .attempt = sequence->attempt,
            .state = sequence->state,
            .next_index = sequence_n_output(sequence),
        };
    }
    TRY(engine->sink.send(engine->sink.context, outlet->link, &message));
    outlet->digest_ns = engine->now_ns + DIGEST_NS;
    return STATUS_OK;
}

/* In this order: nothing overtakes the introduction, a sign of life does not starve behind a
 * backlog, and what ended early is said before tokens. */
static enum status flush_outlet(struct engine *engine, struct outlet *outlet) {
    if (outlet->welcome_due)
        TRY(send_welcome(engine, outlet));
    if (outlet->kind == OUTLET_ROUTER && outlet->n_posts > 0 && engine->now_ns >= outlet->beat_ns)
        TRY(send_beat(engine, outlet));
    if (!outlet_flush(&engine->outlets, outlet, &engine->sink))
        return STATUS_BUSY;
    if (outlet->kind != OUTLET_ROUTER)
        return STATUS_OK;
    TRY(send_steps(engine, outlet));
    if (engine->now_ns >= outlet->beat_ns)
        TRY(send_beat(engine, outlet));
    if (engine->now_ns >= outlet->digest_ns)
        TRY(send_digest(engine, outlet));
    return STATUS_OK;
}

void flush_all(struct engine *engine) {
    engine->flush_due = false;
    for (uint32_t i = 0; i < engine->outlets.n_outlets; i++) {
        struct outlet *outlet = &engine->outlets.outlets[i];
        if (outlet->kind == OUTLET_FREE || outlet->broken)
            continue;
        enum status status = flush_outlet(engine, outlet);
        if (status == STATUS_BUSY)
            engine_retry(engine);
        else if (status != STATUS_OK)
            outlet_break(&engine->outlets, outlet, "cannot_send");
    }
}

void flush_beats(struct engine *engine) {
    for (uint32_t i = 0; i < engine->outlets.n_outlets; i++)
        if (engine->outlets.outlets[i].kind == OUTLET_ROUTER)
            engine->outlets.outlets[i].beat_ns = engine->now_ns;
    flush_all(engine);
}

void flush_end_silent(struct engine *engine) {
    for (uint32_t i = 0; i < engine->outlets.n_outlets; i++) {
        struct outlet *outlet = &engine->outlets.outlets[i];
        if (outlet->kind == OUTLET_ROUTER &&
            engine->now_ns - outlet->heard_ns >= engine->config.router_lease_ns) {
            outlet_break(&engine->outlets, outlet, "router_silent");
        }
    }
}

/* What is overdue because it met BUSY is tried again at the retry, not again and again at
 * once. */
static uint64_t when_due(const struct engine *engine, uint64_t at_ns) {
    return at_ns <= engine->now_ns && engine->retry_ns ? engine->retry_ns : at_ns;
}

uint64_t flush_deadline(const struct engine *engine) {
    uint64_t deadline = UINT64_MAX;
    for (uint32_t i = 0; i < engine->outlets.n_outlets; i++) {
        const struct outlet *outlet = &engine->outlets.outlets[i];
        if (outlet->kind != OUTLET_ROUTER || outlet->broken)
            continue;
        uint64_t lease = outlet->heard_ns + engine->config.router_lease_ns;
        deadline = lease < deadline ? lease : deadline;
        uint64_t beat = when_due(engine, outlet->beat_ns);
        uint64_t digest = when_due(engine, outlet->digest_ns);
        deadline = beat < deadline ? beat : deadline;
        deadline = digest < deadline ? digest : deadline;
    }
    return deadline;
}
