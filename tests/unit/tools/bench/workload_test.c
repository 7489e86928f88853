#include "tests/support/suite.h"

#include "tools/bench/core/answer.h"
#include "tools/bench/core/workload.h"

#include <jansson.h>
#include <string.h>

const char *const suite_name = "bench_workload";
const double suite_timeout_s = 60;

static const struct ask_form chat = {
    .model = "m \"1\"", .role = "user", .chat = true, .stream = true, .ignore_eos = true};

static json_t *body_of(const struct workload *workload, const struct ask_form *form,
                       uint64_t serial, uint32_t n_prompt) {
    struct ask ask = {.n_prompt = n_prompt, .n_output = 7, .serial = serial};
    struct buf out;
    buf_init(&out, 0);
    workload_body(workload, form, &ask, &out);
    json_t *root = json_loadb(out.data, out.n, 0, NULL);
    ck_assert_ptr_nonnull(root);
    buf_fini(&out);
    return root;
}

static unsigned count_words(const char *text) {
    unsigned n = 1;
    for (; *text; text++)
        n += *text == ' ';
    return n;
}

START_TEST(a_chat_asks_for_what_the_form_says) {
    struct workload workload = {.seed = 3, .words_per_token = 0.5, .overhead = 4};
    json_t *root = body_of(&workload, &chat, 1, 24);
    json_t *message = json_array_get(json_object_get(root, "messages"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(root, "model")), "m \"1\"");
    ck_assert_str_eq(json_string_value(json_object_get(message, "role")), "user");
    /* 24 tokens less the chat format's 4, at half a word each. */
    ck_assert_uint_eq(count_words(json_string_value(json_object_get(message, "content"))), 10);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "max_tokens")), 7);
    ck_assert(json_is_true(json_object_get(root, "ignore_eos")));
    ck_assert(
        json_is_true(json_object_get(json_object_get(root, "stream_options"), "include_usage")));
    json_decref(root);
}
END_TEST

START_TEST(prompts_differ_by_serial_and_repeat_by_seed) {
    struct workload workload = {.seed = 3};
    struct buf a, b, again;
    buf_init(&a, 0);
    buf_init(&b, 0);
    buf_init(&again, 0);
    workload_prompt(&workload, 1, 40, &a);
    workload_prompt(&workload, 2, 40, &b);
    workload_prompt(&workload, 1, 40, &again);
    ck_assert_str_ne(a.data, b.data);
    ck_assert_str_eq(a.data, again.data);
    workload.n_shared = 30;
    buf_clear(&a);
    buf_clear(&b);
    workload_prompt(&workload, 1, 40, &a);
    workload_prompt(&workload, 2, 40, &b);
    unsigned n_words = 0;
    for (size_t i = 0; a.data[i] == b.data[i]; i++)
        n_words += a.data[i] == ' ';
    ck_assert_uint_ge(n_words, 30);
    ck_assert_str_ne(a.data, b.data);
    buf_fini(&a);
    buf_fini(&b);
    buf_fini(&again);
}
END_TEST

START_TEST(ids_are_as_many_as_asked_and_within_the_vocabulary) {
    struct workload workload = {
        .source = SOURCE_IDS, .seed = 3, .n_vocabulary = 1000, .n_shared = 20};
    struct ask_form form = chat;
    form.chat = false;
    json_t *a = body_of(&workload, &form, 1, 100), *b = body_of(&workload, &form, 2, 100);
    json_t *ids = json_object_get(a, "prompt"), *others = json_object_get(b, "prompt");
    ck_assert_uint_eq(json_array_size(ids), 100);
    unsigned n_same = 0;
    for (unsigned i = 0; i < 100; i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));
        bool same = json_integer_value(json_array_get(others, i)) == id;
        ck_assert(id >= 256 && id < 1000);
        ck_assert(i >= 20 || same);
        n_same += same;
    }
    ck_assert_uint_lt(n_same, 30);
    json_decref(a);
    json_decref(b);
}
END_TEST

START_TEST(texts_are_cut_to_their_words_with_a_nonce_in_front) {
    char text[] = "a b\tc \"quoted\"\nd";
    char *texts[] = {text};
    struct workload workload = {
        .source = SOURCE_TEXTS, .seed = 3, .texts = texts, .n_texts = 1, .repeats = true};
    json_t *root = body_of(&workload, &chat, 1, 12); /* longer than the text: it repeats */
    json_t *message = json_array_get(json_object_get(root, "messages"), 0);
    const char *content = json_string_value(json_object_get(message, "content"));
    ck_assert_uint_eq(count_words(content), 12);
    ck_assert_ptr_nonnull(strstr(content, "\"quoted\" d a b c"));
    json_decref(root);
    workload.repeats = false;
    root = body_of(&workload, &chat, 1, 12);
    message = json_array_get(json_object_get(root, "messages"), 0);
    content = json_string_value(json_object_get(message, "content"));
    ck_assert_uint_eq(count_words(content), 12);
    const char *at = content;
    for (int i = 0; i < 8; i++) {
        ck_assert(at[0] != '"' && at[1] != ' '); /* no word of the text */
        at = strchr(at, ' ') + 1;
    }
    ck_assert_uint_eq(count_words(at), 4);
    ck_assert(strchr("abcd\"", *at) != NULL);
    json_decref(root);
}
END_TEST

static enum fault fault_of(const char *line) {
    struct answer answer = {.model = "m"};
    struct event events[2];
    enum fault fault;
    unsigned n = answer_line(&answer, line, strlen(line), events, &fault);
    ck_assert(fault == FAULT_NONE || n == 0);
    return fault;
}

START_TEST(lines_of_an_answer_become_events) {
    struct answer answer = {.model = "org/m"};
    struct event events[2];
    enum fault fault;
#define LINE(text) answer_line(&answer, text, strlen(text), events, &fault)
    ck_assert_uint_eq(LINE("{\"model\":\"org/m-1\",\"choices\":[{\"delta\":{\"role\":\"assistant\","
                           "\"content\":\"\"},\"finish_reason\":null}]}"),
                      1);
    ck_assert_int_eq(events[0].chunk, CHUNK_BARE);
    ck_assert_int_eq(events[0].finish, FINISH_NONE);
    ck_assert_uint_eq(LINE("{\"choices\": [{\"delta\": {\"content\": \"x\"}}], \"usage\": null}"),
                      1);
    ck_assert_int_eq(events[0].chunk, CHUNK_TEXT);
    ck_assert_uint_eq(LINE("{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"length\"}],"
                           "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\": 6,"
                           "\"prompt_tokens_details\":{\"cached_tokens\":4}}}"),
                      2);
    ck_assert_int_eq(events[0].chunk, CHUNK_TEXT);
    ck_assert_int_eq(events[0].finish, FINISH_LENGTH);
    ck_assert_uint_eq(events[1].n_prompt, 5);
    ck_assert_uint_eq(events[1].n_output, 6);
    ck_assert_uint_eq(events[1].n_cached, 4);
    ck_assert_uint_eq(LINE("{\"choices\":[],\"usage\":{\"prompt_tokens\":5}}"), 1);
    ck_assert_int_eq(events[0].kind, EVENT_USAGE);
    ck_assert(!answer.is_done);
    ck_assert_uint_eq(LINE("[DONE]"), 0);
    ck_assert(answer.is_done && fault == FAULT_NONE);
}
END_TEST

START_TEST(broken_lines_have_their_faults) {
    ck_assert_int_eq(fault_of("{\"choices\":[{"), FAULT_MALFORMED);
    ck_assert_int_eq(fault_of("hello"), FAULT_MALFORMED);
    ck_assert_int_eq(fault_of(""), FAULT_MALFORMED);
    ck_assert_int_eq(fault_of("{\"error\":{\"message\":\"x\"}}"), FAULT_EVENT);
    ck_assert_int_eq(fault_of("{\"model\":\"other\",\"choices\":[]}"), FAULT_MODEL);
    ck_assert_int_eq(fault_of("{\"model\":\"m\",\"choices\":[]}"), FAULT_NONE);
    ck_assert_int_eq(fault_of("{\"choices\":[{\"delta\":{\"content\":\"\\\"error\\\"\"}}]}"),
                     FAULT_NONE);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_chat_asks_for_what_the_form_says);
    tcase_add_test(tests, prompts_differ_by_serial_and_repeat_by_seed);
    tcase_add_test(tests, ids_are_as_many_as_asked_and_within_the_vocabulary);
    tcase_add_test(tests, texts_are_cut_to_their_words_with_a_nonce_in_front);
    tcase_add_test(tests, lines_of_an_answer_become_events);
    tcase_add_test(tests, broken_lines_have_their_faults);
}
