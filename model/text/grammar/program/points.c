/* Characters and texts as bytes: a range of code points is a few sequences of ranges of bytes (as RE2 and
 * utf8-ranges cut them): one per length, and within a length where the tails are not whole. */
#include "model/text/grammar/program/program.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

/* low..high have the same length in UTF-8 and no surrogate. */
static void grammar_points_add_cut(struct program *program, uint32_t from, uint32_t low,
                                   uint32_t high, uint32_t to) {
    char first[4];
    char last[4];
    unsigned n = utf8_encode(low, first);
    utf8_encode(high, last);
    /* The tails must be whole (0x80..0xbf) behind the first byte that differs. */
    for (unsigned tail = 1; tail < n; tail++) {
        uint32_t mask = (1u << (6 * tail)) - 1;
        if ((low & ~mask) == (high & ~mask))
            continue;
        if ((low & mask) != 0) {
            grammar_points_add_cut(program, from, low, low | mask, to);
            grammar_points_add_cut(program, from, (low | mask) + 1, high, to);
            return;
        }
        if ((high & mask) != mask) {
            grammar_points_add_cut(program, from, low, (high & ~mask) - 1, to);
            grammar_points_add_cut(program, from, high & ~mask, high, to);
            return;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        uint32_t next = i + 1 == n ? to : program_node(program);
        program_bytes(program, from, (uint8_t)first[i], (uint8_t)last[i], next);
        from = next;
    }
}

void program_points(struct program *program, uint32_t from, uint32_t low, uint32_t high,
                    uint32_t to) {
    /* Where the length changes, and around the surrogates. */
    static const uint32_t cuts[][2] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        uint32_t begin = low > cuts[i][0] ? low : cuts[i][0];
        uint32_t end = high < cuts[i][1] ? high : cuts[i][1];
        if (begin <= end && program_work(program, 1))
            grammar_points_add_cut(program, from, begin, end, to);
    }
}

static void grammar_points_add_escape(struct program *program, uint32_t from, uint32_t point,
                                      uint32_t to) {
    static const char letters[] = "btn fr"; /* 8 to 13; 11 has none */
    char text[8];
    if (point == '"' || point == '\\')
        snprintf(text, sizeof text, "\\%c", (char)point);
    else if (point >= 8 && point <= 13 && point != 11)
        snprintf(text, sizeof text, "\\%c", letters[point - 8]);
    else
        snprintf(text, sizeof text, "\\u%04x", point);
    uint32_t last = program_text(program, from, (struct span){text, strlen(text) - 1});
    uint8_t byte = (uint8_t)text[strlen(text) - 1];
    program_bytes(program, last, byte, byte, to);
}

void program_json_points(struct program *program, uint32_t from, uint32_t low, uint32_t high,
                         uint32_t to) {
    static const uint32_t plain[][2] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    for (uint32_t point = low; point <= high && point <= '\\' && program_work(program, 1); point++)
        if (point < ' ' || point == '"' || point == '\\')
            grammar_points_add_escape(program, from, point, to);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        uint32_t begin = low > plain[i][0] ? low : plain[i][0];
        uint32_t end = high < plain[i][1] ? high : plain[i][1];
        if (begin <= end)
            program_points(program, from, begin, end, to);
    }
}

void program_bytes(struct program *program, uint32_t from, uint8_t low, uint8_t high, uint32_t to) {
    if (program->in_json && low < 0x80) {
        ASSERT(high < 0x80); /* other bytes are of longer characters, and stand for themselves */
        program->in_json = false;
        program_json_points(program, from, low, high, to);
        program->in_json = true;
        return;
    }
    program_raw_bytes(program, from, low, high, to);
}

uint32_t program_text(struct program *program, uint32_t from, struct span text) {
    for (size_t i = 0; i < text.n && program_ok(program); i++) {
        uint32_t to = program_node(program);
        program_bytes(program, from, (uint8_t)text.bytes[i], (uint8_t)text.bytes[i], to);
        from = to;
    }
    return from;
}

static int grammar_points_compare_spans(const void *left, const void *right) {
    const struct span *a = left;
    const struct span *b = right;
    size_t n = a->n < b->n ? a->n : b->n;
    int order = n > 0 ? memcmp(a->bytes, b->bytes, n) : 0;
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

void program_choice(struct program *program, uint32_t from, struct span *texts, size_t n,
                    uint32_t to) {
    qsort(texts, n, sizeof *texts, grammar_points_compare_spans);
    /* The path of the text before, as far as it is shared. */
    size_t longest = 0;
    for (size_t i = 0; i < n; i++)
        longest = texts[i].n > longest ? texts[i].n : longest;
    uint32_t *path = malloc((longest + 1) * sizeof *path);
    if (!path) {
        program_fail(program, STATUS_NOMEM, "memory");
        return;
    }
    path[0] = from;
    for (size_t i = 0; i < n && program_work(program, texts[i].n + 1); i++) {
        size_t shared = 0;
        if (i > 0)
            while (shared < texts[i].n && shared < texts[i - 1].n &&
                   texts[i].bytes[shared] == texts[i - 1].bytes[shared])
                shared++;
        for (size_t k = shared; k < texts[i].n; k++) {
            path[k + 1] = program_node(program);
            program_bytes(program, path[k], (uint8_t)texts[i].bytes[k], (uint8_t)texts[i].bytes[k],
                          path[k + 1]);
        }
        program_empty(program, path[texts[i].n], to);
    }
    free(path);
}
