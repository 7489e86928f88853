/* A regular expression straight into a program. Long repeats of one character class are counted, not
 * written out: their states would each need masks of their own. */
#include "model/text/grammar/compile.h"
#include "model/text/grammar/regex/chars.h"
#include "model/text/grammar/regex/regex.h"
#include "model/text/grammar/regex/regex_write.h"

#define COUNT_FROM 16u

static void regex_write_node(struct program *program, const struct regex *regex, uint32_t at,
                             uint32_t from, uint32_t to);

static void regex_write_set(struct program *program, const struct regex *regex,
                            struct regex_node node, uint32_t from, uint32_t to) {
    for (uint32_t i = node.first; i < node.first + node.n; i++)
        program_points(program, from, regex->ranges[i].low, regex->ranges[i].high, to);
}

static void regex_write_counted(struct program *program, const struct regex *regex,
                                struct regex_node node, uint32_t from, uint32_t to) {
    uint32_t inner = program_rule(program);
    if (!program_ok(program))
        return;
    uint32_t loop = program->rules[inner].start;
    program_empty(program, loop, program->rules[inner].end);
    regex_write_set(program, regex, regex->nodes[node.a], loop, loop);
    program_close(program, inner);
    program_call(program, from, program_count(program, inner, loop, node.min, node.max), to);
}

static void regex_write_repeat(struct program *program, const struct regex *regex,
                               struct regex_node node, uint32_t from, uint32_t to) {
    uint32_t most = node.max == UINT32_MAX ? node.min : node.max;
    if (most > COUNT_FROM && regex->nodes[node.a].kind == REGEX_SET) {
        regex_write_counted(program, regex, node, from, to);
        return;
    }
    for (uint32_t i = 0; i < node.min && program_ok(program); i++) {
        uint32_t next = program_node(program);
        regex_write_node(program, regex, node.a, from, next);
        from = next;
    }
    if (node.max == UINT32_MAX) {
        uint32_t loop = program_node(program);
        uint32_t behind = program_node(program);
        program_empty(program, from, loop);
        regex_write_node(program, regex, node.a, loop, behind);
        program_empty(program, behind, loop);
        from = loop;
    }
    for (uint32_t i = node.min; node.max != UINT32_MAX && i < node.max && program_ok(program);
         i++) {
        uint32_t next = program_node(program);
        program_empty(program, from, to);
        regex_write_node(program, regex, node.a, from, next);
        from = next;
    }
    program_empty(program, from, to);
}

static void regex_write_node(struct program *program, const struct regex *regex, uint32_t at,
                             uint32_t from, uint32_t to) {
    for (; program_work(program, 1); at = regex->nodes[at].a) {
        struct regex_node node = regex->nodes[at];
        if (node.kind == REGEX_CAT) { /* these lean to the left */
            uint32_t middle = program_node(program);
            regex_write_node(program, regex, node.b, middle, to);
            to = middle;
            continue;
        }
        if (node.kind == REGEX_EITHER) {
            regex_write_node(program, regex, node.b, from, to);
            continue;
        }
        if (node.kind == REGEX_SET)
            regex_write_set(program, regex, node, from, to);
        else if (node.kind == REGEX_REPEAT)
            regex_write_repeat(program, regex, node, from, to);
        else
            program_empty(program, from, to);
        return;
    }
}

enum status regex_write(struct compile *compile, struct span source, unsigned flags, uint32_t from,
                        uint32_t to) {
    struct program *program = compile->program;
    struct regex regex;
    TRY(regex_parse(source, flags, compile->depth_max, &regex, compile->error));
    if (!regex.has_anchors) {
        regex_write_node(program, &regex, regex.root, from, to);
    } else {
        struct chars chars;
        struct chars anchored;
        chars_of_regex(&regex, program->limits.n_nodes, &chars);
        chars_anchor(&chars, false, &anchored);
        chars_write(&anchored, program, false, from, to);
        chars_fini(&chars);
        chars_fini(&anchored);
    }
    regex_parse_fini(&regex);
    return program_status(program, compile->error);
}

enum status regex_compile(struct compile *compile, struct span source, uint32_t from, uint32_t to) {
    return regex_write(compile, source, 0, from, to);
}
