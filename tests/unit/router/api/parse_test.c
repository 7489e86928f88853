#include "model/text/generation.h"
#include "tests/unit/router/api/parse_rig.h"

#include <stdlib.h>

const char *const suite_name = "router_api_parse";
const double suite_timeout_s = 60;

START_TEST(each_shared_field_refuses_what_it_cannot_be) {
    static const char *const bad[][2] = {
        {"\"temperature\":-0.1", "temperature"},
        {"\"temperature\":101", "temperature"},
        {"\"temperature\":\"1\"", "temperature"},
        {"\"top_p\":-1e-9", "top_p"},
        {"\"top_p\":1.01", "top_p"},
        {"\"min_p\":-1", "min_p"},
        {"\"min_p\":2", "min_p"},
        {"\"top_k\":-2", "top_k"},
        {"\"top_k\":1.5", "top_k"},
        {"\"top_k\":2147483648", "top_k"},
        {"\"presence_penalty\":2.1", "presence_penalty"},
        {"\"frequency_penalty\":-2.1", "frequency_penalty"},
        {"\"repetition_penalty\":0", "repetition_penalty"},
        {"\"repetition_penalty\":-1", "repetition_penalty"},
        {"\"seed\":1.5", "seed"},
        {"\"n\":16.5", "n"},
        {"\"max_tokens\":1e-1", "max_tokens"},
        {"\"seed\":\"7\"", "seed"},
        {"\"n\":0", "n"},
        {"\"n\":65", "n"},
        {"\"n\":-1", "n"},
        {"\"n\":2147483648", "n"},
        {"\"n\":true", "n"},
        {"\"stop\":1", "stop"},
        {"\"stop\":[1]", "stop"},
        {"\"stop\":\"\"", "stop"},
        {"\"stop\":{}", "stop"},
        {"\"stop_token_ids\":[1000]", "stop_token_ids"},
        {"\"stop_token_ids\":[-1]", "stop_token_ids"},
        {"\"stop_token_ids\":5", "stop_token_ids"},
        {"\"stop_token_ids\":[\"5\"]", "stop_token_ids"},
        {"\"stop_token_ids\":[5.5]", "stop_token_ids"},
        {"\"stop_token_ids\":[1e3]", "stop_token_ids"},
        {"\"allowed_token_ids\":[1.5]", "allowed_token_ids"},
        {"\"allowed_token_ids\":[4294967296]", "allowed_token_ids"},
        {"\"include_stop_str_in_output\":1", "include_stop_str_in_output"},
        {"\"ignore_eos\":\"true\"", "ignore_eos"},
        {"\"min_tokens\":-1", "min_tokens"},
        {"\"min_tokens\":6,\"max_tokens\":5", "min_tokens"},
        {"\"max_tokens\":-1", "max_tokens"},
        {"\"max_tokens\":0", "max_tokens"},
        {"\"max_tokens\":2147483648", "max_tokens"},
        {"\"max_tokens\":1.5", "max_tokens"},
        {"\"logit_bias\":[]", "logit_bias"},
        {"\"logit_bias\":{\"1000\":1}", "logit_bias"},
        {"\"logit_bias\":{\"-1\":1}", "logit_bias"},
        {"\"logit_bias\":{\"a\":1}", "logit_bias"},
        {"\"logit_bias\":{\"5\":\"1\"}", "logit_bias"},
        {"\"logit_bias\":{\"5\":101}", "logit_bias"},
        {"\"stream\":1", "stream"},
        {"\"stream_options\":{}", "stream_options"},
        {"\"stream\":true,\"stream_options\":1", "stream_options"},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":1}",
         "stream_options.include_usage"},
        {"\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":\"x\"}",
         "stream_options.continuous_usage_stats"},
        {"\"return_token_ids\":0", "return_token_ids"},
        {"\"priority\":2147483648", "priority"},
        {"\"priority\":\"high\"", "priority"},
        {"\"cache_salt\":1", "cache_salt"},
        {"\"skip_special_tokens\":1", "skip_special_tokens"},
        {"\"add_special_tokens\":1", "add_special_tokens"},
        {"\"truncate_prompt_tokens\":0", "truncate_prompt_tokens"},
        {"\"truncate_prompt_tokens\":5000", "truncate_prompt_tokens"},
        {"\"model\":5", "model"},
        {"\"response_format\":\"json\"", "response_format"},
        {"\"response_format\":{\"type\":1}", "response_format.type"},
    };
    for (size_t d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
            refused(both[d], bad[i][0], STATUS_INVALID, bad[i][1]);
}
END_TEST

START_TEST(a_known_field_that_is_not_served_is_named) {
    static const char *const unserved[][2] = {
        {"\"bad_words\":[\"x\"]", "bad_words"},
        {"\"structured_outputs\":{\"structural_tag\":\"a\"}", "structured_outputs.structural_tag"},
        {"\"structured_outputs\":{\"disable_any_whitespace\":true}",
         "structured_outputs.disable_any_whitespace"},
        {"\"grammar_lazy\":true", "grammar_lazy"},
        {"\"response_format\":{\"type\":\"structural_tag\"}", "response_format.type"},
        {"\"logprob_token_ids\":[1]", "logprob_token_ids"},
        {"\"prompt_logprobs\":1", "prompt_logprobs"},
        {"\"kv_transfer_params\":{}", "kv_transfer_params"},
        {"\"chat_template\":\"{{x}}\"", "chat_template"},
        {"\"use_beam_search\":true", "use_beam_search"},
        {"\"suffix\":\"x\"", "suffix"},
        {"\"stream_interval\":5", "stream_interval"},
        {"\"n\":2,\"best_of\":3", "best_of"},
    };
    for (size_t d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof unserved / sizeof unserved[0]; i++)
            refused(both[d], unserved[i][0], STATUS_UNSUPPORTED, unserved[i][1]);
    refused(&dialect_chat, "\"tools\":[{}]", STATUS_UNSUPPORTED, "tools[0].type");
    refused(&dialect_chat,
            "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
            "\"tool_choice\":\"auto\"",
            STATUS_UNSUPPORTED, "tools"); /* of a model whose calls have no form */
    refused(&dialect_chat, "\"tool_choice\":\"required\"", STATUS_INVALID, "tool_choice");
    refused(&dialect_chat, "\"echo\":true", STATUS_UNSUPPORTED, "echo");
    refused(&dialect_completions, "\"echo\":true,\"logprobs\":1", STATUS_UNSUPPORTED, "logprobs");
}
END_TEST

START_TEST(null_is_absent_and_neutral_values_ask_for_nothing) {
    static const char *const fine[] = {
        "\"temperature\":null,\"top_p\":null,\"n\":null,\"stop\":null,\"seed\":null",
        "\"logprobs\":null,\"logit_bias\":null,\"max_tokens\":null,\"stream\":null",
        "\"stream_options\":null,\"model\":null,\"user\":null,\"response_format\":null",
        "\"bad_words\":[],\"suffix\":\"\",\"use_beam_search\":false,\"prompt_logprobs\":null",
        "\"response_format\":{\"type\":\"text\"},\"stream_interval\":1,\"best_of\":1",
        "\"model\":\"m\",\"top_k\":-1,\"stop\":[],\"logit_bias\":{}",
    };
    for (size_t d = 0; d < 2; d++) {
        for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
            struct ask ask;
            accepted(both[d], fine[i], &ask);
            ck_assert_uint_eq(ask.n_choices, 1);
            ck_assert(ask.sampling.temperature == 1.0f && ask.sampling.top_p == 1.0f);
            ck_assert(!ask.has_seed && !ask.stream && ask.n_stops == 0);
            ck_assert_str_eq(ask.unknown, "");
            ask_fini(&ask);
        }
    }
}
END_TEST

START_TEST(values_arrive_where_they_belong) {
    struct ask ask;
    accepted(&dialect_chat,
             "\"temperature\":0,\"top_p\":0.5,\"min_p\":0.25,\"top_k\":40,\"seed\":-5,\"n\":3,"
             "\"presence_penalty\":1,\"frequency_penalty\":-1,\"repetition_penalty\":1.25,"
             "\"stop\":[\"a\",\"\\u0000b\"],\"stop_token_ids\":[7,8],\"logit_bias\":{\"5\":-100},"
             "\"allowed_token_ids\":[1,2,3],\"ignore_eos\":true,\"min_tokens\":2,"
             "\"max_completion_tokens\":9,\"max_tokens\":99,\"logprobs\":true,\"top_logprobs\":20,"
             "\"include_stop_str_in_output\":true,\"skip_special_tokens\":false,"
             "\"stream\":true,\"stream_options\":{\"include_usage\":true,"
             "\"continuous_usage_stats\":true},\"return_token_ids\":true,\"priority\":-1,"
             "\"cache_salt\":\"t\",\"request_id\":\"mine\",\"truncate_prompt_tokens\":100,"
             "\"tools\":[{}],"
             "\"tool_choice\":\"none\"",
             &ask);
    const struct sampling *s = &ask.sampling;
    ck_assert(s->temperature == 0 && s->top_p == 0.5f && s->min_p == 0.25f && s->top_k == 40);
    ck_assert(ask.has_seed && s->seed == (uint64_t)-5 && ask.n_choices == 3);
    ck_assert(s->presence == 1 && s->frequency == -1 && s->repetition == 1.25f);
    ck_assert_uint_eq(ask.n_stops, 2);
    ck_assert(ask.stops[1].n == 2 && ask.stops[1].bytes[0] == 0);
    ck_assert(s->n_stop_ids == 2 && s->stop_ids[1] == 8);
    ck_assert(s->n_bias == 1 && s->bias_ids[0] == 5 && s->bias[0] == -100);
    ck_assert(s->n_allowed == 3 && s->allowed_ids[2] == 3);
    ck_assert(s->ignore_eos && s->min_new == 2 && s->max_new == 9 && ask.has_max_new);
    ck_assert(s->want_logprobs && s->n_top == 20 && ask.include_stop && !ask.skip_special);
    ck_assert(ask.stream && ask.include_usage && ask.continuous_usage && ask.return_token_ids);
    ck_assert_int_eq(ask.priority, -1);
    ck_assert(span_is(ask.cache_salt, "t") && ask.truncate == 100);
    ck_assert(span_is(ask.request_name, "mine"));
    ask_fini(&ask);
}
END_TEST

START_TEST(bounds_of_the_model_hold) {
    static const int64_t top_k[][2] = {{-1, 0}, {0, 0}, {999, 999}, {1000, 0}};
    struct ask ask;
    for (size_t i = 0; i < sizeof top_k / sizeof *top_k; i++) {
        char members[64];
        snprintf(members, sizeof members, "\"top_k\":%d", (int)top_k[i][0]);
        accepted(&dialect_chat, members, &ask);
        ck_assert_int_eq(ask.sampling.top_k, top_k[i][1]);
        ask_fini(&ask);
    }
    accepted(&dialect_chat, "\"truncate_prompt_tokens\":4096", &ask);
    ck_assert_uint_eq(ask.truncate, 4096);
    ask_fini(&ask);
    refused(&dialect_chat, "\"truncate_prompt_tokens\":4097", STATUS_INVALID,
            "truncate_prompt_tokens");
    accepted(&dialect_chat, "\"return_token_strs\":7", &ask); /* of /tokenize alone */
    ck_assert_str_eq(ask.unknown, "return_token_strs");
    ask_fini(&ask);
}
END_TEST

START_TEST(ids_without_text_are_no_answer_but_may_be_in_prompts) {
    struct ask ask;
    struct api_error error;
    for (size_t i = 0; i < 2; i++) {
        refused(both[i], "\"allowed_token_ids\":[5,500]", STATUS_INVALID, "allowed_token_ids");
        refused(both[i], "\"allowed_token_ids\":[999]", STATUS_INVALID, "allowed_token_ids");
        refused(both[i], "\"logit_bias\":{\"990\":-100}", STATUS_INVALID, "logit_bias");
        accepted(both[i], "\"allowed_token_ids\":[499,501,989]", &ask);
        ask_fini(&ask);
        accepted(both[i], "\"logit_bias\":{\"499\":1,\"501\":1}", &ask);
        ask_fini(&ask);
        accepted(both[i], "\"stop_token_ids\":[500]", &ask);
        ask_fini(&ask);
    }
    ck_assert_int_eq(parse_all(&dialect_completions, "{\"prompt\":[1,500,999]}", &ask, &error),
                     STATUS_OK);
    ask_fini(&ask);
}
END_TEST

START_TEST(completions_take_all_four_prompt_forms) {
    static const struct {
        const char *body;
        uint32_t n;
        bool is_ids;
    } cases[] = {{"{\"prompt\":\"a\"}", 1, false},
                 {"{\"prompt\":[\"a\",\"b\"]}", 2, false},
                 {"{\"prompt\":[1,2,3]}", 1, true},
                 {"{\"prompt\":[[1,2],[3]]}", 2, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ask ask;
        struct api_error error;
        ck_assert_int_eq(parse_all(&dialect_completions, cases[i].body, &ask, &error), STATUS_OK);
        ck_assert_uint_eq(ask.n_prompts, cases[i].n);
        ck_assert_int_eq(ask.prompts[0].is_ids, cases[i].is_ids);
        ck_assert(ask.add_special && ask.sampling.max_new == 16);
        ask_fini(&ask);
    }
    static const char *const bad[] = {"{}",
                                      "{\"prompt\":\"\"}",
                                      "{\"prompt\":[]}",
                                      "{\"prompt\":[[]]}",
                                      "{\"prompt\":[\"\"]}",
                                      "{\"prompt\":5}",
                                      "{\"prompt\":{}}",
                                      "{\"prompt\":[1,\"a\"]}",
                                      "{\"prompt\":[[1],\"a\",5]}",
                                      "{\"prompt\":[1000]}",
                                      "{\"prompt\":[-1]}",
                                      "{\"prompt\":[1.5]}",
                                      "{\"prompt\":null}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ask ask;
        struct api_error error;
        enum status status = parse_all(&dialect_completions, bad[i], &ask, &error);
        ck_assert_msg(status == STATUS_INVALID, "accepted %s", bad[i]);
        ck_assert_str_eq(error.error.field, "prompt");
        ask_fini(&ask);
    }
}
END_TEST

START_TEST(echo_allows_no_new_tokens) {
    struct ask ask;
    accepted(&dialect_completions, "\"echo\":true,\"max_tokens\":0", &ask);
    ck_assert(ask.echo && ask.has_max_new && ask.sampling.max_new == 0);
    ask_fini(&ask);
    refused(&dialect_completions, "\"max_tokens\":0", STATUS_INVALID, "max_tokens");
}
END_TEST

START_TEST(chat_content_has_four_forms) {
    struct ask ask;
    struct api_error error;
    const char *body =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"name\":\"bob\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},"
        "{\"type\":\"text\",\"text\":\"two\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\"}]},"
        "{\"role\":\"tool\",\"content\":\"42\",\"tool_call_id\":\"c\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"last\"}]}]}";
    ck_assert_int_eq(parse_all(&dialect_chat, body, &ask, &error), STATUS_OK);
    ck_assert_uint_eq(ask.chat.input.n_messages, 5);
    ck_assert(span_is(ask.chat.messages[1].content, "one\ntwo"));
    ck_assert(span_is(ask.chat.messages[1].name, "bob"));
    ck_assert(ask.chat.messages[2].content.n == 0 && ask.chat.messages[3].role == TEMPLATE_TOOL);
    ck_assert(span_is(ask.chat.messages[4].content, "last"));
    ck_assert(!ask.add_special && !ask.has_max_new && ask.chat.input.add_generation_prompt);
    ask_fini(&ask);
}
END_TEST

START_TEST(bad_messages_are_named) {
    static const char *const bad[][2] = {
        {"{}", "messages"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":\"hi\"}", "messages"},
        {"{\"messages\":[5]}", "messages"},
        {"{\"messages\":[{\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":5,\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "messages[0].content[0].text"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":"
         "[{\"type\":\"text\",\"text\":1}]}]}",
         "messages[1].content[0].text"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"name\":1}]}", "messages[0].name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ask ask;
        struct api_error error;
        enum status status = parse_all(&dialect_chat, bad[i][0], &ask, &error);
        ck_assert_msg(status == STATUS_INVALID, "accepted %s", bad[i][0]);
        ck_assert_str_eq(error.error.field, bad[i][1]);
        ask_fini(&ask);
    }
    refused(&dialect_chat, "\"top_logprobs\":5", STATUS_INVALID, "top_logprobs");
    refused(&dialect_chat, "\"logprobs\":true,\"top_logprobs\":21", STATUS_INVALID, "top_logprobs");
    refused(&dialect_chat, "\"logprobs\":1", STATUS_INVALID, "logprobs");
    refused(&dialect_completions, "\"logprobs\":21", STATUS_INVALID, "logprobs");
    refused(&dialect_completions, "\"logprobs\":true", STATUS_INVALID, "logprobs");
    refused(&dialect_chat, "\"max_completion_tokens\":0", STATUS_INVALID, "max_completion_tokens");
}
END_TEST

START_TEST(an_unknown_model_is_not_found) {
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse_with(&dialect_chat, "\"model\":\"other\"", &ask, &error),
                     STATUS_NOT_FOUND);
    ck_assert_str_eq(error.code, "model_not_found");
    ck_assert_str_eq(error.error.field, "model");
    ck_assert_int_eq(errors_http(&error), 404);
    ask_fini(&ask);
}
END_TEST

START_TEST(unknown_fields_are_noted_and_ignored) {
    struct ask ask;
    accepted(&dialect_chat, "\"frobnicate\":{\"a\":[1]}", &ask);
    ck_assert_str_eq(ask.unknown, "frobnicate");
    ask_fini(&ask);
}
END_TEST

START_TEST(sequences_of_a_call_are_bounded) {
    size_t n = 8 + 32;
    char *body = malloc(n + ASK_PROMPTS_MAX * 8);
    size_t at = (size_t)sprintf(body, "{\"n\":2,\"prompt\":[");
    for (int i = 0; i < 513; i++)
        at += (size_t)sprintf(body + at, "%s\"a\"", i ? "," : "");
    sprintf(body + at, "]}");
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse_all(&dialect_completions, body, &ask, &error), STATUS_INVALID);
    ck_assert_str_eq(error.error.field, "n");
    ask_fini(&ask);
    free(body);
}
END_TEST

START_TEST(tokenize_takes_a_prompt_or_messages) {
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse_all(&dialect_tokenize, "{\"prompt\":\"a\"}", &ask, &error), STATUS_OK);
    ck_assert(ask.add_special && !ask.is_chat);
    ask_fini(&ask);
    ck_assert_int_eq(parse_all(&dialect_tokenize,
                               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                               "\"return_token_strs\":true}",
                               &ask, &error),
                     STATUS_OK);
    ck_assert(!ask.add_special && ask.is_chat && ask.return_strings);
    ask_fini(&ask);
    /* Nothing is called where nothing is generated, so that tools need no `tool_choice` here. */
    ck_assert_int_eq(parse_all(&dialect_tokenize,
                               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                               "\"tools\":[{}],\"tool_choice\":\"auto\"}",
                               &ask, &error),
                     STATUS_OK);
    ck_assert_uint_eq(json_array_size(ask.chat.input.tools), 1);
    ask_fini(&ask);
    ck_assert_int_eq(parse_all(&dialect_tokenize, "{}", &ask, &error), STATUS_INVALID);
    ask_fini(&ask);
    ck_assert_int_eq(parse_all(&dialect_detokenize, "{\"tokens\":[5,6]}", &ask, &error), STATUS_OK);
    ck_assert_uint_eq(ask.prompts[0].ids.n, 2);
    ask_fini(&ask);
    ck_assert_int_eq(parse_all(&dialect_detokenize, "{\"tokens\":[1000]}", &ask, &error),
                     STATUS_INVALID);
    ck_assert_str_eq(error.error.field, "tokens");
    ask_fini(&ask);
    ck_assert_int_eq(parse_all(&dialect_detokenize, "{}", &ask, &error), STATUS_INVALID);
    ask_fini(&ask);
}
END_TEST

/* A value at a bound is taken, one above it is refused. */
START_TEST(a_call_may_have_as_many_sequences_as_the_bound) {
    char *body = malloc(64 + ASK_PROMPTS_MAX * 8);
    ck_assert_uint_eq(ASK_SEQUENCES_MAX % 2, 0);
    size_t at = (size_t)sprintf(body, "{\"n\":2,\"prompt\":[");
    for (int i = 0; i < ASK_SEQUENCES_MAX / 2; i++)
        at += (size_t)sprintf(body + at, "%s\"a\"", i ? "," : "");
    sprintf(body + at, "]}");
    struct ask ask;
    struct api_error error;
    ck_assert_int_eq(parse_all(&dialect_completions, body, &ask, &error), STATUS_OK);
    ck_assert_uint_eq(ask.n_choices * ask.n_prompts, ASK_SEQUENCES_MAX);
    ask_fini(&ask);
    free(body);
}
END_TEST

START_TEST(stops_may_be_as_long_as_the_bound) {
    char members[ASK_STOP_BYTES_MAX + 32];
    for (size_t extra = 0; extra < 2; extra++) {
        size_t n = ASK_STOP_BYTES_MAX + extra;
        memcpy(members, "\"stop\":\"", 8);
        memset(members + 8, 's', n);
        memcpy(members + 8 + n, "\"", 2);
        if (extra) {
            refused(&dialect_completions, members, STATUS_INVALID, "stop");
            continue;
        }
        struct ask ask;
        accepted(&dialect_completions, members, &ask);
        ck_assert_uint_eq(ask.n_stops, 1);
        ck_assert_uint_eq(ask.stops[0].n, ASK_STOP_BYTES_MAX);
        ask_fini(&ask);
    }
}
END_TEST

/* [field, least, most] of whole numbers: both bounds are taken, and nothing beyond them. */
START_TEST(whole_numbers_are_taken_from_bound_to_bound) {
    static const struct {
        const char *name;
        long long least, most;
    } fields[] = {{"n", 1, ASK_CHOICES_MAX},
                  {"top_k", -1, INT32_MAX},
                  {"seed", INT64_MIN, INT64_MAX},
                  {"max_tokens", 1, INT32_MAX}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        for (int end = 0; end < 2; end++) {
            char members[96];
            struct ask ask;
            long long bound = end ? fields[i].most : fields[i].least;
            snprintf(members, sizeof members, "\"%s\":%lld", fields[i].name, bound);
            accepted(&dialect_completions, members, &ask);
            ask_fini(&ask);
            if (bound == INT64_MAX || bound == INT64_MIN)
                snprintf(members, sizeof members, "\"%s\":%s", fields[i].name,
                         end ? "9223372036854775808" : "-9223372036854775809");
            else
                snprintf(members, sizeof members, "\"%s\":%lld", fields[i].name,
                         end ? bound + 1 : bound - 1);
            refused(&dialect_completions, members, STATUS_INVALID, fields[i].name);
        }
    }
}
END_TEST

START_TEST(a_models_defaults_hold_where_a_request_is_silent) {
    static const struct generation generation = {.has = {true, true, true, true, true},
                                                 .value = {[GENERATION_TEMPERATURE] = 0.5,
                                                           [GENERATION_TOP_P] = 0.75,
                                                           [GENERATION_TOP_K] = 20,
                                                           [GENERATION_MIN_P] = 0.25,
                                                           [GENERATION_REPETITION] = 1.5}};
    struct ask_limits own = limits;
    own.generation = &generation;
    static const char *const bodies[] = {
        "{\"prompt\":\"a\"}", "{\"prompt\":\"a\",\"top_k\":null,\"top_p\":null}",
        "{\"prompt\":\"a\",\"top_k\":7,\"top_p\":0.5,\"min_p\":0}"};
    for (int i = 0; i < 3; i++) {
        struct ask ask;
        struct api_error error = {0};
        const struct sampling *got = &ask.sampling;
        ask_init(&ask);
        const struct span body = {bodies[i], strlen(bodies[i])};
        ck_assert_int_eq(dialect_completions.parse(&body, &own, &ask, &error), STATUS_OK);
        ck_assert(got->temperature == 0.5f && got->repetition == 1.5f);
        ck_assert(got->top_p == (i < 2 ? 0.75f : 0.5f) && got->min_p == (i < 2 ? 0.25f : 0.0f));
        ck_assert_uint_eq(got->top_k, i < 2 ? 20 : 7);
        ask_fini(&ask);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, each_shared_field_refuses_what_it_cannot_be);
    tcase_add_test(tests, a_known_field_that_is_not_served_is_named);
    tcase_add_test(tests, null_is_absent_and_neutral_values_ask_for_nothing);
    tcase_add_test(tests, values_arrive_where_they_belong);
    tcase_add_test(tests, a_models_defaults_hold_where_a_request_is_silent);
    tcase_add_test(tests, bounds_of_the_model_hold);
    tcase_add_test(tests, ids_without_text_are_no_answer_but_may_be_in_prompts);
    tcase_add_test(tests, completions_take_all_four_prompt_forms);
    tcase_add_test(tests, echo_allows_no_new_tokens);
    tcase_add_test(tests, chat_content_has_four_forms);
    tcase_add_test(tests, bad_messages_are_named);
    tcase_add_test(tests, an_unknown_model_is_not_found);
    tcase_add_test(tests, unknown_fields_are_noted_and_ignored);
    tcase_add_test(tests, sequences_of_a_call_are_bounded);
    tcase_add_test(tests, tokenize_takes_a_prompt_or_messages);
    tcase_add_test(tests, a_call_may_have_as_many_sequences_as_the_bound);
    tcase_add_test(tests, stops_may_be_as_long_as_the_bound);
    tcase_add_test(tests, whole_numbers_are_taken_from_bound_to_bound);
}
