#include "tools/bench/core/record.h"

#include "base/assert.h"

/* Chunks beyond the tokens asked for that an honest server may need: a role, a last flush. */
#define SLACK_CHUNKS 2

const char *fault_name(enum fault fault) {
    static const char *const names[FAULT_N] = {
        [FAULT_NONE] = "none",         [FAULT_REFUSED] = "refused",
        [FAULT_TLS] = "tls",           [FAULT_STATUS] = "status",
        [FAULT_CUT] = "cut_stream",    [FAULT_MALFORMED] = "malformed",
        [FAULT_EVENT] = "error_event", [FAULT_MODEL] = "wrong_model",
        [FAULT_SILENT] = "silent",     [FAULT_TIMEOUT] = "timeout",
        [FAULT_ENDLESS] = "endless",   [FAULT_USAGE] = "wrong_usage",
        [FAULT_EMPTY] = "empty",
    };
    ASSERT(fault < FAULT_N);
    return names[fault];
}

uint32_t record_n_output(const struct record *record) {
    return record->has_usage ? record->usage_output : record->n_texts;
}

uint32_t record_n_prompt(const struct record *record) {
    return record->has_usage ? record->usage_prompt : record->ask.n_prompt;
}

static enum fault bench_record_take_chunk(struct record *record, const struct event *event) {
    if (event->finish != FINISH_NONE) {
        record->finish = event->finish;
    } else {
        if (record->n_chunks++ == 0)
            record->chunk_first_ns = event->at_ns;
        record->chunk_last_ns = event->at_ns;
    }
    if (event->chunk != CHUNK_TEXT)
        return FAULT_NONE;
    if (record->n_texts++ == 0)
        record->first_ns = event->at_ns;
    record->last_ns = event->at_ns;
    return record->n_texts > 2 * record->ask.n_output + 64 ? FAULT_ENDLESS : FAULT_NONE;
}

enum fault record_take(struct record *record, const struct event *event) {
    record->heard_ns = event->at_ns;
    if (event->kind == EVENT_CHUNK)
        return bench_record_take_chunk(record, event);
    if (event->kind == EVENT_USAGE) {
        record->has_usage = true;
        record->usage_prompt = event->no_prompt ? record->ask.n_prompt : event->n_prompt;
        record->usage_output = event->n_output;
        record->usage_cached = event->n_cached;
    }
    return FAULT_NONE;
}

/* More tokens than were asked for, fewer than chunks with text came, or more cached than sent. */
static bool bench_record_is_usage_wrong(const struct record *record) {
    return record->has_usage &&
           (record->usage_output > record->ask.n_output ||
            record->n_texts > record->usage_output + SLACK_CHUNKS || record->usage_prompt == 0 ||
            record->usage_cached > record->usage_prompt);
}

void record_end(struct record *record, uint64_t at_ns, enum fault fault, int http_status) {
    record->end_ns = at_ns;
    record->http_status = http_status;
    if (fault == FAULT_NONE && bench_record_is_usage_wrong(record))
        fault = FAULT_USAGE;
    if (fault == FAULT_NONE && record->n_texts == 0 && !record->has_usage &&
        record->finish == FINISH_NONE)
        fault = FAULT_EMPTY;
    record->fault = fault;
    record->outcome = fault == FAULT_NONE ? OUTCOME_OK : OUTCOME_ERROR;
}

void record_give_up(struct record *record, uint64_t at_ns) {
    record->end_ns = at_ns;
    record->outcome = OUTCOME_INCOMPLETE;
}
