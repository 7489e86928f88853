#include "model/text/grammar/engine/frames.h"

#include "base/assert.h"
#include "model/text/grammar/program/program.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum status frames_init(struct frames *frames, uint32_t n_max, uint32_t clip) {
    *frames = (struct frames){.n_max = n_max, .clip = clip, .n = 1, .size = 64, .n_slots = 256};
    frames->at = calloc(frames->size, sizeof *frames->at);
    frames->slots = calloc(frames->n_slots, sizeof *frames->slots);
    if (!frames->at || !frames->slots) {
        frames_fini(frames);
        return STATUS_NOMEM;
    }
    frames->at[0] = (struct frame){.region = PROGRAM_NONE, .is_used = true};
    return STATUS_OK;
}

void frames_fini(struct frames *frames) {
    free(frames->at);
    free(frames->slots);
    free(frames->free);
    *frames = (struct frames){0};
}

/* Where a frame is looked for: by all that tells it from others, counts unclipped. */
static uint32_t grammar_frames_slot_of(const struct frames *frames, const struct frame *frame) {
    uint32_t fields[5] = {frame->parent, frame->value, frame->min, frame->max, frame->kind};
    return (uint32_t)XXH3_64bits(fields, sizeof fields) & (frames->n_slots - 1);
}

static bool grammar_frames_equal(const struct frame *a, const struct frame *b) {
    return a->parent == b->parent && a->value == b->value && a->min == b->min && a->max == b->max &&
           a->kind == b->kind;
}

static enum status grammar_frames_rehash(struct frames *frames, uint32_t n_slots) {
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return STATUS_NOMEM;
    free(frames->slots);
    frames->slots = slots;
    frames->n_slots = n_slots;
    for (uint32_t i = 1; i < frames->n; i++) {
        if (!frames->at[i].is_used)
            continue;
        uint32_t at = grammar_frames_slot_of(frames, &frames->at[i]);
        while (slots[at] != 0)
            at = (at + 1) & (n_slots - 1);
        slots[at] = i;
    }
    return STATUS_OK;
}

/* A number for one more frame. */
static enum status grammar_frames_take(struct frames *frames, uint32_t *number) {
    if (frames->n_free > 0) {
        *number = frames->free[--frames->n_free];
        return STATUS_OK;
    }
    if (frames->n >= frames->n_max)
        return STATUS_LIMIT;
    if (frames->n == frames->size) {
        uint32_t size = frames->size * 2;
        struct frame *grown = realloc(frames->at, size * sizeof *grown);
        if (!grown)
            return STATUS_NOMEM;
        frames->at = grown;
        frames->size = size;
    }
    if (frames->n * 2 > frames->n_slots)
        TRY(grammar_frames_rehash(frames, frames->n_slots * 2));
    *number = frames->n++;
    frames->at[*number].is_used = false;
    return STATUS_OK;
}

static void grammar_frames_hash_frame(const struct frames *frames, struct frame *frame,
                                      const uint64_t salt[2]) {
    const struct frame *parent = &frames->at[frame->parent];
    uint64_t fields[7] = {parent->hash[0],
                          parent->hash[1],
                          salt[0],
                          salt[1],
                          frame->kind,
                          frame->min < frames->clip ? frame->min : frames->clip,
                          frame->max < frames->clip ? frame->max : frames->clip};
    XXH128_hash_t hash = XXH3_128bits(fields, sizeof fields);
    frame->hash[0] = hash.low64;
    frame->hash[1] = hash.high64;
}

enum status frames_push(struct frames *frames, struct frame frame, const uint64_t salt[2],
                        uint32_t *stack) {
    uint32_t at = grammar_frames_slot_of(frames, &frame);
    for (; frames->slots[at] != 0; at = (at + 1) & (frames->n_slots - 1))
        if (grammar_frames_equal(&frames->at[frames->slots[at]], &frame)) {
            *stack = frames->slots[at];
            return STATUS_OK;
        }
    uint32_t number;
    uint32_t n_slots = frames->n_slots;
    TRY(grammar_frames_take(frames, &number));
    if (frames->n_slots != n_slots) {
        at = grammar_frames_slot_of(frames, &frame);
        while (frames->slots[at] != 0)
            at = (at + 1) & (frames->n_slots - 1);
    }
    frame.region = frame.kind == FRAME_REGION ? frame.value : frames->at[frame.parent].region;
    frame.is_used = true;
    frame.is_marked = false;
    grammar_frames_hash_frame(frames, &frame, salt);
    frames->at[number] = frame;
    frames->slots[at] = number;
    *stack = number;
    return STATUS_OK;
}

void frames_mark(struct frames *frames, uint32_t stack) {
    for (; stack != 0 && !frames->at[stack].is_marked; stack = frames->at[stack].parent)
        frames->at[stack].is_marked = true;
}

void frames_sweep(struct frames *frames) {
    if (!frames->free) {
        frames->free = malloc((size_t)frames->n_max * sizeof *frames->free);
        if (!frames->free)
            return; /* what is full stays full: STATUS_LIMIT says so */
    }
    frames->n_free = 0;
    for (uint32_t i = 1; i < frames->n; i++) {
        if (!frames->at[i].is_marked) {
            frames->at[i].is_used = false;
            frames->free[frames->n_free++] = i;
        }
        frames->at[i].is_marked = false;
    }
    frames->n_kept = frames->n - frames->n_free;
    memset(frames->slots, 0, frames->n_slots * sizeof *frames->slots);
    for (uint32_t i = 1; i < frames->n; i++) {
        if (!frames->at[i].is_used)
            continue;
        uint32_t at = grammar_frames_slot_of(frames, &frames->at[i]);
        while (frames->slots[at] != 0)
            at = (at + 1) & (frames->n_slots - 1);
        frames->slots[at] = i;
    }
}
