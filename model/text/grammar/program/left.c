/* Left recursion becomes loops. A set of rules that begin with each other (a strongly connected
 * component of "may begin with") is rewritten rule by rule. For a rule A of the set, a text of A is a
 * beginning that no rule of the set begins, taken from some rule B of it, and then, as long as wanted,
 * what stands behind "C" in a rule D that begins with C, for the C that is complete so far; it ends
 * where the complete one is A. That is an automaton: a node "B is complete" for each B of the set,
 * beside copies of the rules' own nodes (the left corners of Rosenkrantz and Lewis 1970). */
#include "model/text/grammar/program/program.h"

#include <stdlib.h>

struct unwind {
    struct program *program;
    uint32_t n_rules; /* before any was added */
    uint32_t n_nodes;
    uint32_t *set;   /* (n_rules) Tarjan's component, from 1 */
    uint32_t *order; /* (n_rules) Tarjan's numbers */
    uint32_t *low;
    bool *on_stack;
    uint32_t *stack;
    uint32_t n_stack;
    uint32_t n_order;
    uint32_t n_sets;
    bool *is_left;   /* (n_rules) in a set of more than one, or beginning with itself */
    uint32_t *seen;  /* (n_nodes) mark of the walk that saw it */
    uint32_t *nodes; /* (n_nodes) list of a walk */
    uint32_t *copy;  /* (n_nodes) where a node was copied to */
    uint32_t mark;
};

/* The nodes that a rule is in before it took anything. `behind`: one of them stands behind a call
 * of a rule that may be empty. */
static uint32_t left_recursion_front(struct unwind *unwind, uint32_t rule, bool *behind,
                                     bool passes_calls) {
    struct program *program = unwind->program;
    uint32_t n = 0;
    unwind->mark++;
    unwind->nodes[n++] = program->rules[rule].start;
    unwind->seen[program->rules[rule].start] = unwind->mark;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = program->nodes[unwind->nodes[i]].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            const struct program_edge *edge = &program->edges[e];
            bool is_call =
                edge->kind == EDGE_CALL && passes_calls && program->rules[edge->value].is_nullable;
            if ((edge->kind != EDGE_EMPTY && !is_call) || unwind->seen[edge->to] == unwind->mark)
                continue;
            *behind |= is_call;
            unwind->seen[edge->to] = unwind->mark;
            unwind->nodes[n++] = edge->to;
        }
    program_work(program, n);
    return n;
}

/* A frame of Tarjan's walk: a rule, and its callees as far as they were looked at. */
struct visit {
    uint32_t rule;
    uint32_t *callees; /* owned */
    uint32_t n;
    uint32_t i;
};

static bool left_recursion_visit_open(struct unwind *unwind, struct visit *visit, uint32_t rule) {
    struct program *program = unwind->program;
    *visit = (struct visit){.rule = rule};
    unwind->order[rule] = unwind->low[rule] = ++unwind->n_order;
    unwind->stack[unwind->n_stack++] = rule;
    unwind->on_stack[rule] = true;
    if (program->rules[rule].kind != RULE_PLAIN) {
        visit->callees = malloc(sizeof(uint32_t));
        if (visit->callees)
            visit->callees[visit->n++] = program->rules[rule].inner;
        return visit->callees != NULL;
    }
    bool behind = false;
    uint32_t n = left_recursion_front(unwind, rule, &behind, true);
    uint32_t size = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = program->nodes[unwind->nodes[i]].first; e != PROGRAM_NONE;
             e = program->edges[e].next) {
            if (program->edges[e].kind != EDGE_CALL)
                continue;
            if (visit->n == size) {
                size = size ? size * 2 : 8;
                uint32_t *grown = realloc(visit->callees, size * sizeof *grown);
                if (!grown)
                    return false;
                visit->callees = grown;
            }
            visit->callees[visit->n++] = program->edges[e].value;
        }
    return true;
}

/* The set of a rule whose callees were all looked at. */
static void left_recursion_visit_close(struct unwind *unwind, const struct visit *visit) {
    if (unwind->low[visit->rule] != unwind->order[visit->rule])
        return;
    uint32_t n = 0;
    uint32_t rule;
    unwind->n_sets++;
    do {
        rule = unwind->stack[--unwind->n_stack];
        unwind->on_stack[rule] = false;
        unwind->set[rule] = unwind->n_sets;
        n++;
    } while (rule != visit->rule);
    bool is_left = n > 1;
    for (uint32_t i = 0; i < visit->n; i++)
        is_left |= visit->callees[i] == visit->rule;
    for (uint32_t r = 0; is_left && r < unwind->n_rules; r++)
        if (unwind->set[r] == unwind->n_sets)
            unwind->is_left[r] = true;
}

static enum status left_recursion_find_sets_from(struct unwind *unwind, struct visit *visits,
                                                 uint32_t root) {
    uint32_t depth = 0;
    bool is_ok = left_recursion_visit_open(unwind, &visits[depth++], root);
    while (is_ok && depth > 0) {
        struct visit *top = &visits[depth - 1];
        if (top->i < top->n) {
            uint32_t callee = top->callees[top->i++];
            if (unwind->order[callee] == 0)
                is_ok = left_recursion_visit_open(unwind, &visits[depth++], callee);
            else if (unwind->on_stack[callee] && unwind->order[callee] < unwind->low[top->rule])
                unwind->low[top->rule] = unwind->order[callee];
            continue;
        }
        left_recursion_visit_close(unwind, top);
        uint32_t low = unwind->low[top->rule];
        free(top->callees);
        if (--depth > 0 && low < unwind->low[visits[depth - 1].rule])
            unwind->low[visits[depth - 1].rule] = low;
    }
    while (depth > 0)
        free(visits[--depth].callees);
    return is_ok ? STATUS_OK : STATUS_NOMEM;
}

static enum status left_recursion_find_sets(struct unwind *unwind) {
    struct visit *visits = calloc(unwind->n_rules + 1, sizeof *visits);
    enum status status = visits ? STATUS_OK : STATUS_NOMEM;
    for (uint32_t r = 0; status == STATUS_OK && r < unwind->n_rules; r++)
        if (unwind->order[r] == 0)
            status = left_recursion_find_sets_from(unwind, visits, r);
    free(visits);
    return status;
}

/* The copy of a node of the old rules in the one being written. */
static uint32_t left_recursion_copy_of(struct unwind *unwind, uint32_t node, uint32_t *list,
                                       uint32_t *n) {
    if (unwind->copy[node] == 0) {
        unwind->copy[node] = program_node(unwind->program);
        list[(*n)++] = node;
    }
    return unwind->copy[node];
}

static void left_recursion_copy_edge(struct program *program, uint32_t from,
                                     struct program_edge edge, uint32_t to) {
    switch (edge.kind) {
    case EDGE_EMPTY:
        program_empty(program, from, to);
        break;
    case EDGE_BYTES:
        program_bytes(program, from, edge.low, edge.high, to);
        break;
    case EDGE_TOKEN:
        program_token(program, from, edge.value, to);
        break;
    default:
        program_call(program, from, edge.value, to);
    }
}

/* Writes the new body of `rule`; its start and end become `start` and `end`. */
static void left_recursion_write_rule(struct unwind *unwind, uint32_t rule, uint32_t *list,
                                      uint32_t *start, uint32_t *end) {
    struct program *program = unwind->program;
    uint32_t n = 0;
    for (uint32_t i = 0; i < unwind->n_nodes; i++)
        unwind->copy[i] = 0;
    *start = program_node(program);
    *end = program_node(program);
    for (uint32_t r = 0; r < unwind->n_rules && program_ok(program); r++) {
        if (unwind->set[r] != unwind->set[rule])
            continue;
        bool behind = false;
        uint32_t n_front = left_recursion_front(unwind, r, &behind, false);
        for (uint32_t i = 0; i < n_front; i++) {
            uint32_t node = unwind->nodes[i];
            if (node == program->rules[r].end) /* B may be empty: complete at once */
                program_empty(program, *start,
                              left_recursion_copy_of(unwind, program->rules[r].end, list, &n));
            for (uint32_t e = program->nodes[node].first; e != PROGRAM_NONE && program_ok(program);
                 e = program->edges[e].next) {
                struct program_edge edge = program->edges[e];
                if (edge.kind == EDGE_EMPTY)
                    continue;
                uint32_t to = left_recursion_copy_of(unwind, edge.to, list, &n);
                bool is_left =
                    edge.kind == EDGE_CALL && unwind->set[edge.value] == unwind->set[rule];
                uint32_t from = *start;
                if (is_left) /* behind "C is complete", which is the copy of C's end */
                    program_empty(
                        program,
                        left_recursion_copy_of(unwind, program->rules[edge.value].end, list, &n),
                        to);
                else
                    left_recursion_copy_edge(program, from, edge, to);
            }
        }
    }
    for (uint32_t i = 0; i < n && program_work(program, 1); i++) {
        uint32_t from = unwind->copy[list[i]];
        for (uint32_t e = program->nodes[list[i]].first; e != PROGRAM_NONE && program_ok(program);
             e = program->edges[e].next) {
            struct program_edge edge = program->edges[e];
            left_recursion_copy_edge(program, from, edge,
                                     left_recursion_copy_of(unwind, edge.to, list, &n));
        }
    }
    program_empty(program, left_recursion_copy_of(unwind, program->rules[rule].end, list, &n),
                  *end);
}

static enum status left_recursion_check_set(struct unwind *unwind, uint32_t rule,
                                            struct error *error) {
    struct program *program = unwind->program;
    if (program->rules[rule].kind != RULE_PLAIN)
        return error_set(error, STATUS_UNSUPPORTED,
                         "left recursion through a repetition with bounds cannot be served");
    bool behind = false;
    uint32_t n = left_recursion_front(unwind, rule, &behind, false);
    uint32_t n_plain = n;
    for (uint32_t i = 0; i < n; i++)
        unwind->copy[unwind->nodes[i]] = unwind->mark; /* reachable without a call */
    uint32_t plain_mark = unwind->mark;
    n = left_recursion_front(unwind, rule, &behind, true);
    for (uint32_t i = 0; n > n_plain && i < n; i++) {
        uint32_t node = unwind->nodes[i];
        if (unwind->copy[node] == plain_mark)
            continue;
        for (uint32_t e = program->nodes[node].first; e != PROGRAM_NONE; e = program->edges[e].next)
            if (program->edges[e].kind == EDGE_CALL &&
                unwind->set[program->edges[e].value] == unwind->set[rule])
                return error_set(error, STATUS_UNSUPPORTED,
                                 "left recursion after a rule that may be empty is not served");
    }
    return STATUS_OK;
}

static enum status left_recursion_rewrite(struct unwind *unwind, struct error *error) {
    struct program *program = unwind->program;
    uint32_t *ends = calloc((size_t)unwind->n_rules * 2 + 1, sizeof *ends);
    uint32_t *list = calloc(unwind->n_nodes + 1, sizeof *list);
    enum status status = ends && list ? STATUS_OK : STATUS_NOMEM;
    for (uint32_t r = 0; status == STATUS_OK && r < unwind->n_rules; r++)
        if (unwind->is_left[r])
            status = left_recursion_check_set(unwind, r, error);
    for (uint32_t r = 0; status == STATUS_OK && r < unwind->n_rules; r++)
        if (unwind->is_left[r] && program_work(program, unwind->n_nodes))
            left_recursion_write_rule(unwind, r, list, &ends[2 * r], &ends[2 * r + 1]);
    if (status == STATUS_OK)
        status = program->status;
    for (uint32_t r = 0; status == STATUS_OK && r < unwind->n_rules; r++)
        if (unwind->is_left[r]) {
            program->rules[r].start = ends[2 * r];
            program->rules[r].end = ends[2 * r + 1];
            program->rules[r].is_whole = false;
        }
    free(ends);
    free(list);
    return status;
}

enum status program_unwind(struct program *program, struct error *error) {
    uint32_t n_rules = program->n_rules;
    uint32_t n_nodes = program->n_nodes;
    struct unwind unwind = {.program = program, .n_rules = n_rules, .n_nodes = n_nodes};
    uint32_t *numbers = calloc((size_t)n_rules * 4 + (size_t)n_nodes * 3 + 8, sizeof *numbers);
    bool *flags = calloc((size_t)n_rules * 2 + 2, sizeof *flags);
    enum status status = numbers && flags ? STATUS_OK : STATUS_NOMEM;
    if (status == STATUS_OK) {
        unwind.set = numbers;
        unwind.order = unwind.set + n_rules;
        unwind.low = unwind.order + n_rules;
        unwind.stack = unwind.low + n_rules;
        unwind.seen = unwind.stack + n_rules;
        unwind.nodes = unwind.seen + n_nodes;
        unwind.copy = unwind.nodes + n_nodes;
        unwind.is_left = flags;
        unwind.on_stack = flags + n_rules;
        status = left_recursion_find_sets(&unwind);
    }
    bool any = false;
    for (uint32_t r = 0; status == STATUS_OK && r < n_rules; r++)
        any |= unwind.is_left[r];
    if (any)
        status = left_recursion_rewrite(&unwind, error);
    free(numbers);
    free(flags);
    return status;
}
