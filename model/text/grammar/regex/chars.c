#include "model/text/grammar/regex/chars.h"

#include "base/utf8.h"

#include <stdlib.h>

#define NONE UINT32_MAX

void chars_init(struct chars *chars, uint32_t n_max) {
    *chars = (struct chars){.n_max = n_max};
    chars->start = chars_node(chars);
    chars->end = chars_node(chars);
}

void chars_fini(struct chars *chars) {
    free(chars->first);
    free(chars->edges);
    *chars = (struct chars){.status = STATUS_INVALID};
}

static bool regex_chars_grow(struct chars *chars, void *array, uint32_t *size, size_t unit) {
    void **at = array;
    uint32_t wanted = *size ? *size * 2 : 32;
    void *grown = realloc(*at, wanted * unit);
    if (!grown) {
        chars->status = STATUS_NOMEM;
        return false;
    }
    *at = grown;
    *size = wanted;
    return true;
}

uint32_t chars_node(struct chars *chars) {
    if (chars->status == STATUS_OK && chars->n_nodes >= chars->n_max)
        chars->status = STATUS_LIMIT;
    if (chars->status != STATUS_OK)
        return 0;
    if (chars->n_nodes == chars->nodes_size &&
        !regex_chars_grow(chars, &chars->first, &chars->nodes_size, sizeof *chars->first))
        return 0;
    chars->first[chars->n_nodes] = NONE;
    return chars->n_nodes++;
}

void chars_edge(struct chars *chars, uint32_t from, uint8_t kind, uint32_t low, uint32_t high,
                uint32_t to) {
    if (chars->status == STATUS_OK && chars->n_edges >= chars->n_max * 4)
        chars->status = STATUS_LIMIT;
    if (chars->status != STATUS_OK)
        return;
    if (chars->n_edges == chars->edges_size &&
        !regex_chars_grow(chars, &chars->edges, &chars->edges_size, sizeof *chars->edges))
        return;
    chars->edges[chars->n_edges] = (struct chars_edge){
        .next = chars->first[from], .to = to, .low = low, .high = high, .kind = kind};
    chars->first[from] = chars->n_edges++;
}

static void regex_chars_add_empty(struct chars *chars, uint32_t from, uint32_t to) {
    chars_edge(chars, from, CHARS_EMPTY, 0, 0, to);
}

static void regex_chars_write_node(const struct regex *regex, uint32_t node, struct chars *made,
                                   uint32_t from, uint32_t to);

static void regex_chars_write_repeat(const struct regex *regex, struct regex_node node,
                                     struct chars *made, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < node.min && made->status == STATUS_OK; i++) {
        uint32_t next = chars_node(made);
        regex_chars_write_node(regex, node.a, made, from, next);
        from = next;
    }
    if (node.max == UINT32_MAX) {
        uint32_t loop = chars_node(made);
        regex_chars_add_empty(made, from, loop);
        uint32_t behind = chars_node(made);
        regex_chars_write_node(regex, node.a, made, loop, behind);
        regex_chars_add_empty(made, behind, loop);
        from = loop;
    }
    for (uint32_t i = node.min; node.max != UINT32_MAX && i < node.max && made->status == STATUS_OK;
         i++) {
        uint32_t next = chars_node(made);
        regex_chars_add_empty(made, from, to);
        regex_chars_write_node(regex, node.a, made, from, next);
        from = next;
    }
    regex_chars_add_empty(made, from, to);
}

static void regex_chars_write_node(const struct regex *regex, uint32_t at, struct chars *made,
                                   uint32_t from, uint32_t to) {
    /* What is joined leans to the left: long texts are deep there. */
    for (; made->status == STATUS_OK; at = regex->nodes[at].a) {
        struct regex_node node = regex->nodes[at];
        if (node.kind == REGEX_CAT) {
            uint32_t middle = chars_node(made);
            regex_chars_write_node(regex, node.b, made, middle, to);
            to = middle;
            continue;
        }
        if (node.kind == REGEX_EITHER) {
            regex_chars_write_node(regex, node.b, made, from, to);
            continue;
        }
        if (node.kind == REGEX_SET)
            for (uint32_t i = node.first; i < node.first + node.n; i++)
                chars_edge(made, from, CHARS_RANGE, regex->ranges[i].low, regex->ranges[i].high,
                           to);
        else if (node.kind == REGEX_REPEAT)
            regex_chars_write_repeat(regex, node, made, from, to);
        else if (node.kind == REGEX_EMPTY)
            regex_chars_add_empty(made, from, to);
        else
            chars_edge(made, from, node.kind == REGEX_BEGIN ? CHARS_BEGIN : CHARS_END, 0, 0, to);
        return;
    }
}

void chars_of_regex(const struct regex *regex, uint32_t n_max, struct chars *made) {
    chars_init(made, n_max);
    regex_chars_write_node(regex, regex->root, made, made->start, made->end);
}

/* Four copies of each node: before the first character or behind it, and open or past a $. */
void chars_anchor(const struct chars *chars, bool searches, struct chars *made) {
    chars_init(made, chars->n_max);
    if (chars->status != STATUS_OK)
        made->status = chars->status;
    uint32_t base = made->n_nodes;
    for (uint32_t i = 0; i < chars->n_nodes * 4 && made->status == STATUS_OK; i++)
        chars_node(made);
    for (uint32_t node = 0; node < chars->n_nodes && made->status == STATUS_OK; node++)
        for (uint32_t e = chars->first[node]; e != NONE; e = chars->edges[e].next) {
            const struct chars_edge *edge = &chars->edges[e];
            for (uint32_t copy = 0; copy < 4;
                 copy++) { /* bit 0: behind a character, bit 1: past $ */
                uint32_t from = base + node * 4 + copy;
                uint32_t to = base + edge->to * 4;
                if (edge->kind == CHARS_EMPTY || (edge->kind == CHARS_BEGIN && !(copy & 1)))
                    regex_chars_add_empty(made, from, to + copy);
                else if (edge->kind == CHARS_END)
                    regex_chars_add_empty(made, from, to + (copy | 2));
                else if (edge->kind == CHARS_RANGE && !(copy & 2))
                    chars_edge(made, from, CHARS_RANGE, edge->low, edge->high, to + 1);
            }
        }
    regex_chars_add_empty(made, made->start, base + chars->start * 4);
    uint32_t tail = made->end;
    if (searches) {
        uint32_t before = chars_node(made);
        tail = chars_node(made);
        chars_edge(made, made->start, CHARS_RANGE, 0, 0x10ffff, before);
        chars_edge(made, before, CHARS_RANGE, 0, 0x10ffff, before);
        regex_chars_add_empty(made, before, base + chars->start * 4 + 1);
        chars_edge(made, tail, CHARS_RANGE, 0, 0x10ffff, tail);
        regex_chars_add_empty(made, tail, made->end);
    }
    for (uint32_t copy = 0; copy < 4; copy++)
        regex_chars_add_empty(made, base + chars->end * 4 + copy, copy & 2 ? made->end : tail);
}

void chars_length(uint32_t min, uint32_t max, uint32_t n_max, struct chars *made) {
    chars_init(made, n_max);
    uint32_t at = made->start;
    for (uint32_t i = 0; made->status == STATUS_OK; i++) {
        if (i >= min)
            regex_chars_add_empty(made, at, made->end);
        if (i == max)
            return;
        if (i >= min && max == UINT32_MAX) {
            chars_edge(made, at, CHARS_RANGE, 0, 0x10ffff, at);
            return;
        }
        uint32_t next = chars_node(made);
        chars_edge(made, at, CHARS_RANGE, 0, 0x10ffff, next);
        at = next;
    }
}

void chars_of_texts(const struct span *texts, size_t n, uint32_t n_max, struct chars *made) {
    chars_init(made, n_max);
    for (size_t i = 0; i < n && made->status == STATUS_OK; i++) {
        uint32_t at = made->start;
        for (size_t k = 0; k < texts[i].n && made->status == STATUS_OK;) {
            uint32_t point;
            unsigned length = utf8_decode(texts[i].bytes + k, texts[i].n - k, &point);
            if (length == 0) {
                made->status = STATUS_INVALID;
                return;
            }
            k += length;
            uint32_t next = chars_node(made);
            chars_edge(made, at, CHARS_RANGE, point, point, next);
            at = next;
        }
        regex_chars_add_empty(made, at, made->end);
    }
}

void chars_write(const struct chars *chars, struct program *program, bool is_json, uint32_t from,
                 uint32_t to) {
    if (chars->status != STATUS_OK) {
        program_fail(program, chars->status, "its states");
        return;
    }
    uint32_t *nodes = calloc(chars->n_nodes, sizeof *nodes);
    uint32_t *list = calloc(chars->n_nodes, sizeof *list);
    if (!nodes || !list)
        program_fail(program, STATUS_NOMEM, "memory");
    uint32_t n = 0;
    if (program_ok(program)) {
        nodes[chars->start] = program_node(program);
        list[n++] = chars->start;
        program_empty(program, from, nodes[chars->start]);
    }
    for (uint32_t i = 0; program_ok(program) && i < n; i++)
        for (uint32_t e = chars->first[list[i]]; e != NONE && program_ok(program);
             e = chars->edges[e].next) {
            const struct chars_edge *edge = &chars->edges[e];
            if (nodes[edge->to] == 0) {
                nodes[edge->to] = program_node(program);
                list[n++] = edge->to;
            }
            uint32_t at = nodes[list[i]];
            if (edge->kind == CHARS_EMPTY)
                program_empty(program, at, nodes[edge->to]);
            else if (is_json)
                program_json_points(program, at, edge->low, edge->high, nodes[edge->to]);
            else
                program_points(program, at, edge->low, edge->high, nodes[edge->to]);
        }
    if (program_ok(program) && nodes[chars->end] != 0)
        program_empty(program, nodes[chars->end], to);
    free(nodes);
    free(list);
}
