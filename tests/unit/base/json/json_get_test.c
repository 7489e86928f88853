#include "base/json/json_get.h"

#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "base_json_get";
const double suite_timeout_s = 60;

static enum status parse_bytes(const char *bytes, size_t n) {
    struct error error = {0};
    json_t *root = NULL;
    enum status status = json_get_parse(bytes, n, &root, &error);
    ck_assert_int_eq(status == STATUS_OK, root != NULL);
    ck_assert_int_eq(status != STATUS_OK, error.text[0] != 0);
    json_decref(root);
    return status;
}

static enum status parse(const char *text) {
    return parse_bytes(text, strlen(text));
}

START_TEST(text_without_an_object_is_invalid) {
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[]",
        "1",
        "\"a\"",
        "null",
        "{\"a\":1,}",
        "{\"a\":1}x",
        "{'a':1}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":1e400}",
        "{\"a\":-1e999,\"b\":9223372036854775808}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":01}",
        "\xef\xbb\xbf{}",
        "{\"a\":\"\n\"}",
        "{\"a\" 1}",
        "{\"\\u0000\":1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(parse(bad[i]) == STATUS_INVALID, "accepted: %s", bad[i]);
}
END_TEST

START_TEST(legal_oddities_are_read) {
    ck_assert_int_eq(parse("{}"), STATUS_OK);
    ck_assert_int_eq(parse("{\"a\":\"x\\u0000y\"}"), STATUS_OK);
    ck_assert_int_eq(parse("{\"a\":9223372036854775808,\"b\":[-18446744073709551616]}"), STATUS_OK);
    ck_assert_int_eq(parse(" {\"a\":-0, \"b\":\"[[[\\\"\"} \n"), STATUS_OK);
}
END_TEST

START_TEST(depth_is_bounded) {
    char deep[2 * JSON_DEPTH_MAX + 16];
    for (int depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX; depth++) {
        size_t n = 0;
        n += (size_t)sprintf(deep, "{\"a\":");
        memset(deep + n, '[', (size_t)depth);
        n += (size_t)depth;
        memset(deep + n, ']', (size_t)depth);
        n += (size_t)depth;
        deep[n++] = '}';
        ck_assert_int_eq(parse_bytes(deep, n), depth < JSON_DEPTH_MAX ? STATUS_OK : STATUS_INVALID);
    }
    size_t n = 100000;
    char *brackets = malloc(n);
    memset(brackets, '[', n);
    ck_assert_int_eq(parse_bytes(brackets, n), STATUS_INVALID);
    brackets[0] = '{'; /* in a string they are text, behind an escaped quote too */
    memcpy(brackets + 1, "\"a\":\"\\\"", 7);
    memcpy(brackets + n - 2, "\"}", 2);
    ck_assert_int_eq(parse_bytes(brackets, n), STATUS_OK);
    free(brackets);
}
END_TEST

START_TEST(getters_tell_types_and_ranges) {
    json_t *root = json_loads(
        "{\"i\":5,\"r\":1.0,\"big\":9007199254740993,\"huge\":-1e19,\"s\":\"a\",\"n\":null,"
        "\"b\":true,\"l\":[1,2],\"o\":{}}",
        0, NULL);
    struct error error = {0};
    struct json_get get = {.object = root, .error = &error, .parent = "outer"};
    int64_t i = 7;
    double r = 7;
    bool b = false;
    struct span s = {0};
    const json_t *v = NULL;
    ck_assert_int_eq(json_get_int(&get, "absent", 0, 1, &i), STATUS_OK);
    ck_assert_int_eq(json_get_int(&get, "n", 0, 1, &i), STATUS_OK);
    ck_assert_int_eq(i, 7);
    ck_assert_int_eq(json_get_int(&get, "big", 0, INT64_MAX, &i), STATUS_OK);
    ck_assert(i == 9007199254740993);
    ck_assert_int_eq(json_get_int(&get, "r", 2, 9, &i), STATUS_INVALID);
    ck_assert_str_eq(error.field, "outer.r");
    ck_assert_int_eq(json_get_int(&get, "r", 0, 9, &i), STATUS_OK);
    ck_assert(i == 1);
    ck_assert_int_eq(json_get_int(&get, "i", 6, 9, &i), STATUS_INVALID);
    ck_assert_int_eq(json_get_int(&get, "huge", INT64_MIN, INT64_MAX, &i), STATUS_INVALID);
    ck_assert_str_eq(error.text, "`outer.huge` must be between -9223372036854775808 and "
                                 "9223372036854775807");
    ck_assert_int_eq(json_get_int(&get, "b", 0, 9, &i), STATUS_INVALID);
    ck_assert_int_eq(json_get_real(&get, "i", 0, 9, &r), STATUS_OK);
    ck_assert(r == 5.0);
    ck_assert_int_eq(json_get_real(&get, "s", 0, 9, &r), STATUS_INVALID);
    ck_assert_int_eq(json_get_real(&get, "r", 2, 9, &r), STATUS_INVALID);
    ck_assert_int_eq(json_get_bool(&get, "b", &b), STATUS_OK);
    ck_assert(b);
    ck_assert_int_eq(json_get_bool(&get, "i", &b), STATUS_INVALID);
    ck_assert_int_eq(json_get_text(&get, "s", 1, &s), STATUS_OK);
    ck_assert(span_is(s, "a"));
    ck_assert_int_eq(json_get_text(&get, "s", 0, &s), STATUS_INVALID);
    ck_assert_int_eq(json_get_array(&get, "l", 1, &v), STATUS_INVALID);
    ck_assert_int_eq(json_get_array(&get, "o", 1, &v), STATUS_INVALID);
    ck_assert_ptr_null(v);
    struct json_get inner = {0};
    ck_assert_int_eq(json_get_object(&get, "l", &inner), STATUS_INVALID);
    ck_assert_ptr_null(inner.error);
    ck_assert_str_eq(error.text, "`outer.l` must be an object");
    ck_assert_int_eq(json_get_object(&get, "absent", &inner), STATUS_OK);
    ck_assert_int_eq(json_get_bool(&inner, "b", &b), STATUS_OK);
    json_decref(root);
}
END_TEST

START_TEST(reals_that_are_whole_are_integers) {
    static const struct {
        const char *text;
        bool is_whole;
        int64_t number;
    } rows[] = {{"16.0", true, 16},
                {"1e1", true, 10},
                {"-3.0", true, -3},
                {"-0.0", true, 0},
                {"25e-1", false, 0},
                {"16.5", false, 0},
                {"1e-9", false, 0},
                {"9007199254740992.0", true, 9007199254740992},
                {"9223372036854774784.0", true, 9223372036854774784},
                {"9223372036854775807", true, INT64_MAX},
                {"-9223372036854775808", true, INT64_MIN},
                {"9223372036854775808.0", false, 0},
                {"-9223372036854777856.0", false, 0},
                {"1e300", false, 0},
                {"\"16\"", false, 0},
                {"true", false, 0},
                {"null", false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *value = json_loads(rows[i].text, JSON_DECODE_ANY, NULL);
        int64_t whole = 7;
        ck_assert_msg(json_get_whole(value, &whole) == rows[i].is_whole, "%s", rows[i].text);
        ck_assert_int_eq(whole, rows[i].is_whole ? rows[i].number : 7);
        json_decref(value);
    }
    ck_assert(!json_get_whole(NULL, &(int64_t){0}));
}
END_TEST

/* One document: a member of every type. */
static const char document[] =
    "{\"i\":5,\"low\":-1,\"high\":4294967296,\"top\":4294967295,\"s\":\"abc\",\"r\":0.5,"
    "\"n\":null,\"l\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27],"
    "\"o\":{\"i\":true}}";

START_TEST(members_that_are_needed_are_missed) {
    json_t *root = json_loads(document, 0, NULL);
    struct error error = {0};
    struct json_get get = {.object = root, .error = &error};
    uint32_t u = 7;
    double r = 7;
    struct span s = {0};
    const json_t *v = NULL;
    ck_assert_int_eq(json_need_u32(&get, "absent", &u), STATUS_INVALID);
    ck_assert_str_eq(error.text, "`absent` is missing");
    ck_assert_int_eq(json_need_u32(&get, "n", &u), STATUS_INVALID);
    ck_assert_int_eq(json_need_f64(&get, "n", &r), STATUS_INVALID);
    ck_assert_int_eq(json_need_text(&get, "n", &s), STATUS_INVALID);
    ck_assert_int_eq(json_need_array(&get, "n", &v), STATUS_INVALID);
    ck_assert_uint_eq(u, 7);
    ck_assert_int_eq(json_get_u32(&get, "n", &u), STATUS_OK);
    ck_assert_uint_eq(u, 7);
    ck_assert_int_eq(json_get_u32(&get, "low", &u), STATUS_INVALID);
    ck_assert_int_eq(json_get_u32(&get, "high", &u), STATUS_INVALID);
    ck_assert_uint_eq(u, 7);
    ck_assert_int_eq(json_need_u32(&get, "top", &u), STATUS_OK);
    ck_assert_uint_eq(u, UINT32_MAX);
    ck_assert_int_eq(json_need_f64(&get, "r", &r), STATUS_OK);
    ck_assert_double_eq(r, 0.5);
    ck_assert_int_eq(json_need_text(&get, "s", &s), STATUS_OK);
    ck_assert(span_is(s, "abc"));
    ck_assert_int_eq(json_need_array(&get, "l", &v), STATUS_OK);
    ck_assert_uint_eq(json_array_size(v), 27);
    json_decref(root);
}
END_TEST

START_TEST(mistakes_in_files_name_file_key_and_value) {
    json_t *root = json_loads(document, 0, NULL);
    struct error error = {0};
    struct json_get get = {.object = root, .error = &error, .file = "config.json"};
    struct json_get inner = {0};
    const char *text = "kept";
    uint32_t u = 7;
    bool b = false;
    ck_assert_int_eq(json_get_u32(&get, "s", &u), STATUS_INVALID);
    ck_assert_str_eq(error.text, "config.json: s must be an integer, not \"abc\"");
    ck_assert_int_eq(json_get_u32(&get, "low", &u), STATUS_INVALID);
    ck_assert_str_eq(error.text, "config.json: low must be between 0 and 4294967295, not -1");
    ck_assert_int_eq(json_get_bool(&get, "l", &b), STATUS_INVALID);
    ck_assert_str_eq(error.text, "config.json: l must be true or false, not "
                                 "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23");
    ck_assert_int_eq(json_get_object(&get, "o", &inner), STATUS_OK);
    ck_assert_int_eq(json_need_u32(&inner, "i", &u), STATUS_INVALID);
    ck_assert_str_eq(error.text, "config.json: o.i must be an integer, not true");
    ck_assert_str_eq(error.field, "o.i");
    ck_assert_int_eq(json_get_want(&inner, "i", true), STATUS_OK);
    ck_assert_int_eq(json_get_want(&inner, "absent", false), STATUS_OK);
    ck_assert_int_eq(json_get_want(&inner, "i", false), STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.text, "config.json: o.i is true: only false is served");
    ck_assert_int_eq(json_get_string(&get, "absent", &text), STATUS_OK);
    ck_assert_str_eq(text, "kept");
    ck_assert_int_eq(json_get_string(&get, "s", &text), STATUS_OK);
    ck_assert_str_eq(text, "abc");
    json_decref(root);
}
END_TEST

START_TEST(a_part_of_a_file_is_corrupt) {
    json_t *root = json_loads(document, 0, NULL);
    struct error error = {0};
    struct json_get get = json_get_part(root, &error);
    struct span s = {0};
    uint32_t u = 7;
    ck_assert_int_eq(json_need_text(&get, "absent", &s), STATUS_CORRUPT);
    ck_assert_str_eq(error.text, "absent is missing");
    ck_assert_int_eq(json_need_text(&get, "i", &s), STATUS_CORRUPT);
    ck_assert_str_eq(error.text, "i must be a string, not 5");
    ck_assert_int_eq(json_get_text(&get, "s", 2, &s), STATUS_CORRUPT);
    ck_assert_int_eq(json_need_u32(&get, "low", &u), STATUS_CORRUPT);
    json_decref(root);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, text_without_an_object_is_invalid);
    tcase_add_test(tests, legal_oddities_are_read);
    tcase_add_test(tests, depth_is_bounded);
    tcase_add_test(tests, getters_tell_types_and_ranges);
    tcase_add_test(tests, reals_that_are_whole_are_integers);
    tcase_add_test(tests, members_that_are_needed_are_missed);
    tcase_add_test(tests, mistakes_in_files_name_file_key_and_value);
    tcase_add_test(tests, a_part_of_a_file_is_corrupt);
}
