#include "tools/bench/core/level.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define TICK_NS  (100 * NS_PER_MS) /* how often deadlines are looked at */
#define BINS_MAX (24u * 3600 * 1000)

enum status level_begin(struct level *level, const struct level_spec *spec, uint64_t now_ns) {
    *level = (struct level){.spec = *spec, .begin_ns = now_ns};
    level->gaps = calloc(1, sizeof *level->gaps);
    if (!level->gaps)
        return STATUS_NOMEM;
    schedule_begin(&level->schedule, &spec->schedule, now_ns);
    return STATUS_OK;
}

void level_fini(struct level *level) {
    free(level->records);
    free(level->running);
    free(level->place);
    free(level->gaps);
    free(level->tokens_at);
    *level = (struct level){0};
}

/* Makes *array of `n` elements hold `wanted`, the new ones zero. */
static enum status level_grow(void **array, size_t element, uint32_t n, uint32_t wanted) {
    char *grown = realloc(*array, (size_t)wanted * element);
    if (!grown)
        return STATUS_NOMEM;
    memset(grown + n * element, 0, (size_t)(wanted - n) * element);
    *array = grown;
    return STATUS_OK;
}

static enum status bench_level_make_room(struct level *level) {
    if (level->n_records < level->size)
        return STATUS_OK;
    uint32_t size = level->size ? 2 * level->size : 256;
    TRY(level_grow((void **)&level->records, sizeof *level->records, level->size, size));
    TRY(level_grow((void **)&level->running, sizeof *level->running, level->size, size));
    TRY(level_grow((void **)&level->place, sizeof *level->place, level->size, size));
    level->size = size;
    return STATUS_OK;
}

static struct ask bench_level_make_ask(const struct level *level) {
    struct ask ask = {.n_prompt = level->spec.n_prompt,
                      .n_output = level->spec.n_output,
                      .serial = level->spec.serial + level->n_records};
    if (level->spec.schedule.profile == PROFILE_TRACE) {
        const struct trace_line *line = &level->spec.schedule.trace[level->n_records];
        ask.n_prompt = line->n_prompt;
        ask.n_output = line->n_output;
        ask.trace_line = level->n_records;
    }
    return ask;
}

static enum status bench_level_add_request(struct level *level, uint64_t due_ns, uint64_t now_ns) {
    TRY(bench_level_make_room(level));
    uint32_t i = level->n_records;
    level->records[i] =
        (struct record){.ask = bench_level_make_ask(level), .due_ns = due_ns, .sent_ns = now_ns};
    level->place[i] = level->n_running;
    level->running[level->n_running++] = i;
    level->n_records++;
    schedule_made(&level->schedule);
    return STATUS_OK;
}

/* A request is over, with its record's outcome set. */
static void bench_level_remove_running(struct level *level, uint32_t request) {
    uint32_t last = level->running[--level->n_running];
    level->running[level->place[request]] = last;
    level->place[last] = level->place[request];
    const struct record *record = &level->records[request];
    level->n_ok += record->outcome == OUTCOME_OK;
    level->n_failed += record->outcome == OUTCOME_ERROR;
    if (record->end_ns > level->end_ns)
        level->end_ns = record->end_ns;
}

static enum status bench_level_count_text(struct level *level, uint64_t at_ns) {
    uint64_t bin = at_ns > level->begin_ns ? (at_ns - level->begin_ns) / NS_PER_MS : 0;
    level->n_texts++;
    if (bin >= BINS_MAX)
        return STATUS_OK;
    if (bin >= level->n_bins) {
        uint32_t wanted = (uint32_t)bin + 1 + (uint32_t)bin / 2 + 1024;
        TRY(level_grow((void **)&level->tokens_at, sizeof *level->tokens_at, level->n_bins,
                       wanted));
        level->n_bins = wanted;
    }
    level->tokens_at[bin]++;
    return STATUS_OK;
}

static enum status level_take(struct level *level, struct record *record,
                              const struct event *event) {
    bool is_text = event->kind == EVENT_CHUNK && event->chunk == CHUNK_TEXT;
    uint64_t before_ns = record->chunk_last_ns;
    uint32_t n_before = record->n_chunks;
    enum fault fault = record_take(record, event);
    if (event->kind == EVENT_CHUNK && n_before > 0 && record->n_chunks > n_before)
        histogram_record(level->gaps, event->at_ns - before_ns);
    if (is_text)
        TRY(bench_level_count_text(level, event->at_ns));
    if (fault != FAULT_NONE) {
        record->fault = fault;
        level->look_ns = 0; /* the next look cancels it */
        level->n_looked = 0;
    }
    return STATUS_OK;
}

enum status level_event(struct level *level, const struct event *event) {
    if (event->kind == EVENT_TICK) {
        if (event->loop_late_ns > level->loop_late_max_ns)
            level->loop_late_max_ns = event->loop_late_ns;
        return STATUS_OK;
    }
    ASSERT(event->request < level->n_records);
    struct record *record = &level->records[event->request];
    if (record->outcome != OUTCOME_RUNNING)
        return STATUS_OK;
    if (event->kind == EVENT_SENT) {
        record->sent_ns = event->at_ns;
        return STATUS_OK;
    }
    if (event->kind != EVENT_END)
        return level_take(level, record, event);
    record_end(record, event->at_ns, record->fault ? record->fault : event->fault,
               event->http_status);
    bench_level_remove_running(level, event->request);
    return STATUS_OK;
}

/* The fault of a running request by the clock, or one that was seen when a chunk came. */
static enum fault bench_level_find_fault(const struct level *level, const struct record *record,
                                         uint64_t now_ns) {
    uint64_t heard_ns = record->heard_ns ? record->heard_ns : record->sent_ns;
    if (record->fault)
        return record->fault;
    if (level->spec.timeout_ns && now_ns >= record->sent_ns + level->spec.timeout_ns)
        return FAULT_TIMEOUT;
    if (level->spec.silence_ns && now_ns >= heard_ns + level->spec.silence_ns)
        return FAULT_SILENT;
    return FAULT_NONE;
}

/* Ends one request that has waited too long, or that the drain did not wait for. Running requests
 * are looked at once in TICK_NS, since there may be ten thousand of them. */
static bool bench_level_cancel_one(struct level *level, uint64_t now_ns, uint32_t *request) {
    bool drained =
        level->state == LEVEL_DRAINING && now_ns >= level->issued_ns + level->spec.drain_ns;
    if (now_ns < level->look_ns && !drained)
        return false;
    for (; level->n_looked < level->n_running; level->n_looked++) {
        *request = level->running[level->n_looked];
        struct record *record = &level->records[*request];
        enum fault fault = bench_level_find_fault(level, record, now_ns);
        if (fault == FAULT_NONE && !drained)
            continue;
        if (fault != FAULT_NONE)
            record_end(record, now_ns, fault, 0);
        else
            record_give_up(record, now_ns);
        bench_level_remove_running(level, *request);
        return true;
    }
    level->n_looked = 0;
    level->look_ns = now_ns + TICK_NS;
    return false;
}

void level_stop(struct level *level, uint64_t now_ns) {
    if (level->state != LEVEL_ISSUING)
        return;
    level->state = LEVEL_DRAINING;
    level->issued_ns = now_ns;
    uint64_t limit_ns = level->begin_ns + level->spec.schedule.duration_ns;
    if (level->spec.schedule.duration_ns && now_ns > limit_ns)
        level->issued_ns = limit_ns;
}

/* When the state may change without an event. */
static uint64_t bench_level_wake_ns(const struct level *level, uint64_t now_ns, enum due due,
                                    uint64_t due_ns) {
    uint64_t at_ns = now_ns + TICK_NS;
    const struct schedule_spec *spec = &level->spec.schedule;
    if (level->state == LEVEL_ISSUING && due == DUE_LATER && due_ns < at_ns)
        at_ns = due_ns;
    uint64_t end_ns = level->state == LEVEL_DRAINING ? level->issued_ns + level->spec.drain_ns
                      : spec->duration_ns            ? level->begin_ns + spec->duration_ns
                                                     : UINT64_MAX;
    return end_ns > now_ns && end_ns < at_ns ? end_ns : at_ns;
}

/* Whether issuing has ended. A level that is counted, not timed, ends with its last answer, which is
 * then no drain. */
static bool bench_level_is_window_over(const struct level *level, uint64_t now_ns) {
    const struct schedule_spec *spec = &level->spec.schedule;
    if (spec->duration_ns && now_ns >= level->begin_ns + spec->duration_ns)
        return true;
    bool counted = spec->n_requests && level->n_records >= spec->n_requests;
    return level->n_running == 0 && (counted || !spec->duration_ns);
}

enum status level_next(struct level *level, uint64_t now_ns, struct action *action) {
    uint64_t due_ns = 0;
    enum due due = DUE_NEVER;
    if (bench_level_cancel_one(level, now_ns, &action->request)) {
        action->kind = ACTION_CANCEL;
        return STATUS_OK;
    }
    if (level->state == LEVEL_ISSUING) {
        due = schedule_due(&level->schedule, now_ns, level->n_running, &due_ns);
        if (due == DUE_NOW) {
            *action = (struct action){.kind = ACTION_SEND, .request = level->n_records};
            return bench_level_add_request(level, due_ns, now_ns);
        }
        if (due == DUE_NEVER && bench_level_is_window_over(level, now_ns))
            level_stop(level, now_ns);
    }
    if (level->state == LEVEL_DRAINING && level->n_running == 0)
        level->state = LEVEL_OVER;
    if (level->state == LEVEL_OVER) {
        if (level->end_ns < level->issued_ns)
            level->end_ns = level->issued_ns;
        action->kind = ACTION_OVER;
    } else if (level->state == LEVEL_DRAINING &&
               bench_level_cancel_one(level, now_ns, &action->request)) {
        action->kind = ACTION_CANCEL;
    } else {
        *action = (struct action){.kind = ACTION_WAIT,
                                  .at_ns = bench_level_wake_ns(level, now_ns, due, due_ns)};
    }
    return STATUS_OK;
}
