#include "worker/core/flush.h"

#include "worker/core/figures.h"

#define BEAT_NS   100000000ull  /* at least so often a router hears from this worker */
#define DIGEST_NS 1000000000ull /* so often it hears what is held for it */

#define STEP_IDS_MAX      65536u /* of one STEP: what is longer goes with the next one */
#define STEP_LOGPROBS_MAX 2048u

/* One entry's share of a sequence: tokens whose logprobs lie in one piece, or that have none. */
static uint32_t flush_run_end(const struct sequence *sequence, uint32_t begin, bool *logprobs) {
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
static bool flush_add_step_entries(struct engine *engine, const struct sequence *sequence,
                                   struct step_room *room) {
    uint32_t begin = sequence->n_sent;
    do {
        bool logprobs;
        uint32_t end = flush_run_end(sequence, begin, &logprobs);
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
static void flush_note_sent(struct engine *engine, uint32_t n_entries) {
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
static enum status flush_send_steps(struct engine *engine, struct peer_link *peer_link) {
    while (!list_empty(&peer_link->dirty)) {
        struct step_room room = {0};
        list_each(link, &peer_link->dirty) {
            if (!flush_add_step_entries(engine, list_entry(link, struct sequence, dirty), &room))
                break;
        }
        struct message message = {.type = MESSAGE_STEP, .session = peer_link->session};
        message.u.step.n = room.n_entries;
        message.u.step.entries = engine->entries;
        figures_load(engine, &message.u.step.load);
        TRY(engine->sink.send(engine->sink.context, peer_link->link, &message));
        peer_link->beat_ns = engine->now_ns + BEAT_NS;
        flush_note_sent(engine, room.n_entries);
    }
    return STATUS_OK;
}

static enum status flush_send_welcome(struct engine *engine, struct peer_link *peer_link) {
    struct message message = {.type = MESSAGE_WELCOME, .session = peer_link->session};
    message.u.welcome = engine->config.welcome;
    message.u.welcome.state = engine->draining ? WORKER_DRAINING : WORKER_READY;
    figures_load(engine, &message.u.welcome.load);
    TRY(engine->sink.send(engine->sink.context, peer_link->link, &message));
    peer_link->welcome_due = false;
    peer_link->beat_ns = engine->now_ns + BEAT_NS;
    return STATUS_OK;
}

static enum status flush_send_beat(struct engine *engine, struct peer_link *peer_link) {
    struct message message = {.type = MESSAGE_BEAT, .session = peer_link->session};
    message.u.beat.t_ns = peer_link->ping_t_ns;
    message.u.beat.state = engine->draining ? WORKER_DRAINING : WORKER_READY;
    figures_load(engine, &message.u.beat.load);
    TRY(engine->sink.send(engine->sink.context, peer_link->link, &message));
    peer_link->beat_ns = engine->now_ns + BEAT_NS;
    return STATUS_OK;
}

static enum status flush_send_digest(struct engine *engine, struct peer_link *peer_link) {
    struct message message = {.type = MESSAGE_DIGEST, .session = peer_link->session};
    struct digest *digest = &message.u.digest;
    digest->seen_seq = peer_link->seen_seq;
    digest->entries = engine->digest;
    list_each_entry(sequence, &peer_link->sequences, const struct sequence, of_session) {
        engine->digest[digest->n++] = (struct digest_entry){
            .req = sequence->req,
            .attempt = sequence->attempt,
            .state = sequence->state,
            .next_index = sequence_n_output(sequence),
        };
    }
    TRY(engine->sink.send(engine->sink.context, peer_link->link, &message));
    peer_link->digest_ns = engine->now_ns + DIGEST_NS;
    return STATUS_OK;
}

/* In this order: nothing overtakes the introduction, a sign of life does not starve behind a
 * backlog, and what ended early is said before tokens. */
static enum status flush_peer_link(struct engine *engine, struct peer_link *peer_link) {
    if (peer_link->welcome_due)
        TRY(flush_send_welcome(engine, peer_link));
    if (peer_link->kind == PEER_LINK_ROUTER && peer_link->n_posts > 0 &&
        engine->now_ns >= peer_link->beat_ns)
        TRY(flush_send_beat(engine, peer_link));
    if (!peer_link_flush(&engine->peer_links, peer_link, &engine->sink))
        return STATUS_BUSY;
    if (peer_link->kind != PEER_LINK_ROUTER)
        return STATUS_OK;
    TRY(flush_send_steps(engine, peer_link));
    if (engine->now_ns >= peer_link->beat_ns)
        TRY(flush_send_beat(engine, peer_link));
    if (engine->now_ns >= peer_link->digest_ns)
        TRY(flush_send_digest(engine, peer_link));
    return STATUS_OK;
}

void flush_all(struct engine *engine) {
    engine->flush_due = false;
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++) {
        struct peer_link *peer_link = &engine->peer_links.links[i];
        if (peer_link->kind == PEER_LINK_FREE || peer_link->broken)
            continue;
        enum status status = flush_peer_link(engine, peer_link);
        if (status == STATUS_BUSY)
            engine_retry(engine);
        else if (status != STATUS_OK)
            peer_link_break(&engine->peer_links, peer_link, "cannot_send");
    }
}

void flush_beats(struct engine *engine) {
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++)
        if (engine->peer_links.links[i].kind == PEER_LINK_ROUTER)
            engine->peer_links.links[i].beat_ns = engine->now_ns;
    flush_all(engine);
}

void flush_end_silent(struct engine *engine) {
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++) {
        struct peer_link *peer_link = &engine->peer_links.links[i];
        if (peer_link->kind == PEER_LINK_ROUTER &&
            engine->now_ns - peer_link->heard_ns >= engine->config.router_lease_ns) {
            peer_link_break(&engine->peer_links, peer_link, "router_silent");
        }
    }
}

/* What is overdue because it met BUSY is tried again at the retry, not again and again at
 * once. */
static uint64_t flush_when_due(const struct engine *engine, uint64_t at_ns) {
    return at_ns <= engine->now_ns && engine->retry_ns ? engine->retry_ns : at_ns;
}

uint64_t flush_deadline(const struct engine *engine) {
    uint64_t deadline = UINT64_MAX;
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++) {
        const struct peer_link *peer_link = &engine->peer_links.links[i];
        if (peer_link->kind != PEER_LINK_ROUTER || peer_link->broken)
            continue;
        uint64_t lease = peer_link->heard_ns + engine->config.router_lease_ns;
        deadline = lease < deadline ? lease : deadline;
        uint64_t beat = flush_when_due(engine, peer_link->beat_ns);
        uint64_t digest = flush_when_due(engine, peer_link->digest_ns);
        deadline = beat < deadline ? beat : deadline;
        deadline = digest < deadline ? digest : deadline;
    }
    return deadline;
}
