/* Values at the bounds of what a field takes, and what the fields of one request leave each other. */
#include "tests/unit/router/api/parse_rig.h"

const char *const suite_name = "router_api_bounds";
const double suite_timeout_s = 60;

START_TEST(what_is_allowed_must_hold_more_than_ends_while_there_may_be_none) {
    static const char *const empty[] = {
        "\"allowed_token_ids\":[256],\"min_tokens\":2",
        "\"allowed_token_ids\":[40],\"stop_token_ids\":[40],\"min_tokens\":2",
        "\"allowed_token_ids\":[40,2],\"stop_token_ids\":[40],\"min_tokens\":2",
        "\"allowed_token_ids\":[2,256],\"ignore_eos\":true,\"min_tokens\":1",
        "\"allowed_token_ids\":[41,256,40],\"stop_token_ids\":[40,7,41],\"min_tokens\":1",
        "\"allowed_token_ids\":[256],\"min_tokens\":2,\"logit_bias\":{\"7\":100}",
    };
    static const char *const fine[] = {
        "\"allowed_token_ids\":[256]",
        "\"allowed_token_ids\":[256],\"min_tokens\":0",
        "\"allowed_token_ids\":[256,257],\"min_tokens\":2",
        "\"allowed_token_ids\":[40],\"stop_token_ids\":[40]",
        "\"allowed_token_ids\":[40,41],\"stop_token_ids\":[40],\"min_tokens\":2",
        "\"allowed_token_ids\":[41,40,256],\"stop_token_ids\":[40],\"min_tokens\":2",
        "\"stop_token_ids\":[40],\"min_tokens\":2",
        "\"allowed_token_ids\":[256],\"min_tokens\":2,\"guided_regex\":\"a?\"", /* may end at once */
    };
    for (size_t d = 0; d < 2; d++) {
        for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
            refused(both[d], empty[i], STATUS_INVALID, "allowed_token_ids");
        for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
            struct ask ask;
            accepted(both[d], fine[i], &ask);
            ask_fini(&ask);
        }
    }
}
END_TEST

START_TEST(stops_may_be_as_many_as_the_bound) {
    static const size_t numbers[] = {0, 1, 16, 17, 48, ASK_STOPS_MAX, ASK_STOPS_MAX + 1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char members[1024] = "\"stop\":[";
        size_t n = strlen(members);
        for (size_t k = 0; k < numbers[i]; k++)
            n += (size_t)sprintf(members + n, "%s\"<%zu>\"", k > 0 ? "," : "", k);
        strcpy(members + n, "]");
        if (numbers[i] > ASK_STOPS_MAX) {
            refused(&dialect_chat, members, STATUS_INVALID, "stop");
            continue;
        }
        struct ask ask;
        accepted(&dialect_chat, members, &ask);
        ck_assert_uint_eq(ask.n_stops, numbers[i]);
        for (size_t k = 0; k < numbers[i]; k++) {
            char text[16];
            snprintf(text, sizeof text, "<%zu>", k);
            ck_assert(span_is(ask.stops[k], text));
        }
        ask_fini(&ask);
    }
}
END_TEST

/* By JSON Schema 16.0 is an integer. */
START_TEST(whole_numbers_may_be_written_as_reals) {
    struct ask ask;
    accepted(&dialect_completions,
             "\"max_tokens\":16.0,\"top_k\":4e1,\"n\":1.0,\"priority\":-1.0,\"seed\":1e1,"
             "\"min_tokens\":2.0,\"logprobs\":5.0,\"stop_token_ids\":[7.0,8,9e0]",
             &ask);
    ck_assert(ask.sampling.max_new == 16 && ask.sampling.top_k == 40 && ask.n_choices == 1);
    ck_assert(ask.priority == -1 && ask.sampling.seed == 10 && ask.sampling.min_new == 2);
    ck_assert(ask.sampling.n_top == 5 && ask.sampling.n_stop_ids == 3);
    ck_assert(ask.sampling.stop_ids[0] == 7 && ask.sampling.stop_ids[2] == 9);
    ask_fini(&ask);
}
END_TEST

START_TEST(a_top_p_of_nothing_is_taken) {
    static const char *const members[] = {"\"top_p\":0", "\"top_p\":0.0,\"temperature\":1",
                                          "\"top_p\":-0.0", "\"top_p\":1e-320"};
    for (size_t d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            struct ask ask;
            accepted(both[d], members[i], &ask);
            ck_assert(ask.sampling.top_p == 0.0f);
            ask_fini(&ask);
        }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, what_is_allowed_must_hold_more_than_ends_while_there_may_be_none);
    tcase_add_test(tests, stops_may_be_as_many_as_the_bound);
    tcase_add_test(tests, whole_numbers_may_be_written_as_reals);
    tcase_add_test(tests, a_top_p_of_nothing_is_taken);
}
