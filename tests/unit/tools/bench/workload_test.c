#include "tests/support/suite.h"

#include "tools/bench/core/answer.h"
#include "tools/bench/core/schedule.h"
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
    struct workload workload = {.seed = 3, .overhead = 4};
    uint32_t costs[WORDS_N];
    for (unsigned i = 0; i < WORDS_N; i++)
        costs[i] = 2;
    words_init(&workload.words, costs);
    json_t *root = body_of(&workload, &chat, 1, 24);
    json_t *message = json_array_get(json_object_get(root, "messages"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(root, "model")), "m \"1\"");
    ck_assert_str_eq(json_string_value(json_object_get(message, "role")), "user");
    /* 24 tokens less the chat format's 4, at two for a word. */
    ck_assert_uint_eq(count_words(json_string_value(json_object_get(message, "content"))), 10);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "max_tokens")), 7);
    ck_assert(json_is_true(json_object_get(root, "ignore_eos")));
    ck_assert(
        json_is_true(json_object_get(json_object_get(root, "stream_options"), "include_usage")));
    json_decref(root);
}
END_TEST

START_TEST(native_apis_are_asked_as_the_published_program_did) {
    struct workload workload = {.seed = 3};
    struct ask_form form = {.model = "m", .native = NATIVE_VLLM, .chat = true};
    words_init(&workload.words, NULL);
    ck_assert_str_eq(ask_path(&form), "/generate");
    json_t *root = body_of(&workload, &form, 1, 5);
    json_t *wanted =
        json_pack("{s:O,s:i,s:i,s:b,s:f,s:f,s:i,s:b,s:b}", "prompt",
                  json_object_get(root, "prompt"), "n", 1, "best_of", 1, "use_beam_search", 0,
                  "temperature", 1.0, "top_p", 1.0, "max_tokens", 7, "ignore_eos", 1, "stream", 0);
    ck_assert_uint_eq(count_words(json_string_value(json_object_get(root, "prompt"))), 5);
    ck_assert(json_equal(root, wanted));
    json_decref(wanted);
    json_decref(root);
    form.native = NATIVE_TGI;
    root = body_of(&workload, &form, 1, 5);
    wanted =
        json_pack("{s:O,s:{s:i,s:i,s:b,s:b}}", "inputs", json_object_get(root, "inputs"),
                  "parameters", "best_of", 1, "max_new_tokens", 7, "do_sample", 1, "details", 1);
    ck_assert_uint_eq(count_words(json_string_value(json_object_get(root, "inputs"))), 5);
    ck_assert(json_equal(root, wanted));
    json_decref(wanted);
    json_decref(root);
}
END_TEST

static void put_prompt(const struct workload *workload, uint64_t serial, uint32_t n_tokens,
                       struct buf *out) {
    struct ask ask = {.serial = serial, .n_prompt = n_tokens};
    buf_clear(out);
    workload_prompt(workload, &ask, out);
}

START_TEST(prompts_differ_by_serial_and_repeat_by_seed) {
    struct workload workload = {.seed = 3};
    words_init(&workload.words, NULL);
    struct buf a, b, again;
    buf_init(&a, 0);
    buf_init(&b, 0);
    buf_init(&again, 0);
    put_prompt(&workload, 1, 40, &a);
    put_prompt(&workload, 2, 40, &b);
    put_prompt(&workload, 1, 40, &again);
    ck_assert_str_ne(a.data, b.data);
    ck_assert_str_eq(a.data, again.data);
    workload.n_shared = 30;
    put_prompt(&workload, 1, 40, &a);
    put_prompt(&workload, 2, 40, &b);
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

/* As the hash model counts: a token for each byte, the blank in front included. */
static void words_by_bytes(struct words *words) {
    uint32_t costs[WORDS_N];
    for (unsigned i = 0; i < WORDS_N; i++)
        costs[i] = (uint32_t)strlen(words_text(i)) + 1;
    words_init(words, costs);
}

START_TEST(prompts_have_the_tokens_asked_for_whatever_a_word_costs) {
    struct workload workload = {.seed = 3, .overhead = 21};
    struct buf out;
    buf_init(&out, 0);
    words_by_bytes(&workload.words);
    /* The overhead counts the first word's blank, which is not there. */
    for (uint32_t n = 40; n < 400; n++) {
        put_prompt(&workload, n, n, &out);
        ck_assert_uint_eq(out.n + 1 + 21, n);
    }
    /* No words have 5 bytes together after "the": " of" leaves 2. Fewer are made, not more. */
    workload.overhead = 0;
    put_prompt(&workload, 1, 4 + 5, &out);
    ck_assert_uint_eq(out.n, 8 - (out.n == 7));
    buf_fini(&out);
}
END_TEST

START_TEST(a_traces_equal_hash_ids_are_equal_blocks) {
    uint64_t left[] = {7, 8, 9}, right[] = {7, 8, 10};
    struct trace_line trace[] = {
        {.n_prompt = 1400, .n_output = 1, .hash_ids = left, .n_hash_ids = 3},
        {.n_prompt = 1300, .n_output = 1, .hash_ids = right, .n_hash_ids = 3},
        {.n_prompt = 1400, .n_output = 1, .hash_ids = left, .n_hash_ids = 3}};
    struct workload workload = {.seed = 3, .trace = trace, .overhead = 5};
    struct buf out[3];
    words_init(&workload.words, NULL);
    for (unsigned i = 0; i < 3; i++) {
        struct ask ask = {.serial = i, .n_prompt = trace[i].n_prompt, .trace_line = i};
        buf_init(&out[i], 0);
        workload_prompt(&workload, &ask, &out[i]);
        ck_assert_uint_eq(count_words(out[i].data), trace[i].n_prompt - 5);
    }
    unsigned n_same = 0;
    for (size_t i = 0; out[0].data[i] == out[1].data[i]; i++)
        n_same += out[0].data[i] == ' ';
    ck_assert_uint_ge(n_same, 1024);
    ck_assert_uint_lt(n_same, 1034);
    ck_assert_str_eq(out[0].data, out[2].data);
    for (unsigned i = 0; i < 3; i++)
        buf_fini(&out[i]);
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

START_TEST(texts_follow_a_nonce_and_words_fill_what_is_left) {
    struct piece pieces[] = {{"a b c", 5}, {"d \"quoted\" e", 7}};
    struct workload workload = {
        .source = SOURCE_TEXTS, .seed = 3, .pieces = pieces, .n_pieces = 2, .repeats = true};
    words_init(&workload.words, NULL);
    json_t *root = body_of(&workload, &chat, 1, 1 + 5 + 7 + 5 + 2);
    json_t *message = json_array_get(json_object_get(root, "messages"), 0);
    const char *content = json_string_value(json_object_get(message, "content"));
    /* Two pieces in turn as long as they fit: 12 of 19 tokens, and 5 or 7 more. */
    ck_assert_ptr_nonnull(strstr(content, "a b c d \"quoted\" e"));
    ck_assert_int_eq(strncmp(content, "the ", 4), 0);
    bool both = strstr(content, "a b c d \"quoted\" e a b c") != NULL;
    ck_assert_uint_eq(count_words(content), both ? 1 + 9 + 2 : 1 + 9 + 0);
    json_decref(root);
    workload.repeats = false;
    root = body_of(&workload, &chat, 1, 1 + 8 + 12);
    message = json_array_get(json_object_get(root, "messages"), 0);
    content = json_string_value(json_object_get(message, "content"));
    ck_assert_uint_eq(count_words(content), 1 + 8 + 6);
    ck_assert_ptr_nonnull(strstr(content, "\"quoted\""));
    ck_assert_ptr_null(strstr(content, "the a b c"));
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

START_TEST(answers_of_native_servers_become_events) {
    struct answer answer = {.model = "m"};
    struct event events[2];
    enum fault fault;
    ck_assert_uint_eq(LINE("{\"text\": [\"a prompt and its answer\"]}"), 1);
    ck_assert(fault == FAULT_NONE && events[0].chunk == CHUNK_TEXT);
    ck_assert_uint_eq(LINE("{\"generated_text\":\"x\",\"details\":{\"finish_reason\":\"length\","
                           "\"generated_tokens\":9,\"seed\":null}}"),
                      2);
    ck_assert(events[0].chunk == CHUNK_TEXT && events[1].kind == EVENT_USAGE);
    ck_assert(events[1].n_output == 9 && events[1].no_prompt);
}
END_TEST

/* What stands in a text, or elsewhere than a chunk has it, means nothing. */
START_TEST(members_count_where_they_belong_alone) {
    struct answer answer = {.model = NULL};
    struct event events[2];
    enum fault fault;
    ck_assert_uint_eq(
        LINE("{\"choices\":[{\"delta\":{\"content\":\"\"},\"logprobs\":{\"content\":[{"
             "\"token\":\"x\",\"logprob\":-1.5e-3,\"bytes\":[120]}]}}]}"),
        1);
    ck_assert_int_eq(events[0].chunk, CHUNK_BARE);
    ck_assert_uint_eq(
        LINE(
            "{\"choices\":[{\"delta\":{\"content\":\"\\\\\\\"finish_reason\\\":\\\"stop\\\\\"}}]}"),
        1);
    ck_assert(events[0].chunk == CHUNK_TEXT && events[0].finish == FINISH_NONE);
    ck_assert_uint_eq(LINE("{\"choices\":[{\"delta\":{\"tool_calls\":[]}}]}"), 1);
    ck_assert_int_eq(events[0].chunk, CHUNK_BARE);
    ck_assert_uint_eq(LINE("{\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}]}"), 1);
    ck_assert_int_eq(events[0].chunk, CHUNK_TEXT);
}
END_TEST

/* [DONE], a reason or both end an answer; a text and a usage do not. */
START_TEST(an_answer_is_over_when_the_server_says_why_or_done) {
    static const struct {
        const char *line;
        bool is_over;
    } rows[] = {
        {"{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}", false},
        {"{\"choices\":[{\"delta\":{\"content\":\"stop\"}}]}", false},
        {"{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}", false},
        {"[DONE]", true},
        {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}", true},
        {"{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}]}", true},
        {"{\"choices\":[{\"text\":\"\",\"finish_reason\":\"tool_calls\"}]}", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct answer answer = {0};
        struct event events[2];
        enum fault fault = FAULT_EMPTY;
        unsigned n = answer_line(&answer, rows[i].line, strlen(rows[i].line), events, &fault);
        ck_assert_uint_le(n, 1);
        ck_assert_int_eq(fault, FAULT_NONE);
        ck_assert_msg(answer_is_over(&answer) == rows[i].is_over, "%s", rows[i].line);
    }
}
END_TEST

START_TEST(broken_lines_have_their_faults) {
    static const char *const broken[] = {
        "{\"choices\":[}",  "{\"choices\":[{}]", "{\"choices\":[]}x",   "{\"choices\":[],}",
        "{\"choices\" []}", "{\"model\":\"m}",   "{\"model\":\"m\\\"}", "{\"a\":nul}",
        "{\"a\":}",         "{\"a\":1 2}",       "[{\"choices\":[]}]"};
    for (unsigned i = 0; i < sizeof broken / sizeof *broken; i++)
        ck_assert_int_eq(fault_of(broken[i]), FAULT_MALFORMED);
    char deep[200] = "{\"a\":";
    memset(deep + 5, '[', 60);
    memset(deep + 65, ']', 60);
    deep[125] = '}';
    ck_assert_int_eq(fault_of(deep), FAULT_MALFORMED);
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

/* Strings are looked through eight bytes at a time: every length, and an escape at every place, with
 * bytes around that differ from a quote or a backslash in one bit. */
START_TEST(strings_end_at_their_quote_whatever_stands_before_it) {
    static const char near_quotes[] = "!#[]\xa2\xdc\x02\x1c";
    for (unsigned n = 0; n < 24; n++) {
        for (unsigned escape = 0; escape <= n; escape++) {
            char line[200], text[40];
            unsigned at = 0;
            for (unsigned i = 0; i < n; i++) {
                if (i == escape)
                    text[at++] = '\\';
                text[at++] = i == escape ? "\"\\"[n % 2] : near_quotes[(i + n) % 8];
            }
            text[at] = 0;
            struct answer answer = {.model = NULL};
            struct event events[2];
            enum fault fault;
            int size = snprintf(line, sizeof line,
                                "{\"id\":\"%s\",\"choices\":[{\"text\":\"%s\"}]}", text, text);
            ck_assert_uint_eq(answer_line(&answer, line, (size_t)size, events, &fault), 1);
            ck_assert_int_eq(events[0].chunk, n > 0 ? CHUNK_TEXT : CHUNK_BARE);
            ck_assert_uint_eq(answer_line(&answer, line, (size_t)size - 5, events, &fault), 0);
            ck_assert_int_eq(fault, FAULT_MALFORMED);
        }
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_chat_asks_for_what_the_form_says);
    tcase_add_test(tests, native_apis_are_asked_as_the_published_program_did);
    tcase_add_test(tests, prompts_differ_by_serial_and_repeat_by_seed);
    tcase_add_test(tests, ids_are_as_many_as_asked_and_within_the_vocabulary);
    tcase_add_test(tests, texts_follow_a_nonce_and_words_fill_what_is_left);
    tcase_add_test(tests, prompts_have_the_tokens_asked_for_whatever_a_word_costs);
    tcase_add_test(tests, a_traces_equal_hash_ids_are_equal_blocks);
    tcase_add_test(tests, lines_of_an_answer_become_events);
    tcase_add_test(tests, answers_of_native_servers_become_events);
    tcase_add_test(tests, members_count_where_they_belong_alone);
    tcase_add_test(tests, an_answer_is_over_when_the_server_says_why_or_done);
    tcase_add_test(tests, broken_lines_have_their_faults);
    tcase_add_test(tests, strings_end_at_their_quote_whatever_stands_before_it);
}
