/* model/text/grammar/program/program.h: a grammar as a network of nodes and edges over bytes.
 *
 * A rule is a nondeterministic automaton with one start and one end. Its edges take a byte of a
 * range, one special token, nothing, or the text of another rule: a call (recursive transition
 * networks, Woods 1970). Front ends write rules with the functions below; program_finish() checks
 * and prunes them; from then on a program never changes.
 *
 * The first failure (a bound, memory) stays: what comes after it does nothing and answers node 0, so
 * that a front end asks once at its end (program_status). One owner thread until it is finished. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define PROGRAM_NO_BOUND UINT32_MAX /* of a repeat: as often as it may */
#define PROGRAM_NONE     UINT32_MAX

enum edge_kind {
    EDGE_EMPTY, /* takes nothing */
    EDGE_BYTES, /* one byte of low..high */
    EDGE_CALL,  /* a text of the rule `value` */
    EDGE_TOKEN, /* the special token `value` */
};

struct program_edge {
    uint32_t next;  /* edge of the same node, PROGRAM_NONE behind the last */
    uint32_t to;    /* node */
    uint32_t value; /* rule or token */
    uint8_t kind;   /* enum edge_kind */
    uint8_t low;
    uint8_t high;
};

struct program_node {
    uint32_t first; /* edge, or PROGRAM_NONE */
    uint32_t last;
    bool is_live; /* its rule's end can be reached; set by program_finish() */
};

enum rule_kind {
    RULE_PLAIN,
    RULE_REPEAT, /* `inner` again and again, min to max times */
    RULE_COUNT,  /* `inner`, which leaves its node `counted` min to max times, not counting a byte
                    that ends it: a text of so many characters */
};

struct program_rule {
    uint32_t start;
    uint32_t end;
    uint32_t inner;   /* rule, of a repeat or count */
    uint32_t counted; /* node, of the inner rule of a count; else PROGRAM_NONE */
    uint32_t min;
    uint32_t max;    /* PROGRAM_NO_BOUND: none */
    uint32_t region; /* index of a name, or PROGRAM_NONE */
    uint32_t first;  /* nodes from here to `last` are this rule's own, where it is_whole */
    uint32_t last;
    uint8_t kind;       /* enum rule_kind */
    bool is_whole;      /* written in one go: two of equal edges are equal automata */
    bool is_nullable;   /* has the empty text; set by program_finish() */
    bool is_productive; /* has any text; set by program_finish() */
    uint64_t hash[2];   /* of a whole rule's edges; set by program_finish() */
};

/* What a source may cost. */
struct program_limits {
    uint32_t n_nodes;
    uint32_t n_edges;
    uint32_t n_rules;
    uint64_t n_steps; /* of a compiler's work: a bound of time that is the same on every machine */
};

struct program {
    struct program_limits limits;
    struct program_node *nodes; /* owned (n_nodes, of nodes_size) */
    struct program_edge *edges;
    struct program_rule *rules;
    char **regions; /* owned (n_regions): their names, owned too */
    uint32_t n_nodes;
    uint32_t n_edges;
    uint32_t n_rules;
    uint32_t n_regions;
    uint32_t nodes_size;
    uint32_t edges_size;
    uint32_t rules_size;
    uint32_t root; /* rule */
    bool in_json;  /* what is written is spelled as in a JSON string (program_json_points) */
    uint64_t n_steps;
    enum status status; /* the first failure */
    const char *over;   /* which bound it was: a constant */
};

/* A part of a rule that is being written: from its start to its end. */
struct program_part {
    uint32_t start;
    uint32_t end;
};

void program_init(struct program *program, struct program_limits limits);
void program_fini(struct program *program);

/* STATUS_OK, or the first failure with a line that names the bound. */
NODISCARD enum status program_status(const struct program *program, struct error *error);
void program_fail(struct program *program, enum status status, const char *over);

/* Counts work; false once the bound of steps is passed (or anything failed before). */
bool program_work(struct program *program, uint64_t n_steps);

static inline bool program_ok(const struct program *program) {
    return program->status == STATUS_OK;
}

uint32_t program_node(struct program *program);
void program_empty(struct program *program, uint32_t from, uint32_t to);
void program_bytes(struct program *program, uint32_t from, uint8_t low, uint8_t high, uint32_t to);
/* The same, also where all else is spelled as in a JSON string. */
void program_raw_bytes(struct program *program, uint32_t from, uint8_t low, uint8_t high,
                       uint32_t to);
void program_call(struct program *program, uint32_t from, uint32_t rule, uint32_t to);
void program_token(struct program *program, uint32_t from, uint32_t token, uint32_t to);

/* Edges for the characters low..high (valid scalar values or surrogates, which are left out) in
 * UTF-8. */
void program_points(struct program *program, uint32_t from, uint32_t low, uint32_t high,
                    uint32_t to);

/* The same as a JSON string spells them (RFC 8259, section 7): quote, backslash and control characters
 * as their shortest escapes, any other as it is. */
void program_json_points(struct program *program, uint32_t from, uint32_t low, uint32_t high,
                         uint32_t to);

/* A path of these bytes from a node; answers where it ends. */
uint32_t program_text(struct program *program, uint32_t from, struct span text);

/* Paths of n texts from a node to another, sharing their beginnings. Sorts `texts`. */
void program_choice(struct program *program, uint32_t from, struct span *texts, size_t n,
                    uint32_t to);

/* A rule with two fresh nodes. */
uint32_t program_rule(struct program *program);
/* The same, of a rule that takes inner's text min to max times; the inner rule must not have the
 * empty text. */
uint32_t program_repeat(struct program *program, uint32_t inner, uint32_t min, uint32_t max);
/* The same, of a rule that bounds how often inner leaves its node. */
uint32_t program_count(struct program *program, uint32_t inner, uint32_t counted, uint32_t min,
                       uint32_t max);

/* Says that all nodes since program_rule() are this rule's own. */
void program_close(struct program *program, uint32_t rule);

/* Gives the rule a name that is told while its text is followed. The name is copied. */
void program_name(struct program *program, uint32_t rule, struct span name);

/* Checks and prunes: what cannot end is cut off, left recursion is turned into loops. STATUS_INVALID
 * when the root has no text at all; STATUS_UNSUPPORTED for left recursion behind a rule that may be
 * empty; STATUS_LIMIT; STATUS_NOMEM. */
NODISCARD enum status program_finish(struct program *program, struct error *error);

/* program_finish()'s second half (left.c): loops in place of left recursion. */
NODISCARD enum status program_unwind(struct program *program, struct error *error);
/* Which rules may be empty: nullable.c's half, used before and after. */
NODISCARD enum status program_find_nullable(struct program *program);
