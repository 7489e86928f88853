#include "tests/support/suite.h"

#include "base/part_name.h"

#include <string.h>

const char *const suite_name = "base_part_name";
const double suite_timeout_s = 60;

START_TEST(the_name_of_a_part_has_five_digits_twice) {
    static const struct {
        const char *name;
        size_t n_stem;
        uint32_t number, count;
    } cases[] = {{"x-00001-of-00003.gguf", 1, 1, 3},
                 {"a/b.c/model-q4-00012-of-00012.gguf", 14, 12, 12},
                 {"-00001-of-00001.gguf", 0, 1, 1},
                 {"x-00001-of-00002-00003-of-99999.gguf", 16, 3, 99999}};
    static const char *const others[] = {
        "",
        "x.gguf",
        "-of-.gguf",
        "00001-of-00003.gguf",
        "x-0001-of-00003.gguf",
        "x-00001-of-0003.gguf",
        "x-000001-of-00003.gguf",
        "x-00000-of-00003.gguf",
        "x-00004-of-00003.gguf",
        "x-00001-of-00003",
        "x-00001-of-00003.safetensors",
        "x-00001-OF-00003.gguf",
        "x-00001-of-0000a.gguf",
        "x- 0001-of-00003.gguf",
        "x-+0001-of-00003.gguf",
        "x_00001-of-00003.gguf",
        "x-00001-of-00003.gguf.gguf",
    };
    struct part_name part;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(part_name_read(cases[i].name, ".gguf", &part), "%s", cases[i].name);
        ck_assert_uint_eq(part.n_stem, cases[i].n_stem);
        ck_assert_uint_eq(part.number, cases[i].number);
        ck_assert_uint_eq(part.count, cases[i].count);
    }
    part = (struct part_name){7, 8, 9};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!part_name_read(others[i], ".gguf", &part), "%s", others[i]);
    ck_assert_uint_eq(part.n_stem + part.number + part.count, 24);
    ck_assert(part_name_read("model-00002-of-00003.safetensors", ".safetensors", &part));
}
END_TEST

START_TEST(a_name_becomes_that_of_another_part) {
    char name[] = "dir/x-00002-of-10000.gguf";
    struct part_name part;
    ck_assert(part_name_read(name, ".gguf", &part));
    part_name_set(name, &part, 1);
    ck_assert_str_eq(name, "dir/x-00001-of-10000.gguf");
    part_name_set(name, &part, 10000);
    ck_assert_str_eq(name, "dir/x-10000-of-10000.gguf");
}
END_TEST

START_TEST(parts_of_a_set_differ_in_their_numbers_alone) {
    static const struct {
        const char *other;
        bool same;
    } cases[] = {{"ab-00002-of-00003.gguf", true},   {"ab-00001-of-00003.gguf", true},
                 {"ab-00001-of-00004.gguf", false},  {"ac-00001-of-00003.gguf", false},
                 {"abc-00001-of-00003.gguf", false}, {"a-00001-of-00003.gguf", false}};
    const char *name = "ab-00001-of-00003.gguf";
    struct part_name part, other;
    ck_assert(part_name_read(name, ".gguf", &part));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(part_name_read(cases[i].other, ".gguf", &other));
        ck_assert_msg(part_name_same_set(name, &part, cases[i].other, &other) == cases[i].same,
                      "%s", cases[i].other);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_name_of_a_part_has_five_digits_twice);
    tcase_add_test(tests, a_name_becomes_that_of_another_part);
    tcase_add_test(tests, parts_of_a_set_differ_in_their_numbers_alone);
}
