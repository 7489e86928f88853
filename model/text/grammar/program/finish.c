/* What a program is checked for once it is written: which rules may be empty, which have any text,
 * which nodes can still reach their rule's end. */
#include "model/text/grammar/program/program.h"

#include <stdlib.h>
#include <xxhash.h>

/* Edges by the node that they lead to, and calls by their rule. */
struct reverse {
    uint32_t *first_in;   /* (n_nodes + 1) */
    uint32_t *in;         /* (n_edges) edges, grouped by `to` */
    uint32_t *from;       /* (n_edges) the node an edge leaves */
    uint32_t *first_call; /* (n_rules + 1) */
    uint32_t *calls;      /* (n_calls) edges, grouped by rule */
};

static void grammar_program_reverse_fini(struct reverse *reverse) {
    free(reverse->first_in);
    free(reverse->in);
    free(reverse->from);
    free(reverse->first_call);
    free(reverse->calls);
}

static enum status grammar_program_reverse_init(struct reverse *reverse,
                                                const struct program *program) {
    uint32_t n_edges = program->n_edges;
    *reverse = (struct reverse){0};
    reverse->first_in = calloc(program->n_nodes + 2, sizeof(uint32_t));
    reverse->first_call = calloc(program->n_rules + 2, sizeof(uint32_t));
    reverse->in = calloc(n_edges + 1, sizeof(uint32_t));
    reverse->from = calloc(n_edges + 1, sizeof(uint32_t));
    reverse->calls = calloc(n_edges + 1, sizeof(uint32_t));
    if (!reverse->first_in || !reverse->first_call || !reverse->in || !reverse->from ||
        !reverse->calls) {
        grammar_program_reverse_fini(reverse);
        return STATUS_NOMEM;
    }
    for (uint32_t node = 0; node < program->n_nodes; node++)
        for (uint32_t e = program->nodes[node].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            reverse->from[e] = node;
            reverse->first_in[program->edges[e].to + 2]++;
            if (program->edges[e].kind == EDGE_CALL)
                reverse->first_call[program->edges[e].value + 2]++;
        }
    for (uint32_t i = 2; i <= program->n_nodes + 1; i++)
        reverse->first_in[i] += reverse->first_in[i - 1];
    for (uint32_t i = 2; i <= program->n_rules + 1; i++)
        reverse->first_call[i] += reverse->first_call[i - 1];
    /* In rising order of edges; the sums move up by one place while they are used. */
    for (uint32_t e = 0; e < n_edges; e++) {
        reverse->in[reverse->first_in[program->edges[e].to + 1]++] = e;
        if (program->edges[e].kind == EDGE_CALL)
            reverse->calls[reverse->first_call[program->edges[e].value + 1]++] = e;
    }
    return STATUS_OK;
}

/* Spreads from the rules' ends backwards over the edges that count: all of them (`any`: which nodes
 * are live and which rules have a text), or those that take nothing. */
struct rule_spread {
    struct program *program;
    const struct reverse *reverse;
    bool *node;
    bool *rule;
    uint32_t *work; /* nodes to look at; each enters once */
    uint32_t n_work;
    bool any;
};

static void grammar_program_spread_node(struct rule_spread *spread, uint32_t node) {
    if (spread->node[node])
        return;
    spread->node[node] = true;
    spread->work[spread->n_work++] = node;
}

static bool grammar_rule_passes(const struct rule_spread *spread, const struct program_edge *edge) {
    if (edge->kind == EDGE_CALL)
        return spread->rule[edge->value];
    return spread->any || edge->kind == EDGE_EMPTY;
}

static void grammar_program_spread_rule(struct rule_spread *spread, uint32_t rule) {
    const struct program *program = spread->program;
    if (spread->rule[rule])
        return;
    spread->rule[rule] = true;
    for (uint32_t i = spread->reverse->first_call[rule]; i < spread->reverse->first_call[rule + 1];
         i++) {
        uint32_t e = spread->reverse->calls[i];
        if (spread->node[program->edges[e].to])
            grammar_program_spread_node(spread, spread->reverse->from[e]);
    }
}

/* Rules whose start was reached, and repeats whose inner rule was (or need not be). */
static bool grammar_program_spread_rules(struct rule_spread *spread) {
    const struct program *program = spread->program;
    bool is_new = false;
    for (uint32_t r = 0; r < program->n_rules; r++) {
        const struct program_rule *rule = &program->rules[r];
        bool is_reached = rule->kind == RULE_PLAIN ? spread->node[rule->start]
                          : rule->kind == RULE_REPEAT
                              ? rule->min == 0 || spread->rule[rule->inner]
                              : spread->rule[rule->inner] && (spread->any || rule->min == 0);
        if (is_reached && !spread->rule[r]) {
            grammar_program_spread_rule(spread, r);
            is_new = true;
        }
    }
    return is_new;
}

static void grammar_program_spread_run(struct rule_spread *spread) {
    struct program *program = spread->program;
    for (uint32_t r = 0; r < program->n_rules; r++)
        if (program->rules[r].kind == RULE_PLAIN)
            grammar_program_spread_node(spread, program->rules[r].end);
    do {
        while (spread->n_work > 0) {
            uint32_t node = spread->work[--spread->n_work];
            uint32_t begin = spread->reverse->first_in[node];
            uint32_t end = spread->reverse->first_in[node + 1];
            program_work(program, end - begin + 1);
            for (uint32_t i = begin; i < end; i++)
                if (grammar_rule_passes(spread, &program->edges[spread->reverse->in[i]]))
                    grammar_program_spread_node(spread,
                                                spread->reverse->from[spread->reverse->in[i]]);
        }
        program_work(program, program->n_rules);
    } while (program_ok(program) && grammar_program_spread_rules(spread));
}

static enum status grammar_program_spread_all(struct program *program, bool any, bool *node,
                                              bool *rule) {
    struct reverse reverse;
    TRY(grammar_program_reverse_init(&reverse, program));
    struct rule_spread spread = {
        .program = program, .reverse = &reverse, .node = node, .rule = rule, .any = any};
    spread.work = calloc(program->n_nodes + 1, sizeof *spread.work);
    if (spread.work)
        grammar_program_spread_run(&spread);
    enum status status = spread.work ? program->status : STATUS_NOMEM;
    free(spread.work);
    grammar_program_reverse_fini(&reverse);
    return status;
}

enum status program_find_nullable(struct program *program) {
    bool *node = calloc(program->n_nodes + 1, sizeof *node);
    bool *rule = calloc(program->n_rules + 1, sizeof *rule);
    enum status status =
        node && rule ? grammar_program_spread_all(program, false, node, rule) : STATUS_NOMEM;
    for (uint32_t r = 0; status == STATUS_OK && r < program->n_rules; r++)
        program->rules[r].is_nullable = rule[r];
    free(node);
    free(rule);
    return status;
}

static enum status grammar_program_find_live(struct program *program) {
    bool *node = calloc(program->n_nodes + 1, sizeof *node);
    bool *rule = calloc(program->n_rules + 1, sizeof *rule);
    enum status status =
        node && rule ? grammar_program_spread_all(program, true, node, rule) : STATUS_NOMEM;
    for (uint32_t i = 0; status == STATUS_OK && i < program->n_nodes; i++)
        program->nodes[i].is_live = node[i];
    for (uint32_t r = 0; status == STATUS_OK && r < program->n_rules; r++)
        program->rules[r].is_productive = rule[r];
    free(node);
    free(rule);
    return status;
}

/* The hash of a whole rule's edges, with nodes counted from its first. */
static enum status grammar_program_hash_rule(struct program *program, struct program_rule *rule) {
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return STATUS_NOMEM;
    XXH3_128bits_reset(state);
    for (uint32_t node = rule->first; node < rule->last; node++) {
        for (uint32_t e = program->nodes[node].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            const struct program_edge *edge = &program->edges[e];
            bool is_bytes = edge->kind == EDGE_BYTES;
            uint32_t fields[5] = {node - rule->first, edge->kind, is_bytes ? edge->low : 0,
                                  is_bytes ? edge->high : 0, edge->to - rule->first};
            XXH3_128bits_update(state, fields, sizeof fields);
        }
    }
    uint32_t ends[3] = {rule->start - rule->first, rule->end - rule->first,
                        rule->counted == PROGRAM_NONE ? PROGRAM_NONE : rule->counted - rule->first};
    XXH3_128bits_update(state, ends, sizeof ends);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    rule->hash[0] = hash.low64;
    rule->hash[1] = hash.high64;
    XXH3_freeState(state);
    return STATUS_OK;
}

/* Repeats of a rule that may be empty become chains of calls: a frame that counts empty texts would
 * never come to an end. */
static void grammar_program_write_chains(struct program *program) {
    for (uint32_t r = 0; r < program->n_rules && program_ok(program); r++) {
        struct program_rule rule = program->rules[r];
        if (rule.kind != RULE_REPEAT || !program->rules[rule.inner].is_nullable)
            continue;
        program->rules[r].kind = RULE_PLAIN;
        program->rules[r].is_nullable = true;
        uint32_t at = rule.start;
        program_empty(program, at, rule.end);
        if (rule.max == PROGRAM_NO_BOUND)
            program_call(program, at, rule.inner, at);
        for (uint32_t i = 0; rule.max != PROGRAM_NO_BOUND && i < rule.max && program_ok(program);
             i++) {
            uint32_t next = program_node(program);
            program_call(program, at, rule.inner, next);
            program_empty(program, next, rule.end);
            at = next;
        }
    }
}

enum status program_finish(struct program *program, struct error *error) {
    TRY(program_status(program, error));
    enum status status = program_find_nullable(program);
    if (status == STATUS_OK) {
        grammar_program_write_chains(program);
        status = program->status;
    }
    if (status == STATUS_OK) {
        status = program_unwind(program, error);
        if (status == STATUS_UNSUPPORTED)
            return status;
    }
    if (status == STATUS_OK)
        status = grammar_program_find_live(program);
    for (uint32_t r = 0; status == STATUS_OK && r < program->n_rules; r++)
        if (program->rules[r].is_whole)
            status = grammar_program_hash_rule(program, &program->rules[r]);
    if (status != STATUS_OK)
        program_fail(program, status, "its steps of work");
    TRY(program_status(program, error));
    if (!program->rules[program->root].is_productive)
        return error_set(
            error, STATUS_INVALID,
            "no text matches: every alternative refers to itself or contradicts itself");
    return STATUS_OK;
}
