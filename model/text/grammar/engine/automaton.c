#include "model/text/grammar/engine/automaton.h"

#include "base/assert.h"
#include "model/text/grammar/engine/byte_set.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SORT_STEPS 8u /* of work, for each node of a closure: it is sorted, hashed and copied */

enum status automaton_reserve(struct automaton *automaton, void *array, uint32_t used, uint32_t n,
                              uint32_t *size, size_t unit) {
    if ((uint64_t)used + n <= *size)
        return STATUS_OK;
    uint64_t wanted = *size < 64 ? 64 : (uint64_t)*size * 2;
    while (wanted < (uint64_t)used + n)
        wanted *= 2;
    uint64_t more = (wanted - *size) * unit;
    if (wanted > UINT32_MAX / 2 || automaton->n_bytes + more > automaton->n_bytes_max)
        return STATUS_LIMIT;
    void **at = array;
    void *grown = realloc(*at, wanted * unit);
    if (!grown)
        return STATUS_NOMEM;
    *at = grown;
    *size = (uint32_t)wanted;
    automaton->n_bytes += more;
    return STATUS_OK;
}

/* Two bytes are of one class when every edge takes both or neither. */
static void automaton_make_classes(struct automaton *automaton) {
    const struct program *program = automaton->program;
    bool begins[257] = {false};
    for (uint32_t e = 0; e < program->n_edges; e++)
        if (program->edges[e].kind == EDGE_BYTES) {
            begins[program->edges[e].low] = true;
            begins[program->edges[e].high + 1] = true;
        }
    uint32_t class = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte > 0 && begins[byte])
            class ++;
        automaton->classes[byte] = (uint8_t) class;
    }
    automaton->n_classes = class + 1;
}

enum status automaton_init(struct automaton *automaton, const struct program *program,
                           uint64_t n_bytes_max) {
    *automaton = (struct automaton){
        .program = program, .n_bytes_max = n_bytes_max, .n_steps_max = UINT64_MAX};
    automaton_make_classes(automaton);
    automaton->n_slots = 256;
    automaton->slots = calloc(automaton->n_slots, sizeof *automaton->slots);
    automaton->starts = calloc(program->n_rules + 1, sizeof *automaton->starts);
    automaton->seen = calloc(program->n_nodes + 1, sizeof *automaton->seen);
    automaton->list = calloc(program->n_nodes + 1, sizeof *automaton->list);
    automaton->seeds = calloc(program->n_nodes + 1, sizeof *automaton->seeds);
    enum status status = automaton_reserve(automaton, &automaton->sets, 0, 64,
                                           &automaton->sets_size, sizeof *automaton->sets);
    if (!automaton->slots || !automaton->starts || !automaton->seen || !automaton->list ||
        !automaton->seeds)
        status = STATUS_NOMEM;
    if (status != STATUS_OK) {
        automaton_fini(automaton);
        return status;
    }
    memset(automaton->sets, 0, SET_FIRST * sizeof *automaton->sets);
    for (uint32_t set = 0; set < SET_FIRST; set++) {
        automaton->sets[set].row = UINT32_MAX;
        automaton->sets[set].hash[0] = set;
    }
    automaton->sets[SET_END].accepts = true;
    automaton->n_sets = SET_FIRST;
    return STATUS_OK;
}

void automaton_fini(struct automaton *automaton) {
    free(automaton->sets);
    free(automaton->members);
    free(automaton->rows);
    free(automaton->calls);
    free(automaton->tokens);
    free(automaton->points);
    free(automaton->slots);
    free(automaton->starts);
    free(automaton->seen);
    free(automaton->list);
    free(automaton->seeds);
    *automaton = (struct automaton){0};
}

static int automaton_compare_nodes(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Closes seeds over empty edges; the nodes that matter (*n_closed) come into automaton->list,
 * sorted. */
static enum status automaton_close_over(struct automaton *automaton, const uint32_t *seeds,
                                        uint32_t n, uint32_t end, uint32_t *n_closed) {
    const struct program *program = automaton->program;
    uint32_t *list = automaton->list;
    uint32_t n_list = 0;
    uint32_t mark = ++automaton->mark;
    uint64_t n_edges = n;
    for (uint32_t i = 0; i < n; i++)
        if (automaton->seen[seeds[i]] != mark && program->nodes[seeds[i]].is_live) {
            automaton->seen[seeds[i]] = mark;
            list[n_list++] = seeds[i];
        }
    for (uint32_t i = 0; i < n_list; i++)
        for (uint32_t e = program->nodes[list[i]].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            const struct program_edge *edge = &program->edges[e];
            n_edges++;
            if (edge->kind != EDGE_EMPTY || automaton->seen[edge->to] == mark ||
                !program->nodes[edge->to].is_live)
                continue;
            automaton->seen[edge->to] = mark;
            list[n_list++] = edge->to;
        }
    /* Nodes with empty edges alone say nothing. */
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n_list; i++) {
        bool is_kept = list[i] == end;
        for (uint32_t e = program->nodes[list[i]].first; !is_kept && e != PROGRAM_NONE;
             e = program->edges[e].next)
            is_kept = program->edges[e].kind != EDGE_EMPTY;
        if (is_kept)
            list[n_kept++] = list[i];
    }
    qsort(list, n_kept, sizeof *list, automaton_compare_nodes);
    *n_closed = n_kept;
    return automaton_work(automaton, n_list + n_edges + (uint64_t)n_kept * SORT_STEPS);
}

static enum status automaton_grow_slots(struct automaton *automaton) {
    uint32_t n_slots = automaton->n_slots * 2;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return STATUS_NOMEM;
    for (uint32_t s = SET_FIRST; s < automaton->n_sets; s++) {
        uint32_t at = (uint32_t)automaton->sets[s].hash[0] & (n_slots - 1);
        while (slots[at] != 0)
            at = (at + 1) & (n_slots - 1);
        slots[at] = s;
    }
    free(automaton->slots);
    automaton->slots = slots;
    automaton->n_bytes += (uint64_t)(n_slots - automaton->n_slots) * sizeof *slots;
    automaton->n_slots = n_slots;
    return STATUS_OK;
}

/* Appends the nodes that edges of `kind` and `value` lead to from a set's members to `members`. */
static enum status automaton_gather(struct automaton *automaton, const struct set *set,
                                    uint8_t kind, uint32_t value, uint32_t *at, uint32_t *n) {
    const struct program *program = automaton->program;
    *at = automaton->n_members;
    for (uint32_t i = 0; i < set->n_members; i++) {
        uint32_t node = automaton->members[set->members + i];
        TRY(automaton_work(automaton, 1));
        for (uint32_t e = program->nodes[node].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            const struct program_edge *edge = &program->edges[e];
            if (edge->kind != kind || edge->value != value || !program->nodes[edge->to].is_live)
                continue;
            TRY(automaton_reserve(automaton, &automaton->members, automaton->n_members, 1,
                                  &automaton->members_size, sizeof(uint32_t)));
            automaton->members[automaton->n_members++] = edge->to;
        }
    }
    *n = automaton->n_members - *at;
    return STATUS_OK;
}

static enum status automaton_add_call(struct automaton *automaton, struct set *set, uint32_t rule) {
    if (!automaton->program->rules[rule].is_productive)
        return STATUS_OK;
    TRY(automaton_work(automaton, 1 + set->n_calls / 8));
    for (uint32_t i = 0; i < set->n_calls; i++)
        if (automaton->calls[set->calls + i].rule == rule)
            return STATUS_OK;
    TRY(automaton_reserve(automaton, &automaton->calls, automaton->n_calls, 1,
                          &automaton->calls_size, sizeof *automaton->calls));
    struct set_call call = {.rule = rule};
    TRY(automaton_gather(automaton, set, EDGE_CALL, rule, &call.nodes, &call.n_nodes));
    automaton->calls[automaton->n_calls++] = call;
    set->n_calls++;
    return STATUS_OK;
}

static enum status automaton_add_token(struct automaton *automaton, struct set *set,
                                       uint32_t token) {
    TRY(automaton_work(automaton, 1 + set->n_tokens / 8));
    for (uint32_t i = 0; i < set->n_tokens; i++)
        if (automaton->tokens[set->tokens + i].token == token)
            return STATUS_OK;
    TRY(automaton_reserve(automaton, &automaton->tokens, automaton->n_tokens, 1,
                          &automaton->tokens_size, sizeof *automaton->tokens));
    struct set_token taken = {.token = token};
    TRY(automaton_gather(automaton, set, EDGE_TOKEN, token, &taken.nodes, &taken.n_nodes));
    automaton->tokens[automaton->n_tokens++] = taken;
    set->n_tokens++;
    return STATUS_OK;
}

static void automaton_take_bytes(struct set *set, unsigned low, unsigned high) {
    set->takes_text = true;
    set->width += high - low + 1;
    for (unsigned byte = low; byte <= high; byte++)
        byte_set_add(set->takes, (uint8_t)byte);
}

/* What the members of a new set take, call and end. */
static enum status automaton_describe_set(struct automaton *automaton, struct set *set) {
    const struct program *program = automaton->program;
    const struct program_rule *rule = &program->rules[set->rule];
    set->calls = automaton->n_calls;
    set->tokens = automaton->n_tokens;
    for (uint32_t i = 0; i < set->n_members; i++) {
        uint32_t node = automaton->members[set->members + i];
        set->accepts |= node == rule->end;
        set->counts |= node == rule->counted;
        for (uint32_t e = program->nodes[node].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            const struct program_edge *edge = &program->edges[e];
            if (!program->nodes[edge->to].is_live)
                continue;
            TRY(automaton_work(automaton, 1 + (uint64_t)(edge->high - edge->low) / 4));
            if (edge->kind == EDGE_BYTES)
                automaton_take_bytes(set, edge->low, edge->high);
            else if (edge->kind == EDGE_CALL)
                TRY(automaton_add_call(automaton, set, edge->value));
            else if (edge->kind == EDGE_TOKEN)
                TRY(automaton_add_token(automaton, set, edge->value));
        }
    }
    return STATUS_OK;
}

/* The same for every grammar that has this rule. */
static void automaton_hash_shared(const struct automaton *automaton,
                                  const struct program_rule *rule, struct set *set) {
    for (unsigned half = 0; half < 2; half++) {
        set->shared[half] = rule->hash[half];
        for (uint32_t i = 0; i < set->n_members; i++) {
            uint32_t place = automaton->members[set->members + i] - rule->first;
            set->shared[half] = XXH3_64bits_withSeed(&place, sizeof place, set->shared[half]);
        }
    }
}

/* The set of automaton->list[0..n), found or made. */
static enum status automaton_intern(struct automaton *automaton, uint32_t rule, uint32_t n,
                                    uint32_t *set) {
    const struct program_rule *of = &automaton->program->rules[rule];
    const uint32_t *list = automaton->list;
    if (n == 0) {
        *set = SET_DEAD;
        return STATUS_OK;
    }
    XXH128_hash_t hash = XXH3_128bits_withSeed(list, n * sizeof *list, rule);
    uint32_t at = (uint32_t)hash.low64 & (automaton->n_slots - 1);
    for (; automaton->slots[at] != 0; at = (at + 1) & (automaton->n_slots - 1)) {
        const struct set *known = &automaton->sets[automaton->slots[at]];
        if (known->rule == rule && known->n_members == n &&
            memcmp(automaton->members + known->members, list, n * sizeof *list) == 0) {
            *set = automaton->slots[at];
            return STATUS_OK;
        }
    }
    TRY(automaton_reserve(automaton, &automaton->sets, automaton->n_sets, 1, &automaton->sets_size,
                          sizeof *automaton->sets));
    TRY(automaton_reserve(automaton, &automaton->members, automaton->n_members, n,
                          &automaton->members_size, sizeof(uint32_t)));
    struct set made = {.rule = rule,
                       .members = automaton->n_members,
                       .n_members = n,
                       .row = UINT32_MAX,
                       .hash = {hash.low64, hash.high64}};
    memcpy(automaton->members + automaton->n_members, list, n * sizeof *list);
    automaton->n_members += n;
    TRY(automaton_describe_set(automaton, &made));
    if (of->is_whole)
        automaton_hash_shared(automaton, of, &made);
    automaton->sets[automaton->n_sets] = made;
    automaton->slots[at] = automaton->n_sets;
    *set = automaton->n_sets++;
    if (automaton->n_sets * 2 > automaton->n_slots)
        return automaton_grow_slots(automaton);
    return STATUS_OK;
}

enum status automaton_start(struct automaton *automaton, uint32_t rule, uint32_t *set) {
    if (automaton->starts[rule] == SET_UNKNOWN) {
        const struct program_rule *of = &automaton->program->rules[rule];
        uint32_t n;
        TRY(automaton_close_over(automaton, &of->start, 1, of->end, &n));
        TRY(automaton_intern(automaton, rule, n, &automaton->starts[rule]));
    }
    *set = automaton->starts[rule];
    return STATUS_OK;
}

static enum status automaton_make_row(struct automaton *automaton, uint32_t set) {
    TRY(automaton_reserve(automaton, &automaton->rows, automaton->n_rows, automaton->n_classes,
                          &automaton->rows_size, sizeof(uint32_t)));
    memset(automaton->rows + automaton->n_rows, 0, automaton->n_classes * sizeof(uint32_t));
    automaton->sets[set].row = automaton->n_rows;
    automaton->n_rows += automaton->n_classes;
    return STATUS_OK;
}

enum status automaton_step_slow(struct automaton *automaton, uint32_t set, uint8_t byte,
                                uint32_t *to) {
    const struct program *program = automaton->program;
    if (!automaton->sets[set].takes_text) {
        *to = SET_DEAD;
        return STATUS_OK;
    }
    if (automaton->sets[set].row == UINT32_MAX)
        TRY(automaton_make_row(automaton, set));
    const struct set *from = &automaton->sets[set];
    uint32_t rule = from->rule;
    uint32_t n = 0;
    uint32_t mark = ++automaton->mark;
    uint64_t n_edges = from->n_members;
    for (uint32_t i = 0; i < from->n_members; i++) {
        uint32_t node = automaton->members[from->members + i];
        for (uint32_t e = program->nodes[node].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            const struct program_edge *edge = &program->edges[e];
            n_edges++;
            if (edge->kind != EDGE_BYTES || byte < edge->low || byte > edge->high ||
                automaton->seen[edge->to] == mark)
                continue;
            automaton->seen[edge->to] = mark;
            automaton->seeds[n++] = edge->to;
        }
    }
    TRY(automaton_work(automaton, n_edges));
    TRY(automaton_close_over(automaton, automaton->seeds, n, program->rules[rule].end, &n));
    TRY(automaton_intern(automaton, rule, n, to));
    automaton->rows[automaton->sets[set].row + automaton->classes[byte]] = *to;
    return STATUS_OK;
}

/* The closed set of seeds that lie among the members. */
static enum status automaton_set_of(struct automaton *automaton, uint32_t rule, uint32_t nodes,
                                    uint32_t n, uint32_t *set) {
    TRY(automaton_close_over(automaton, automaton->members + nodes, n,
                             automaton->program->rules[rule].end, &n));
    return automaton_intern(automaton, rule, n, set);
}

enum status automaton_behind_call(struct automaton *automaton, uint32_t of, uint32_t i,
                                  uint32_t *set) {
    uint32_t at = automaton->sets[of].calls + i;
    struct set_call call = automaton->calls[at];
    if (call.set == SET_UNKNOWN) {
        TRY(automaton_set_of(automaton, automaton->sets[of].rule, call.nodes, call.n_nodes,
                             &call.set));
        automaton->calls[at].set = call.set;
    }
    *set = call.set;
    return STATUS_OK;
}

enum status automaton_behind_token(struct automaton *automaton, uint32_t of, uint32_t i,
                                   uint32_t *set) {
    uint32_t at = automaton->sets[of].tokens + i;
    struct set_token token = automaton->tokens[at];
    if (token.set == SET_UNKNOWN) {
        TRY(automaton_set_of(automaton, automaton->sets[of].rule, token.nodes, token.n_nodes,
                             &token.set));
        automaton->tokens[at].set = token.set;
    }
    *set = token.set;
    return STATUS_OK;
}
