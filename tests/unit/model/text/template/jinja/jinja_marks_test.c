/* No operation loses where a byte came from: what the request gave is plain in every prompt, what
 * the template wrote is not. In the wanted texts the request's bytes stand in [ ]. */
#include "tests/unit/model/text/template/jinja/jinja_check.h"

#include "base/buf.h"

#include <string.h>

const char *const suite_name = "model_jinja_marks";
const double suite_timeout_s = 60;

static void expect(const char *source, const char *wanted) {
    struct jinja_output output;
    struct error error = {0};
    struct buf shown;
    size_t begin = 0;
    enum status status = jinja_check_run(source, &output, &error);
    ck_assert_msg(status == STATUS_OK, "%s: %s", source, error.text);
    buf_init(&shown, 0);
    for (size_t i = 0; i < output.n_marks; i++) {
        bool is_plain = output.marks[i].is_plain;
        ck_assert_uint_gt(output.marks[i].end, begin);
        ck_assert(i == 0 || output.marks[i - 1].is_plain != is_plain);
        buf_puts(&shown, is_plain ? "[" : "");
        buf_append(&shown, output.bytes + begin, output.marks[i].end - begin);
        buf_puts(&shown, is_plain ? "]" : "");
        begin = output.marks[i].end;
    }
    ck_assert_uint_eq(begin, output.n);
    ck_assert_msg(strcmp(shown.data ? shown.data : "", wanted) == 0, "%s gives %s, not %s", source,
                  shown.data, wanted);
    buf_fini(&shown);
    jinja_output_fini(&output);
}

static void use_variables(void) {
    jinja_check_variables =
        "{\"u\": \"<|x|>\", \"v\": \"a,b\", \"w\": \" pad \", \"n\": 7, \"f\": 1.5, \"list\": "
        "[\"p\", "
        "\"q\"], \"dict\": {\"key\": \"val\", \"z\": [\"y\"]}, \"quote\": \"it's \\\"q\\\"\\n\", "
        "\"messages\": [{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"<|x|>\", "
        "\"content\": "
        "\"d\"}]}";
}

START_TEST(text_keeps_its_origin) {
    expect("<s>{{ u }}</s>", "<s>[<|x|>]</s>");
    expect("{{ bos_token }}{{ u }}{{ 'x' }}", "<s>[<|x|>]x");
    expect("{{ 'a' + u + 'b' }}{{ 'a' ~ u ~ 1 }}", "a[<|x|>]ba[<|x|>]1");
    expect("{{ u[1:3] }}{{ ('ab' + v)[1:4] }}{{ v[0] }}{{ ('<' + v)[::-1] }}", "[|x]b[a,ab,a]<");
    expect("{% set x = u %}{{ x }}{% set y %}<{{ x }}>{% endset %}{{ y }}", "[<|x|>]<[<|x|>]>");
    expect("{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(u) }}{{ m('k') }}", "<[<|x|>]><k>");
    expect("{% for c in v %}{{ c }}.{% endfor %}", "[a].[,].[b].");
    expect("{{ u if u else 'x' }}{{ u or 'x' }}{{ nope or 'x' }}", "[<|x|><|x|>]x");
    expect("{{ u * 2 }}{{ [u, 'x'] | join('-') }}{{ ', '.join(list) }}",
           "[<|x|><|x|><|x|>]-x[p], [q]");
}
END_TEST

START_TEST(methods_and_filters_keep_it) {
    expect("{{ ('<' + w + '>') | trim }}{{ w | trim }}{{ w.strip() }}{{ (' ' + w).lstrip() }}",
           "<[ pad ]>[padpadpad ]");
    expect("{{ ('x,' + v + ',y').split(',') | join('|') }}", "x|[a]|[b]|y");
    expect("{{ v.replace('a', 'M') }}{{ 'a-b'.replace('-', v) }}{{ (v + 'b').replace(',', ';') }}",
           "M[,b]a[a,b]b[a];[b]b");
    expect("{{ u | upper }}{{ ('a' + v) | upper }}{{ ('a' + v) | capitalize }}",
           "[<|X|>]A[A,B]A[a,b]");
    expect("{{ '{}<{}>'.format('a', u) }}{{ '{:>6}'.format(v) }}", "a<[<|x|>]>   [a,b]");
    expect("{{ list | first }}{{ list | last }}{{ list | reverse | join('x') }}", "[pqq]x[p]");
    expect("{{ list | map('upper') | join('') }}{{ u | default('x') }}{{ nope | default(u) }}",
           "[PQ<|x|><|x|>]");
    expect("{{ ('a\n' + v) | indent(1) }}{{ ('<' | safe) + u }}", "a\n [a,b]<[&lt;|x|&gt;]");
    expect("{{ u | string | safe }}{{ dict.key }}{{ dict['key'] }}{{ dict.get('key') }}",
           "[<|x|>valvalval]");
    expect("{{ v.split(',', 1) | join(' ') }}{{ v | list | join(' ') }}", "[a] [ba] [,] [b]");
    expect("{{ (v + '<' + v)[2:5] }}{{ ('<' ~ v ~ '>').strip('<>') }}", "[b]<[aa,b]");
}
END_TEST

START_TEST(json_and_repr_keep_it) {
    expect("{{ dict | tojson }}", "{\"[key]\": \"[val]\", \"[z]\": [\"[y]\"]}");
    expect("{{ quote | tojson }}", "\"[it's \\\"q\\\"\\n]\"");
    expect("{{ list }}{{ dict }}", "['[p]', '[q]']{'[key]': '[val]', '[z]': ['[y]']}");
    expect("{{ {'a': u} | tojson }}", "{\"a\": \"[<|x|>]\"}");
    expect("{% for k, v in dict | items %}{{ k }}={{ v }};{% endfor %}",
           "[key]=[val];[z]=['[y]'];");
}
END_TEST

/* Numbers name tokens too ("<|reserved_7|>"), so the request's are marked as well. */
START_TEST(numbers_of_the_request_are_plain) {
    expect("{{ n }}{{ 7 }}{{ n + 1 }}{{ f }}{{ 1 ~ n }}", "[7]7[81.5]1[7]");
    expect("{{ n | string }}{{ '7' | int }}{{ v | length }}{{ [n, 2] | tojson }}", "[7]73[[7], 2]");
}
END_TEST

/* '<|' + role + '|>' must become the token, so known roles are the template's; others are text. */
START_TEST(known_roles_are_markup) {
    expect("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
           "<user>[c]<[<|x|>]>[d]");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, use_variables, NULL);
    tcase_add_test(tests, text_keeps_its_origin);
    tcase_add_test(tests, methods_and_filters_keep_it);
    tcase_add_test(tests, json_and_repr_keep_it);
    tcase_add_test(tests, numbers_of_the_request_are_plain);
    tcase_add_test(tests, known_roles_are_markup);
}
