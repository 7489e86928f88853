/* What matching in a text may cost: patterns without bound end in an error, those of real
 * tokenizers are far below the limit on any normal text.
 *
 * The processor's time is made of PCRE2's own steps here, which are the same on every machine: an automatic callout before
 * each item of a pattern counts it, and the bytes that were read for the one before. */
#include "model/text/tokenizer/bpe/regex.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/utf8.h"
#include "model/text/tokenizer/bpe/pretokenize.h"
#include "model/text/tokenizer/bpe/pretokenize_names.h"
#include "tests/support/suite.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

const char *const suite_name = "model_regex";
const double suite_timeout_s = 240;

enum { N_BYTES = 1 << 17, ITEM_NS = 20 };

static uint64_t work_ns, work_ns_max = UINT64_MAX;

static int on_item(pcre2_callout_block *block, void *user) {
    static size_t last;
    size_t at = block->current_position;
    (void)user;
    if (at == block->start_match) /* the text, or the place in it, may be another one */
        last = at;
    work_ns += ITEM_NS + (at > last ? at - last : last - at);
    last = at;
    if (work_ns > work_ns_max)
        ck_abort_msg("matching goes on after its time");
    return 0;
}

uint64_t __wrap_clock_thread_cpu_ns(void);
uint64_t __wrap_clock_coarse_ns(void);
pcre2_code *__real_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t options, int *code,
                                   PCRE2_SIZE *at, pcre2_compile_context *context);
pcre2_code *__wrap_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t options, int *code,
                                   PCRE2_SIZE *at, pcre2_compile_context *context);
pcre2_match_context *__real_pcre2_match_context_create_8(pcre2_general_context *general);
pcre2_match_context *__wrap_pcre2_match_context_create_8(pcre2_general_context *general);

uint64_t __wrap_clock_thread_cpu_ns(void) {
    return work_ns;
}

uint64_t __wrap_clock_coarse_ns(void) {
    return work_ns;
}

pcre2_code *__wrap_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t options, int *code,
                                   PCRE2_SIZE *at, pcre2_compile_context *context) {
    return __real_pcre2_compile_8(pattern, n, options | PCRE2_AUTO_CALLOUT, code, at, context);
}

pcre2_match_context *__wrap_pcre2_match_context_create_8(pcre2_general_context *general) {
    pcre2_match_context *context = __real_pcre2_match_context_create_8(general);
    if (context)
        pcre2_set_callout(context, on_item, NULL);
    return context;
}

static void open_regex(struct regex *regex, struct regex_scratch *scratch, const char *pattern) {
    struct error error;
    ck_assert_msg(regex_init(regex, (struct span){pattern, strlen(pattern)}, false, &error) ==
                      STATUS_OK,
                  "%s", error.text);
    ck_assert_int_eq(regex_scratch_init(scratch), STATUS_OK);
}

/* Walks over all matches; the status of the end. */
static enum status walk(const struct regex *regex, struct regex_scratch *scratch, struct span text,
                        unsigned *n_matches) {
    struct regex_cursor cursor = {0};
    size_t begin, end;
    enum status status;
    *n_matches = 0;
    while ((status = regex_next(regex, scratch, text, &cursor, &begin, &end)) == STATUS_OK)
        ++*n_matches;
    return status;
}

static const char *const bombs[] = {"a*a*a*a*b|a", "(a+)\\1+b|a", "(a|aa)+b|a", "(?=(a+)+b)|a"};

START_TEST(pattern_without_bound_ends_within_the_texts_time) {
    static char text[100000];
    struct regex regex;
    struct regex_scratch scratch;
    unsigned n;
    memset(text, 'a', sizeof text);
    for (unsigned is_jit = 0; is_jit < 2; is_jit++) {
        open_regex(&regex, &scratch, bombs[_i]);
        regex.is_jit = regex.is_jit && is_jit;
        ck_assert_int_eq(walk(&regex, &scratch, SPAN("aaaaaab"), &n), STATUS_NOT_FOUND);
        regex_scratch_begin(&scratch);
        if (_i > 0)
            scratch.cpu_ns_max = NS_PER_S / 10; /* to save time */
        uint64_t begin_ns = work_ns;
        work_ns_max = begin_ns + 5 * NS_PER_S;
        ck_assert_int_eq(walk(&regex, &scratch, (struct span){text, sizeof text}, &n),
                         STATUS_INVALID);
        printf("%-14s %s: refused after %u matches, %.2f s\n", bombs[_i],
               is_jit ? "compiled" : "interpreted", n, (double)(work_ns - begin_ns) / 1e9);
        regex_scratch_fini(&scratch);
        regex_fini(&regex);
    }
}
END_TEST

START_TEST(time_is_the_texts_however_it_is_cut) {
    static char text[300];
    struct regex regex;
    struct regex_scratch scratch;
    unsigned n, n_cuts = 0;
    memset(text, 'a', sizeof text);
    open_regex(&regex, &scratch, "a*a*[bc]");
    while (walk(&regex, &scratch, (struct span){text, sizeof text}, &n) == STATUS_NOT_FOUND &&
           n_cuts < 1000)
        n_cuts++;
    ck_assert_uint_gt(n_cuts, 0);
    ck_assert_uint_lt(n_cuts, 1000);
    ck_assert_int_eq(walk(&regex, &scratch, (struct span){text, sizeof text}, &n), STATUS_INVALID);
    regex_scratch_begin(&scratch);
    ck_assert_int_eq(walk(&regex, &scratch, SPAN("aaaaab"), &n), STATUS_NOT_FOUND);
    ck_assert_uint_eq(n, 1); /* the next text has its own */
    regex_scratch_fini(&scratch);
    regex_fini(&regex);
}
END_TEST

/* Windows of places, and the steps in them, change nothing of what is found. */
START_TEST(every_match_is_found_wherever_it_begins) {
    static const char *const patterns[] = {"b",          "(?<=a{3})b", "a*a*b", "\u00e9|b",
                                           "(?<!a)b|c$", "b*",         "\\bb"};
    struct random random = {.state = 9};
    for (unsigned i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct regex regex;
        struct regex_scratch scratch;
        open_regex(&regex, &scratch, patterns[i]);
        for (unsigned round = 0; round < 5; round++) {
            struct buf text, whole, parts;
            unsigned n_matches;
            buf_init(&text, 0);
            buf_init(&whole, 0);
            buf_init(&parts, 0);
            for (unsigned gap = 0; gap < 20; gap++) {
                for (uint64_t n = random_below(&random, gap % 5 == 0 ? 9000 : 9); n > 0; n--)
                    buf_printf(&text, "%s", random_below(&random, 50) ? "a" : "\u00e9");
                buf_printf(&text, "\u00e9b");
            }
            struct span span = {text.data, text.n};
            ck_assert_int_eq(walk(&regex, &scratch, span, &n_matches), STATUS_NOT_FOUND);
            regex_scratch_begin(&scratch);
            ck_assert_int_eq(regex_replace(&regex, &scratch, span, SPAN("|"), &whole), STATUS_OK);
            unsigned n_bars = 0;
            for (size_t at = 0; at < whole.n; at++)
                n_bars += whole.data[at] == '|';
            ck_assert_uint_eq(n_bars, n_matches);
            if (i == 0)
                ck_assert_uint_eq(n_matches, 20);
            regex.is_jit = false; /* the interpreter finds the same */
            regex_scratch_begin(&scratch);
            ck_assert_int_eq(regex_replace(&regex, &scratch, span, SPAN("|"), &parts), STATUS_OK);
            ck_assert_uint_eq(parts.n, whole.n);
            ck_assert_mem_eq(parts.data, whole.data, whole.n);
            regex.is_jit = true;
            buf_fini(&text);
            buf_fini(&whole);
            buf_fini(&parts);
        }
        regex_scratch_fini(&scratch);
        regex_fini(&regex);
    }
}
END_TEST

static enum status ignore_piece(void *context, struct span piece) {
    *(size_t *)context += piece.n;
    return STATUS_OK;
}

static void add_file(struct buf *text, const char *path) {
    struct error error;
    ck_assert_msg(file_read(path, N_BYTES, text, &error) == STATUS_OK, "%s", error.text);
}

static void make_prose(struct buf *text, struct random *random) {
    (void)random;
    add_file(text, SOURCE_DIR "/ARCHITECTURE.md");
    add_file(text, SOURCE_DIR "/docs/http-api.md");
}

static void make_code(struct buf *text, struct random *random) {
    (void)random;
    add_file(text, SOURCE_DIR "/model/text/tokenizer/bpe/pretokenize.c");
    add_file(text, SOURCE_DIR "/tests/e2e/tp_test.py");
    add_file(text, SOURCE_DIR "/proto/message.def");
}

static void make_chinese(struct buf *text, struct random *random) {
    char bytes[4];
    for (unsigned i = 0; i < 10000; i++)
        buf_append(text, bytes,
                   utf8_encode(0x4e00 + (uint32_t)random_below(random, 0x51a5), bytes));
    buf_append(text, "\u3002\n", 4);
}

static void make_digits(struct buf *text, struct random *random) {
    for (unsigned i = 0; i < 2000; i++)
        buf_printf(text, "%s%u.%03u,", i % 10 == 0 ? "\n" : "\t",
                   (unsigned)random_below(random, 1000000), (unsigned)random_below(random, 1000));
}

static void make_blanks(struct buf *text, struct random *random) {
    for (unsigned i = 0; i < 100; i++)
        buf_printf(text, "%*s\n", (int)random_below(random, 500), i % 3 == 0 ? "x" : "");
}

static void make_base64(struct buf *text, struct random *random) {
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (unsigned i = 0; i < 8000; i++)
        buf_putc(text, alphabet[random_below(random, 64)]);
}

static void make_one_letter(struct buf *text, struct random *random) {
    (void)random;
    for (unsigned i = 0; i < 8000; i++)
        buf_putc(text, 'a');
}

static void make_emoji(struct buf *text, struct random *random) {
    char bytes[4];
    for (unsigned i = 0; i < 5000; i++) {
        buf_append(text, bytes, utf8_encode(0x1f300 + (uint32_t)random_below(random, 700), bytes));
        if (i % 20 == 0)
            buf_append(text, "\u200d!?...", 8);
    }
}

static const struct {
    const char *name;
    void (*make)(struct buf *text, struct random *random);
} texts[] = {{"prose", make_prose},        {"code", make_code},     {"chinese", make_chinese},
             {"digits", make_digits},      {"blanks", make_blanks}, {"base64", make_base64},
             {"letters", make_one_letter}, {"emoji", make_emoji}};

static const char *const names[] = {
    "gpt-2",     "mpt",    "smollm", "command-r", "llama-bpe",    "dbrx",        "qwen2",
    "stablelm2", "qwen35", "falcon", "default",   "deepseek-llm", "deepseek-v3", "deepseek-coder",
    "bloom",     "viking", "tekken", "gpt-4o",    "superbpe"};

static uint64_t time_of(const char *name, struct span text) {
    struct pretokenizer pretokenizer;
    struct pretokenize_scratch scratch;
    struct error error;
    size_t n_bytes = 0;
    const struct pretokenize_name *row = pretokenize_find((struct span){name, strlen(name)});
    ck_assert_ptr_nonnull(row);
    ck_assert_int_eq(pretokenizer_init(&pretokenizer, row, &error), STATUS_OK);
    ck_assert_int_eq(pretokenize_scratch_init(&scratch), STATUS_OK);
    regex_scratch_begin(&scratch.regex);
    uint64_t begin_ns = work_ns, before_ns = scratch.regex.cpu_ns_max;
    ck_assert_int_eq(pretokenize(&pretokenizer, &scratch, text, true, ignore_piece, &n_bytes),
                     STATUS_OK);
    ck_assert_uint_eq(n_bytes, text.n);
    uint64_t cpu_ns = work_ns - begin_ns;
    ck_assert_uint_lt(cpu_ns, (scratch.regex.cpu_ns_max - before_ns) / 2);
    pretokenize_scratch_fini(&scratch);
    pretokenizer_fini(&pretokenizer);
    return cpu_ns;
}

START_TEST(patterns_of_real_tokenizers_are_far_below_the_limit) {
    struct buf text;
    struct random random = {.state = 3};
    buf_init(&text, 0);
    while (text.n < N_BYTES)
        texts[_i].make(&text, &random);
    struct span span = {text.data, text.n};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t cpu_ns = time_of(names[i], span);
        printf("%-8s %-15s %4u ns a byte\n", texts[_i].name, names[i], (unsigned)(cpu_ns / text.n));
    }
    buf_fini(&text);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, pattern_without_bound_ends_within_the_texts_time, 0,
                        sizeof bombs / sizeof *bombs);
    tcase_add_test(tests, time_is_the_texts_however_it_is_cut);
    tcase_add_test(tests, every_match_is_found_wherever_it_begins);
    tcase_add_loop_test(tests, patterns_of_real_tokenizers_are_far_below_the_limit, 0,
                        sizeof texts / sizeof *texts);
}
