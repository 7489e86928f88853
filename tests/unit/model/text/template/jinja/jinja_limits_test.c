/* Every bound of jinja.h holds, with the line that met it; no template hangs, crashes or eats the
 * memory. */
#include "tests/unit/model/text/template/jinja/jinja_check.h"

#include "base/buf.h"
#include "model/text/template/template.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model_jinja_limits";
const double suite_timeout_s = 120;

/* `begin`, n times `part`, `end`. */
static void expect_long(const char *begin, const char *part, size_t n, const char *end,
                        enum status status, const char *words) {
    struct buf source;
    buf_init(&source, 0);
    buf_puts(&source, begin);
    for (size_t i = 0; i < n; i++)
        buf_puts(&source, part);
    buf_puts(&source, end);
    ck_assert_int_eq(buf_status(&source), STATUS_OK);
    jinja_check_refused(source.data, status, words);
    buf_fini(&source);
}

START_TEST(sources_are_bounded) {
    expect_long("", "0123456789abcdef", (JINJA_SOURCE_MAX >> 4) + 1, "", STATUS_LIMIT, "bytes");
    expect_long("", "{{1}}", 40000, "", STATUS_LIMIT, "parts");
    jinja_check_refused("\xff\xfe", STATUS_INVALID, "UTF-8");
}
END_TEST

#define FIVE ")))))))))))))))))))))))))"

START_TEST(nesting_is_bounded) {
    expect_long("\n\n{{ ", "(", 6000, "1 }}", STATUS_LIMIT, "line 3: ");
    expect_long("{{ ", "(", 125, "1" FIVE FIVE FIVE FIVE FIVE " }}", STATUS_LIMIT, "deep");
    expect_long("{{ ", "[", 6000, "1 }}", STATUS_LIMIT, "deep");
    expect_long("{{ ", "{1:", 6000, "1 }}", STATUS_LIMIT, "deep");
    expect_long("{{ ", "not ", 6000, "1 }}", STATUS_LIMIT, "deep");
    expect_long("{{ ", "-", 6000, "1 }}", STATUS_LIMIT, "deep");
    expect_long("{{ x", ".a", 6000, " }}", STATUS_LIMIT, "deep");
    expect_long("{{ x", "|trim", 6000, " }}", STATUS_LIMIT, "deep");
    expect_long("{{ x", "()", 6000, " }}", STATUS_LIMIT, "deep");
    expect_long("{{ x", " if 1 else 2", 6000, " }}", STATUS_LIMIT, "deep");
    expect_long("", "{% if 1 %}", 6000, "", STATUS_LIMIT, "deep");
    expect_long("", "{% set x | upper ", 1, "%}{% endset %}{% set y %}{% set", STATUS_INVALID, "");
    expect_long("{{ ", "f(", 6000, "1 }}", STATUS_LIMIT, "deep");
}
END_TEST

/* Long is not deep: as many operators, branches and items as fit into a source. */
START_TEST(long_chains_are_not_deep) {
    struct buf source;
    static const char *const links[] = {" + 1", " ~ 1", " and 1", " or 0", " < 2", " * 1"};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        struct jinja_output output;
        struct error error = {0};
        buf_init(&source, 0);
        buf_puts(&source, "{% set x = 1");
        for (int j = 0; j < 5000; j++)
            buf_puts(&source, links[i]);
        buf_puts(&source, " %}");
        ck_assert_msg(jinja_check_run(source.data, &output, &error) == STATUS_OK, "%s", error.text);
        jinja_output_fini(&output);
        buf_fini(&source);
    }
}
END_TEST

START_TEST(steps_and_depth_are_bounded) {
    jinja_check_refused("{% for i in range(10**9) %}{% endfor %}", STATUS_LIMIT, "range");
    jinja_check_refused("\n{% for i in range(99999) %}\n{% for j in range(99999) %}\n"
                        "{% set x = j %}{% endfor %}{% endfor %}",
                        STATUS_LIMIT, "steps");
    jinja_check_refused("{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", STATUS_LIMIT, "line");
    jinja_check_refused("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}"
                        "{% endmacro %}{{ a() }}",
                        STATUS_LIMIT, "inside each other");
    jinja_check_refused("{% set x = 'a' * 4000000 %}{% for i in range(99999) %}{{ 'b' in x }}"
                        "{% endfor %}",
                        STATUS_LIMIT, "steps");
    jinja_check_refused("{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{{ x | length }}"
                        "{% endfor %}",
                        STATUS_LIMIT, "steps");
}
END_TEST

START_TEST(memory_and_output_are_bounded) {
    jinja_check_refused("{% set n = namespace(x='ab') %}{% for i in range(99) %}"
                        "{% set n.x = n.x + n.x %}{% endfor %}",
                        STATUS_LIMIT, "bytes");
    jinja_check_refused("{{ 'x' * 10000000000 }}", STATUS_LIMIT, "");
    jinja_check_refused("{{ [1] * 10000000000 }}", STATUS_LIMIT, "");
    jinja_check_refused("{% set x = 'x' * 1000 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
                        STATUS_LIMIT, "the text has more than");
    jinja_check_refused("{% set x = 'a' * 2000 %}{{ x.replace('a', x).replace('a', x) }}",
                        STATUS_LIMIT, "");
    jinja_check_refused("{{ '{:999999999}'.format(1) }}", STATUS_LIMIT, "wider");
    jinja_check_refused("{{ 'a' | indent(999999999) }}", STATUS_LIMIT, "wider");
    jinja_check_refused("{{ 2 ** 1000000000 }}", STATUS_LIMIT, "64 bits");
    jinja_check_refused("{{ 9223372036854775807 + 1 }}", STATUS_LIMIT, "64 bits");
    jinja_check_refused("{{ 99999999999999999999 }}", STATUS_LIMIT, "64 bits");
    jinja_check_text("{{ (-9223372036854775807 - 1) % -1 }}", "0");
}
END_TEST

/* What a template nests step by step is no deeper for those who walk through it. */
START_TEST(values_are_bounded_in_depth) {
    static const char nest[] = "{% set n = namespace(x=[], y=[]) %}{% for i in range(9999) %}"
                               "{% set n.x = [n.x] %}{% set n.y = [n.y] %}{% endfor %}";
    static const char *const uses[] = {"{{ n.x }}",          "{{ n.x == n.y }}",
                                       "{{ n.x < n.y }}",    "{{ n.x | tojson }}",
                                       "{{ n.x in [n.y] }}", "{{ n.x | string }}"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        expect_long(nest, uses[i], 1, "", STATUS_LIMIT, "");
}
END_TEST

START_TEST(requests_are_bounded_in_depth) {
    struct buf text;
    buf_init(&text, 0);
    buf_puts(&text, "{\"deep\": ");
    for (int i = 0; i < 1000; i++)
        buf_puts(&text, "[");
    for (int i = 0; i < 1000; i++)
        buf_puts(&text, "]");
    buf_puts(&text, "}");
    jinja_check_variables = text.data;
    jinja_check_refused("{{ deep }}", STATUS_LIMIT, "nested");
    jinja_check_text("never named, never read", "never named, never read");
    buf_fini(&text);
}
END_TEST

/* A long request is not refused for its length: budgets grow with it. */
START_TEST(long_requests_are_rendered) {
    struct jinja_program *program;
    struct jinja_output output;
    struct error error = {0};
    size_t n = (size_t)6 << 20;
    char *words = malloc(n);
    memset(words, 'w', n);
    json_t *variables =
        json_pack("{s:[{s:s, s:s#}]}", "messages", "role", "user", "content", words, (int)n);
    struct jinja_input input = {.variables = variables, .roles = template_role_names};
    static const char source[] = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim + '.' }}"
                                 "{{ m.content == m.content }}{% endfor %}";
    ck_assert_int_eq(jinja_parse((struct span){source, sizeof source - 1}, &program, &error),
                     STATUS_OK);
    enum status status = jinja_render(program, &input, &output, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(output.n, n + 11);
    jinja_output_fini(&output);
    jinja_free(program);
    json_decref(variables);
    free(words);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, sources_are_bounded);
    tcase_add_test(tests, nesting_is_bounded);
    tcase_add_test(tests, long_chains_are_not_deep);
    tcase_add_test(tests, steps_and_depth_are_bounded);
    tcase_add_test(tests, memory_and_output_are_bounded);
    tcase_add_test(tests, values_are_bounded_in_depth);
    tcase_add_test(tests, requests_are_bounded_in_depth);
    tcase_add_test(tests, long_requests_are_rendered);
}
