/* Cuts: the steps of tokenizer.json, and the lists that GGUF files name. */
#include "tests/support/suite.h"

#include "base/random.h"
#include "model/text/tokenizer/bpe/pretokenize.h"
#include "model/text/tokenizer/bpe/pretokenize_names.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "model_pretokenize";
const double suite_timeout_s = 60;

/* Pieces as one text, with a bar behind each. */
static enum status write_piece(void *context, struct span piece) {
    struct buf *out = context;
    buf_append(out, piece.bytes, piece.n);
    buf_putc(out, '|');
    return STATUS_OK;
}

static void cut(const struct pretokenizer *pretokenizer, struct span text, struct buf *out) {
    struct pretokenize_scratch scratch;
    ck_assert_int_eq(pretokenize_scratch_init(&scratch), STATUS_OK);
    ck_assert_int_eq(pretokenize(pretokenizer, &scratch, text, true, write_piece, out), STATUS_OK);
    pretokenize_scratch_fini(&scratch);
}

static void expect(const struct pretokenizer *pretokenizer, const char *text, const char *wanted) {
    struct buf out;
    buf_init(&out, 0);
    cut(pretokenizer, (struct span){text, strlen(text)}, &out);
    ck_assert_str_eq(out.data ? out.data : "", wanted);
    buf_fini(&out);
}

static void open_named(struct pretokenizer *pretokenizer, const char *name) {
    struct error error;
    const struct pretokenize_name *row = pretokenize_find((struct span){name, strlen(name)});
    ck_assert_ptr_nonnull(row);
    ck_assert_msg(pretokenizer_init(pretokenizer, row, &error) == STATUS_OK, "%s", error.text);
}

START_TEST(every_behaviour_cuts_as_it_says) {
    static const struct {
        enum pretokenize_cut cut;
        bool is_inverted;
        const char *wanted;
    } rows[] = {
        {CUT_ISOLATED, false, "-|-|ab|-|c|-|"},      {CUT_REMOVED, false, "ab|c|"},
        {CUT_MERGED_PREVIOUS, false, "-|-|ab-|c-|"}, {CUT_MERGED_NEXT, false, "-|-ab|-c|-|"},
        {CUT_CONTIGUOUS, false, "--|ab|-|c|-|"},     {CUT_REMOVED, true, "-|-|-|-|"},
        {CUT_MERGED_NEXT, true, "-|-|ab-|c-|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pretokenizer pretokenizer = {0};
        struct error error;
        ck_assert_int_eq(pretokenizer_add_split(&pretokenizer, SPAN("-"), true, rows[i].cut,
                                                rows[i].is_inverted, &error),
                         STATUS_OK);
        expect(&pretokenizer, "--ab-c-", rows[i].wanted);
        expect(&pretokenizer, "", "");
        pretokenizer_fini(&pretokenizer);
    }
}
END_TEST

START_TEST(matches_of_nothing_cut_too) {
    struct pretokenizer pretokenizer = {0};
    struct error error;
    ck_assert_int_eq(pretokenizer_add_split(&pretokenizer, SPAN("(?=(\\d{3})+(?!\\d))"), false,
                                            CUT_ISOLATED, false, &error),
                     STATUS_OK);
    expect(&pretokenizer, "1234567", "1|234|567|");
    expect(&pretokenizer, "x123 4567\n", "x|123 4|567\n|");
    pretokenizer_fini(&pretokenizer);
}
END_TEST

START_TEST(steps_behind_byte_level_see_its_alphabet) {
    struct pretokenizer pretokenizer = {0};
    struct error error;
    ck_assert_int_eq(pretokenizer_add_byte_level(&pretokenizer, false, true, &error), STATUS_OK);
    ck_assert_int_eq(
        pretokenizer_add_split(&pretokenizer, SPAN("\\p{N}"), false, CUT_ISOLATED, false, &error),
        STATUS_OK);
    /* Of U+1F32's bytes the alphabet writes two as a quarter and a superscript two: numbers. */
    expect(&pretokenizer, "a 1\xe1\xbc\xb2", "a| |1|\xe1|\xbc|\xb2|");
    ck_assert_int_eq(pretokenizer_add_byte_level(&pretokenizer, false, true, &error),
                     STATUS_UNSUPPORTED);
    pretokenizer_fini(&pretokenizer);
}
END_TEST

START_TEST(metaspace_marks_blanks_and_beginnings) {
    static const struct {
        enum pretokenize_prepend prepend;
        bool split;
        const char *text;
        const char *wanted;
    } rows[] = {
        {PREPEND_ALWAYS, true, "a  b", "\u2581a|\u2581|\u2581b|"},
        {PREPEND_ALWAYS, true, " a", "\u2581a|"},
        {PREPEND_FIRST, false, "a b ", "\u2581a\u2581b\u2581|"},
        {PREPEND_NEVER, true, "a b", "a|\u2581b|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pretokenizer pretokenizer = {0};
        struct error error;
        ck_assert_int_eq(pretokenizer_add_metaspace(&pretokenizer, SPAN("\u2581"), rows[i].prepend,
                                                    rows[i].split, &error),
                         STATUS_OK);
        expect(&pretokenizer, rows[i].text, rows[i].wanted);
        pretokenizer_fini(&pretokenizer);
    }
}
END_TEST

/* The definition of smollm: numbers alone, GPT-2's pattern on what lies between. */
START_TEST(smollm_cuts_numbers_off_first) {
    static const char *const parts[] = {
        "a",  "Z",  "0", "12",  " ",   "  ",           "\t",
        "\n", "'s", "'", "'ll", "!?",  "\xc3\xa9",     "\r\n",
        "7",  "_",  "x", "'re", "   ", "\xe2\x80\x83", "\xe4\xb8\xad"};
    struct pretokenizer smollm;
    struct pretokenizer gpt2;
    struct random random = {.state = 5};
    open_named(&smollm, "smollm");
    open_named(&gpt2, "gpt-2");
    for (int round = 0; round < 500; round++) {
        char text[128] = "";
        struct buf wanted;
        buf_init(&wanted, 0);
        size_t n_parts = 1 + (size_t)random_below(&random, 20);
        for (size_t i = 0; i < n_parts; i++)
            strcat(text, parts[random_below(&random, sizeof parts / sizeof *parts)]);
        for (char *at = text; *at;) {
            size_t n = strcspn(at, "0123456789");
            cut(&gpt2, (struct span){at, n}, &wanted);
            if (at[n])
                buf_printf(&wanted, "%c|", at[n]);
            at += n + (at[n] != 0);
        }
        expect(&smollm, text, wanted.data);
        buf_fini(&wanted);
    }
    pretokenizer_fini(&gpt2);
    pretokenizer_fini(&smollm);
}
END_TEST

/* Without the system's leave to run made code the interpreter must give the same pieces. */
START_TEST(interpreter_cuts_as_compiled_code_does) {
    static const char text[] = "Don't  12 caf\xc3\xa9's\n\n x\t9 \xe4\xb8\xad\xe6\x96\x87!!";
    struct pretokenizer pretokenizer;
    struct buf fast;
    buf_init(&fast, 0);
    open_named(&pretokenizer, "qwen2");
    cut(&pretokenizer, SPAN(text), &fast);
    for (uint32_t i = 0; i < pretokenizer.n_steps; i++)
        pretokenizer.steps[i].regex.is_jit = false;
    expect(&pretokenizer, text, fast.data);
    buf_fini(&fast);
    pretokenizer_fini(&pretokenizer);
}
END_TEST

START_TEST(names_cut_as_their_models_do) {
    static const char *const rows[][3] = {
        {"qwen2", "I'LL see 12!\n\n  x", "I|'LL| see| |1|2|!\n\n| | x|"},
        {"llama-bpe", "1234 ab", "123|4| ab|"},
        {"deepseek-llm", "ab 12  ", "ab| |1|2|  |"},
        {"falcon", "a12345.,", "a|123|45|.,|"},
        {"gpt-4o", "HelloWORLDabc", "Hello|WORLDabc|"},
        {"deepseek-v3", "12345\u4e2d\u6587x.y", "123|45|\u4e2d\u6587|x|.y|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pretokenizer pretokenizer;
        open_named(&pretokenizer, rows[i][0]);
        expect(&pretokenizer, rows[i][1], rows[i][2]);
        pretokenizer_fini(&pretokenizer);
    }
    ck_assert_ptr_null(pretokenize_find(SPAN("unheard-of")));
    ck_assert_ptr_null(pretokenize_find(SPAN("qwen2 deepseek-r1-qwen")));
    ck_assert_ptr_null(pretokenize_find(SPAN("")));
}
END_TEST

/* The dialect: what is rewritten for PCRE2, and what is refused by its name. */
START_TEST(patterns_mean_what_they_mean_in_ruby) {
    static const struct {
        const char *pattern;
        const char *text;
        const char *wanted; /* NULL: refused */
    } rows[] = {
        {"\\s+", "a\u180e b", "a\u180e| |b|"}, /* U+180E is not a space */
        {"[^\\s]+", "a\u180e b", "a\u180e| |b|"},
        {"\\h+", "xfaceg", "x|face|g|"}, /* hex digits */
        {"a{2}", "aaaa", "aa|aa|"},
        {"a{,2}b", "aab{,2}", "aab|{,2}|"}, /* at most two */
        {"x{", "ax{b", "a|x{|b|"},
        {"$", "a\nb", "a|\nb|"}, /* ends of lines */
        {"\\w+", "a\u0301-b\u203fc", "a\u0301|-|b\u203fc|"},
        {"\\b", "ab cd", "ab| |cd|"},
        {"\\p{Han}+", "a\u4e2d\u3001", "a|\u4e2d|\u3001|"}, /* the script, not its extensions */
        {"\\p{^L}+", "a12b", "a|12|b|"},
        {"\\u0041", "AB", "A|B|"},
        {"(?i:k)", "K\u212a", "K|\u212a|"},
        {"a{2}+", "aa", NULL},
        {"[a&&b]", "a", NULL},
        {" ?[^(\\s|[.,!])]+", "ab.c (d", "ab|.|c| (|d|"}, /* Bloom's */
        {"[a[b]]", "abc", "a|b|c|"},
        {"[a[^b]]", "a", NULL},
        {"[a[b]", "a", NULL},
        {"[a-[b]]", "a", NULL},
        {"[[a]-z]", "a", NULL},
        {"(*SKIP)", "a", NULL},
        {"\\K", "a", NULL},
        {"(?R)", "a", NULL},
        {"\\p{Nonsense}", "a", NULL},
        {"(", "a", NULL},
        {"[a", "a", NULL},
        {"\\", "a", NULL},
        {"\\xff", "a", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pretokenizer pretokenizer = {0};
        struct error error;
        struct span pattern = {rows[i].pattern, strlen(rows[i].pattern)};
        enum status status =
            pretokenizer_add_split(&pretokenizer, pattern, false, CUT_ISOLATED, false, &error);
        if (rows[i].wanted) {
            ck_assert_msg(status == STATUS_OK, "%s", error.text);
            expect(&pretokenizer, rows[i].text, rows[i].wanted);
        } else {
            ck_assert_msg(status == STATUS_UNSUPPORTED, "\"%s\" was taken", rows[i].pattern);
        }
        pretokenizer_fini(&pretokenizer);
    }
}
END_TEST

START_TEST(a_pattern_that_never_ends_is_stopped) {
    struct pretokenizer pretokenizer = {0};
    struct pretokenize_scratch scratch;
    struct error error;
    struct buf out;
    char text[64];
    memset(text, 'a', sizeof text);
    buf_init(&out, 0);
    ck_assert_int_eq(pretokenize_scratch_init(&scratch), STATUS_OK);
    ck_assert_int_eq(pretokenizer_add_split(&pretokenizer, SPAN("(a|aa|a.)+[bc]"), false,
                                            CUT_ISOLATED, false, &error),
                     STATUS_OK);
    ck_assert_int_eq(pretokenize(&pretokenizer, &scratch, (struct span){text, sizeof text}, true,
                                 write_piece, &out),
                     STATUS_INVALID);
    pretokenize_scratch_fini(&scratch);
    pretokenizer_fini(&pretokenizer);
    buf_fini(&out);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, every_behaviour_cuts_as_it_says);
    tcase_add_test(tests, matches_of_nothing_cut_too);
    tcase_add_test(tests, steps_behind_byte_level_see_its_alphabet);
    tcase_add_test(tests, metaspace_marks_blanks_and_beginnings);
    tcase_add_test(tests, smollm_cuts_numbers_off_first);
    tcase_add_test(tests, interpreter_cuts_as_compiled_code_does);
    tcase_add_test(tests, names_cut_as_their_models_do);
    tcase_add_test(tests, patterns_mean_what_they_mean_in_ruby);
    tcase_add_test(tests, a_pattern_that_never_ends_is_stopped);
}
