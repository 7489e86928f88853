/* The language, one thing at a time. What is right was said by jinja2 3.1.6
 * (tests/e2e/jinja_snippets.py compares more). */
#include "tests/unit/model/text/template/jinja/jinja_check.h"

#include <string.h>

const char *const suite_name = "model_jinja_language";
const double suite_timeout_s = 60;

struct sample {
    const char *source;
    const char *wanted;
};

static void check(const struct sample *samples, size_t n) {
    for (size_t i = 0; i < n; i++)
        jinja_check_text(samples[i].source, samples[i].wanted);
}

START_TEST(expressions_are_pythons) {
    static const struct sample samples[] = {
        {"{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ "
         "2 ** 10 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 6 / 2 }}",
         "3 3 -4 1 2 -2 1024 0.5 3.5 3.0"},
        {"{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 123456789.125 }} {{ 1e300 "
         "}} {{ 0.1 + 0.2 }} {{ 100.0 * 3 }} {{ 2.5 // 1 }} {{ -2.5 % 2 }}",
         "1.0 1e+16 1000000000000000.0 1.5e-05 0.0001 123456789.125 1e+300 0.30000000000000004 "
         "300.0 2.0 1.5"},
        {"{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5 }} {{ 5e3 }} {{ 5E-3 }}",
         "31 5 15 1000 10.5 5000.0 0.005"},
        {"{{ 'a' 'b' \"c\" }} {{ 'a\\n\\t\\\\\\'\\x41\\u00e9\\101\\q' }} {{ \"it's\" }} {{ 'a' ~ 1 "
         "~ none ~ true ~ 1.5 ~ [1, 'a'] ~ undefined_thing }}",
         "abc a\n\t\\'A\xc3\xa9"
         "A\\q it's a1NoneTrue1.5[1, 'a']"},
        {"{{ true }} {{ True }} {{ none }} {{ None }} {{ false and 1 }} {{ 0 or 'x' }} {{ '' or [] "
         "}} {{ 1 and 2 }} {{ not 1 }} {{ not not 1 }}",
         "True True None None False x [] 2 False True"},
        {"{{ 1 != 2 }} {{ 'a' != 1 }} {{ {'a': 1} == {'a': 1.0} }} {{ [1, [2]] == [1, [2]] }} {{ "
         "nope == nada }} {{ nope == none }}",
         "True True True True True False"},
        {"{{ 1 in l }} {{ 4 not in l }} {{ 'l' in s }} {{ '' in s }} {{ 'a' in d }} {{ 'x' in d }} "
         "{{ 1 in (1, 2) }} {{ 'x' in nope }} {{ not 'a' in d }}",
         "True True True True True False True False False"},
        {"{{ l[1:] }} {{ l[:2] }} {{ l[::2] }} {{ l[::-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[-3:] "
         "}} {{ s[:-1] }} {{ l[5:] }} {{ s[3:1] }} {{ l[-2:9] }} {{ s[::2] }} {{ l[2:0:-1] }}",
         "[2, 3] [1, 2] [1, 3] [3, 2, 1] \xc3\xa9l oll\xc3\xa9h llo h\xc3\xa9ll []  [2, 3] hlo [3, "
         "2]"},
        {"{{ 'x' * 3 }} {{ 3 * 'x' }} {{ [1] * 2 }} {{ 'x' * 0 }} {{ 'x' * -1 }} {{ [1] + [2] }} "
         "{{ (1,) + (2,) }} {{ true + true }}",
         "xxx xxx [1, 1]   [1, 2] (1, 2) 2"},
        {"{{ [1, 2, ] }} {{ (1, 2, ) }} {{ {'a': 1, } }} {{ [[1, 2], [3]][0][1] }} {{ 'abc'[1] }} "
         "{{ (1, 2)[0] }}",
         "[1, 2] (1, 2) {'a': 1} 2 b 1"},
    };
    check(samples, sizeof samples / sizeof *samples);
}
END_TEST

START_TEST(filters_and_methods_are_pythons) {
    static const struct sample samples[] = {
        {"{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ - - 2 }} {{ +3 }} {{ -n }} {{ -yes }}",
         "64 4 2 3 -3 -1"},
        {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' }} {{ 'a' < "
         "'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) == [1] }} {{ none == none }}",
         "True False True True True True True False True"},
        {"{{ l['a'] }}|{{ l[1.5] }}|{{ s['upper']() }}|{{ n.foo }}|{{ none.foo }}|{{ s.foo }}",
         "||H\xc3\x89LLO|||"},
        {"{{ d.items() | list }} {{ d | items | list }} {{ d | dictsort }} {{ d.get('a') }} {{ "
         "d.get('z') }} {{ d.get('z', 5) }}",
         "[('b', 2), ('a', 'x')] [('b', 2), ('a', 'x')] [('a', 'x'), ('b', 2)] x None 5"},
        {"{{ s | upper }} {{ s | lower }} {{ 'hELLO wORLD' | title }} {{ 'hELLO wORLD' | "
         "capitalize }} {{ s | length }} {{ s | count }} {{ l | length }} {{ d | length }}",
         "H\xc3\x89LLO h\xc3\xa9llo Hello World Hello world 5 5 3 2"},
        {"{{ '\\u00df\\u00e9\\u01c6'.upper() }} {{ '\\u00c9\\u0130'.lower() | length }} {{ 'ab "
         "cd-ef'.title() }} {{ 'ab cd-ef' | title }} {{ \"they're x\" | title }} {{ \"they're "
         "x\".title() }}",
         "SS\xc3\x89\xc7\x84 3 Ab Cd-Ef Ab Cd-Ef They're X They'Re X"},
        {"[{{ text | trim }}] [{{ text.strip() }}] [{{ text.lstrip() }}] [{{ text.rstrip() }}] [{{ "
         "'xxaxx'.strip('x') }}] [{{ 'xyaxy'.lstrip('yx') }}] [{{ 'abc' | trim('a') }}]",
         "[a b\n\n c\td] [a b\n\n c\td] [a b\n\n c\td  ] [  a b\n\n c\td] [a] [axy] [bc]"},
        {"{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ ', "
         "'.join(words) }} {{ ''.join([]) }}",
         "x x one, Two, three "},
        {"{{ words | join(', ') }} {{ l | join }} {{ people | join(', ', attribute='name') }} {{ "
         "[1, none, 'a'] | join('-') }} {{ 'abc' | join('.') }}",
         "one, Two, three 123 Ann, bob 1-None-a a.b.c"},
        {"{{ nope | default('x') }} {{ none | default('x') }} {{ '' | default('x', true) }} {{ "
         "nope | d }} {{ nope | default }} {{ d.zz | default('q') }} {{ 0 | default(5, "
         "boolean=true) }}",
         "x None x   q 5"},
    };
    check(samples, sizeof samples / sizeof *samples);
}
END_TEST

START_TEST(tests_answer_as_in_jinja2) {
    static const struct sample samples[] = {
        {"{{ 1 if yes else 2 }} {{ 1 if false }} {{ 'a' if n > 2 else 'b' if n > 1 else 'c' }} {{ "
         "(1 if false) is undefined }}",
         "1  a True"},
        {"{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ s[1] }} {{ s[-1] }} {{ s[99] }} {{ d['a'] }} {{ d.a "
         "}} {{ d.zz }} {{ d['zz'] is undefined }} {{ l.0 }} {{ people.1.name }}",
         "1 3  \xc3\xa9 o  x x  True 1 bob"},
        {"{{ schema['items'] }} {{ schema.get('items') }} {{ schema['keys'] }} {{ schema.values() "
         "| list }} {{ schema.keys() | list }}",
         "{'type': 'string'} {'type': 'string'} 1 [{'type': 'string'}, 1, None, 'g'] ['items', "
         "'keys', 'values', 'get']"},
        {"{% if yes %}{% set q = 5 %}{% endif %}{{ q }}{% if not yes %}{% set w = 5 %}{% endif "
         "%}{{ w is defined }}",
         "5False"},
        {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
        {"{{ words | first }} {{ words | last }} {{ [] | first is defined }} {{ 'abc' | first }} "
         "{{ 'abc' | last }} {{ words | reverse | list }} {{ 'abc' | reverse }}",
         "one three False a c ['three', 'Two', 'one'] cba"},
        {"{{ ('<i>' | safe) | upper + '<' }} {{ (html | safe) | trim + '&' }} {{ (html | "
         "safe)[1:3] + '<' }}",
         "<I>&lt; <a href='x'>&\"</a>&amp; a &lt;"},
        {"[{{ n.__class__ }}][{{ s.__len__ is defined }}]", "[][False]"},
        {"{{ 3 is not odd }} {{ 4 is not odd and true }} {{ [1, 2] is not string }} {{ 'x' is "
         "string and 'y' is string or false }} {{ not 'x' is string }}",
         "False True True True False"},
        {"{{ \"a\" if 1 in [1] and not 2 in [1] else \"b\" }} {{ 1 if 1 is odd else 0 }} {{ ((1)) "
         "}} {{ (1 + 2) * 3 }} {{ [1, 2][0] + {'a': 2}['a'] }}",
         "a 1 1 9 3"},
    };
    check(samples, sizeof samples / sizeof *samples);
}
END_TEST

START_TEST(loops_know_where_they_are) {
    static const struct sample samples[] = {
        {"{% for k, v in d.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %}",
         "b=2,a=x"},
        {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 "
         "}}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
         "1032TrueFalse3 2121FalseFalse3 3210FalseTrue3 "},
        {"{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is "
         "defined }}{% endfor %}",
         "<1>2 False1<2>3 True2<3> True"},
        {"{% for x in l if x != 2 %}{{ x }}{{ loop.length }}{% else %}none{% endfor %}", "1232"},
        {"{% for x in [] %}{{ x }}{% else %}empty{% endfor %} {% for x in nope %}x{% else "
         "%}empty{% endfor %}",
         "empty empty"},
        {"{% for x in l %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in "
         "l %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
         "13 1"},
        {"{% for x in l %}{% for y in l %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% "
         "endfor %}{% endfor %}",
         "11 21 31 "},
        {"{% for x in 'abc' %}{{ x }}-{% endfor %}{% for x in d %}{{ x }}{% endfor %}{% for a, b "
         "in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
         "a-b-c-ba1234"},
        {"{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for x in 1, 2 "
         "%}{{ x }}{% endfor %}",
         "12312"},
        {"{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{% endfor %}", "a1b1a1"},
        {"{% for p in people %}{{ p.name }}:{{ p['age'] }}{% if not loop.last %}, {% endif %}{% "
         "endfor %}",
         "Ann:3, bob:5"},
        {"{% for i in range(3) -%} {{ i }} {%- if not loop.last %},{% endif %} {% endfor -%} end",
         "0, 1, 2 end"},
    };
    check(samples, sizeof samples / sizeof *samples);
}
END_TEST

START_TEST(variables_live_where_jinja2_has_them) {
    static const struct sample samples[] = {
        {"{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "2341"},
        {"{% set ns = namespace(x=1, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor "
         "%}{{ ns.x }}{{ ns.y }}{{ ns.z is defined }}{{ ns['x'] }}",
         "7aFalse7"},
        {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set t = (1,) %}{{ t }}{{ "
         "() }}",
         "12(1, 2)(1,)()"},
        {"{% set block %}hi {{ n }}{% endset %}[{{ block }}]{% set up | upper | trim %} hi {% "
         "endset %}[{{ up }}]",
         "[hi 3][HI]"},
        {"{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ "
         "m(1, c=9) }} {{ m() }} {{ m(b=1, a=2) }}",
         "121 131 129 2 212"},
        {"{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}",
         "(1, 2){'x': 3}(){}"},
        {"{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(5) %}body {{ y }} {{ n }}{% "
         "endcall %}",
         "<body 5 3>"},
        {"{% macro m() %}<{{ caller() if caller else 'none' }}>{% endmacro %}{{ m() }}{% call m() "
         "%}x{% endcall %}",
         "<none><x>"},
        {"{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
         "54321"},
        {"{% macro m() %}{{ later }}{{ n }}{% endmacro %}{% set later = 'L' %}{{ m() }}", "L3"},
        {"{% macro m(x) %}{% set n = x %}{{ n }}{% endmacro %}{{ m(9) }}{{ n }}", "93"},
        {"{% for i in l %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}", "123"},
    };
    check(samples, sizeof samples / sizeof *samples);
}
END_TEST

START_TEST(tags_and_blanks_go_as_in_jinja2) {
    static const struct sample samples[] = {
        {"{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | upper %}aaa{% "
         "endfilter %}",
         "ABC H\xc3\x89LLOBBB"},
        {"{% generation %}x{{ n }}{% endgeneration %}", "x3"},
        {"{% raw %}{{ x }}{% if %}{% endraw %} {%- raw -%} {{ y }} {%- endraw -%} z",
         "{{ x }}{% if %}{{ y }}z"},
        {"a {# comment #} b {#- stripped -#} c", "a  bc"},
        {"{% if people | selectattr('age', 'equalto', 99) %}always{% endif %}{% if people | "
         "selectattr('age', 'equalto', 99) | list %}never{% endif %}",
         "always"},
        {"{{ n }}{{- n -}} {{ n }}   {{- '' }}  x {{ n -}}   y", "333  x 3y"},
        {"a   {%- if yes -%}   b   {%- endif -%}   c", "abc"},
        {"{% if yes %} yes {% endif %} {% if none_here %}a{% elif n == 3 %}b{% else %}c{% endif "
         "%}{% if nope %}x{% else %}y{% endif %}",
         " yes  by"},
        {"{{ 1 }}{{ 2 }}  {{ 3 }}{# x #}{# y -#}   {{ 4 }}", "12  34"},
        {"{%+ if yes %}x{%+ endif %} {{ 'keep' }} {%- set x = 1 +%}", "x keep"},
    };
    check(samples, sizeof samples / sizeof *samples);
}
END_TEST

START_TEST(json_is_written_as_pythons) {
    static const struct sample samples[] = {
        {"{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ (1, 2) | tojson }} {{ "
         "'\\x7f\\x01\\u2028\\U0001f600/' | tojson }} {{ '\\x7f\\u00e9\\U0001f600' | "
         "tojson(ensure_ascii=true) }}",
         "{\"1\": 4, \"null\": 3, \"1.5\": 5} [1, 2] \"\x7f\\u0001\xe2\x80\xa8\xf0\x9f\x98\x80/\" "
         "\"\\u007f\\u00e9\\ud83d\\ude00\""},
    };
    check(samples, sizeof samples / sizeof *samples);
}
END_TEST

START_TEST(what_python_would_not_do_is_refused) {
    static const char *const samples[] = {
        "{{ nope.x }}",
        "{{ nope['x'] }}",
        "{{ nope() }}",
        "{{ nope + 1 }}",
        "{{ 1 + 'a' }}",
        "{{ 'a' + 1 }}",
        "{{ [1] + 'a' }}",
        "{{ none + 1 }}",
        "{{ 1 < 'a' }}",
        "{{ none < 1 }}",
        "{{ nope < 1 }}",
        "{{ 1 / 0 }}",
        "{{ 1 // 0 }}",
        "{{ 1 % 0 }}",
        "{{ 1 in 5 }}",
        "{{ 1 in 'a' }}",
        "{{ n() }}",
        "{{ s.nothing() }}",
        "{{ l.append(4) }}",
        "{{ d.update({}) }}",
        "{{ d.pop('a') }}",
        "{{ raise_exception('no') }}",
        "{{ l | nofilter }}",
        "{{ l is notest }}",
        "{% nostatement %}",
        "{% if yes %}",
        "{% endif %}",
        "{% for x in l %}",
        "{% for x in 5 %}{% endfor %}",
        "{% for x in none %}{% endfor %}",
        "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
        "{% for a, b in [1] %}{% endfor %}",
        "{{ 1 + }}",
        "{{ (1 }}",
        "{{ [1 }}",
        "{{ 1 2 }}",
        "{{ a b }}",
        "{{ 'x }}",
        "{{ }}",
        "{{ 1 | }}",
        "{{ x. }}",
        "{# no end",
        "{% raw %} no end",
        "{{ range(10 ** 9) }}",
        "{{ none | length }}",
        "{{ 5 | length }}",
        "{{ n | first }}",
        "{{ n | join }}",
        "{{ 'a' | items | list }}",
        "{{ d[1:] }}",
        "{{ l['a':] }}",
        "{{ d.get('z', default=5) }}",
        "{{ 'a'.replace(old='a', new='b') }}",
        "{{ nope | tojson }}",
        "{{ {'a': nope} | tojson }}",
        "{{ {[]: 1} }}",
        "{{ l | map('nofilter') | list }}",
        "{{ l | select('notest') | list }}",
        "{{ l | sort(attribute='x') | list + 1 }}",
        "{{ [1, 'a'] | sort }}",
        "{% set n.x = 1 %}",
        "{% set 5 = 1 %}",
        "{% set none = 1 %}",
        "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
        "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}",
        "{% macro m(a) %}{% endmacro %}{{ m(1, a=1) }}",
        "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}",
        "{% macro m(a=1, b) %}{% endmacro %}",
        "{% break %}",
        "{% continue %}",
        "{{ 'x'.split('') }}",
        "{{ ', '.join([1]) }}",
        "{{ 'x'.replace('a') }}",
        "{{ s[::0] }}",
        "{{ '{} {}'.format(1) }}",
        "{{ d.get() }}",
        "{{ loop.index }}",
        "{{ 1 is 1 is 1 }}",
        "{{ x is }}",
        "{{ - 'a' }}",
        "{{ nope | int }}",
        "{{ l | last + 'a' }}",
        "{{ 07 }}",
        "{{ 1 ? 2 }}",
        "{{ {'a' 1} }}",
        "{{ [x for x in l] }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ f(**5) }}",
        "{{ dict(5) }}",
        "{{ nope | indent }}",
        "{{ 5 | indent }}",
        "{{ 'a' | replace('a') }}",
        "{{ people | selectattr | list }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct jinja_output output;
        struct error error = {0};
        enum status status = jinja_check_run(samples[i], &output, &error);
        ck_assert_msg(status == STATUS_INVALID || status == STATUS_UNSUPPORTED ||
                          status == STATUS_LIMIT,
                      "%s: %s", samples[i], status_name(status));
        ck_assert_msg(strncmp(error.text, "line 1: ", 8) == 0, "%s: %s", samples[i], error.text);
    }
}
END_TEST

/* Filters, tests and methods of Jinja2 and Python that no chat template is known to use. */
START_TEST(what_is_left_out_is_refused_with_its_line) {
    static const char *const samples[] = {
        "\n{{ l | batch(2) }}", "\n{{ s | wordcount }}",    "\n{{ n is sameas n }}",
        "\n{{ '%s' % s }}",     "\n{{ s.partition('l') }}", "\n{{ l.index(2) }}",
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct jinja_output output;
        struct error error = {0};
        enum status status = jinja_check_run(samples[i], &output, &error);
        ck_assert_msg(status == STATUS_INVALID || status == STATUS_UNSUPPORTED, "%s: %s",
                      samples[i], status_name(status));
        ck_assert_msg(strncmp(error.text, "line 2: ", 8) == 0, "%s: %s", samples[i], error.text);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, expressions_are_pythons);
    tcase_add_test(tests, filters_and_methods_are_pythons);
    tcase_add_test(tests, tests_answer_as_in_jinja2);
    tcase_add_test(tests, loops_know_where_they_are);
    tcase_add_test(tests, variables_live_where_jinja2_has_them);
    tcase_add_test(tests, tags_and_blanks_go_as_in_jinja2);
    tcase_add_test(tests, json_is_written_as_pythons);
    tcase_add_test(tests, what_python_would_not_do_is_refused);
    tcase_add_test(tests, what_is_left_out_is_refused_with_its_line);
}
