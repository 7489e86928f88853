#include "tests/support/suite.h"

#include "router/serve/cors.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "router_cors";
const double suite_timeout_s = 60;

#define USUAL "authorization, content-type, x-api-key, x-request-id, x-request-timeout, traceparent"

START_TEST(a_preflight_is_told_the_names_that_it_asks_for) {
    static const struct {
        const char *asked, *allowed;
    } rows[] = {
        {"authorization,content-type,x-stainless-lang",
         "authorization, content-type, x-stainless-lang"},
        {"OpenAI-Beta , x-title,\thttp-referer", "OpenAI-Beta, x-title, http-referer"},
        {"x", "x"},
        {"!#$%&'*+-.^_`|~09azAZ", "!#$%&'*+-.^_`|~09azAZ"},
        {",a,,b, ,", "a, b"},
        {"a, x y, b\x01, \xc3\xa4, c:d, \"e\", f/g, h;i, (j), ok", "a, ok"},
        {"a\r\nset-cookie: x", USUAL},
        {",", USUAL},
        {"", USUAL},
        {NULL, USUAL},
    };
    char allowed[CORS_HEADERS_MAX + 1];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_str_eq(cors_headers(rows[i].asked, allowed), rows[i].allowed);
}
END_TEST

/* Two names, the second of which fits and, one byte longer, does not; what follows may still. */
START_TEST(a_preflights_names_are_bounded) {
    char *allowed = malloc(CORS_HEADERS_MAX + 1);
    char asked[2 * CORS_HEADERS_MAX];
    for (size_t more = 0; more < 2; more++) {
        size_t n = CORS_HEADERS_MAX - 5 + more;
        memset(asked, 'x', n + 4);
        memcpy(asked, "abc,", 4);
        strcpy(asked + n + 4, ",d");
        cors_headers(asked, allowed);
        ck_assert_uint_eq(strlen(allowed), more ? 6 : CORS_HEADERS_MAX);
        ck_assert_msg(strncmp(allowed, more ? "abc, d" : "abc, xxx", more ? 7 : 8) == 0, "%.20s",
                      allowed);
    }
    free(allowed);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_preflight_is_told_the_names_that_it_asks_for);
    tcase_add_test(tests, a_preflights_names_are_bounded);
}
