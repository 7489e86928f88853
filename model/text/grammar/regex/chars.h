/* model/text/grammar/regex/chars.h: automata over characters, which can be cut and completed before
 * they become bytes: patterns of a JSON schema.
 *
 * Nodes and edges as in a program, over code points. The first failure stays (chars_status). One owner
 * thread. */
#pragma once

#include "base/span.h"
#include "base/status.h"
#include "model/text/grammar/program/program.h"
#include "model/text/grammar/regex/regex.h"

#include <stdbool.h>
#include <stdint.h>

enum chars_kind {
    CHARS_EMPTY,
    CHARS_RANGE,
    CHARS_BEGIN, /* passed at the text's begin alone; gone after chars_anchor() */
    CHARS_END,
};

struct chars_edge {
    uint32_t next; /* of the same node; UINT32_MAX behind the last */
    uint32_t to;
    uint32_t low;
    uint32_t high;
    uint8_t kind;
};

struct chars {
    uint32_t *first;          /* owned (n_nodes): edge, or UINT32_MAX */
    struct chars_edge *edges; /* owned (n_edges) */
    uint32_t n_nodes;
    uint32_t n_edges;
    uint32_t nodes_size;
    uint32_t edges_size;
    uint32_t start;
    uint32_t end;
    uint32_t n_max; /* of nodes, and of edges */
    enum status status;
};

/* With a start and an end that nothing joins. */
void chars_init(struct chars *chars, uint32_t n_max);
void chars_fini(struct chars *chars);

uint32_t chars_node(struct chars *chars);
void chars_edge(struct chars *chars, uint32_t from, uint8_t kind, uint32_t low, uint32_t high,
                uint32_t to);

/* Each writes an automaton of its own into *made (chars_fini), failed where what it came from is. */
void chars_of_regex(const struct regex *regex, uint32_t n_max, struct chars *made);
/* Anchors resolved; `searches`: the text has a match anywhere, else from end to end. */
void chars_anchor(const struct chars *chars, bool searches, struct chars *made);
void chars_both(const struct chars *left, const struct chars *right, struct chars *made);
/* All texts that are not of it; no anchors. */
void chars_not(const struct chars *chars, struct chars *made);
/* Texts of min to max characters; UINT32_MAX: no bound. */
void chars_length(uint32_t min, uint32_t max, uint32_t n_max, struct chars *made);
/* These texts, as UTF-8. */
void chars_of_texts(const struct span *texts, size_t n, uint32_t n_max, struct chars *made);

/* Whether a text is of it; no anchors. False for what is not valid UTF-8, or without memory. */
bool chars_match(const struct chars *chars, struct span text);

/* Writes its texts between two nodes of a program; `is_json`: as a JSON string spells them. */
void chars_write(const struct chars *chars, struct program *program, bool is_json, uint32_t from,
                 uint32_t to);
