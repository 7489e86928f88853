#include "model/text/grammar/engine/letters.h"

#include "model/text/grammar/engine/byte_set.h"

#include <string.h>

#define ASCII      128u
#define FULL_MAX   32u /* sets within a character that all bytes lead on from */
#define LISTS_MAX  64u /* of characters beyond ASCII, in one grammar */
#define FIND_STEPS 64u /* of work, to look at all bytes of ASCII */

/* Characters beyond ASCII that are being spelled out. */
struct spelling {
    struct automaton *automaton;
    uint32_t to;
    struct points points;
    uint32_t n_points; /* of all ranges together */
    struct {
        uint32_t set;
        uint32_t n_more;
    } full[FULL_MAX]; /* all characters that go on from there lead to `to` */
    uint32_t n_full;
    bool is_none; /* some lead elsewhere, or there are too many ranges */
};

static void grammar_letters_add_points(struct spelling *spelling, uint32_t low, uint32_t high) {
    struct points *points = &spelling->points;
    spelling->n_points += high - low + 1;
    if (points->n > 0 && points->ranges[points->n - 1].high + 1 == low) {
        points->ranges[points->n - 1].high = high;
        return;
    }
    if (points->n == POINTS_RANGES) {
        spelling->is_none = true;
        return;
    }
    points->ranges[points->n].low = low;
    points->ranges[points->n++].high = high;
}

/* Within a character nothing of the rule's callers can come, and nothing but its next byte. */
static bool grammar_letters_is_within(const struct set *set, struct begun begun) {
    uint64_t others[4];
    memcpy(others, set->takes, sizeof others);
    for (unsigned byte = begun.low; byte <= begun.high; byte++)
        others[byte / 64] &= ~(UINT64_C(1) << byte % 64);
    bool is_plain = !set->accepts && !set->counts && set->n_calls == 0 && set->n_tokens == 0;
    return is_plain && (others[0] | others[1] | others[2] | others[3]) == 0;
}

static bool grammar_letters_is_full(const struct spelling *spelling, uint32_t set,
                                    struct begun begun) {
    for (uint32_t i = 0; i < spelling->n_full; i++)
        if (spelling->full[i].set == set && spelling->full[i].n_more == begun.n_more)
            return begun.low == 0x80 && begun.high == 0xbf;
    return false;
}

static enum status grammar_letters_spell(struct spelling *spelling, uint32_t set,
                                         struct begun begun);

/* A begun character goes on with each of the bytes from `first` to before `end`, which lead to `to`. */
static enum status grammar_letters_spell_on(struct spelling *spelling, uint32_t to,
                                            struct begun begun, unsigned first, unsigned end) {
    if (begun.n_more == 1) {
        uint32_t point = begun.point << 6;
        spelling->is_none |= to != spelling->to;
        grammar_letters_add_points(spelling, point | (first & 0x3f), point | ((end - 1) & 0x3f));
        return STATUS_OK;
    }
    for (unsigned byte = first; byte < end && !spelling->is_none; byte++) {
        struct begun next = begun;
        if (begun_next(&next, (uint8_t)byte))
            TRY(grammar_letters_spell(spelling, to, next));
    }
    return STATUS_OK;
}

/* Follows the bytes of a begun character from `set`: a recursion of three levels. */
static enum status grammar_letters_spell(struct spelling *spelling, uint32_t set,
                                         struct begun begun) {
    struct automaton *automaton = spelling->automaton;
    uint32_t n_below = 1u << 6 * begun.n_more;
    if (grammar_letters_is_full(spelling, set, begun)) {
        grammar_letters_add_points(spelling, begun.point * n_below,
                                   begun.point * n_below + n_below - 1);
        return STATUS_OK;
    }
    spelling->is_none |= !grammar_letters_is_within(&automaton->sets[set], begun);
    uint32_t n_before = spelling->n_points;
    for (unsigned byte = begun.low; byte <= begun.high && !spelling->is_none;) {
        unsigned end = byte + 1; /* no edge tells those up to there apart */
        while (end <= begun.high && automaton->classes[end] == automaton->classes[byte])
            end++;
        uint32_t to;
        TRY(automaton_work(automaton, 1));
        TRY(automaton_step(automaton, set, (uint8_t)byte, &to));
        if (to != SET_DEAD)
            TRY(grammar_letters_spell_on(spelling, to, begun, byte, end));
        byte = end;
    }
    if (spelling->n_points - n_before == n_below && spelling->n_full < FULL_MAX) {
        spelling->full[spelling->n_full].set = set;
        spelling->full[spelling->n_full++].n_more = begun.n_more;
    }
    return STATUS_OK;
}

/* The number of equal points in the automaton's list; 0: there are too many. */
static enum status grammar_letters_keep_points(struct automaton *automaton,
                                               const struct points *points, uint32_t *kept) {
    *kept = 0;
    for (uint32_t i = 1; i < automaton->n_points; i++)
        if (memcmp(&automaton->points[i], points, sizeof *points) == 0) {
            *kept = i;
            return STATUS_OK;
        }
    if (automaton->n_points == LISTS_MAX)
        return STATUS_OK;
    TRY(automaton_reserve(automaton, &automaton->points, automaton->n_points, 2,
                          &automaton->points_size, sizeof *automaton->points));
    if (automaton->n_points == 0)
        automaton->points[automaton->n_points++] = (struct points){0};
    automaton->points[automaton->n_points] = *points;
    *kept = automaton->n_points++;
    return STATUS_OK;
}

static enum status grammar_letters_find_points(struct automaton *automaton, uint32_t set,
                                               struct letters *letters) {
    struct spelling spelling = {.automaton = automaton, .to = letters->to};
    letters->points = 0;
    for (unsigned byte = ASCII; byte < 256 && !spelling.is_none; byte++) {
        struct begun begun;
        uint32_t to;
        if (!byte_set_has(automaton->sets[set].takes, (uint8_t)byte))
            continue;
        TRY(automaton_work(automaton, 1));
        TRY(automaton_step(automaton, set, (uint8_t)byte, &to));
        if (to == SET_DEAD)
            continue;
        spelling.is_none |= !begun_first(&begun, (uint8_t)byte);
        if (!spelling.is_none)
            TRY(grammar_letters_spell(&spelling, to, begun));
    }
    if (spelling.is_none || spelling.points.n == 0)
        return STATUS_OK;
    return grammar_letters_keep_points(automaton, &spelling.points, &letters->points);
}

/* Which set most bytes of ASCII lead to, the first of equals, and which do. */
static enum status grammar_letters_find_ascii(struct automaton *automaton, uint32_t set,
                                              struct letters *letters) {
    uint32_t to[ASCII];
    uint32_t targets[ASCII];
    uint32_t counts[ASCII];
    uint32_t n = 0;
    uint32_t most = 0;
    for (unsigned byte = 0; byte < ASCII; byte++) {
        to[byte] = SET_DEAD;
        if (!byte_set_has(automaton->sets[set].takes, (uint8_t)byte))
            continue;
        TRY(automaton_step(automaton, set, (uint8_t)byte, &to[byte]));
        uint32_t i = 0;
        while (i < n && targets[i] != to[byte])
            i++;
        if (i == n) {
            targets[n] = to[byte];
            counts[n++] = 0;
        }
        counts[i]++;
        if (counts[i] > counts[most])
            most = i;
    }
    letters->to = n > 0 ? targets[most] : SET_DEAD;
    for (unsigned byte = 0; byte < ASCII; byte++)
        if (letters->to != SET_DEAD && to[byte] == letters->to)
            letters->ascii[byte / 64] |= UINT64_C(1) << byte % 64;
    return automaton_work(automaton, FIND_STEPS);
}

enum status letters_find(struct automaton *automaton, uint32_t set) {
    struct letters letters = {0};
    if (automaton->sets[set].letters.to != SET_UNKNOWN)
        return STATUS_OK;
    TRY(grammar_letters_find_ascii(automaton, set, &letters));
    if (letters.to != SET_DEAD)
        TRY(grammar_letters_find_points(automaton, set, &letters));
    automaton->sets[set].letters = letters;
    return STATUS_OK;
}

bool points_are_all(const struct points *points) {
    return points->n == 2 && points->ranges[0].low == 0x80 && points->ranges[0].high == 0xd7ff &&
           points->ranges[1].low == 0xe000 && points->ranges[1].high == 0x10ffff;
}

bool points_begin(const struct points *points, struct begun begun) {
    uint32_t low = begun.point << 6 * begun.n_more;
    uint32_t high = low + (1u << 6 * begun.n_more) - 1;
    if (low < begun.least)
        low = begun.least;
    for (uint32_t i = 0; i < points->n; i++)
        if (low <= points->ranges[i].high && high >= points->ranges[i].low)
            return true;
    return false;
}
