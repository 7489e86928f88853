/* Characters as bytes: a range of code points is a few sequences of ranges of bytes (as RE2 and
 * utf8-ranges cut them): one per length, and within a length where the tails are not whole. */
#include "model/text/grammar/program/program.h"

#include "base/utf8.h"

#include <stdio.h>

/* low..high have the same length in UTF-8 and no surrogate. */
static void add_cut(struct program *program, uint32_t from, uint32_t low, uint32_t high,
                    uint32_t to) {
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
            add_cut(program, from, low, low | mask, to);
            add_cut(program, from, (low | mask) + 1, high, to);
            return;
        }
        if ((high & mask) != mask) {
            add_cut(program, from, low, (high & ~mask) - 1, to);
            add_cut(program, from, high & ~mask, high, to);
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
            add_cut(program, from, begin, end, to);
    }
}

static void add_escape(struct program *program, uint32_t from, uint32_t point, uint32_t to) {
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
            add_escape(program, from, point, to);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        uint32_t begin = low > plain[i][0] ? low : plain[i][0];
        uint32_t end = high < plain[i][1] ? high : plain[i][1];
        if (begin <= end)
            program_points(program, from, begin, end, to);
    }
}
