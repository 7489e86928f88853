/* Whole words on the lines of a terminal, however the text is cut. */
#include "tests/support/suite.h"

#include "tools/cli/chat/wrap.h"

#include <locale.h>
#include <string.h>

const char *const suite_name = "chat_wrap";
const double suite_timeout_s = 60;

/* What text in pieces of `n_piece` bytes comes to. */
static const char *wrapped(const char *text, unsigned width, size_t n_piece, struct buf *out) {
    struct wrap wrap = {.width = width};
    size_t n = strlen(text);
    buf_clear(out);
    for (size_t at = 0; at < n; at += n_piece)
        wrap_feed(&wrap, text + at, n - at < n_piece ? n - at : n_piece, out);
    wrap_end(&wrap, out);
    ck_assert_uint_eq(wrap.column + wrap.blanks + wrap.n_word, 0);
    buf_putc(out, '\0');
    return out->data;
}

START_TEST(words_are_whole_and_all_there) {
    static const struct {
        const char *text;
        unsigned width;
        const char *shown;
    } cases[] = {
        {"one two three", 0, "one two three"},
        {"one two three", 13, "one two three"},
        {"one two three", 12, "one two\nthree"},
        {"one two three", 7, "one two\nthree"},
        {"one two three", 6, "one\ntwo\nthree"},
        {"one  two", 7, "one\ntwo"}, /* the blanks where a line is broken go */
        {"one  two", 8, "one  two"},
        {"a\n\n    b c", 7, "a\n\n    b c"}, /* the blanks at a line's begin stay */
        {"a\n\n    b c", 6, "a\n\n    b\nc"},
        {"abcdefghij kl", 4, "abcdefghij\nkl"}, /* longer than a line: the terminal breaks it */
        {"x abcdefghij", 4, "x\nabcdefghij"},
        {"h\xc3\xa9 h\xc3\xa9 h\xc3\xa9", 5,
         "h\xc3\xa9 h\xc3\xa9\nh\xc3\xa9"},                             /* columns, no bytes */
        {"\xe7\x8b\x97 \xe7\x8b\x97", 4, "\xe7\x8b\x97\n\xe7\x8b\x97"}, /* two columns each */
        {"a \xff\xfe\xf0", 3, "a\n\xff\xfe\xf0"},
        {"end  ", 80, "end"},
        {"", 80, ""},
    };
    struct buf out;
    setlocale(LC_CTYPE, "C.UTF-8");
    buf_init(&out, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n_piece = 1; n_piece <= 14; n_piece++)
            ck_assert_str_eq(wrapped(cases[i].text, cases[i].width, n_piece, &out), cases[i].shown);
    buf_fini(&out);
}
END_TEST

/* A word is held only while it may have to go to the next line. */
START_TEST(text_comes_as_soon_as_its_place_is_known) {
    struct wrap wrap = {.width = 8};
    struct buf out;
    buf_init(&out, 0);
    wrap_feed(&wrap, "abc", 3, &out);
    ck_assert_uint_eq(out.n, 3); /* at the begin of a line: at once */
    wrap_feed(&wrap, " defg", 5, &out);
    ck_assert_uint_eq(out.n, 3); /* it fits so far */
    wrap_feed(&wrap, "h", 1, &out);
    ck_assert_uint_eq(out.n, 9); /* no more: a line of its own, */
    wrap_feed(&wrap, "ij", 2, &out);
    ck_assert_uint_eq(out.n, 11); /* where it goes on at once */
    ck_assert_int_eq(memcmp(out.data, "abc\ndefghij", 11), 0);
    buf_fini(&out);
}
END_TEST

/* Without an end of a word: all of it is there, and no more than WRAP_WORD_MAX bytes are held. */
START_TEST(a_word_without_an_end_is_not_held) {
    static char word[3 * WRAP_WORD_MAX];
    memset(word, 'x', sizeof word);
    for (unsigned width = 0; width <= 5000; width += 2500) {
        struct wrap wrap = {.width = width};
        struct buf out;
        buf_init(&out, 0);
        wrap_feed(&wrap, "a ", 2, &out);
        wrap_feed(&wrap, word, WRAP_WORD_MAX - 1, &out);
        ck_assert_uint_eq(out.n, width > 0 ? 1 : 2 + WRAP_WORD_MAX - 1);
        wrap_feed(&wrap, word, 1, &out);
        ck_assert_uint_eq(out.n, 2 + WRAP_WORD_MAX);
        buf_fini(&out);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, words_are_whole_and_all_there);
    tcase_add_test(tests, text_comes_as_soon_as_its_place_is_known);
    tcase_add_test(tests, a_word_without_an_end_is_not_held);
}
