#include "router/api/errors.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_api_json";
const double suite_timeout_s = 60;

/* What is written parses, and says the same. */
static void round_trip(const char *bytes, size_t n, const char *expected, size_t n_expected) {
    struct buf out;
    buf_init(&out, 0);
    json_put_string(&out, bytes, n);
    json_t *value = json_loadb(out.data, out.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    ck_assert_msg(value != NULL, "does not parse: %s", out.data);
    ck_assert_uint_eq(json_string_length(value), n_expected);
    ck_assert_mem_eq(json_string_value(value), expected, n_expected);
    json_decref(value);
    buf_fini(&out);
}

START_TEST(strings_come_back_as_they_were) {
    char all[128];
    for (int i = 0; i < 128; i++)
        all[i] = (char)i;
    round_trip(all, sizeof all, all, sizeof all);
    static const char text[] = "a\"b\\c/\n\r\t\b\f\x7f h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 end";
    round_trip(text, sizeof text - 1, text, sizeof text - 1);
    round_trip("", 0, "", 0);
}
END_TEST

START_TEST(bytes_that_are_no_text_become_replacements) {
    static const char fffd[] = "\xef\xbf\xbd";
    round_trip("\xff", 1, fffd, 3);
    round_trip("\xe2\x82", 2, fffd, 3);             /* a cut character is one */
    round_trip("\xe2\x82x", 3, "\xef\xbf\xbdx", 4); /* also in the middle */
    round_trip("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9); /* a surrogate: 3 */
    round_trip("\xf0\x9f\x98", 3, fffd, 3);
    round_trip("\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6);
}
END_TEST

START_TEST(numbers_are_json) {
    static const struct {
        float value;
        double expected;
    } cases[] = {{-INFINITY, -9999}, {NAN, -9999}, {-1e30f, -9999}, {0, 0},
                 {-0.5f, -0.5},      {1e-7f, 0},   {-2, -2},        {-0x1p-40f, -0x1p-40}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out;
        buf_init(&out, 0);
        json_put_logprob(&out, cases[i].value);
        json_t *value = json_loadb(out.data, out.n, JSON_DECODE_ANY, NULL);
        ck_assert_msg(json_is_real(value), "no real: %s", out.data);
        ck_assert_double_eq_tol(json_real_value(value), cases[i].expected, 1e-12);
        json_decref(value);
        buf_fini(&out);
    }
    struct buf out;
    buf_init(&out, 0);
    json_put_int(&out, INT64_MIN);
    buf_putc(&out, ' ');
    json_put_int(&out, INT64_MAX);
    buf_putc(&out, ' ');
    json_put_ids(&out, (uint32_t[]){0, UINT32_MAX}, 2);
    json_put_bytes(&out, "\xff\x01", 2);
    ck_assert_str_eq(out.data, "-9223372036854775808 9223372036854775807 [0,4294967295][255,1]");
    buf_fini(&out);
}
END_TEST

START_TEST(members_that_are_there_are_copied_with_commas_between_them) {
    static const struct json_put_copy members[] = {
        {.name = "missing"}, {.name = "null"}, {.name = "a"}, {"b", "c"}, {.name = "d"}};
    static const struct {
        size_t n;
        const char *copied;
    } cases[] = {{0, ""},
                 {2, ""},
                 {3, "\"a\":[1,\"\\\"\"]"},
                 {4, "\"a\":[1,\"\\\"\"],\"c\":false"},
                 {5, "\"a\":[1,\"\\\"\"],\"c\":false,\"d\":{}"}};
    json_t *object = json_loads(
        "{\"d\": {}, \"b\": false, \"a\": [1, \"\\\"\"], \"null\": null, \"e\": 2}", 0, NULL);
    ck_assert_ptr_nonnull(object);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out;
        buf_init(&out, 0);
        buf_putc(&out, '{');
        json_put_members(&out, object, members, cases[i].n);
        ck_assert_str_eq(out.data + 1, cases[i].copied);
        buf_fini(&out);
    }
    json_decref(object);
}
END_TEST

START_TEST(a_key_follows_a_comma_and_is_escaped) {
    struct buf out;
    buf_init(&out, 0);
    json_put_key(&out, "a");
    json_put_key(&out, "\"");
    ck_assert_str_eq(out.data, ",\"a\":,\"\\\"\":");
    buf_fini(&out);
}
END_TEST

START_TEST(statuses_become_the_documented_errors) {
    static const struct {
        enum status status;
        const char *code;
        int http;
        int grpc;
        const char *type;
        int retry_s;
    } cases[] = {
        {STATUS_INVALID, NULL, 400, 3, "invalid_request_error", 0},
        {STATUS_UNSUPPORTED, NULL, 400, 3, "invalid_request_error", 0},
        {STATUS_LIMIT, NULL, 400, 3, "invalid_request_error", 0},
        {STATUS_DENIED, NULL, 401, 16, "authentication_error", 0},
        {STATUS_DENIED, "forbidden", 403, 7, "permission_error", 0},
        {STATUS_NOT_FOUND, NULL, 404, 12, "not_found_error", 0},
        {STATUS_NOT_FOUND, "model_not_found", 404, 5, "invalid_request_error", 0},
        {STATUS_UNSUPPORTED, "method_not_allowed", 405, 12, "invalid_request_error", 0},
        {STATUS_UNSUPPORTED, "not_implemented", 501, 12, "invalid_request_error", 0},
        {STATUS_LIMIT, "body_too_large", 413, 8, "invalid_request_error", 0},
        {STATUS_INVALID, "not_one_message", 400, 12, "invalid_request_error", 0},
        {STATUS_BUSY, NULL, 429, 8, "rate_limit_error", 1},
        {STATUS_CORRUPT, NULL, 500, 13, "server_error", 0},
        {STATUS_CLOSED, NULL, 503, 14, "server_error", 1},
        {STATUS_TIMEOUT, NULL, 504, 4, "server_error", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct api_error error = {
            .status = cases[i].status, .code = cases[i].code, .error = {"what \"it\" was", "stop"}};
        struct buf out;
        buf_init(&out, 0);
        openai_form.error_event(&error, &out);
        ck_assert_int_eq(errors_http(&error), cases[i].http);
        ck_assert_int_eq(errors_grpc(&error), cases[i].grpc);
        ck_assert_int_eq(errors_want_retry(&error), cases[i].retry_s);
        ck_assert_int_eq(strncmp(out.data, "data: ", 6), 0);
        static const char done[] = "\n\ndata: [DONE]\n\n";
        ck_assert_str_eq(out.data + out.n - strlen(done), done);
        json_t *root = json_loads(out.data + 6, JSON_DISABLE_EOF_CHECK, NULL);
        json_t *object = json_object_get(root, "error");
        ck_assert_str_eq(json_string_value(json_object_get(object, "type")), cases[i].type);
        ck_assert_str_eq(json_string_value(json_object_get(object, "message")), "what \"it\" was");
        ck_assert_str_eq(json_string_value(json_object_get(object, "param")), "stop");
        json_t *code = json_object_get(object, "code");
        ck_assert(json_is_string(code) || json_is_null(code));
        json_decref(root);
        buf_fini(&out);
    }
}
END_TEST

START_TEST(a_prompt_that_is_too_long_is_refused_in_known_words) {
    struct error error;
    ck_assert_int_eq(errors_too_long(&error, "messages", 8192, 9031), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "This model's maximum context length is 8192 tokens. However, the "
                                 "prompt is too long: 9031 tokens.");
    ck_assert_str_eq(error.field, "messages");
    errors_too_long(&error, "prompt", 8192, 0);
    ck_assert_str_eq(error.text, "This model's maximum context length is 8192 tokens. However, the "
                                 "prompt is too long: more than 8192 tokens.");
    errors_too_long(&error, "prompt", 8192, 8192);
    ck_assert_str_eq(error.text, "This model's maximum context length is 8192 tokens. However, the "
                                 "prompt is too long to be followed by an answer: 8192 tokens.");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_prompt_that_is_too_long_is_refused_in_known_words);
    tcase_add_test(tests, strings_come_back_as_they_were);
    tcase_add_test(tests, bytes_that_are_no_text_become_replacements);
    tcase_add_test(tests, numbers_are_json);
    tcase_add_test(tests, members_that_are_there_are_copied_with_commas_between_them);
    tcase_add_test(tests, a_key_follows_a_comma_and_is_escaped);
    tcase_add_test(tests, statuses_become_the_documented_errors);
}
