/* Which ids no answer may hold. */
#include "model/text/textless.h"

#include "model/text/tokenizer/tokenizer.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model textless";
const double suite_timeout_s = 60;

/* "a", a gap, an unused token with a name, a normal token without bytes, an end, a byte. */
static void open_tokenizer(struct tokenizer *tokenizer) {
    static const struct span texts[] = {SPAN("a"), SPAN(""),      SPAN("[PAD2]"),
                                        SPAN(""),  SPAN("<end>"), SPAN("\n")};
    static const uint8_t kinds[] = {TOKEN_NORMAL, TOKEN_UNUSED,  TOKEN_UNUSED,
                                    TOKEN_NORMAL, TOKEN_CONTROL, TOKEN_BYTE};
    struct error error;
    memset(tokenizer, 0, sizeof *tokenizer);
    ck_assert_int_eq(vocabulary_init(&tokenizer->vocabulary, texts, kinds, NULL, 6, &error),
                     STATUS_OK);
}

static uint32_t find(uint32_t n_vocab, uint32_t end, struct interval **ids) {
    struct tokenizer tokenizer;
    uint32_t n = 99;
    open_tokenizer(&tokenizer);
    struct textless_model model = {n_vocab, 1, &end};
    ck_assert_int_eq(textless_find(&tokenizer, model, ids, &n), STATUS_OK);
    vocabulary_fini(&tokenizer.vocabulary);
    return n;
}

START_TEST(gaps_and_padding_are_textless_and_nothing_else) {
    struct interval *ids;
    ck_assert_uint_eq(find(9, 4, &ids), 2);
    ck_assert_uint_eq(ids[0].begin, 1);
    ck_assert_uint_eq(ids[0].end, 2);
    ck_assert_uint_eq(ids[1].begin, 6);
    ck_assert_uint_eq(ids[1].end, 9);
    for (uint32_t id = 0; id < 12; id++)
        ck_assert_int_eq(intervals_hold(ids, 2, id), id == 1 || (id >= 6 && id < 9));
    free(ids);
}
END_TEST

START_TEST(what_ends_an_answer_may_be_drawn_without_text) {
    struct interval *ids;
    ck_assert_uint_eq(find(9, 7, &ids), 3);
    ck_assert_uint_eq(ids[1].begin, 6);
    ck_assert_uint_eq(ids[1].end, 7);
    ck_assert_uint_eq(ids[2].begin, 8);
    ck_assert_uint_eq(ids[2].end, 9);
    free(ids);
    ck_assert_uint_eq(find(6, 1, &ids), 0);
    ck_assert_ptr_null(ids);
}
END_TEST

START_TEST(no_number_is_in_no_interval) {
    ck_assert(!intervals_hold(NULL, 0, 0));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, gaps_and_padding_are_textless_and_nothing_else);
    tcase_add_test(tests, what_ends_an_answer_may_be_drawn_without_text);
    tcase_add_test(tests, no_number_is_in_no_interval);
}
