/* What sequences may choose under their grammars, and the grammars that are kept for them. The engine
 * here is one that takes notes. */
#include "worker/step/constraint.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "model/model.h"
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "worker/core/engine.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *const suite_name = "worker constraint";
const double suite_timeout_s = 120;

enum { SLOTS = 8, ROWS = 2, N_VOCAB = TINY_N_VOCAB + 41, END = 258, WORDS = (N_VOCAB + 31) / 32 };

static struct {
    uint64_t serials[SLOTS]; /* who is in the slots */
    uint32_t n_looked;       /* who is in a slot was asked */
    uint32_t n_told;
    uint32_t slot;
    uint64_t serial;
    enum status status;
} told;

void engine_sequence(const struct engine *engine, uint32_t slot, uint32_t n_tokens,
                     struct sequence_view *view) {
    (void)engine;
    ck_assert_uint_eq(n_tokens, 0);
    told.n_looked++;
    *view = (struct sequence_view){.serial = told.serials[slot]};
}

void engine_constrained(struct engine *engine, uint64_t now_ns, uint32_t slot, uint64_t serial,
                        enum status status) {
    (void)engine, (void)now_ns;
    told.n_told++;
    told.slot = slot;
    told.serial = serial;
    told.status = status;
}

static struct constraint constraint;
static const uint32_t ends[] = {END, 1000000};

static void setup(void) {
    struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = "f32", .seed = 1});
    struct constraint_options options = {.max_rows = ROWS,
                                         .max_slots = SLOTS,
                                         .n_vocab = N_VOCAB,
                                         .n_ends = 2,
                                         .ends = ends,
                                         .tokenizer = model->tokenizer};
    model->tokenizer = NULL;
    model_close(model);
    memset(&told, 0, sizeof told);
    log_init("test", LOG_ERROR);
    ck_assert_int_eq(constraint_init(&constraint, &options), STATUS_OK);
}

static void teardown(void) {
    constraint_fini(&constraint);
}

static enum status open_regex(uint32_t slot, uint64_t serial, const char *regex,
                              const char *output) {
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = span_of(regex)};
    struct buf packed;
    uint32_t ids[300] = {7, 7, 7};
    uint32_t n = (uint32_t)strlen(output);
    for (uint32_t i = 0; i < n; i++)
        ids[3 + i] = (uint8_t)output[i];
    buf_init(&packed, 0);
    ck_assert_int_eq(grammar_pack(&part, &packed), STATUS_OK);
    struct submit submit = {.n_prompt = 3, .n_tokens = 3 + n, .tokens = ids};
    submit.sampling.grammar = (const uint8_t *)packed.data;
    submit.sampling.n_grammar = (uint32_t)packed.n;
    told.serials[slot] = serial;
    enum status status = constraint_open(&constraint, slot, serial, &submit);
    buf_fini(&packed);
    return status;
}

/* Waits for what is made. */
static void wait_for(uint32_t n_told) {
    while (told.n_told < n_told) {
        struct pollfd fd = {.fd = constraint_fd(&constraint), .events = POLLIN};
        ck_assert_int_eq(poll(&fd, 1, -1), 1);
        constraint_look(&constraint, NULL, 1);
    }
}

static void open_ready(uint32_t slot, uint64_t serial, const char *regex) {
    uint32_t n = told.n_told;
    if (open_regex(slot, serial, regex, "") == STATUS_OK)
        return;
    wait_for(n + 1);
    ck_assert_int_eq(told.status, STATUS_OK);
}

static struct sampling sampling;
static struct sample_params params;

/* Asks what may follow an output; the mask lies in params. */
static void mask(uint32_t slot, uint64_t serial, const char *output, bool ban_ends) {
    uint32_t ids[300] = {7, 7, 7};
    uint32_t n = (uint32_t)strlen(output);
    for (uint32_t i = 0; i < n; i++)
        ids[3 + i] = (uint8_t)output[i];
    struct sequence_view view = {.ids = ids,
                                 .n_tokens = 3 + n,
                                 .n_prompt = 3,
                                 .sampling = &sampling,
                                 .ban_ends = ban_ends,
                                 .serial = serial};
    constraint_mask(&constraint, 1, slot, &view, &params);
}

/* The ids that may follow an output, as letters; '$': the end. */
static const char *allowed(uint32_t slot, uint64_t serial, const char *output, bool ban_ends) {
    static char text[N_VOCAB + 1];
    uint32_t n_allowed = 0;
    mask(slot, serial, output, ban_ends);
    for (uint32_t id = 0; id < 32 * WORDS; id++)
        if (sampling_has_bit(params.allowed_bits, id)) {
            ck_assert(id < 128 || id == END);
            text[n_allowed++] = id == END ? '$' : (char)id;
        }
    text[n_allowed] = '\0';
    return text;
}

static void reset(void) {
    sampling_init(&sampling);
    memset(&params, 0, sizeof params);
}

START_TEST(a_state_follows_its_sequence_forwards_and_back) {
    char text[200] = "";
    reset();
    open_ready(2, 5, "([ab][cd]){2,80}");
    ck_assert_str_eq(allowed(2, 5, "", false), "ab");
    ck_assert_str_eq(allowed(2, 5, "a", false), "cd");
    ck_assert_str_eq(allowed(2, 5, "acb", false), "cd");
    ck_assert_str_eq(allowed(2, 5, "acbd", false), "ab$");
    ck_assert_str_eq(allowed(2, 5, "acb", false), "cd"); /* one back */
    ck_assert_str_eq(allowed(2, 5, "acbcbcbc", false), "ab$");
    for (int i = 0; i < 80; i++)
        strcat(text, "ac");
    ck_assert_str_eq(allowed(2, 5, text, false), "$"); /* nothing else */
    text[160 - GRAMMARS_BACK] = '\0';
    ck_assert_str_eq(allowed(2, 5, text, false), "ab$"); /* as far as it remembers, ... */
    ck_assert_uint_eq(constraint.slots[2].n_followed, 160 - GRAMMARS_BACK);
    text[3] = '\0';
    ck_assert_str_eq(allowed(2, 5, text, false), "cd"); /* ... and further */
    ck_assert_str_eq(allowed(2, 5, "", false), "ab");
    ck_assert_str_eq(allowed(2, 6, "", false), ""); /* not this sequence's */
}
END_TEST

START_TEST(ids_that_are_no_text_of_the_grammar_leave_nothing) {
    reset();
    open_ready(0, 1, "[ab]{1,9}");
    ck_assert_str_eq(allowed(0, 1, "ab", false), "ab$");
    ck_assert_str_eq(allowed(0, 1, "abz", false), "");
    ck_assert_str_eq(allowed(0, 1, "abza", false), "");
    ck_assert_str_eq(allowed(0, 1, "a", false), "ab$"); /* taken back */
}
END_TEST

START_TEST(ends_come_where_the_text_is_whole_and_need_not_go_on) {
    static const uint32_t stop[] = {'x', 'b'};
    static const uint32_t only_c[] = {'c'};
    static const struct interval a_is_barred[] = {{'a', 'b'}};
    reset();
    open_ready(0, 1, "[ab]{1,3}");
    ck_assert_str_eq(allowed(0, 1, "", false), "ab");
    ck_assert_str_eq(allowed(0, 1, "a", false), "ab$");
    ck_assert_str_eq(allowed(0, 1, "a", true), "ab"); /* min_tokens */
    ck_assert_str_eq(allowed(0, 1, "aaa", true), "$");
    sampling.ignore_eos = true;
    ck_assert_str_eq(allowed(0, 1, "a", false), "ab");
    ck_assert_str_eq(allowed(0, 1, "aaa", false), "$");
    sampling.ignore_eos = false;
    sampling.n_stop_ids = 2;
    sampling.stop_ids = stop;
    ck_assert_str_eq(allowed(0, 1, "", false), "ab"); /* the text's own */
    ck_assert_str_eq(allowed(0, 1, "a", false), "abx$");
    ck_assert_str_eq(allowed(0, 1, "a", true), "a");
    ck_assert_str_eq(allowed(0, 1, "aaa", true), "$");
    params.n_barred = 1; /* what is left after bans, barred and allowed ids decides */
    params.barred = a_is_barred;
    ck_assert_str_eq(allowed(0, 1, "a", true), "a$");
    params.n_barred = 0;
    params.n_allowed = 1;
    params.allowed_ids = only_c;
    ck_assert_str_eq(allowed(0, 1, "a", true), "a$");
    sampling.n_stop_ids = 0;
    sampling.ignore_eos = true;
    ck_assert_str_eq(allowed(0, 1, "aaa", false), "$");
}
END_TEST

/* A letter that ends an answer is no text of it, whatever the grammar says; a request may name it as its own. */
START_TEST(each_end_of_several_is_put_and_before_those_of_the_request) {
    static const uint32_t several[] = {END, 'q', 1000000}, stop[] = {'q'};
    reset();
    constraint.options.ends = several;
    constraint.options.n_ends = 3;
    open_ready(0, 1, "[pq]{1,3}");
    ck_assert_str_eq(allowed(0, 1, "", false), "p");
    ck_assert_str_eq(allowed(0, 1, "p", false), "pq$");
    ck_assert_str_eq(allowed(0, 1, "p", true), "p");
    ck_assert_str_eq(allowed(0, 1, "ppp", true), "q$"); /* nothing else is left */
    sampling.ignore_eos = true;
    ck_assert_str_eq(allowed(0, 1, "p", false), "p");
    sampling.n_stop_ids = 1;
    sampling.stop_ids = stop;
    ck_assert_str_eq(allowed(0, 1, "", false), "p");
    ck_assert_str_eq(allowed(0, 1, "p", false), "pq");
}
END_TEST

START_TEST(a_grammar_is_made_once_and_its_waiters_are_told_in_turn) {
    reset();
    for (uint32_t slot = 0; slot < 4; slot++)
        ck_assert_int_eq(open_regex(slot, 10 + slot, "[ab]{3}", "a"), STATUS_BUSY);
    wait_for(4);
    struct grammars_figures figures = constraint.grammars.figures;
    ck_assert_uint_eq(figures.n_asked, 4);
    ck_assert_uint_eq(figures.n_hits, 3);
    ck_assert_uint_eq(figures.n_compiled, 1);
    ck_assert_uint_gt(figures.compile_ns, 0);
    ck_assert_int_eq(open_regex(4, 20, "[ab]{3}", "ab"), STATUS_OK); /* at once */
    for (uint32_t slot = 0; slot < 5; slot++)
        ck_assert_str_eq(allowed(slot, slot < 4 ? 10 + slot : 20, slot < 4 ? "a" : "ab", false),
                         "ab");
    struct pollfd fd = {.fd = constraint_fd(&constraint), .events = POLLIN};
    ck_assert_int_eq(poll(&fd, 1, 0), 0); /* nothing more to tell */
}
END_TEST

/* A long output is followed by the maker: n where its user does, n + 1. */
START_TEST(a_long_output_is_followed_beside_the_engine) {
    char text[GRAMMARS_INLINE + 2];
    reset();
    open_ready(0, 1, "a{0,100}");
    memset(text, 'a', sizeof text);
    text[GRAMMARS_INLINE] = '\0';
    ck_assert_int_eq(open_regex(1, 2, "a{0,100}", text), STATUS_OK);
    text[GRAMMARS_INLINE] = 'a';
    text[GRAMMARS_INLINE + 1] = '\0';
    uint32_t n = told.n_told;
    ck_assert_int_eq(open_regex(2, 3, "a{0,100}", text), STATUS_BUSY);
    wait_for(n + 1);
    ck_assert_int_eq(told.status, STATUS_OK);
    ck_assert_uint_eq(constraint.slots[2].n_followed, GRAMMARS_INLINE + 1);
    ck_assert_str_eq(allowed(2, 3, text, false), "a$");
    ck_assert_int_eq(open_regex(3, 4, "b{0,100}", text), STATUS_BUSY);
    wait_for(n + 2);
    ck_assert_int_eq(told.status, STATUS_CONFLICT);
    ck_assert_uint_eq(told.slot, 3);
    ck_assert_uint_eq(told.serial, 4);
}
END_TEST

START_TEST(what_cannot_be_compiled_is_told_and_tried_again) {
    reset();
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(open_regex(0, 1 + i, "(", ""), STATUS_BUSY);
        wait_for(1 + i);
        ck_assert_int_eq(told.status, STATUS_INVALID);
        ck_assert_uint_eq(constraint.grammars.figures.n_kept, 0);
        ck_assert_uint_eq(constraint.grammars.figures.n_hits, 0);
    }
    for (uint32_t slot = 0; slot < 3; slot++) /* three at once wait for the same */
        ck_assert_int_eq(open_regex(slot, 10 + slot, ")", ""), STATUS_BUSY);
    wait_for(6);
    ck_assert_uint_eq(constraint.grammars.figures.n_kept, 0);
    ck_assert_uint_eq(constraint.grammars.n_jobs, 0);
}
END_TEST

/* The masks of a form cost what its sequence has saved up: who has costly ones all the time ends, the others do not. */
START_TEST(masks_that_cost_much_all_the_time_end_their_sequence) {
    static const char *const forms[][2] = {{"[ -~]*x(?:[ -~][ -~]){200}(?:", ")"},
                                           {"[!-~]*a(?:[!-~][!-~]){250}(?:", ")"},
                                           {"(?:[ -~]*x(?:[ -~][ -~]){150}(?:", ")){1,9}"}};
    /* Many bytes that lead to places of their own. */
    static const char tail[] = "b1|c2|d3|e4|f5|g6|h7|i8|j9|k0|l_|m-|n=|o;|p,|q:|r<|s>|t@|u#|v%|w&";
    static const char letters[] = "axaaxxaxxxaaaxaxaaaaxaxaxxx";
    char text[290] = "", form[200];
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t n = 0;
        reset();
        snprintf(form, sizeof form, "%s%s%s", forms[i][0], tail, forms[i][1]);
        open_ready(0, 1 + i, form);
        const struct constrained *at = &constraint.slots[0];
        uint64_t n_first = at->n_steps;
        for (text[0] = '\0'; n < 280 && !at->is_lost; text[n] = '\0') {
            mask(0, 1 + i, text, false);
            ck_assert_uint_le(at->n_steps, n_first);
            text[n] = letters[(n * n + n / 5) % (sizeof letters - 1)];
            n++;
        }
        ck_assert_uint_lt(n, 280);
        ck_assert_str_eq(allowed(0, 1 + i, text, false), "");
    }
    open_ready(1, 9, "[ax]{1,299}");
    text[0] = '\0';
    for (uint32_t n = 0; n < 280; text[++n] = '\0') {
        ck_assert_str_eq(allowed(1, 9, text, false), n > 0 ? "ax$" : "ax");
        text[n] = letters[n % (sizeof letters - 1)];
    }
}
END_TEST

/* Bounds: compiled grammars, their bytes, what is under way. */
START_TEST(grammars_that_were_not_asked_for_the_longest_leave) {
    char regex[16];
    reset();
    constraint.grammars.options.n_kept_max = 3;
    for (int i = 0; i < 3; i++) {
        snprintf(regex, sizeof regex, "%c", 'a' + i);
        open_ready(0, 1 + (uint64_t)i, regex);
    }
    ck_assert_uint_eq(constraint.grammars.figures.n_kept, 3);
    ck_assert_int_eq(open_regex(1, 9, "a", ""), STATUS_OK); /* b is the oldest now */
    open_ready(2, 10, "d");
    ck_assert_uint_eq(constraint.grammars.figures.n_kept, 3);
    ck_assert_int_eq(open_regex(3, 11, "a", ""), STATUS_OK);
    ck_assert_int_eq(open_regex(3, 12, "c", ""), STATUS_OK);
    ck_assert_int_eq(open_regex(3, 13, "b", ""), STATUS_BUSY);
    wait_for(5);
    constraint.grammars.options.n_bytes_max = 1;
    ck_assert_int_eq(open_regex(4, 14, "e", ""), STATUS_BUSY);
    wait_for(6);
    ck_assert_uint_eq(constraint.grammars.figures.n_kept, 1);
    ck_assert_str_eq(allowed(1, 9, "", false), "a"); /* those in use live on */
    ck_assert_str_eq(allowed(4, 14, "", false), "e");
}
END_TEST

START_TEST(what_is_under_way_has_a_bound) {
    reset();
    uint32_t most = constraint.grammars.options.n_jobs_max;
    ck_assert_uint_eq(most, 2 * SLOTS);
    for (uint32_t i = 0; i < most; i++)
        ck_assert_int_eq(open_regex(i % SLOTS, 1 + i, "a", ""), STATUS_BUSY);
    ck_assert_int_eq(open_regex(0, 1 + most, "a", ""), STATUS_NOMEM);
    wait_for(SLOTS - 1); /* the others' sequences are gone */
    while (constraint.grammars.n_jobs > 0) {
        struct pollfd fd = {.fd = constraint_fd(&constraint), .events = POLLIN};
        ck_assert_int_ge(poll(&fd, 1, 10), 0);
        constraint_look(&constraint, NULL, 1);
    }
    ck_assert_uint_eq(constraint.grammars.n_jobs, 0);
    ck_assert_int_eq(open_regex(0, 99, "a", ""), STATUS_OK);
}
END_TEST

START_TEST(what_sequences_leave_behind_is_let_go_within_a_second) {
    reset();
    open_ready(0, 1, "a");
    open_ready(1, 2, "b");
    told.serials[0] = 0;
    uint64_t at_ns = constraint.swept_ns + NS_PER_S;
    constraint_look(&constraint, NULL, at_ns - 1);
    ck_assert_uint_eq(constraint.n_open, 2);
    constraint_look(&constraint, NULL, at_ns);
    ck_assert_uint_eq(constraint.n_open, 1);
    ck_assert_ptr_null(constraint.slots[0].state);
    ck_assert_ptr_nonnull(constraint.slots[1].state);
    uint32_t n_looked = told.n_looked;
    constraint_look(&constraint, NULL, at_ns + NS_PER_S - 1); /* once in a second */
    ck_assert_uint_eq(told.n_looked, n_looked);
}
END_TEST

START_TEST(what_it_opened_is_closed) {
    reset();
    open_ready(0, 1, "a");
    int fd = constraint_fd(&constraint);
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
    constraint_fini(&constraint);
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
    ck_assert_int_eq(constraint_fd(&constraint), -1);
}
END_TEST

static const char *next_regex(void) {
    static char regex[16];
    static unsigned n;
    snprintf(regex, sizeof regex, "%03u", n++);
    return regex;
}

/* How many are kept behind the next, which comes when there are eight and this is the bound. */
static uint32_t n_kept_within(size_t n_bytes) {
    constraint.grammars.options.n_bytes_max = SIZE_MAX;
    while (constraint.grammars.figures.n_kept < 8)
        open_ready(0, 1, next_regex());
    constraint.grammars.options.n_bytes_max = n_bytes;
    open_ready(0, 1, next_regex());
    return constraint.grammars.figures.n_kept;
}

START_TEST(only_so_many_leave_that_the_others_bytes_are_within_the_bound) {
    size_t n_bytes = 64;
    reset();
    while (n_kept_within(n_bytes) == 1) {
        n_bytes *= 2;
        ck_assert_uint_lt(n_bytes, (size_t)1 << 28);
    }
    ck_assert_uint_eq(constraint.grammars.figures.n_kept, 2); /* one fits, two do not */
    ck_assert_uint_ge(n_kept_within(2 * n_bytes), 3);
    ck_assert_uint_le(constraint.grammars.figures.n_kept, 4);
}
END_TEST

START_TEST(without_a_descriptor_there_are_no_grammars) {
    const struct grammars_options options = {.n_kept_max = 1, .n_bytes_max = 1};
    struct grammars grammars;
    struct rlimit before, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = STDERR_FILENO + 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum status status = grammars_open(&grammars, &options);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(status, STATUS_IO);
}
END_TEST

/* The thread may be anywhere in its work. */
START_TEST(it_ends_with_jobs_under_way) {
    reset();
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        char regex[40];
        snprintf(regex, sizeof regex, "([a-z]{1,%u}x){1,20}", 20 + slot);
        ck_assert_int_eq(open_regex(slot, 1 + slot, regex, ""), STATUS_BUSY);
    }
    for (int i = 0; i < _i; i++)
        wait_for((uint32_t)_i);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_state_follows_its_sequence_forwards_and_back);
    tcase_add_test(tests, ids_that_are_no_text_of_the_grammar_leave_nothing);
    tcase_add_test(tests, ends_come_where_the_text_is_whole_and_need_not_go_on);
    tcase_add_test(tests, each_end_of_several_is_put_and_before_those_of_the_request);
    tcase_add_test(tests, a_grammar_is_made_once_and_its_waiters_are_told_in_turn);
    tcase_add_test(tests, a_long_output_is_followed_beside_the_engine);
    tcase_add_test(tests, what_cannot_be_compiled_is_told_and_tried_again);
    tcase_add_test(tests, masks_that_cost_much_all_the_time_end_their_sequence);
    tcase_add_test(tests, grammars_that_were_not_asked_for_the_longest_leave);
    tcase_add_test(tests, what_is_under_way_has_a_bound);
    tcase_add_test(tests, what_sequences_leave_behind_is_let_go_within_a_second);
    tcase_add_test(tests, what_it_opened_is_closed);
    tcase_add_test(tests, only_so_many_leave_that_the_others_bytes_are_within_the_bound);
    tcase_add_test(tests, without_a_descriptor_there_are_no_grammars);
    tcase_add_loop_test(tests, it_ends_with_jobs_under_way, 0, 4);
}
