/* Bounds of compilers and states, and grammars of several threads. */
#include "model/text/grammar/grammar.h"

#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model grammar limits";
const double suite_timeout_s = 60;

START_TEST(bounds_have_their_errors_at_n_and_n_plus_1) {
    struct grammar_limits limits = grammar_limits;
    struct grammar_part part = {.kind = GRAMMAR_TEXT, .text = SPAN("0123456789")};
    struct grammar *grammar;
    struct error error = {0};
    limits.n_bytes = 11;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    grammar_unref(grammar);
    limits.n_bytes = 10;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "the grammar has over 10 bytes");
    limits = grammar_limits;
    limits.n_nodes = 13; /* one that nothing uses, start and end, ten */
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    grammar_unref(grammar);
    limits.n_nodes = 12;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "the grammar is too large: more than its nodes");
    limits = grammar_limits;
    struct grammar_part inner = {.kind = GRAMMAR_SEQUENCE, .parts = &part, .n = 1};
    limits.depth = 2;
    ck_assert_int_eq(grammar_compile(&inner, NULL, &limits, &grammar, &error), STATUS_OK);
    grammar_unref(grammar);
    limits.depth = 1;
    ck_assert_int_eq(grammar_compile(&inner, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    limits = grammar_limits;
    limits.n_steps = 5;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "the grammar is too large: more than its steps of work");
}
END_TEST

/* The steps of a schema with so many references, beside a part that is a resource. */
static uint64_t steps_of_references(unsigned n) {
    static char text[1 << 16];
    strcpy(
        text,
        "{\"$defs\": {\"a\": {\"$id\": \"http://h/a\", \"const\": 1}}, \"anyOf\": [{\"const\": 0}");
    for (unsigned i = 0; i < n; i++)
        strcat(text, i % 2 ? ", {\"$ref\": \"http://h/a\"}" : ", {\"$ref\": \"#/$defs/a\"}");
    strcat(text, "]}");
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, text, NULL);
    uint64_t n_steps = grammar_figures(grammar).n_steps;
    grammar_unref(grammar);
    return n_steps;
}

START_TEST(a_reference_is_no_walk_through_the_schema) {
    uint64_t few = steps_of_references(25), many = steps_of_references(200);
    ck_assert_msg(many <= 8 * few, "%llu, %llu", (unsigned long long)few, (unsigned long long)many);
}
END_TEST

/* Each relative URI is as long as the one around it. */
START_TEST(uris_of_parts_are_counted) {
    enum { n_parts = 300, n_id = 4000 };
    static char text[n_id + n_parts * 40 + 100];
    struct grammar_limits limits = grammar_limits;
    struct grammar_part part = {.kind = GRAMMAR_JSON_SCHEMA};
    struct grammar *grammar;
    struct error error = {0};
    sprintf(text, "{\"$id\": \"http://h/%0*u/\", \"const\": 1, \"$defs\": {\"x\": {}", n_id, 7);
    for (unsigned i = 0; i < n_parts; i++)
        sprintf(text + strlen(text), ", \"%u\": {\"$id\": \"%u\"}", i, i);
    strcat(text, "}}");
    part.text = (struct span){text, strlen(text)};
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    limits.n_steps = grammar_figures(grammar).n_steps;
    ck_assert_uint_gt(limits.n_steps, n_parts * n_id);
    grammar_unref(grammar);
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    grammar_unref(grammar);
    limits.n_steps--;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "the grammar is too large: more than its steps of work");
}
END_TEST

START_TEST(a_catastrophic_pattern_ends_at_the_bound_of_memory) {
    struct grammar_limits limits = grammar_limits;
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = SPAN("(a|b)*a(a|b){30}c")};
    struct grammar *grammar;
    struct grammar_state *state;
    struct error error = {0};
    enum status status = STATUS_OK;
    uint32_t noise = 1;
    limits.n_bytes_kept = (size_t)1 << 20;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    for (unsigned i = 0; i < 100000 && status == STATUS_OK; i++) {
        size_t n;
        noise = noise * 1664525 + 1013904223;
        status = grammar_follow(state, noise >> 31 ? SPAN("a") : SPAN("b"), &n);
    }
    ck_assert_int_eq(status, STATUS_LIMIT);
    ck_assert_uint_le(grammar_figures(grammar).n_bytes, (size_t)3 << 20);
    grammar_state_free(state);
    grammar_unref(grammar);
}
END_TEST

START_TEST(frames_that_no_state_has_are_dropped) {
    struct grammar_limits limits = grammar_limits;
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = SPAN("[a-z]{9000,90000}")};
    struct grammar *grammar;
    struct grammar_state *state;
    struct grammar_state *other;
    struct error error = {0};
    uint64_t before[2];
    uint64_t after[2];
    limits.n_frames = 64;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    ck_assert_int_eq(grammar_state_new(grammar, 3, &state), STATUS_OK);
    ck_assert_int_eq(grammar_state_new(grammar, 3, &other), STATUS_OK);
    size_t n;
    ck_assert_int_eq(grammar_follow(other, SPAN("abc"), &n), STATUS_OK);
    grammar_state_key(other, before);
    for (unsigned i = 0; i < 9000; i++) {
        ck_assert(!grammar_may_end(state));
        ck_assert_int_eq(grammar_follow(state, SPAN("a"), &n), STATUS_OK);
    }
    ck_assert(grammar_may_end(state));
    ck_assert_uint_le(grammar_figures(grammar).n_frames, 64);
    grammar_state_key(other, after);
    ck_assert(memcmp(before, after, sizeof before) == 0);
    grammar_state_free(state);
    grammar_state_free(other);
    grammar_unref(grammar);
}
END_TEST

/* A user of a grammar on a thread of its own: goes on, goes back, copies, begins anew. */
static void *use(void *argument) {
    struct grammar_state *state;
    struct grammar_state *copy;
    uintptr_t n_wrong = grammar_state_new(argument, 3, &state) != STATUS_OK;
    for (unsigned round = 0; n_wrong == 0 && round < 3; round++) {
        for (unsigned i = 0; i < 100; i++) {
            size_t n;
            n_wrong += grammar_may_end(state);
            n_wrong += grammar_follow(state, SPAN("abc"), &n) != STATUS_OK;
            n_wrong += grammar_follow(state, SPAN("abc"), &n) != STATUS_OK;
            n_wrong += grammar_back(state, 1) != STATUS_OK;
            n_wrong += grammar_state_copy(state, &copy) != STATUS_OK;
            grammar_state_free(copy);
        }
        n_wrong += !grammar_may_end(state);
        grammar_reset(state);
    }
    grammar_state_free(state);
    return (void *)n_wrong;
}

START_TEST(threads_share_a_grammar) {
    struct grammar_limits limits = grammar_limits;
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = SPAN("[a-z]{300,90000}")};
    struct grammar *grammar;
    struct error error = {0};
    pthread_t threads[3];
    limits.n_frames = 128;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use, grammar), 0);
    for (unsigned i = 0; i < 3; i++) {
        void *n_wrong;
        ck_assert_int_eq(pthread_join(threads[i], &n_wrong), 0);
        ck_assert_ptr_null(n_wrong);
    }
    grammar_unref(grammar);
}
END_TEST

START_TEST(too_many_readings_are_an_error) {
    struct grammar_limits limits = grammar_limits;
    struct grammar_part inner = {.kind = GRAMMAR_REGEX, .text = SPAN("a|aa|aaa|aaaa|aaaaa")};
    struct grammar_part part = {
        .kind = GRAMMAR_REPEAT, .parts = &inner, .n = 1, .min = 0, .max = 5000};
    struct grammar *grammar;
    struct grammar_state *state;
    struct error error = {0};
    enum status status = STATUS_OK;
    limits.n_threads = 16;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    for (unsigned i = 0; i < 1000 && status == STATUS_OK; i++) {
        size_t n;
        status = grammar_follow(state, SPAN("a"), &n);
    }
    ck_assert_int_eq(status, STATUS_LIMIT);
    grammar_state_free(state);
    grammar_unref(grammar);
}
END_TEST

/* A fresh grammar's first mask, with at most *n_steps of work. */
static enum status mask_within(const struct grammar_part *part, uint64_t *n_steps) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar *grammar = grammar_check_compile(part, vocabulary);
    struct grammar_state *state;
    const struct grammar_mask *mask;
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    enum status status = grammar_mask_within(state, n_steps, &mask);
    if (status == STATUS_OK)
        grammar_mask_unref(mask);
    else /* the state is as it was */
        grammar_check_mask(state, vocabulary);
    uint64_t n_left = 0;
    ck_assert_int_eq(grammar_mask_within(state, &n_left, &mask), STATUS_OK); /* known: no work */
    grammar_mask_unref(mask);
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
    return status;
}

static const struct grammar_part costly[] = {
    {.kind = GRAMMAR_REGEX, .text = SPAN("(a|b)*a(a|b){30}c")},
    {.kind = GRAMMAR_REGEX, .text = SPAN("[\\s\\S]*x[\\s\\S]{400}y")},
    {.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN("{\"type\": \"string\", \"maxLength\": 9}")},
    {.kind = GRAMMAR_GBNF, .text = SPAN("root ::= \"a\" root \"a\" | [a-z ]* | root \"b\"")}};

enum { N_COSTLY = sizeof costly / sizeof *costly };

START_TEST(a_masks_work_has_a_bound_at_n_and_n_plus_1) {
    uint64_t n_left = UINT64_MAX;
    ck_assert_int_eq(mask_within(&costly[_i], &n_left), STATUS_OK);
    uint64_t n_steps = UINT64_MAX - n_left;
    ck_assert_uint_gt(n_steps, 100);
    n_left = n_steps;
    ck_assert_int_eq(mask_within(&costly[_i], &n_left), STATUS_OK);
    ck_assert_uint_eq(n_left, 0);
    n_left = n_steps - 1;
    ck_assert_int_eq(mask_within(&costly[_i], &n_left), STATUS_LIMIT);
    ck_assert_uint_eq(n_left, 0);
}
END_TEST

/* A fresh grammar's first byte, as a token or as text. */
static enum status step_within(const struct grammar_part *part, bool is_token, uint64_t n_steps) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar_limits limits = grammar_limits;
    struct grammar *grammar;
    struct grammar_state *state;
    struct error error = {0};
    size_t n;
    limits.n_mask_steps = n_steps;
    ck_assert_int_eq(grammar_compile(part, vocabulary, &limits, &grammar, &error), STATUS_OK);
    ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
    char byte = part->kind == GRAMMAR_JSON_SCHEMA ? '"' : 'a';
    enum status status = is_token ? grammar_accept(state, (uint8_t)byte)
                                  : grammar_follow(state, (struct span){&byte, 1}, &n);
    grammar_state_free(state);
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
    return status;
}

START_TEST(a_tokens_work_has_a_bound_at_n_and_n_plus_1) {
    for (int is_token = 0; is_token < 2; is_token++) {
        uint64_t low = 0;
        uint64_t high = (uint64_t)1 << 24;
        while (high - low > 1) {
            uint64_t middle = low + (high - low) / 2;
            if (step_within(&costly[_i], is_token, middle) == STATUS_OK)
                high = middle;
            else
                low = middle;
        }
        ck_assert_int_eq(step_within(&costly[_i], is_token, high), STATUS_OK);
        ck_assert_int_eq(step_within(&costly[_i], is_token, high - 1), STATUS_LIMIT);
    }
}
END_TEST

/* All that may stand at the beginning is looked at before any text. */
START_TEST(what_a_grammar_begins_with_is_work_too) {
    enum { N = 600 };
    static char text[N * 48];
    strcpy(text, "root ::= r0");
    for (int i = 1; i < N; i++)
        snprintf(text + strlen(text), 24, " | r%d", i);
    for (int i = 0; i < N; i++)
        snprintf(text + strlen(text), 24, "\nr%d ::= \"%d\" \"a\"?", i, i);
    struct grammar_part part = {.kind = GRAMMAR_GBNF, .text = span_of(text)};
    struct grammar_limits limits = grammar_limits;
    struct grammar *grammar;
    struct error error = {0};
    limits.n_threads = N * 2;
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
    limits.n_steps = grammar_figures(grammar).n_steps;
    grammar_unref(grammar);
    ck_assert_uint_lt(limits.n_steps, N * N);
    ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "its beginning has too many readings"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, bounds_have_their_errors_at_n_and_n_plus_1);
    tcase_add_test(tests, a_reference_is_no_walk_through_the_schema);
    tcase_add_test(tests, uris_of_parts_are_counted);
    tcase_add_test(tests, a_catastrophic_pattern_ends_at_the_bound_of_memory);
    tcase_add_test(tests, frames_that_no_state_has_are_dropped);
    tcase_add_test(tests, threads_share_a_grammar);
    tcase_add_test(tests, too_many_readings_are_an_error);
    tcase_add_loop_test(tests, a_masks_work_has_a_bound_at_n_and_n_plus_1, 0, N_COSTLY);
    tcase_add_loop_test(tests, a_tokens_work_has_a_bound_at_n_and_n_plus_1, 0, N_COSTLY);
    tcase_add_test(tests, what_a_grammar_begins_with_is_work_too);
}
