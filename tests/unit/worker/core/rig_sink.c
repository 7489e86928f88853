/* What an engine does to the world: to routers at once, to other workers by way of a queue. */
#include "tests/unit/worker/core/rig.h"

#include "base/log/note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t rig_oracle(const uint32_t *ids, uint32_t n) {
    uint64_t e = 0;
    uint64_t s = 0;
    for (uint32_t i = 0; i < n; i++) {
        e = mix64(e ^ ((uint64_t)ids[i] + 1));
        s = mix64(s ^ e);
    }
    return 256 + (uint32_t)(s % 65280);
}

uint32_t rig_link(uint32_t r) {
    return r + 1;
}

static struct call *find_call(struct rig *rig, struct request_id req) {
    for (uint32_t i = 0; i < rig->n_calls; i++)
        if (request_id_equal(rig->calls[i].req, req))
            return &rig->calls[i];
    ck_abort_msg("a message for a request that was never made");
    return NULL;
}

static void take_entry(struct call *call, const struct step_entry *entry) {
    if (entry->attempt != call->attempt)
        return;
    if (entry->first_index > call->n_got) {
        call->gap = true;
        return;
    }
    for (uint32_t i = 0; i < entry->n_tokens; i++) {
        uint32_t index = entry->first_index + i;
        uint32_t at = call->n_prompt + index;
        if (index < call->n_got) {
            ck_assert_uint_eq(entry->tokens[i], call->ids[at]);
            continue;
        }
        ck_assert_uint_eq(index, call->n_got);
        ck_assert_uint_eq(entry->tokens[i], rig_oracle(call->ids, at));
        ck_assert_uint_lt(at, RIG_IDS);
        call->ids[at] = entry->tokens[i];
        call->n_got++;
        if (entry->logprobs) {
            call->n_logprobs++;
            ck_assert(entry->logprobs[i].logprob == -(float)(entry->tokens[i] % 97));
        }
    }
    if (entry->finish != FINISH_NONE) {
        ck_assert_uint_eq(entry->first_index + entry->n_tokens, call->n_got);
        call->finish = entry->finish;
    }
    call->cached_tokens = entry->cached_tokens;
}

static void take_load(struct worker *worker, const struct load *load) {
    ck_assert_uint_eq(load->blocks_total, load->blocks_free + load->blocks_used +
                                              load->blocks_reserved + load->blocks_quarantined +
                                              load->blocks_cached);
    worker->load = *load;
}

static void to_router(struct worker *worker, const struct message *message) {
    struct rig *rig = worker->rig;
    struct call *call;
    switch (message->type) {
    case MESSAGE_WELCOME:
        worker->n_welcomes++;
        break;
    case MESSAGE_BEAT:
        worker->n_beats++;
        take_load(worker, &message->u.beat.load);
        break;
    case MESSAGE_DIGEST:
        worker->n_digests++;
        worker->n_digest = message->u.digest.n < 256 ? message->u.digest.n : 256;
        memcpy(worker->digest, message->u.digest.entries,
               worker->n_digest * sizeof worker->digest[0]);
        break;
    case MESSAGE_STEP:
        if (worker->lose_steps > 0) {
            worker->lose_steps--;
            break;
        }
        take_load(worker, &message->u.step.load);
        for (uint32_t i = 0; i < message->u.step.n; i++)
            take_entry(find_call(rig, message->u.step.entries[i].req), &message->u.step.entries[i]);
        break;
    case MESSAGE_RESERVED:
        call = find_call(rig, message->u.reserved.req);
        if (message->u.reserved.attempt != call->attempt)
            break;
        call->reserved = true;
        call->n_reserved++;
        call->gen = message->u.reserved.gen;
        call->reserved_cached = message->u.reserved.cached_tokens;
        break;
    case MESSAGE_REFUSED:
        call = find_call(rig, message->u.refused.req);
        call->refused = true;
        call->reason = message->u.refused.reason;
        break;
    case MESSAGE_FAILED:
        call = find_call(rig, message->u.failed.req);
        if (message->u.failed.attempt != call->attempt)
            break;
        call->failed = true;
        call->n_failed++;
        call->reason = message->u.failed.reason;
        call->failed_phase = message->u.failed.phase;
        break;
    case MESSAGE_CANCELLED:
        find_call(rig, message->u.cancel.req)->cancelled = true;
        break;
    case MESSAGE_RESET:
        worker->n_resets++;
        worker->reset_reason = message->u.reset.reason;
        break;
    default:
        ck_abort_msg("not for a router");
    }
}

static struct pipe *find_pipe(struct rig *rig, uint32_t link, bool *is_p) {
    for (uint32_t i = 0; i < rig->n_pipes; i++) {
        struct pipe *pipe = &rig->pipes[i];
        *is_p = pipe->link_p == link;
        if (pipe->open && (*is_p || pipe->link_d == link))
            return pipe;
    }
    return NULL;
}

static bool is_busy(struct rig *rig) {
    return rig->busy_percent > 0 && random_below(&rig->random, 100) < rig->busy_percent;
}

static enum status sink_send(void *context, uint32_t link, const struct message *message) {
    struct worker *worker = context;
    struct rig *rig = worker->rig;
    if (link < RIG_FIRST_KV_LINK) {
        if (worker->routers_gone)
            return STATUS_CLOSED;
        if (worker->busy > 0) {
            worker->busy--;
            return STATUS_BUSY;
        }
        if (is_busy(rig))
            return STATUS_BUSY;
        to_router(worker, message);
        return STATUS_OK;
    }
    bool is_p;
    struct pipe *pipe = find_pipe(rig, link, &is_p);
    if (!pipe)
        return STATUS_CLOSED;
    uint32_t *n = is_p ? &pipe->n_to_d : &pipe->n_to_p;
    struct parcel *queue = is_p ? pipe->to_d : pipe->to_p;
    if (*n >= rig->queue_max || is_busy(rig))
        return STATUS_BUSY;
    queue[(*n)++] = (struct parcel){.message = *message};
    return STATUS_OK;
}

static enum status sink_open_kv(void *context, const struct peer *peer, uint32_t *link) {
    struct worker *worker = context;
    struct rig *rig = worker->rig;
    if (is_busy(rig))
        return STATUS_BUSY;
    for (uint32_t d = 0; d < rig->n_workers; d++) {
        char name[MESSAGE_NAME_MAX];
        snprintf(name, sizeof name, "worker%u", d);
        if (strcmp(peer->name, name) != 0 || rig->workers[d].incarnation != peer->incarnation)
            continue;
        ck_assert_uint_lt(rig->n_pipes, RIG_PIPES);
        struct pipe *pipe = &rig->pipes[rig->n_pipes++];
        *pipe = (struct pipe){.open = true, .p = worker->index, .d = d};
        pipe->link_p = rig->next_link++;
        pipe->link_d = rig->next_link++;
        *link = pipe->link_p;
        return STATUS_OK;
    }
    return STATUS_NOT_FOUND;
}

static void sink_close_link(void *context, uint32_t link) {
    struct worker *worker = context;
    worker->n_closed++;
    bool is_p;
    struct pipe *pipe = link >= RIG_FIRST_KV_LINK ? find_pipe(worker->rig, link, &is_p) : NULL;
    if (pipe) /* the other side hears of it with its next delivery */
        *(is_p ? &pipe->link_p : &pipe->link_d) = 0;
}

static uint64_t checksum(const uint8_t *bytes, uint32_t n) {
    uint64_t sum = n;
    for (uint32_t i = 0; i < n; i++)
        sum = mix64(sum ^ bytes[i]);
    return sum;
}

uint64_t *rig_cell(const struct worker *worker, uint32_t layer, uint32_t block) {
    return worker->kv + ((size_t)layer * worker->n_blocks + block) * RIG_BLOCK;
}

static enum status sink_push_chunk(void *context, uint32_t link, struct chunk *chunk,
                                   const uint32_t *blocks) {
    struct worker *worker = context;
    struct rig *rig = worker->rig;
    bool is_p;
    struct pipe *pipe = find_pipe(rig, link, &is_p);
    if (!pipe)
        return STATUS_CLOSED;
    if (pipe->n_to_d >= rig->queue_max || is_busy(rig))
        return STATUS_BUSY;
    uint32_t n = chunk->block_end - chunk->block_begin;
    uint8_t *bytes = malloc(RIG_CHUNK_ROOM);
    uint32_t at = 0;
    for (uint32_t l = chunk->layer_begin; l < chunk->layer_end; l++)
        for (uint32_t b = 0; b < n; b++, at += RIG_BLOCK * 8)
            memcpy(bytes + at, rig_cell(worker, l, blocks[b]), RIG_BLOCK * 8);
    chunk->n_bytes = at;
    chunk->checksum = checksum(bytes, at);
    if (rig->corrupt > 0 && --rig->corrupt == 0)
        bytes[at / 2] ^= 1;
    struct parcel *parcel = &pipe->to_d[pipe->n_to_d++];
    *parcel = (struct parcel){.message = {.type = MESSAGE_CHUNK}, .n_bytes = at, .bytes = bytes};
    parcel->message.u.chunk = *chunk;
    return STATUS_OK;
}

static enum status sink_take_chunk(void *context, uint32_t link, const struct chunk *chunk,
                                   const uint32_t *blocks) {
    struct worker *worker = context;
    struct rig *rig = worker->rig;
    const uint8_t *bytes = chunk->bytes;
    for (uint32_t b = 0; b < chunk->block_end - chunk->block_begin; b++)
        ck_assert_int_eq(worker->engine->pool.states[blocks[b]], KV_RESERVED);
    if (rig->lose_in_take) {
        rig->lose_in_take = false;
        engine_link_lost(worker->engine, rig->now_ns, link);
        ck_assert_uint_gt(worker->engine->pool.counts[KV_QUARANTINED], 0);
        for (uint32_t b = 0; b < chunk->block_end - chunk->block_begin; b++)
            ck_assert_int_eq(worker->engine->pool.states[blocks[b]], KV_QUARANTINED);
    }
    if (checksum(bytes, chunk->n_bytes) != chunk->checksum)
        return STATUS_CORRUPT;
    uint32_t at = 0;
    for (uint32_t l = chunk->layer_begin; l < chunk->layer_end; l++)
        for (uint32_t b = 0; b < chunk->block_end - chunk->block_begin; b++, at += RIG_BLOCK * 8)
            memcpy(rig_cell(worker, l, blocks[b]), bytes + at, RIG_BLOCK * 8);
    return STATUS_OK;
}

static void sink_note(void *context, const struct note *note) {
    struct worker *worker = context;
    char text[160];
    char *line = worker->notes[worker->n_notes++ % RIG_NOTES];
    snprintf(line, sizeof worker->notes[0], "%s %s", note->kind->message,
             note_text(text, sizeof text, note, NULL));
    if (note->kind->level > LOG_DEBUG)
        memcpy(worker->note, line, sizeof worker->note);
}

bool rig_noted(const struct worker *worker, uint32_t from, const char *text) {
    uint32_t oldest = worker->n_notes > RIG_NOTES ? worker->n_notes - RIG_NOTES : 0;
    for (uint32_t i = from > oldest ? from : oldest; i < worker->n_notes; i++)
        if (strcmp(worker->notes[i % RIG_NOTES], text) == 0)
            return true;
    return false;
}

static enum status sink_constrain(void *context, uint32_t slot, uint64_t serial,
                                  const struct submit *submit) {
    struct worker *worker = context;
    ck_assert(submit->sampling.n_grammar > 0 && submit->sampling.grammar);
    worker->n_constrained++;
    worker->constrained_slot = slot;
    worker->constrained_serial = serial;
    return worker->constrain;
}

struct engine_sink rig_sink(struct worker *worker) {
    return (struct engine_sink){
        .context = worker,
        .send = sink_send,
        .open_kv = sink_open_kv,
        .close_link = sink_close_link,
        .push_chunk = sink_push_chunk,
        .take_chunk = sink_take_chunk,
        .constrain = sink_constrain,
        .note = sink_note,
    };
}
