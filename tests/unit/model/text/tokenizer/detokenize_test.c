#include "tests/support/suite.h"

#include "base/random.h"
#include "base/utf8.h"
#include "model/text/tokenizer/detokenize.h"

#include <string.h>

const char *const suite_name = "model_detokenize";
const double suite_timeout_s = 60;

/* `hash` has each byte as a token: any bytes can be fed. */
static struct tokenizer *tokenizer;

static void open_tokenizer(void) {
    struct error error;
    ck_assert_int_eq(tokenizer_open_hash(&tokenizer, &error), STATUS_OK);
}

static void close_tokenizer(void) {
    tokenizer_close(tokenizer);
}

static void push(struct detokenizer *detokenizer, unsigned char byte, struct buf *out) {
    ck_assert_int_eq(detokenizer_push(detokenizer, tokenizer, byte, out), STATUS_OK);
    ck_assert(utf8_valid(out->data ? out->data : "", out->n));
}

#define FFFD "\xef\xbf\xbd"

/* Expected texts are those of Python's bytes.decode("utf-8", "replace"). */
static const struct {
    const char *bytes;
    const char *text;
} cases[] = {
    {"", ""},
    {"plain", "plain"},
    {"caf\xc3\xa9", "caf\xc3\xa9"},
    {"\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!"},
    {"\xf0\x9f\x98", FFFD},
    {"\xf0\x9f\x98x", FFFD "x"},
    {"\xe2\x28\xa1", FFFD "(" FFFD},
    {"\xf0\x80\x80\x80", FFFD FFFD FFFD FFFD},
    {"\xed\xa0\x80", FFFD FFFD FFFD},
    {"\xc0\xaf", FFFD FFFD},
    {"\xff\xfe", FFFD FFFD},
    {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD},
    {"\x80\x80", FFFD FFFD},
    {"\xc3\xc3\xa9", FFFD "\xc3\xa9"},
    {"\xe4\xb8\xe4\xb8\xad", FFFD "\xe4\xb8\xad"},
    {"a\xe4\xb8", "a" FFFD},
};

START_TEST(bytes_one_by_one_give_what_all_at_once_would) {
    struct detokenizer detokenizer;
    struct buf out;
    detokenizer_init(&detokenizer, false);
    buf_init(&out, 0);
    for (size_t i = 0; i < strlen(cases[_i].bytes); i++)
        push(&detokenizer, (unsigned char)cases[_i].bytes[i], &out);
    ck_assert_int_eq(detokenizer_flush(&detokenizer, &out), STATUS_OK);
    ck_assert_str_eq(out.data ? out.data : "", cases[_i].text);
    buf_fini(&out);
}
END_TEST

START_TEST(cut_character_waits_for_its_end) {
    struct detokenizer detokenizer;
    struct buf out;
    detokenizer_init(&detokenizer, false);
    buf_init(&out, 0);
    push(&detokenizer, 0xf0, &out);
    push(&detokenizer, 0x9f, &out);
    push(&detokenizer, 0x98, &out);
    ck_assert_uint_eq(out.n, 0);
    struct detokenizer copy = detokenizer; /* a second stream goes on from here */
    push(&detokenizer, 0x80, &out);
    ck_assert_str_eq(out.data, "\xf0\x9f\x98\x80");
    buf_clear(&out);
    push(&copy, 0x81, &out);
    ck_assert_str_eq(out.data, "\xf0\x9f\x98\x81");
    buf_fini(&out);
}
END_TEST

START_TEST(random_bytes_always_give_valid_text_and_lose_no_valid_character) {
    struct random random = {.state = 3};
    for (int round = 0; round < 2000; round++) {
        struct detokenizer detokenizer;
        struct buf out;
        struct buf whole;
        detokenizer_init(&detokenizer, false);
        buf_init(&out, 0);
        buf_init(&whole, 0);
        for (int i = 0; i < 30; i++) {
            char bytes[4];
            unsigned n = 1;
            bytes[0] = (char)random_below(&random, 256);
            if (random_below(&random, 2) == 0)
                n = utf8_encode((uint32_t)random_below(&random, 0xd800), bytes);
            buf_append(&whole, bytes, n);
            for (unsigned j = 0; j < n; j++)
                push(&detokenizer, (unsigned char)bytes[j], &out);
        }
        ck_assert_int_eq(detokenizer_flush(&detokenizer, &out), STATUS_OK);
        /* Valid characters in order: the text without U+FFFD is the bytes without bad ones. */
        size_t at = 0;
        for (size_t i = 0; i < whole.n;) {
            uint32_t point;
            unsigned n = utf8_decode(whole.data + i, whole.n - i, &point);
            if (n == 0 || point == 0xfffd) {
                i += n == 0 ? 1 : n;
                continue;
            }
            while (out.n - at >= 3 && memcmp(out.data + at, FFFD, 3) == 0)
                at += 3;
            ck_assert_mem_eq(out.data + at, whole.data + i, n);
            at += n;
            i += n;
        }
        buf_fini(&out);
        buf_fini(&whole);
    }
}
END_TEST

START_TEST(unknown_id_is_refused) {
    struct detokenizer detokenizer;
    struct buf out;
    detokenizer_init(&detokenizer, false);
    buf_init(&out, 0);
    ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, 65536, &out), STATUS_INVALID);
    ck_assert_int_eq(detokenizer_push(&detokenizer, tokenizer, 0xabcd, &out), STATUS_OK);
    ck_assert_str_eq(out.data, "<abcd>");
    buf_fini(&out);
}
END_TEST

START_TEST(special_tokens_are_left_out_when_asked) {
    struct tokenizer *special;
    struct error error;
    struct span tokens[] = {SPAN("a"), SPAN("<s>"), SPAN("<u>")};
    struct tokenizer_source source = {.model = SPAN("gpt2"),
                                      .pre = SPAN("gpt-2"),
                                      .tokens.texts = tokens,
                                      .tokens.kinds = (const uint8_t[]){1, 3, 4},
                                      .tokens.n = 3,
                                      .tokens.bos_id = TOKEN_NONE,
                                      .tokens.eos_id = TOKEN_NONE};
    ck_assert_int_eq(tokenizer_open(&source, &special, &error), STATUS_OK);
    for (int skip = 0; skip < 2; skip++) {
        struct detokenizer detokenizer;
        struct buf out;
        detokenizer_init(&detokenizer, skip);
        buf_init(&out, 0);
        for (uint32_t id = 0; id < 3; id++)
            ck_assert_int_eq(detokenizer_push(&detokenizer, special, id, &out), STATUS_OK);
        ck_assert_str_eq(out.data, skip ? "a<u>" : "a<s><u>");
        buf_fini(&out);
    }
    tokenizer_close(special);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, open_tokenizer, close_tokenizer);
    tcase_add_loop_test(tests, bytes_one_by_one_give_what_all_at_once_would, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tests, cut_character_waits_for_its_end);
    tcase_add_test(tests, random_bytes_always_give_valid_text_and_lose_no_valid_character);
    tcase_add_test(tests, unknown_id_is_refused);
    tcase_add_test(tests, special_tokens_are_left_out_when_asked);
}
