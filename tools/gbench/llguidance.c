/* llguidance's library, by the C functions that its Python wheel exports. The types below are those of its documented C
 * interface (llguidance.h of version 1.9): their order and sizes are the library's. */
#include "tools/gbench/engine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct llg_limits {
    size_t n_row_items;
    uint64_t n_lexer_fuel;
    uint64_t n_step_fuel;
    size_t n_step_items;
    size_t n_lexer_states;
    size_t n_grammar;
    bool precomputes;
    bool is_verbose;
};

struct llg_constraint {
    const void *tokenizer;
    uint32_t log_buffer_level;
    uint32_t log_stderr_level;
    bool fast_forwards;
    bool goes_back;
    struct llg_limits limits;
    char spare[128]; /* zeros, for fields of later versions */
};

struct llg_vocabulary {
    size_t struct_size;
    uint32_t n;
    uint32_t end;
    const uint32_t *lengths;
    const uint8_t *bytes;
    const char *tokenizer_json;
    bool assumes_string;
    size_t (*tokenize)(const void *user, const uint8_t *bytes, size_t n_bytes, uint32_t *tokens,
                       size_t n_tokens);
    bool tokenizes_greedily;
    const void *user;
    const char *const *slices; /* NULL: the library's own choice */
    const uint32_t *more_ends;
    uint32_t n_more_ends;
};

static struct {
    void *(*new_tokenizer)(const struct llg_vocabulary *vocabulary, char *error, size_t n_error);
    void (*free_tokenizer)(void *tokenizer);
    void (*set_defaults)(struct llg_constraint *constraint, const void *tokenizer);
    void *(*new_matcher)(const struct llg_constraint *constraint, const char *kind,
                         const char *text);
    const char *(*get_error)(void *matcher);
    void (*free_matcher)(void *matcher);
    int32_t (*reset)(void *matcher);
    int32_t (*compute_mask)(void *matcher);
    const uint32_t *(*get_mask)(void *matcher);
    int32_t (*consume)(void *matcher, uint32_t token);
    bool (*is_accepting)(void *matcher);
} library;

static uint64_t n_masks;

static bool llguidance_find(void *of, const char *name, void *function, char *error,
                            size_t n_error) {
    void *found = dlsym(of, name);
    if (!found)
        snprintf(error, n_error, "the library has no %s", name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

bool bench_llguidance_load(const char *python, const char *path, char *error, size_t n_error) {
    void *of = dlopen(python, RTLD_NOW | RTLD_GLOBAL) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!of) {
        snprintf(error, n_error, "%s", dlerror());
        return false;
    }
    return llguidance_find(of, "llg_new_tokenizer_v2", &library.new_tokenizer, error, n_error) &&
           llguidance_find(of, "llg_free_tokenizer", &library.free_tokenizer, error, n_error) &&
           llguidance_find(of, "llg_constraint_init_set_defaults", &library.set_defaults, error,
                           n_error) &&
           llguidance_find(of, "llg_new_matcher", &library.new_matcher, error, n_error) &&
           llguidance_find(of, "llg_matcher_get_error", &library.get_error, error, n_error) &&
           llguidance_find(of, "llg_free_matcher", &library.free_matcher, error, n_error) &&
           llguidance_find(of, "llg_matcher_reset", &library.reset, error, n_error) &&
           llguidance_find(of, "llg_matcher_compute_mask", &library.compute_mask, error, n_error) &&
           llguidance_find(of, "llg_matcher_get_mask", &library.get_mask, error, n_error) &&
           llguidance_find(of, "llg_matcher_consume_token", &library.consume, error, n_error) &&
           llguidance_find(of, "llg_matcher_is_accepting", &library.is_accepting, error, n_error);
}

static void *llguidance_open(const struct bench_tokens *tokens, char *error, size_t n_error) {
    const struct llg_vocabulary vocabulary = {.struct_size = sizeof vocabulary,
                                              .n = tokens->n,
                                              .end = tokens->end,
                                              .lengths = tokens->lengths,
                                              .bytes = tokens->bytes,
                                              .tokenizes_greedily = true};
    return library.new_tokenizer(&vocabulary, error, n_error);
}

static void llguidance_close(void *tokenizer) {
    library.free_tokenizer(tokenizer);
}

/* Leniency is a member of the schema there: the object's brace opens with it. */
static char *llguidance_with_leniency(const char *schema) {
    static const char member[] = "{\"x-guidance\":{\"lenient\":true},";
    const char *inside = strchr(schema, '{');
    size_t n = inside ? strlen(inside) : 0;
    char *text = malloc(sizeof member + n);
    if (text && n > 0) {
        memcpy(text, member, sizeof member - 1);
        memcpy(text + sizeof member - 1, inside + 1, n);
    }
    return n > 0 ? text : NULL;
}

static void *llguidance_compile(void *tokenizer, const char *schema, bool lenient, char *error,
                                size_t n_error) {
    struct llg_constraint constraint;
    memset(&constraint, 0, sizeof constraint);
    library.set_defaults(&constraint, tokenizer);
    constraint.log_buffer_level = constraint.log_stderr_level = 0;
    char *text = lenient ? llguidance_with_leniency(schema) : NULL;
    void *matcher = library.new_matcher(&constraint, "json_schema", text ? text : schema);
    free(text);
    const char *why = library.get_error(matcher);
    if (!why)
        return matcher;
    snprintf(error, n_error, "%s", why);
    library.free_matcher(matcher);
    return NULL;
}

static void llguidance_free(void *matcher) {
    library.free_matcher(matcher);
}

static bool llguidance_reset(void *matcher) {
    return library.reset(matcher) == 0;
}

static const uint32_t *llguidance_mask(void *matcher) {
    n_masks++;
    return library.compute_mask(matcher) == 0 ? library.get_mask(matcher) : NULL;
}

static bool llguidance_accept(void *matcher, uint32_t token) {
    return library.consume(matcher, token) == 0;
}

static bool llguidance_may_end(void *matcher) {
    return library.is_accepting(matcher);
}

static struct bench_figures llguidance_figures(void *tokenizer) {
    (void)tokenizer;
    return (struct bench_figures){.n_made = n_masks};
}

const struct bench_engine bench_llguidance = {.name = "llguidance",
                                              .open = llguidance_open,
                                              .close = llguidance_close,
                                              .compile = llguidance_compile,
                                              .free = llguidance_free,
                                              .reset = llguidance_reset,
                                              .mask = llguidance_mask,
                                              .accept = llguidance_accept,
                                              .may_end = llguidance_may_end,
                                              .figures = llguidance_figures};
