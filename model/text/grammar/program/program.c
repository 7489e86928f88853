#include "model/text/grammar/program/program.h"

#include "base/assert.h"

#include <stdlib.h>

void program_init(struct program *program, struct program_limits limits) {
    *program = (struct program){.limits = limits};
    program_node(program); /* 0: where everything leads after a failure */
}

void program_fini(struct program *program) {
    free(program->nodes);
    free(program->edges);
    free(program->rules);
    for (uint32_t i = 0; i < program->n_regions; i++)
        free(program->regions[i]);
    free(program->regions);
    *program = (struct program){0};
}

void program_fail(struct program *program, enum status status, const char *over) {
    if (program->status != STATUS_OK)
        return;
    program->status = status;
    program->over = over;
}

enum status program_status(const struct program *program, struct error *error) {
    if (program->status == STATUS_NOMEM)
        return error_set(error, STATUS_NOMEM, "out of memory");
    if (program->status != STATUS_OK)
        return error_set(error, program->status, "the grammar is too large: more than %s",
                         program->over);
    return STATUS_OK;
}

bool program_work(struct program *program, uint64_t n_steps) {
    program->n_steps += n_steps;
    if (program->n_steps > program->limits.n_steps)
        program_fail(program, STATUS_LIMIT, "its steps of work");
    return program_ok(program);
}

/* Room for one more of `unit` bytes; false, and the failure is kept, when there is none. */
static bool grammar_program_reserve(struct program *program, void *array, uint32_t n,
                                    uint32_t *size, size_t unit, uint32_t limit, const char *over) {
    if (!program_ok(program))
        return false;
    if (n >= limit) {
        program_fail(program, STATUS_LIMIT, over);
        return false;
    }
    if (n < *size)
        return true;
    uint32_t wanted = *size < 64 ? 64 : *size * 2;
    void **at = array;
    void *grown = realloc(*at, wanted * unit);
    if (!grown) {
        program_fail(program, STATUS_NOMEM, "memory");
        return false;
    }
    *at = grown;
    *size = wanted;
    return true;
}

uint32_t program_node(struct program *program) {
    if (!grammar_program_reserve(program, &program->nodes, program->n_nodes, &program->nodes_size,
                                 sizeof *program->nodes, program->limits.n_nodes, "its nodes"))
        return 0;
    program->nodes[program->n_nodes] =
        (struct program_node){.first = PROGRAM_NONE, .last = PROGRAM_NONE};
    return program->n_nodes++;
}

static void grammar_program_add_edge(struct program *program, uint32_t from,
                                     struct program_edge edge) {
    if (!grammar_program_reserve(program, &program->edges, program->n_edges, &program->edges_size,
                                 sizeof *program->edges, program->limits.n_edges, "its edges"))
        return;
    DASSERT(from < program->n_nodes && edge.to < program->n_nodes);
    edge.next = PROGRAM_NONE;
    struct program_node *node = &program->nodes[from];
    if (node->last == PROGRAM_NONE)
        node->first = program->n_edges;
    else
        program->edges[node->last].next = program->n_edges;
    node->last = program->n_edges;
    program->edges[program->n_edges++] = edge;
}

void program_empty(struct program *program, uint32_t from, uint32_t to) {
    if (from != to)
        grammar_program_add_edge(program, from,
                                 (struct program_edge){.kind = EDGE_EMPTY, .to = to});
}

void program_raw_bytes(struct program *program, uint32_t from, uint8_t low, uint8_t high,
                       uint32_t to) {
    grammar_program_add_edge(
        program, from,
        (struct program_edge){.kind = EDGE_BYTES, .low = low, .high = high, .to = to});
}

void program_call(struct program *program, uint32_t from, uint32_t rule, uint32_t to) {
    grammar_program_add_edge(program, from,
                             (struct program_edge){.kind = EDGE_CALL, .value = rule, .to = to});
}

void program_token(struct program *program, uint32_t from, uint32_t token, uint32_t to) {
    grammar_program_add_edge(program, from,
                             (struct program_edge){.kind = EDGE_TOKEN, .value = token, .to = to});
}

uint32_t program_rule(struct program *program) {
    if (!grammar_program_reserve(program, &program->rules, program->n_rules, &program->rules_size,
                                 sizeof *program->rules, program->limits.n_rules, "its rules"))
        return 0;
    uint32_t rule = program->n_rules++;
    program->rules[rule] = (struct program_rule){.kind = RULE_PLAIN,
                                                 .region = PROGRAM_NONE,
                                                 .counted = PROGRAM_NONE,
                                                 .first = program->n_nodes};
    uint32_t start = program_node(program);
    uint32_t end = program_node(program);
    program->rules[rule].start = start;
    program->rules[rule].end = end;
    return rule;
}

uint32_t program_repeat(struct program *program, uint32_t inner, uint32_t min, uint32_t max) {
    uint32_t rule = program_rule(program);
    if (!program_ok(program))
        return 0;
    struct program_rule *made = &program->rules[rule];
    made->kind = RULE_REPEAT;
    made->inner = inner;
    made->min = min;
    made->max = max;
    return rule;
}

uint32_t program_count(struct program *program, uint32_t inner, uint32_t counted, uint32_t min,
                       uint32_t max) {
    uint32_t rule = program_repeat(program, inner, min, max);
    if (!program_ok(program))
        return 0;
    program->rules[rule].kind = RULE_COUNT;
    program->rules[inner].counted = counted;
    return rule;
}

void program_close(struct program *program, uint32_t rule) {
    if (!program_ok(program))
        return;
    program->rules[rule].is_whole = true;
    program->rules[rule].last = program->n_nodes;
}

void program_name(struct program *program, uint32_t rule, struct span name) {
    if (!program_ok(program))
        return;
    char **grown = realloc(program->regions, (program->n_regions + 1) * sizeof *grown);
    if (grown)
        program->regions = grown;
    char *copy = grown ? strndup(name.bytes, name.n) : NULL;
    if (!copy) {
        program_fail(program, STATUS_NOMEM, "memory");
        return;
    }
    program->regions[program->n_regions] = copy;
    program->rules[rule].region = program->n_regions++;
}
