/* Descriptions become programs, and these grammars. */
#include "model/text/grammar/grammar.h"

#include "base/assert.h"
#include "model/text/grammar/compile.h"
#include "model/text/grammar/grammar_own.h"
#include "model/text/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const struct grammar_limits grammar_limits = {
    .n_bytes = (size_t)1 << 20,
    .depth = 64,
    .n_nodes = 400000,
    .n_steps = 20000000,
    .n_bytes_kept = (size_t)32 << 20,
    .n_frames = 65536,
    .n_threads = 512,
    .n_mask_steps = 20000000,
};

static enum status grammar_compile_part(struct compile *compile, const struct grammar_part *part,
                                        uint32_t from, uint32_t to, uint32_t depth);

static enum status grammar_compile_parts(struct compile *compile, const struct grammar_part *part,
                                         uint32_t from, uint32_t to, uint32_t depth) {
    struct program *program = compile->program;
    if (part->kind == GRAMMAR_EITHER) {
        for (size_t i = 0; i < part->n; i++)
            TRY(grammar_compile_part(compile, &part->parts[i], from, to, depth + 1));
        return STATUS_OK;
    }
    for (size_t i = 0; i < part->n; i++) {
        uint32_t next = program_node(program);
        TRY(grammar_compile_part(compile, &part->parts[i], from, next, depth + 1));
        from = next;
    }
    program_empty(program, from, to);
    return STATUS_OK;
}

static enum status grammar_compile_repeat(struct compile *compile, const struct grammar_part *part,
                                          uint32_t from, uint32_t to, uint32_t depth) {
    struct program *program = compile->program;
    if (part->n != 1 || part->min > part->max)
        return error_set(compile->error, STATUS_INVALID,
                         "a repetition has one part, and min at most max");
    uint32_t inner = program_rule(program);
    TRY(program_status(program, compile->error));
    uint32_t start = program->rules[inner].start;
    uint32_t end = program->rules[inner].end;
    TRY(grammar_compile_part(compile, part->parts, start, end, depth + 1));
    uint32_t rule = program_repeat(program, inner, part->min, part->max);
    program_call(program, from, rule, to);
    return STATUS_OK;
}

static enum status grammar_compile_token(struct compile *compile, struct span text, uint32_t from,
                                         uint32_t to) {
    uint32_t token = compile->vocabulary ? grammar_vocabulary_special(compile->vocabulary, text)
                                         : GRAMMAR_TOKEN_NONE;
    if (token == GRAMMAR_TOKEN_NONE)
        return error_set(compile->error, STATUS_INVALID, "the model has no special token \"%.*s\"",
                         span_shown(text), text.bytes);
    program_token(compile->program, from, token, to);
    return STATUS_OK;
}

/* Any UTF-8 in which `text` does not occur: its prefix function's automaton (Knuth, Morris, Pratt
 * 1977) without the last state. A character of several bytes is one step where it cannot be part of
 * the text, so that what comes out is whole characters. */
static enum status grammar_compile_until(struct compile *compile, struct span text, uint32_t from,
                                         uint32_t to) {
    struct program *program = compile->program;
    uint32_t n = (uint32_t)text.n;
    uint32_t *fallback = calloc((size_t)n + 1, sizeof *fallback);
    uint32_t *nodes = calloc((size_t)n + 1, sizeof *nodes);
    if (!fallback || !nodes)
        program_fail(program, STATUS_NOMEM, "memory");
    uint32_t n_states = n > 0 ? n : 1;
    for (uint32_t i = 0; program_ok(program) && i < n_states; i++) {
        nodes[i] = program_node(program);
        program_empty(program, nodes[i], to);
    }
    for (uint32_t i = 1, k = 0; program_ok(program) && i < n; i++) {
        while (k > 0 && text.bytes[i] != text.bytes[k])
            k = fallback[k];
        k += text.bytes[i] == text.bytes[k];
        fallback[i + 1] = k;
    }
    for (uint32_t i = 0; program_ok(program) && i < n_states; i++) {
        for (unsigned byte = 0; byte < 0x80 && program_work(program, 1); byte++) {
            uint32_t k = i;
            while (n > 0 && k > 0 && (uint8_t)text.bytes[k] != byte)
                k = fallback[k];
            k += n > 0 && (uint8_t)text.bytes[k] == byte;
            if (k < n_states)
                program_bytes(program, nodes[i], (uint8_t)byte, (uint8_t)byte, nodes[k]);
        }
        program_points(program, nodes[i], 0x80, 0x10ffff, nodes[0]);
    }
    if (program_ok(program))
        program_empty(program, from, nodes[0]);
    free(fallback);
    free(nodes);
    return program_status(program, compile->error);
}

static enum status grammar_compile_choice(struct compile *compile, const struct grammar_part *part,
                                          uint32_t from, uint32_t to) {
    if (part->n == 0)
        return error_set(compile->error, STATUS_INVALID, "a choice has at least one text");
    struct span *texts = malloc(part->n * sizeof *texts);
    if (!texts)
        return error_set(compile->error, STATUS_NOMEM, "out of memory");
    memcpy(texts, part->choices, part->n * sizeof *texts);
    program_choice(compile->program, from, texts, part->n, to);
    free(texts);
    return STATUS_OK;
}

static enum status grammar_compile_json_string(struct compile *compile,
                                               const struct grammar_part *part, uint32_t from,
                                               uint32_t to, uint32_t depth) {
    struct program *program = compile->program;
    if (part->n != 1)
        return error_set(compile->error, STATUS_INVALID, "a JSON string has one part");
    uint32_t begin = program_node(program), end = program_node(program);
    program_bytes(program, from, '"', '"', begin);
    program_bytes(program, end, '"', '"', to);
    program->in_json = true;
    enum status status = grammar_compile_part(compile, part->parts, begin, end, depth + 1);
    program->in_json = false;
    return status;
}

/* Their rules are shared by all that are written, and written without further escapes. */
static bool grammar_fits_json_string(enum grammar_kind kind) {
    return kind != GRAMMAR_TOKEN && kind != GRAMMAR_JSON_SCHEMA && kind != GRAMMAR_JSON_OBJECT &&
           kind != GRAMMAR_JSON_STRING;
}

static enum status grammar_compile_kind(struct compile *compile, const struct grammar_part *part,
                                        uint32_t from, uint32_t to, uint32_t depth) {
    if (compile->program->in_json && !grammar_fits_json_string(part->kind))
        return error_set(compile->error, STATUS_UNSUPPORTED,
                         "special tokens and JSON cannot be part of a JSON string");
    switch (part->kind) {
    case GRAMMAR_TEXT:
        program_empty(compile->program, program_text(compile->program, from, part->text), to);
        return STATUS_OK;
    case GRAMMAR_TOKEN:
        return grammar_compile_token(compile, part->text, from, to);
    case GRAMMAR_JSON_SCHEMA:
        return schema_compile(compile, part->text, part->lenient, from, to);
    case GRAMMAR_JSON_OBJECT:
        schema_any_object(compile, from, to);
        return STATUS_OK;
    case GRAMMAR_REGEX:
        return regex_compile(compile, part->text, from, to);
    case GRAMMAR_CHOICE:
        return grammar_compile_choice(compile, part, from, to);
    case GRAMMAR_LARK:
        return lark_compile(compile, part->text, from, to);
    case GRAMMAR_GBNF:
    case GRAMMAR_EBNF:
        return bnf_compile(compile, part->text, part->kind == GRAMMAR_EBNF, from, to);
    case GRAMMAR_UNTIL:
        for (size_t i = 0; i < part->text.n; i++)
            if ((uint8_t)part->text.bytes[i] >= 0x80)
                return error_set(compile->error, STATUS_UNSUPPORTED,
                                 "a mark that ends text must be ASCII");
        return grammar_compile_until(compile, part->text, from, to);
    case GRAMMAR_SEQUENCE:
    case GRAMMAR_EITHER:
        return grammar_compile_parts(compile, part, from, to, depth);
    case GRAMMAR_REPEAT:
        return grammar_compile_repeat(compile, part, from, to, depth);
    case GRAMMAR_JSON_STRING:
        return grammar_compile_json_string(compile, part, from, to, depth);
    default:
        return error_set(compile->error, STATUS_INVALID, "an unknown kind of grammar");
    }
}

static enum status grammar_compile_part(struct compile *compile, const struct grammar_part *part,
                                        uint32_t from, uint32_t to, uint32_t depth) {
    struct program *program = compile->program;
    if (depth >= compile->depth_max)
        return error_set(compile->error, STATUS_LIMIT, "parts nest deeper than %u",
                         compile->depth_max);
    if (part->region.n > 0) {
        uint32_t rule = program_rule(program);
        program_name(program, rule, part->region);
        program_call(program, from, rule, to);
        TRY(program_status(program, compile->error));
        from = program->rules[rule].start;
        to = program->rules[rule].end;
    }
    TRY(program_status(program, compile->error));
    TRY(grammar_compile_kind(compile, part, from, to, depth));
    return program_status(program, compile->error);
}

/* Counts a description's bytes and hashes it. */
static enum status grammar_measure(const struct grammar_part *part,
                                   const struct grammar_limits *limits, uint32_t depth,
                                   size_t *n_bytes, XXH3_state_t *hash, struct error *error) {
    if (depth >= limits->depth)
        return error_set(error, STATUS_LIMIT, "parts nest deeper than %u", limits->depth);
    uint64_t fields[7] = {(uint64_t)part->kind,
                          part->lenient,
                          part->text.n,
                          part->region.n,
                          part->n,
                          part->min,
                          part->max};
    XXH3_128bits_update(hash, fields, sizeof fields);
    if (part->text.n > 0)
        XXH3_128bits_update(hash, part->text.bytes, part->text.n);
    if (part->region.n > 0)
        XXH3_128bits_update(hash, part->region.bytes, part->region.n);
    *n_bytes += part->text.n + part->region.n + 1;
    for (size_t i = 0; i < part->n && *n_bytes <= limits->n_bytes; i++) {
        if (part->kind != GRAMMAR_CHOICE) {
            TRY(grammar_measure(&part->parts[i], limits, depth + 1, n_bytes, hash, error));
            continue;
        }
        uint64_t n = part->choices[i].n;
        XXH3_128bits_update(hash, &n, sizeof n);
        if (n > 0)
            XXH3_128bits_update(hash, part->choices[i].bytes, n);
        *n_bytes += n + 1;
    }
    if (*n_bytes > limits->n_bytes)
        return error_set(error, STATUS_LIMIT, "the grammar has over %zu bytes", limits->n_bytes);
    return STATUS_OK;
}

static enum status grammar_hash_part(struct grammar *grammar, const struct grammar_part *part,
                                     struct error *error) {
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return error_set(error, STATUS_NOMEM, "out of memory");
    size_t n_bytes = 0;
    XXH3_128bits_reset(state);
    enum status status = grammar_measure(part, &grammar->limits, 0, &n_bytes, state, error);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    grammar->hash[0] = hash.low64;
    grammar->hash[1] = hash.high64;
    return status;
}

static enum status grammar_write_program(struct grammar *grammar, const struct grammar_part *part,
                                         struct error *error) {
    struct program *program = &grammar->program;
    struct compile compile = {.program = program,
                              .vocabulary = grammar->vocabulary,
                              .depth_max = grammar->limits.depth,
                              .error = error,
                              .rule_blank = PROGRAM_NONE,
                              .rule_chars = PROGRAM_NONE,
                              .rule_number = PROGRAM_NONE,
                              .rule_integer = PROGRAM_NONE,
                              .rule_value = PROGRAM_NONE,
                              .rule_object = PROGRAM_NONE};
    program_init(program, (struct program_limits){.n_nodes = grammar->limits.n_nodes,
                                                  .n_edges = grammar->limits.n_nodes * 4,
                                                  .n_rules = grammar->limits.n_nodes,
                                                  .n_steps = grammar->limits.n_steps});
    program->root = program_rule(program);
    enum status status = program_status(program, error);
    if (status == STATUS_OK)
        status = grammar_compile_part(&compile, part, program->rules[program->root].start,
                                      program->rules[program->root].end, 0);
    grammar->unenforced = compile.unenforced;
    grammar->n_unenforced = compile.n_unenforced;
    if (status != STATUS_OK)
        return status;
    return program_finish(program, error);
}

enum status grammar_compile(const struct grammar_part *part, struct grammar_vocabulary *vocabulary,
                            const struct grammar_limits *limits, struct grammar **made,
                            struct error *error) {
    struct grammar *grammar = calloc(1, sizeof *grammar);
    if (!grammar)
        return error_set(error, STATUS_NOMEM, "out of memory");
    atomic_init(&grammar->n_holders, 1);
    pthread_mutex_init(&grammar->lock, NULL);
    grammar->vocabulary = vocabulary;
    grammar->limits = *limits;
    enum status status = grammar_hash_part(grammar, part, error);
    if (status == STATUS_OK)
        status = grammar_write_program(grammar, part, error);
    if (status == STATUS_OK) {
        struct machine_limits of = {.n_bytes = limits->n_bytes_kept,
                                    .n_frames = limits->n_frames,
                                    .n_threads = limits->n_threads,
                                    .clip = vocabulary ? vocabulary->n_bytes_max + 1 : 1};
        status = machine_init(&grammar->machine, &grammar->program, of);
        machine_allow(&grammar->machine, limits->n_steps);
        if (status == STATUS_OK)
            status = machine_start(&grammar->machine, &grammar->start);
        if (status != STATUS_OK)
            error_set(error, status,
                      status == STATUS_NOMEM ? "out of memory"
                                             : "the grammar is too large: its beginning has too "
                                               "many readings, or too many states");
    }
    if (status != STATUS_OK) {
        grammar_unref(grammar);
        return status;
    }
    *made = grammar;
    return STATUS_OK;
}

struct grammar *grammar_ref(struct grammar *grammar) {
    atomic_fetch_add_explicit(&grammar->n_holders, 1, memory_order_relaxed);
    return grammar;
}

void grammar_unref(struct grammar *grammar) {
    if (!grammar || atomic_fetch_sub_explicit(&grammar->n_holders, 1, memory_order_acq_rel) != 1)
        return;
    ASSERT(!grammar->states);
    threads_fini(&grammar->start);
    machine_fini(&grammar->machine);
    program_fini(&grammar->program);
    free(grammar->unenforced);
    pthread_mutex_destroy(&grammar->lock);
    free(grammar);
}

void grammar_hash(const struct grammar *grammar, uint64_t hash[2]) {
    hash[0] = grammar->hash[0];
    hash[1] = grammar->hash[1];
}

const struct grammar_unenforced *grammar_unenforced(const struct grammar *grammar, size_t i) {
    return i < grammar->n_unenforced ? &grammar->unenforced[i] : NULL;
}

struct grammar_figures grammar_figures(struct grammar *grammar) {
    pthread_mutex_lock(&grammar->lock);
    const struct machine *machine = &grammar->machine;
    const struct program *program = &grammar->program;
    struct grammar_figures figures = {
        .n_nodes = program->n_nodes,
        .n_sets = machine->automaton.n_sets,
        .n_frames = machine->frames.n - machine->frames.n_free,
        .n_bytes = machine->automaton.n_bytes + machine->frames.size * sizeof(struct frame) +
                   machine->frames.n_slots * sizeof(uint32_t) +
                   (uint64_t)program->nodes_size * sizeof *program->nodes +
                   (uint64_t)program->edges_size * sizeof *program->edges +
                   (uint64_t)program->rules_size * sizeof *program->rules,
        .n_steps = program->n_steps};
    pthread_mutex_unlock(&grammar->lock);
    return figures;
}
