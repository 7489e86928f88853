#include "base/json/json_read.h"
#include "base/json/json_text.h"

#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "base_json_read";
const double suite_timeout_s = 60;

static json_t *read_text(const char *text) {
    json_error_t error;
    json_t *value = json_read(text, strlen(text), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(value != NULL, "%s: %s", text, error.text);
    return value;
}

START_TEST(integers_beyond_64_bits_are_the_nearest_reals) {
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"9223372036854775808", 0x1p63},
        {"-9223372036854775809", -0x1p63},
        {"18446744073709551615", 0x1p64},
        {"1000000000000000019884624838656", 1e30},
        {"-1000000000000000019884624838656", -1e30},
        {"9999999999999999999", 1e19},
        {"99999999999999999999999999999999999999999999999999", 1e50},
        /* Between two doubles, and a little more: cut digits would round the wrong way. */
        {"9223372036854776832", 0x1p63},
        {"9223372036854776833", 0x1.0000000000001p63},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *value = read_text(rows[i].text);
        ck_assert_msg(json_is_real(value) && json_real_value(value) == rows[i].value, "%s: %.17g",
                      rows[i].text, json_number_value(value));
        json_decref(value);
    }
}
END_TEST

START_TEST(all_other_numbers_are_as_ever) {
    json_t *list = read_text("[9223372036854775807,-9223372036854775808,9007199254740993,-0,"
                             "0.12345678901234567890,12345678901234567890.5,"
                             "12345678901234567890e-19,18446744073709551616]");
    ck_assert_int_eq(json_integer_value(json_array_get(list, 0)), INT64_MAX);
    ck_assert_int_eq(json_integer_value(json_array_get(list, 1)), INT64_MIN);
    ck_assert_int_eq(json_integer_value(json_array_get(list, 2)), 9007199254740993);
    ck_assert(json_is_integer(json_array_get(list, 3)));
    ck_assert(json_real_value(json_array_get(list, 4)) == 0.12345678901234567890);
    ck_assert(json_real_value(json_array_get(list, 5)) == 12345678901234567890.5);
    ck_assert(json_real_value(json_array_get(list, 6)) == 1.2345678901234567890);
    ck_assert(json_real_value(json_array_get(list, 7)) == 0x1p64);
    json_decref(list);
}
END_TEST

START_TEST(numbers_in_strings_are_text) {
    json_t *root = read_text("{\"18446744073709551615\":\"18446744073709551615\","
                             "\"a\\\"-18446744073709551615\":\"\\\\\",\"b\":18446744073709551615}");
    ck_assert_str_eq(json_string_value(json_object_get(root, "18446744073709551615")),
                     "18446744073709551615");
    ck_assert_ptr_nonnull(json_object_get(root, "a\"-18446744073709551615"));
    ck_assert(json_is_real(json_object_get(root, "b")));
    json_decref(root);
}
END_TEST

/* The parser asks for a kilobyte at a time: wherever that ends, the value is the same. */
START_TEST(a_number_may_lie_anywhere) {
    for (size_t n_spaces = 900; n_spaces < 1100; n_spaces++) {
        char text[1400];
        memset(text, ' ', n_spaces);
        strcpy(text + n_spaces,
               "[-18446744073709551615,0.18446744073709551615,\"18446744073709551615\"]");
        json_t *list = read_text(text);
        ck_assert(json_real_value(json_array_get(list, 0)) == -0x1p64);
        ck_assert(json_real_value(json_array_get(list, 1)) == 0.18446744073709551615);
        ck_assert_str_eq(json_string_value(json_array_get(list, 2)), "18446744073709551615");
        json_decref(list);
    }
}
END_TEST

/* An integer of n digits, all of them nines. */
static json_t *read_nines(size_t n, json_error_t *error) {
    char text[512] = "";
    memset(text, '9', n);
    return json_read(text, n, JSON_DECODE_ANY, error);
}

START_TEST(every_length_up_to_the_largest_double_is_read) {
    json_error_t error;
    for (size_t n = 1; n <= 308; n++) {
        char wanted[16];
        json_t *value = read_nines(n, &error);
        ck_assert_msg(value != NULL, "%zu digits: %s", n, error.text);
        ck_assert_int_eq(json_is_integer(value), n <= 18);
        snprintf(wanted, sizeof wanted, "1e%zu", n);
        if (n > 18)
            ck_assert(json_real_value(value) == strtod(wanted, NULL));
        json_decref(value);
    }
    ck_assert_ptr_null(read_nines(309, &error));
    ck_assert_msg(strstr(error.text, "real number overflow"), "%s", error.text);
    ck_assert_ptr_null(read_nines(500, &error));
    ck_assert_msg(strstr(error.text, "real number overflow"), "%s", error.text);
}
END_TEST

START_TEST(errors_are_where_they_are_in_the_text) {
    static const struct {
        const char *text;
        int line, column;
        const char *words;
    } rows[] = {
        {"{\"a\":18446744073709551615,\n \"b\":-18446744073709551615, x}", 2, 29, "'x'"},
        {"{\"a\":18446744073709551615,\"b\" 18446744073709551616}", 1, 50,
         "':' expected near '18446744073709551616'"},
        {"[18446744073709551615,1e999]", 1, 27, "real number overflow near '1e999'"},
        {"[18446744073709551615,018446744073709551615]", 1, 23, "'0'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_error_t error;
        ck_assert_ptr_null(json_read(rows[i].text, strlen(rows[i].text), 0, &error));
        ck_assert_msg(error.line == rows[i].line && error.column == rows[i].column &&
                          strstr(error.text, rows[i].words),
                      "%s: line %d, column %d: %s", rows[i].text, error.line, error.column,
                      error.text);
    }
}
END_TEST

START_TEST(a_file_may_hold_them) {
    static const char text[] = "{\"model_max_length\":1000000000000000019884624838656}";
    struct error error;
    json_t *root;
    ck_assert_int_eq(json_text_parse((struct span){text, sizeof text - 1}, "f", &json_limits_config,
                                     &root, &error),
                     STATUS_OK);
    ck_assert(json_real_value(json_object_get(root, "model_max_length")) == 1e30);
    json_decref(root);
    ck_assert_int_eq(
        json_text_parse(SPAN("{\"a\":\n1e999}"), "f", &json_limits_config, &root, &error),
        STATUS_CORRUPT);
    ck_assert_str_eq(error.text, "f: line 2, column 5: real number overflow near '1e999'");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, integers_beyond_64_bits_are_the_nearest_reals);
    tcase_add_test(tests, all_other_numbers_are_as_ever);
    tcase_add_test(tests, numbers_in_strings_are_text);
    tcase_add_test(tests, a_number_may_lie_anywhere);
    tcase_add_test(tests, every_length_up_to_the_largest_double_is_read);
    tcase_add_test(tests, errors_are_where_they_are_in_the_text);
    tcase_add_test(tests, a_file_may_hold_them);
}
