/* The table of what is served. */
#include "router/serve/api.h"
#include "tests/support/suite.h"

#include <string.h>

const char *const suite_name = "router_api_paths";
const double suite_timeout_s = 60;

START_TEST(a_path_that_is_nearly_served_is_named) {
    static const char *const cases[][2] = {
        {"/chat/completions", "/v1/chat/completions"},
        {"/models/x", "/v1/models/x"},
        {"/v1/models/", "/v1/models"},
        {"//v1/models", "/v1/models"},
        {"/v1//chat/completions/", "/v1/chat/completions"},
        {"/v1/v1/completions", "/v1/completions"},
        {"/v1/tokenize", "/tokenize"},
        {"/", NULL},
        {"/v1", NULL},
        {"/v1/nothing", NULL},
        {"*", NULL},
    };
    char near[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool found = api_near(cases[i][0], near);
        ck_assert_msg(found == (cases[i][1] != NULL), "%s: %s", cases[i][0], near);
        if (found)
            ck_assert_str_eq(near, cases[i][1]);
    }
    char longest[4000];
    memset(longest, 'a', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = 0;
    ck_assert(!api_near(longest, near));
}
END_TEST

START_TEST(a_models_id_may_have_a_slash) {
    static const struct {
        const char *path, *rest; /* NULL: not served */
    } cases[] = {{"/v1/models/x", "x"},       {"/v1/models/org/name", "org/name"},
                 {"/v1/models//x", NULL},     {"/v1/models/x/", NULL},
                 {"/v1/models/org//x", NULL}, {"/v1/models/", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct api_match match;
        api_find("GET", cases[i].path, &match);
        ck_assert_msg((match.dialect != NULL) == (cases[i].rest != NULL), "%s", cases[i].path);
        ck_assert_str_eq(match.rest, cases[i].rest ? cases[i].rest : "");
    }
}
END_TEST

START_TEST(the_page_stands_at_its_path_alone) {
    struct api_match match;
    api_find("GET", "/", &match);
    ck_assert_str_eq(match.dialect->name, "page");
    static const char *const others[] = {"/x", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        api_find("GET", others[i], &match);
        ck_assert_ptr_null(match.dialect);
        ck_assert_ptr_null(match.at_path);
        ck_assert_str_eq(match.allow, "");
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_page_stands_at_its_path_alone);
    tcase_add_test(tests, a_models_id_may_have_a_slash);
    tcase_add_test(tests, a_path_that_is_nearly_served_is_named);
}
