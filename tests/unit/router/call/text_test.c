#include "model/model.h"
#include "model/text/tokenizer/tokenizer.h"
#include "router/call/text.h"
#include "tests/support/suite.h"

#include <string.h>

const char *const suite_name = "router_text";
const double suite_timeout_s = 60;

static const struct text_reading with_ends = {.add_special = true},
                                 plain_text = {.add_special = false},
                                 with_both = {.add_special = true, .parse_special = true},
                                 special_alone = {.parse_special = true};

static struct model *model;
static struct text *text;
static struct text_stream stream;
static struct text_stops stops;
static struct span strings[4];
static struct buf out;

static void set_up(void) {
    struct error error;
    ck_assert_int_eq(model_open("hash", NULL, &model, &error), STATUS_OK);
    ck_assert_int_eq(text_new(model, 5, &text), STATUS_OK);
    stops = (struct text_stops){.strings = strings};
    buf_init(&out, 0);
}

static void tear_down(void) {
    text_stream_fini(&stream);
    buf_fini(&out);
    text_free(text);
    model_close(model);
}

static void begin(const char *const *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        strings[i] = (struct span){list[i], strlen(list[i])};
    stops.n = n;
    text_stream_init(&stream, text, &stops, true);
}

/* Pushes bytes as tokens until one matches; answers the match and how many were taken. */
static int push(const char *bytes, size_t *n_taken) {
    int matched = -1;
    size_t i = 0;
    for (; bytes[i] && matched < 0; i++)
        ck_assert_int_eq(text_stream_push(&stream, (unsigned char)bytes[i], &out, &matched),
                         STATUS_OK);
    if (n_taken)
        *n_taken = i;
    return matched;
}

static const char *said(void) {
    return out.n > 0 ? out.data : "";
}

START_TEST(without_stops_text_flows_at_once) {
    begin(NULL, 0);
    ck_assert_int_eq(push("h\xe2\x82", NULL), -1);
    ck_assert_str_eq(said(), "h"); /* a cut character waits */
    ck_assert_int_eq(push("\xac", NULL), -1);
    ck_assert_str_eq(said(), "h\xe2\x82\xac");
    ck_assert_int_eq(push("\xe2", NULL), -1);
    ck_assert_int_eq(text_stream_end(&stream, &out), STATUS_OK);
    ck_assert_str_eq(said(), "h\xe2\x82\xac\xef\xbf\xbd");
}
END_TEST

START_TEST(a_stop_string_over_many_tokens_never_leaks) {
    static const char *const list[] = {"STOP"};
    begin(list, 1);
    size_t n;
    ck_assert_int_eq(push("abST", NULL), -1);
    ck_assert_str_eq(said(), "ab");
    ck_assert_int_eq(push("STxSTOPyy", &n), 0);
    ck_assert_str_eq(said(), "abSTSTx");
    ck_assert_uint_eq(n, 7); /* what follows the match is never pushed, nor counted */
}
END_TEST

START_TEST(a_held_beginning_is_released_when_it_is_none) {
    static const char *const list[] = {"aab"};
    begin(list, 1);
    ck_assert_int_eq(push("aaa", NULL), -1);
    ck_assert_str_eq(said(), "a");
    ck_assert_int_eq(push("c", NULL), -1);
    ck_assert_str_eq(said(), "aaac");
    ck_assert_int_eq(push("aa", NULL), -1);
    ck_assert_int_eq(text_stream_end(&stream, &out), STATUS_OK);
    ck_assert_str_eq(said(), "aaacaa");
}
END_TEST

START_TEST(the_first_of_several_stops_wins) {
    static const char *const list[] = {"xyz", "yz", "\n\n", "<12"};
    begin(list, 4);
    ck_assert_int_eq(push("axyz", NULL), 0);
    ck_assert_str_eq(said(), "a");
    buf_clear(&out);
    text_stream_fini(&stream);
    begin(list, 4);
    ck_assert_int_eq(push("ayz", NULL), 1);
    ck_assert_str_eq(said(), "a");
    buf_clear(&out);
    text_stream_fini(&stream);
    begin(list, 4);
    int matched;
    ck_assert_int_eq(text_stream_push(&stream, 0x1234, &out, &matched), STATUS_OK);
    ck_assert_int_eq(matched, 3); /* in the middle of a token's text: what follows is dropped */
    ck_assert_str_eq(said(), "");
}
END_TEST

START_TEST(a_stop_can_be_part_of_the_text) {
    static const char *const list[] = {"END"};
    stops.include_stop = true;
    begin(list, 1);
    ck_assert_int_eq(push("oneEND", NULL), 0);
    ck_assert_str_eq(said(), "oneEND");
}
END_TEST

START_TEST(no_string_ends_an_answer_before_its_minimum) {
    static const char *const list[] = {"ab"};
    stops.n_min = 4;
    begin(list, 1);
    size_t n;
    ck_assert_int_eq(push("ababab", &n), 0);
    ck_assert_uint_eq(n, 6);
    ck_assert_str_eq(said(), "abab");
}
END_TEST

START_TEST(an_empty_line_of_metadata_is_no_part_of_the_answer) {
    static const struct {
        const char *tokens, *text, *kept;
    } cases[] = {{"\n Hello", "Hello", "\nHello"},
                 {"\nHello\n\nyou", "Hello\n\nyou", "\nHello\n\nyou"},
                 {"get_weather\n{}", "get_weather\n{}", "get_weather\n{}"},
                 {"\n\n", "\n", "\n\n"},
                 {" \nx", " \nx", " \nx"},
                 {"\n  ", "", "\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t k = 0; k < 4; k++) {
            static const char *const list[] = {"zz"};
            const bool keeps_line = k >= 2;
            begin(list, k % 2);
            text_stream_skip_metadata(&stream, keeps_line);
            buf_clear(&out);
            ck_assert_int_eq(push(cases[i].tokens, NULL), -1);
            ck_assert_int_eq(text_stream_end(&stream, &out), STATUS_OK);
            ck_assert_str_eq(said(), keeps_line ? cases[i].kept : cases[i].text);
            text_stream_fini(&stream);
        }
    begin(NULL, 0);
}
END_TEST

START_TEST(an_id_beyond_the_vocabulary_writes_nothing) {
    int matched;
    begin(NULL, 0);
    ck_assert_int_eq(push("a", NULL), -1);
    ck_assert_int_eq(text_stream_push(&stream, 65536, &out, &matched), STATUS_OK);
    ck_assert_int_eq(matched, -1);
    ck_assert_int_eq(push("b", NULL), -1);
    ck_assert_str_eq(said(), "ab");
}
END_TEST

START_TEST(prompts_become_ids_and_blocks_become_hashes) {
    struct ids ids;
    struct error error;
    ids_init(&ids, 1000);
    ck_assert_int_eq(
        text_encode(text, SPAN("0123456789abcdef0123456789abcdefX"), with_ends, &ids, &error),
        STATUS_OK);
    ck_assert_uint_eq(ids.n, 33);
    struct map_key hashes[2], salted[2];
    ck_assert_uint_eq(text_hash(text, 0, ids.at, ids.n, hashes), 2);
    uint64_t salt = text_salt(text, SPAN("tenant"));
    ck_assert(salt != 0 && text_salt(text, (struct span){0}) == 0);
    ck_assert_uint_eq(text_hash(text, salt, ids.at, ids.n, salted), 2);
    ck_assert(!map_key_equal(hashes[0], salted[0]) && !map_key_equal(hashes[0], hashes[1]));
    ids_clear(&ids);
    struct template_message message = {.role = TEMPLATE_USER, .content = SPAN("hi")};
    struct template_input input = {
        .messages = &message, .n_messages = 1, .add_generation_prompt = true};
    ck_assert_int_eq(text_encode_chat(text, &input, false, &ids, NULL, &error), STATUS_OK);
    ck_assert_uint_gt(ids.n, 2);
    ids_fini(&ids);
}
END_TEST

static void expect_chat(const struct ids *wanted, uint32_t first) {
    struct template_message message = {.role = TEMPLATE_USER, .content = SPAN("hi")};
    struct template_input input = {
        .messages = &message, .n_messages = 1, .add_generation_prompt = true};
    struct ids ids;
    struct error error;
    ids_init(&ids, 1000);
    ck_assert_int_eq(text_encode_chat(text, &input, true, &ids, NULL, &error), STATUS_OK);
    size_t n_first = first != TOKEN_NONE;
    ck_assert_uint_eq(ids.n, wanted->n + n_first);
    ck_assert(n_first == 0 || ids.at[0] == first);
    ck_assert_mem_eq(ids.at + n_first, wanted->at, wanted->n * sizeof *wanted->at);
    ids_fini(&ids);
}

/* The template begins with "<|": two tokens of this model. */
START_TEST(what_a_template_writes_first_is_not_put_before_it_again) {
    static const struct {
        struct tokenizer_ends before;
        uint32_t first; /* what is added to the template's own, or TOKEN_NONE */
    } rows[] = {
        {{.ids = {'<', '|'}, .n = 2}, TOKEN_NONE},
        {{.ids = {'<'}, .n = 1}, TOKEN_NONE},
        {{.ids = {7, '<'}, .n = 2}, 7},
        {{.ids = {7, '<', '|'}, .n = 3}, 7},
        {{.ids = {7}, .n = 1}, 7},
    };
    struct template_message message = {.role = TEMPLATE_USER, .content = SPAN("hi")};
    struct template_input input = {
        .messages = &message, .n_messages = 1, .add_generation_prompt = true};
    struct error error;
    struct ids plain;
    ids_init(&plain, 1000);
    ck_assert_int_eq(text_encode_chat(text, &input, false, &plain, NULL, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model->tokenizer->before = rows[i].before;
        expect_chat(&plain, rows[i].first);
    }
    ids_fini(&plain);
}
END_TEST

START_TEST(raw_prompts_get_all_that_stands_around_a_text) {
    struct error error;
    struct ids ids;
    model->tokenizer->before = (struct tokenizer_ends){.ids = {500, 501}, .n = 2};
    model->tokenizer->behind = (struct tokenizer_ends){.ids = {502}, .n = 1};
    ids_init(&ids, 4);
    ck_assert_int_eq(text_encode(text, SPAN("a"), with_ends, &ids, &error), STATUS_OK);
    ck_assert_uint_eq(ids.n, 4);
    ck_assert_uint_eq(ids.at[0], 500);
    ck_assert_uint_eq(ids.at[1], 501);
    ck_assert_uint_eq(ids.at[2], 'a');
    ck_assert_uint_eq(ids.at[3], 502);
    ids_clear(&ids);
    ck_assert_int_eq(text_encode(text, SPAN("ab"), with_ends, &ids, &error), STATUS_LIMIT);
    ck_assert_uint_eq(ids.n, 0);
    ck_assert_int_eq(text_encode(text, SPAN("a"), plain_text, &ids, &error), STATUS_OK);
    ck_assert_uint_eq(ids.n, 1);
    /* Whether special tokens in it are special changes nothing of that. */
    ids_clear(&ids);
    ck_assert_int_eq(text_encode(text, SPAN("a"), with_both, &ids, &error), STATUS_OK);
    ck_assert_uint_eq(ids.n, 4);
    ids_clear(&ids);
    ck_assert_int_eq(text_encode(text, SPAN("a"), special_alone, &ids, &error), STATUS_OK);
    ck_assert_uint_eq(ids.n, 1);
    ids_fini(&ids);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, without_stops_text_flows_at_once);
    tcase_add_test(tests, a_stop_string_over_many_tokens_never_leaks);
    tcase_add_test(tests, a_held_beginning_is_released_when_it_is_none);
    tcase_add_test(tests, the_first_of_several_stops_wins);
    tcase_add_test(tests, a_stop_can_be_part_of_the_text);
    tcase_add_test(tests, no_string_ends_an_answer_before_its_minimum);
    tcase_add_test(tests, an_empty_line_of_metadata_is_no_part_of_the_answer);
    tcase_add_test(tests, an_id_beyond_the_vocabulary_writes_nothing);
    tcase_add_test(tests, prompts_become_ids_and_blocks_become_hashes);
    tcase_add_test(tests, what_a_template_writes_first_is_not_put_before_it_again);
    tcase_add_test(tests, raw_prompts_get_all_that_stands_around_a_text);
}
