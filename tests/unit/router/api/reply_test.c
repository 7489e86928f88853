/* Every kind of directly written reply is parsed back and compared. */
#include "base/json/json_get.h"
#include "router/api/dialect.h"
#include "router/api/tool_reader.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_reply";
const double suite_timeout_s = 60;

static struct tokenizer *tokenizer;
static struct ask ask;
static struct reply reply;
static struct buf out;

static void set_up(void) {
    struct error error;
    ck_assert_int_eq(tokenizer_open_hash(&tokenizer, &error), STATUS_OK);
    ask_init(&ask);
    buf_init(&out, 0);
    reply = (struct reply){.ask = &ask,
                           .tokenizer = tokenizer,
                           .model = "m \"quoted\"",
                           .id = "chatcmpl-1",
                           .fingerprint = "fp_0123456789ab",
                           .created = 1700000000,
                           .context = 4096,
                           .n_prompt_tokens = 7,
                           .n_completion_tokens = 3,
                           .n_cached_tokens = 4};
}

static void tear_down(void) {
    buf_fini(&out);
    ask_fini(&ask);
    tokenizer_close(tokenizer);
}

static json_t *parse_event(void) {
    ck_assert_int_eq(buf_status(&out), STATUS_OK);
    ck_assert(out.n > 8 && strncmp(out.data, "data: {", 7) == 0);
    ck_assert_str_eq(out.data + out.n - 3, "}\n\n");
    ck_assert_ptr_null(memchr(out.data, '\r', out.n));
    ck_assert_ptr_eq(memchr(out.data, '\n', out.n), out.data + out.n - 2); /* one event, one line */
    json_error_t error;
    json_t *root =
        json_loadb(out.data + 6, out.n - 8, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    ck_assert_msg(root != NULL, "%s: %s", error.text, out.data);
    return root;
}

static json_t *parse_whole(void) {
    json_error_t error;
    json_t *root = json_loadb(out.data, out.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    ck_assert_msg(root != NULL, "%s: %s", error.text, out.data);
    return root;
}

static void expect(json_t *got, const char *expected) {
    json_error_t error;
    json_t *want = json_loads(expected, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    ck_assert_msg(want != NULL, "%s in %s", error.text, expected);
    char *shown = json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY);
    ck_assert_msg(json_equal(got, want), "got %s, want %s", shown, expected);
    free(shown);
    json_decref(want);
}

START_TEST(chat_chunks_say_role_text_and_end) {
    struct reply_choice choice = {.index = 2, .is_first = true, .text = SPAN("a\"\n\xe2\x82\xac")};
    dialect_chat.writer->chunk(&reply, &choice, &out);
    json_t *root = parse_event();
    expect(root,
           "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
           "\"model\":\"m "
           "\\\"quoted\\\"\",\"system_fingerprint\":\"fp_0123456789ab\",\"choices\":[{\"index\":2,"
           "\"delta\":{\"role\":"
           "\"assistant\",\"content\":\"a\\\"\\n\\u20ac\"},\"logprobs\":null,"
           "\"finish_reason\":null}]}");
    json_decref(root);
    buf_clear(&out);
    choice = (struct reply_choice){.index = 2, .has_ended = true, .finish = FINISH_LENGTH};
    dialect_chat.writer->chunk(&reply, &choice, &out);
    root = parse_event();
    expect(json_object_get(root, "choices"),
           "[{\"index\":2,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\","
           "\"stop_reason\":null}]");
    json_decref(root);
}
END_TEST

START_TEST(ends_tell_what_stopped_them) {
    static const struct {
        struct reply_choice choice;
        const char *finish, *reason;
    } cases[] = {
        {{.has_ended = true, .finish = FINISH_STOP}, "\"stop\"", "null"},
        {{.has_ended = true, .finish = FINISH_STOP, .stopped_by_id = true, .stop_id = 7},
         "\"stop\"",
         "7"},
        {{.has_ended = true, .finish = FINISH_STOP, .stop_string = {"a\"b", 3}},
         "\"stop\"",
         "\"a\\\"b\""},
    };
    for (size_t d = 0; d < 2; d++) {
        for (size_t i = 0; i < 3; i++) {
            buf_clear(&out);
            (d ? &dialect_chat : &dialect_completions)
                ->writer->chunk(&reply, &cases[i].choice, &out);
            json_t *root = parse_event();
            json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
            expect(json_object_get(choice, "finish_reason"), cases[i].finish);
            expect(json_object_get(choice, "stop_reason"), cases[i].reason);
            json_decref(root);
        }
    }
}
END_TEST

START_TEST(continuous_usage_is_in_every_chunk_and_the_usage_chunk_has_no_choices) {
    ask.continuous_usage = true;
    struct reply_choice choice = {.text = SPAN("x")};
    for (size_t d = 0; d < 2; d++) {
        const struct dialect *dialect = d ? &dialect_chat : &dialect_completions;
        buf_clear(&out);
        dialect->writer->chunk(&reply, &choice, &out);
        json_t *root = parse_event();
        expect(json_object_get(root, "usage"),
               "{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}");
        json_decref(root);
        buf_clear(&out);
        ask.include_usage = true;
        dialect->writer->end(&reply, &out);
        static const char done[] = "data: [DONE]\n\n";
        ck_assert_str_eq(out.data + out.n - strlen(done), done);
        buf_truncate(&out, out.n - strlen(done));
        root = parse_event();
        expect(json_object_get(root, "choices"), "[]");
        expect(json_object_get(root, "usage"),
               "{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10,"
               "\"prompt_tokens_details\":{\"cached_tokens\":4}}");
        expect(json_object_get(root, "id"), "\"chatcmpl-1\"");
        json_decref(root);
    }
}
END_TEST

START_TEST(usage_is_null_in_chunks_where_it_comes_at_the_end) {
    struct reply_choice choice = {.text = SPAN("x")};
    for (size_t d = 0; d < 2; d++) {
        const struct dialect *dialect = d ? &dialect_chat : &dialect_completions;
        for (int asked = 0; asked < 2; asked++) {
            ask.include_usage = asked;
            buf_clear(&out);
            dialect->writer->chunk(&reply, &choice, &out);
            json_t *root = parse_event();
            const json_t *usage = json_object_get(root, "usage");
            ck_assert(asked ? json_is_null(usage) : usage == NULL);
            json_decref(root);
        }
    }
}
END_TEST

START_TEST(token_ids_come_with_each_piece_and_prompt_ids_with_the_first) {
    ask.return_token_ids = true;
    uint32_t tokens[] = {65, 300}, prompt[] = {1, 2};
    struct reply_choice choice = {
        .is_first = true, .n_tokens = 2, .tokens = tokens, .n_prompt = 2, .prompt = prompt};
    for (size_t d = 0; d < 2; d++) {
        buf_clear(&out);
        (d ? &dialect_chat : &dialect_completions)->writer->chunk(&reply, &choice, &out);
        json_t *root = parse_event();
        json_t *first = json_array_get(json_object_get(root, "choices"), 0);
        expect(json_object_get(first, "token_ids"), "[65,300]");
        expect(json_object_get(first, "prompt_token_ids"), "[1,2]");
        json_decref(root);
    }
    choice.is_first = false;
    choice.n_tokens = 0;
    buf_clear(&out);
    dialect_completions.writer->chunk(&reply, &choice, &out);
    json_t *root = parse_event();
    expect(json_object_get(root, "choices"),
           "[{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":null,"
           "\"token_ids\":[]}]");
    json_decref(root);
}
END_TEST

/* Token 0x41 'A' was sampled; the best two are 'B' and the first half of a character. */
static const uint32_t sampled[] = {0x41};
static const struct token_logprobs logprobs[] = {
    {.logprob = -2, .n_top = 2, .top_ids = {0x42, 0xe2}, .top_logprobs = {-0.5f, -INFINITY}}};

START_TEST(chat_logprobs_are_sorted_and_hold_the_sampled_token) {
    ask.sampling.want_logprobs = true;
    ask.sampling.n_top = 2;
    struct reply_choice choice = {
        .text = SPAN("A"), .n_tokens = 1, .tokens = sampled, .logprobs = logprobs};
    const char *want = "{\"content\":[{\"token\":\"A\",\"logprob\":-2.0,\"bytes\":[65],"
                       "\"top_logprobs\":[{\"token\":\"B\",\"logprob\":-0.5,\"bytes\":[66]},"
                       "{\"token\":\"A\",\"logprob\":-2.0,\"bytes\":[65]}]}]}";
    dialect_chat.writer->chunk(&reply, &choice, &out);
    json_t *root = parse_event();
    expect(json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs"), want);
    json_decref(root);
    buf_clear(&out);
    dialect_chat.writer->whole(&reply, &choice, 1, &out);
    root = parse_whole();
    expect(json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs"), want);
    json_decref(root);
    ask.sampling.n_top = 0;
    buf_clear(&out);
    dialect_chat.writer->chunk(&reply, &choice, &out);
    root = parse_event();
    expect(json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs"),
           "{\"content\":[{\"token\":\"A\",\"logprob\":-2.0,\"bytes\":[65],\"top_logprobs\":[]}]}");
    json_decref(root);
}
END_TEST

START_TEST(completion_logprobs_are_four_lists_of_one_length) {
    ask.sampling.want_logprobs = true;
    ask.sampling.n_top = 2;
    uint32_t tokens[] = {0x41, 0xe2, 0x82, 0xac, 0x42}; /* A, three bytes of a euro sign, B */
    struct token_logprobs all[5];
    for (int i = 0; i < 5; i++)
        all[i] = logprobs[0];
    all[1].top_ids[0] = 0xe2;
    all[1].top_ids[1] = 0xf0;
    struct reply_choice choice = {.text = SPAN("A\xe2\x82\xac"
                                               "B"),
                                  .n_tokens = 5,
                                  .tokens = tokens,
                                  .logprobs = all,
                                  .text_offset = 10};
    dialect_completions.writer->chunk(&reply, &choice, &out);
    json_t *root = parse_event();
    json_t *got = json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs");
    expect(json_object_get(got, "text_offset"), "[10,11,12,12,12]");
    expect(json_object_get(got, "token_logprobs"), "[-2.0,-2.0,-2.0,-2.0,-2.0]");
    expect(json_object_get(got, "tokens"),
           "[\"A\",\"bytes:\\\\xe2\",\"bytes:\\\\x82\",\"bytes:\\\\xac\",\"B\"]");
    json_t *top = json_object_get(got, "top_logprobs");
    ck_assert_uint_eq(json_array_size(top), 5);
    expect(json_array_get(top, 0), "{\"B\":-0.5,\"bytes:\\\\xe2\":-9999.0,\"A\":-2.0}");
    expect(json_array_get(top, 1), "{\"bytes:\\\\xe2\":-0.5,\"bytes:\\\\xf0\":-9999.0}");
    expect(json_array_get(top, 4), "{\"B\":-0.5,\"bytes:\\\\xe2\":-9999.0}");
    json_decref(root);
    ask.tokens_as_ids = true;
    buf_clear(&out);
    dialect_completions.writer->chunk(&reply, &choice, &out);
    root = parse_event();
    got = json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs");
    expect(json_array_get(json_object_get(got, "tokens"), 1), "\"token_id:226\"");
    json_decref(root);
    ask.tokens_as_ids = false;
    ask.sampling.n_top = 1; /* the worker has sent two */
    buf_clear(&out);
    dialect_completions.writer->chunk(&reply, &choice, &out);
    root = parse_event();
    got = json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs");
    top = json_object_get(got, "top_logprobs");
    expect(json_array_get(top, 0), "{\"B\":-0.5,\"A\":-2.0}");
    expect(json_array_get(top, 4), "{\"B\":-0.5}");
    json_decref(root);
}
END_TEST

/* Ids 0 to 6 have these texts, the others none: some the same, some no whole characters. */
static void give_texts(void) {
    static const char *const texts[] = {"A", "A", "\xf0", "\xf0", "", "", "\x1f \xf0\"\\~\x7f"};
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    uint32_t n_tokens = tokenizer_n_tokens(tokenizer), n_bytes = 0;
    tokenizer->shown.bytes = calloc(1, 64);
    tokenizer->shown.offsets = calloc((size_t)n_tokens + 1, sizeof(uint32_t));
    for (uint32_t id = 0; id <= n_tokens; id++) {
        tokenizer->shown.offsets[id] = n_bytes;
        size_t n = id < N_TEXTS ? strlen(texts[id]) : 0;
        memcpy(tokenizer->shown.bytes + n_bytes, id < N_TEXTS ? texts[id] : "", n);
        n_bytes += (uint32_t)n;
    }
}

START_TEST(each_of_the_best_tokens_has_a_name_of_its_own) {
    static const char *const rest =
        "\"bytes:\\\\xf0\":-3.0,\"token_id:3\":-4.0,\"\":-5.0,\"token_id:5\":-6.0,"
        "\"bytes:\\\\x1f \\\\xf0\\\\x22\\\\x5c~\\\\x7f\":-7.0";
    static const char *const firsts[] = {"\"A\":-1.0,\"token_id:1\":-2.0,",
                                         "\"token_id:0\":-1.0,\"A\":-2.0,"};
    struct token_logprobs best = {.logprob = -9, .n_top = 7};
    for (uint32_t i = 0; i < 7; i++) {
        best.top_ids[i] = i;
        best.top_logprobs[i] = -1.0f - (float)i;
    }
    give_texts();
    ask.sampling.want_logprobs = true;
    for (uint32_t id = 0; id <= 7; id++) { /* the last is none of the best */
        char want[256];
        struct reply_choice choice = {.n_tokens = 1, .tokens = &id, .logprobs = &best};
        ask.sampling.n_top = 7;
        buf_clear(&out);
        dialect_completions.writer->chunk(&reply, &choice, &out);
        json_t *root = parse_event();
        json_t *got =
            json_object_get(json_array_get(json_object_get(root, "choices"), 0), "logprobs");
        json_t *top = json_array_get(json_object_get(got, "top_logprobs"), 0);
        ck_assert_uint_eq(json_object_size(top), id < 7 ? 7 : 8);
        snprintf(want, sizeof want, "{%s%s}", firsts[id == 1], rest);
        if (id < 3)
            expect(top, want);
        const json_t *name = json_array_get(json_object_get(got, "tokens"), 0);
        ck_assert_double_eq(json_real_value(json_object_get(top, json_string_value(name))),
                            id < 7 ? -1.0 - id : -9.0);
        json_decref(root);
    }
}
END_TEST

START_TEST(plain_replies_hold_all_choices) {
    struct reply_choice choices[] = {{.index = 0,
                                      .is_first = true,
                                      .text = SPAN("one"),
                                      .has_ended = true,
                                      .finish = FINISH_STOP},
                                     {.index = 1,
                                      .is_first = true,
                                      .text = SPAN("two"),
                                      .has_ended = true,
                                      .finish = FINISH_LENGTH}};
    dialect_chat.writer->whole(&reply, choices, 2, &out);
    json_t *root = parse_whole();
    expect(json_object_get(root, "object"), "\"chat.completion\"");
    expect(json_object_get(root, "system_fingerprint"), "\"fp_0123456789ab\"");
    expect(
        json_object_get(root, "choices"),
        "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"one\"},\"logprobs\":null,"
        "\"finish_reason\":\"stop\",\"stop_reason\":null},"
        "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"two\"},\"logprobs\":null,"
        "\"finish_reason\":\"length\",\"stop_reason\":null}]");
    expect(json_object_get(root, "usage"),
           "{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10,"
           "\"prompt_tokens_details\":{\"cached_tokens\":4}}");
    json_decref(root);
    buf_clear(&out);
    dialect_completions.writer->whole(&reply, choices, 2, &out);
    root = parse_whole();
    expect(json_object_get(root, "object"), "\"text_completion\"");
    expect(json_object_get(root, "system_fingerprint"), "\"fp_0123456789ab\"");
    expect(json_array_get(json_object_get(root, "choices"), 1),
           "{\"index\":1,\"text\":\"two\",\"logprobs\":null,\"finish_reason\":\"length\","
           "\"stop_reason\":null}");
    json_decref(root);
}
END_TEST

/* What a reader says of the text, as a chunk's delta or a whole message. */
static void expect_parts(const char *text, bool stream, bool is_first, bool is_last,
                         const char *wanted) {
    struct tool_reader *reader;
    ask.stream = stream;
    buf_clear(&out);
    ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
    ck_assert_int_eq(tool_reader_push(reader, span_of(text), is_last), STATUS_OK);
    struct reply_choice choice = {.is_first = is_first, .reader = reader, .has_ended = !stream};
    if (stream)
        dialect_chat.writer->chunk(&reply, &choice, &out);
    else
        dialect_chat.writer->whole(&reply, &choice, 1, &out);
    json_t *root = stream ? parse_event() : parse_whole();
    json_t *said = json_array_get(json_object_get(root, "choices"), 0);
    expect(json_object_get(said, stream ? "delta" : "message"), wanted);
    json_decref(root);
    tool_reader_free(reader);
}

#define BOTH(text) "\"reasoning\":\"" text "\",\"reasoning_content\":\"" text "\""
#define ROLE       "{\"role\":\"assistant\","

START_TEST(what_is_thought_has_both_names_that_clients_read) {
    ask.thoughts = thought_format_nth(0);
    ask.thinks = THOUGHT_OPEN;
    expect_parts("\nH\"m", true, true, false, ROLE BOTH("H\\\"m") ",\"content\":null}");
    expect_parts("Hm", true, false, false, "{" BOTH("Hm") "}");
    expect_parts("Hm</think>\n\nYes", true, false, false, "{" BOTH("Hm") ",\"content\":\"Yes\"}");
    expect_parts("</think>\n\nYes", true, false, false, "{\"content\":\"Yes\"}");
    expect_parts("</think>\n", true, false, false, "{}");
    expect_parts("", true, false, true, "{}");
    expect_parts("Hm</think>\n\nYes", false, true, true, ROLE BOTH("Hm") ",\"content\":\"Yes\"}");
    expect_parts("Hm", false, true, true, ROLE BOTH("Hm") ",\"content\":null}");
    expect_parts("</think>Yes", false, true, true, ROLE "\"content\":\"Yes\"}");
    expect_parts("</think>", false, true, true, ROLE "\"content\":\"\"}");
    ask.hides_thoughts = true;
    expect_parts("Hm</think>\n\nYes", false, true, true, ROLE "\"content\":\"Yes\"}");
    expect_parts("Hm", true, false, false, "{}");
}
END_TEST

/* Adds a piece of an answer over the Messages API; `whole`: it is all of it. */
static void put_message(struct tool_reader *reader, const char *text, bool whole) {
    struct reply_choice choice = {.reader = reader};
    tool_reader_clear(reader);
    ck_assert_int_eq(tool_reader_push(reader, span_of(text), whole), STATUS_OK);
    if (whole)
        dialect_messages.writer->whole(&reply, &choice, 1, &out);
    else
        dialect_messages.writer->chunk(&reply, &choice, &out);
}

#define EVENT(type, rest)                                                                          \
    "event: content_block_" type "\ndata: {\"type\":\"content_block_" type "\"," rest "}\n\n"

START_TEST(what_is_thought_is_a_block_of_a_message) {
    struct tool_reader *reader;
    ask.thoughts = thought_format_nth(0);
    ask.thinks = THOUGHT_OPEN;
    ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
    put_message(reader, "H\"m</think>\n\nYes", true);
    json_t *root = parse_whole();
    expect(json_object_get(root, "content"),
           "[{\"type\":\"thinking\",\"thinking\":\"H\\\"m\",\"signature\":\"\"},"
           "{\"type\":\"text\",\"text\":\"Yes\"}]");
    json_decref(root);
    tool_reader_free(reader);
    buf_clear(&out);
    ck_assert_int_eq(tool_reader_new(&ask, &reader), STATUS_OK);
    reply.state = calloc(1, dialect_messages.writer->state_size);
    put_message(reader, "H\"", false);
    put_message(reader, "m</think>Ye", false);
    put_message(reader, "s", false);
    buf_putc(&out, '\0');
    ck_assert_str_eq(
        out.data,
        EVENT("start", "\"index\":0,\"content_block\":{\"type\":\"thinking\","
                       "\"thinking\":\"\",\"signature\":\"\"}")
            EVENT("delta",
                  "\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"H\\\"\"}")
                EVENT("delta",
                      "\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"m\"}")
                    EVENT("stop", "\"index\":0") EVENT(
                        "start", "\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")
                        EVENT("delta",
                              "\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Ye\"}")
                            EVENT(
                                "delta",
                                "\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"s\"}"));
    free(reply.state);
    tool_reader_free(reader);
}
END_TEST

/* Only where all are known. */
START_TEST(thoughts_are_counted_at_the_end) {
    for (unsigned i = 0; i < 4; i++) {
        reply.counts_thoughts = i & 1;
        reply.misses_thoughts = i >> 1;
        reply.n_thought_tokens = 2;
        for (unsigned at_end = 0; at_end < 2; at_end++) {
            buf_clear(&out);
            buf_puts(&out, "{\"a\":1");
            reply_put_usage(&reply, at_end, &out);
            buf_putc(&out, '}');
            json_t *root = parse_whole();
            json_t *details =
                json_object_get(json_object_get(root, "usage"), "completion_tokens_details");
            ck_assert_int_eq(details != NULL, i == 1 && at_end);
            if (details)
                expect(details, "{\"reasoning_tokens\":2}");
            json_decref(root);
        }
    }
}
END_TEST

START_TEST(tokenize_and_detokenize_answer_in_their_shapes) {
    ck_assert_int_eq(ask_set_prompts(&ask, 1), STATUS_OK);
    struct ids *ids = &ask.prompts[0].ids;
    ids_init(ids, 16);
    ck_assert_int_eq(ids_push(ids, 0x68), STATUS_OK);
    ck_assert_int_eq(ids_push(ids, 0x1234), STATUS_OK);
    ck_assert_int_eq(ids_push(ids, 0xe2), STATUS_OK);
    ask.return_strings = true;
    dialect_tokenize.reply(&reply, &out);
    json_t *root = parse_whole();
    expect(root, "{\"count\":3,\"max_model_len\":4096,\"tokens\":[104,4660,226],"
                 "\"token_strs\":[\"h\",\"<1234>\",\"\\ufffd\"]}");
    json_decref(root);
    buf_clear(&out);
    dialect_detokenize.reply(&reply, &out);
    root = parse_whole();
    expect(root, "{\"prompt\":\"h<1234>\\ufffd\"}");
    json_decref(root);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, chat_chunks_say_role_text_and_end);
    tcase_add_test(tests, ends_tell_what_stopped_them);
    tcase_add_test(tests, continuous_usage_is_in_every_chunk_and_the_usage_chunk_has_no_choices);
    tcase_add_test(tests, usage_is_null_in_chunks_where_it_comes_at_the_end);
    tcase_add_test(tests, token_ids_come_with_each_piece_and_prompt_ids_with_the_first);
    tcase_add_test(tests, chat_logprobs_are_sorted_and_hold_the_sampled_token);
    tcase_add_test(tests, completion_logprobs_are_four_lists_of_one_length);
    tcase_add_test(tests, each_of_the_best_tokens_has_a_name_of_its_own);
    tcase_add_test(tests, plain_replies_hold_all_choices);
    tcase_add_test(tests, what_is_thought_has_both_names_that_clients_read);
    tcase_add_test(tests, what_is_thought_is_a_block_of_a_message);
    tcase_add_test(tests, thoughts_are_counted_at_the_end);
    tcase_add_test(tests, tokenize_and_detokenize_answer_in_their_shapes);
}
