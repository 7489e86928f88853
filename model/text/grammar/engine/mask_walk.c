#include "model/text/grammar/engine/mask_walk.h"

#include "model/text/grammar/engine/byte_set.h"
#include "model/text/grammar/engine/inside.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

enum status masking_init(struct masking *masking, struct machine *machine,
                         struct grammar_vocabulary *vocabulary, struct grammar_mask *mask) {
    *masking = (struct masking){.machine = machine, .vocabulary = vocabulary, .mask = mask};
    masking->levels = calloc(vocabulary->n_bytes_max + 2, sizeof *masking->levels);
    return masking->levels ? STATUS_OK : STATUS_NOMEM;
}

void masking_fini(struct masking *masking) {
    threads_fini(&masking->walked);
    free(masking->levels);
    free(masking->inside);
}

void masking_allow(struct masking *masking, uint32_t token) {
    for (; token != GRAMMAR_TOKEN_NONE; token = masking->vocabulary->same[token])
        masking->mask->bits[token / 32] |= 1u << token % 32;
}

/* One by one, or all without the others, whichever are fewer. */
enum status masking_allow_inside(struct masking *masking, const struct inside *inside,
                                 uint32_t max) {
    uint32_t n_words = (masking->vocabulary->n_tokens + 31) / 32;
    uint32_t *bits = masking->mask->bits;
    const uint32_t *all = inside->bits;
    uint32_t n = inside->cost_max > max ? inside->ends[max] : inside->n;
    if (n < inside->n / 2 && !inside->has_free) {
        for (uint32_t i = 0; i < n; i++)
            bits[inside->tokens[i] / 32] |= 1u << inside->tokens[i] % 32;
        return STATUS_OK;
    }
    if (n < inside->n) {
        if (!masking->inside)
            masking->inside = malloc((n_words + 1) * sizeof *masking->inside);
        if (!masking->inside)
            return STATUS_NOMEM;
        memcpy(masking->inside, all, n_words * sizeof *all);
        for (uint32_t i = n; i < inside->n; i++)
            masking->inside[inside->tokens[i] / 32] &= ~(1u << inside->tokens[i] % 32);
        all = masking->inside;
    }
    for (uint32_t i = 0; i < n_words; i++)
        bits[i] |= all[i];
    return STATUS_OK;
}

/* What the threads of a level take. */
static void grammar_mask_open_level(struct masking *masking, struct masking_level *level) {
    const struct set *sets = masking->machine->automaton.sets;
    memset(level->takes, 0, sizeof level->takes);
    for (uint32_t i = level->begin; i < level->end; i++)
        for (unsigned word = 0; word < 4; word++)
            level->takes[word] |= sets[masking->walked.at[i].set].takes[word];
}

enum status masking_walk(struct masking *masking, uint32_t root, const struct thread *from,
                         uint32_t n) {
    struct machine *machine = masking->machine;
    const struct token_node *nodes = masking->vocabulary->nodes;
    struct threads *walked = &masking->walked;
    uint32_t depth = nodes[root].depth;
    struct masking_level *levels = masking->levels;
    walked->n = 0;
    for (uint32_t i = 0; i < n; i++)
        TRY(threads_push(walked, from[i]));
    levels[depth] = (struct masking_level){.begin = 0, .end = n};
    grammar_mask_open_level(masking, &levels[depth]);
    for (uint32_t i = root + 1; i < nodes[root].skip;) {
        const struct token_node *node = &nodes[i];
        const struct masking_level *above = &levels[node->depth - 1];
        if (!byte_set_has(above->takes, node->byte)) {
            i = node->skip;
            continue;
        }
        uint32_t n_above = above->end - above->begin;
        TRY(automaton_work(&machine->automaton, n_above));
        walked->n = above->end;
        TRY(threads_reserve(walked, machine_room(machine)));
        TRY(machine_byte(machine, walked->at + above->begin, n_above, node->byte, walked, NULL, 0));
        struct masking_level *level = &levels[node->depth];
        *level = (struct masking_level){.begin = above->end, .end = walked->n};
        if (level->begin == level->end) {
            i = node->skip;
            continue;
        }
        masking_allow(masking, node->token);
        i++;
        if (node->skip > i)
            grammar_mask_open_level(masking, level);
    }
    return STATUS_OK;
}
