"""Small templates that show one thing each, for template_oracle.py: jinja2 says what is right; and hostile ones."""

VARIABLES = {"n": 3, "s": "h\u00e9llo", "l": [1, 2, 3], "d": {"b": 2, "a": "x"}, "none_here": None, "yes": True, "f": 2.5,
             "words": ["one", "Two", "three"], "people": [{"name": "Ann", "age": 3}, {"name": "bob", "age": 5}], "items": 1,
             "text": "  a b\n\n c\td  ", "deep": {"a": {"b": [{"c": 1}]}}, "html": "<a href='x'>&\"</a>", "big": 1e300,
             "schema": {"items": {"type": "string"}, "keys": 1, "values": None, "get": "g"}, "empty": "", "zero": 0}

SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 6 / 2 }}
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 123456789.125 }} {{ 1e300 }} {{ 0.1 + 0.2 }} {{ 100.0 * 3 }} {{ 2.5 // 1 }} {{ -2.5 % 2 }}
{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5 }} {{ 5e3 }} {{ 5E-3 }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ - - 2 }} {{ +3 }} {{ -n }} {{ -yes }}
{{ 'a' 'b' "c" }} {{ 'a\n\t\\\'\x41\u00e9\101\q' }} {{ "it's" }} {{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'a'] ~ undefined_thing }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false and 1 }} {{ 0 or 'x' }} {{ '' or [] }} {{ 1 and 2 }} {{ not 1 }} {{ not not 1 }}
{{ 1 if yes else 2 }} {{ 1 if false }} {{ 'a' if n > 2 else 'b' if n > 1 else 'c' }} {{ (1 if false) is undefined }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) == [1] }} {{ none == none }}
{{ 1 != 2 }} {{ 'a' != 1 }} {{ {'a': 1} == {'a': 1.0} }} {{ [1, [2]] == [1, [2]] }} {{ nope == nada }} {{ nope == none }}
{{ 1 in l }} {{ 4 not in l }} {{ 'l' in s }} {{ '' in s }} {{ 'a' in d }} {{ 'x' in d }} {{ 1 in (1, 2) }} {{ 'x' in nope }} {{ not 'a' in d }}
{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ s[1] }} {{ s[-1] }} {{ s[99] }} {{ d['a'] }} {{ d.a }} {{ d.zz }} {{ d['zz'] is undefined }} {{ l.0 }} {{ people.1.name }}
{{ l[1:] }} {{ l[:2] }} {{ l[::2] }} {{ l[::-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[:-1] }} {{ l[5:] }} {{ s[3:1] }} {{ l[-2:9] }} {{ s[::2] }} {{ l[2:0:-1] }}
{{ l['a'] }}|{{ l[1.5] }}|{{ s['upper']() }}|{{ n.foo }}|{{ none.foo }}|{{ s.foo }}
{{ schema['items'] }} {{ schema.get('items') }} {{ schema['keys'] }} {{ schema.values() | list }} {{ schema.keys() | list }}
{{ d.items() | list }} {{ d | items | list }} {{ d | dictsort }} {{ d.get('a') }} {{ d.get('z') }} {{ d.get('z', 5) }}
{% for k, v in d.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }}{% endfor %}
{% for x in l if x != 2 %}{{ x }}{{ loop.length }}{% else %}none{% endfor %}
{% for x in [] %}{{ x }}{% else %}empty{% endfor %} {% for x in nope %}x{% else %}empty{% endfor %}
{% for x in l %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in l %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% for y in l %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}
{% for x in 'abc' %}{{ x }}-{% endfor %}{% for x in d %}{{ x }}{% endfor %}{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=1, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z is defined }}{{ ns['x'] }}
{% if yes %}{% set q = 5 %}{% endif %}{{ q }}{% if not yes %}{% set w = 5 %}{% endif %}{{ w is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set t = (1,) %}{{ t }}{{ () }}
{% set block %}hi {{ n }}{% endset %}[{{ block }}]{% set up | upper | trim %} hi {% endset %}[{{ up }}]
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c=9) }} {{ m() }} {{ m(b=1, a=2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}
{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(5) %}body {{ y }} {{ n }}{% endcall %}
{% macro m() %}<{{ caller() if caller else 'none' }}>{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}
{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m() %}{{ later }}{{ n }}{% endmacro %}{% set later = 'L' %}{{ m() }}
{% macro m(x) %}{% set n = x %}{{ n }}{% endmacro %}{{ m(9) }}{{ n }}
{% for i in l %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}
{% for i in l %}{{ q is defined }}{% set q = i %}{% endfor %}{{ q is defined }}
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | upper %}aaa{% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{% generation %}x{{ n }}{% endgeneration %}
{% raw %}{{ x }}{% if %}{% endraw %} {%- raw -%} {{ y }} {%- endraw -%} z
a {# comment #} b {#- stripped -#} c
{{ s | upper }} {{ s | lower }} {{ 'hELLO wORLD' | title }} {{ 'hELLO wORLD' | capitalize }} {{ s | length }} {{ s | count }} {{ l | length }} {{ d | length }}
{{ '\u00df\u00e9\u01c6'.upper() }} {{ '\u00c9\u0130'.lower() | length }} {{ 'ab cd-ef'.title() }} {{ 'ab cd-ef' | title }} {{ "they're x" | title }} {{ "they're x".title() }}
[{{ text | trim }}] [{{ text.strip() }}] [{{ text.lstrip() }}] [{{ text.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'xyaxy'.lstrip('yx') }}] [{{ 'abc' | trim('a') }}]
{{ text.split() }} {{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ text.split(None, 1) }}
{{ 'abcabc'.replace('b', 'x') }} {{ 'abcabc'.replace('b', 'x', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc' | replace('b', '') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 123 | replace(2, 'x') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ ', '.join(words) }} {{ ''.join([]) }}
{{ words | join(', ') }} {{ l | join }} {{ people | join(', ', attribute='name') }} {{ [1, none, 'a'] | join('-') }} {{ 'abc' | join('.') }}
{{ words | first }} {{ words | last }} {{ [] | first is defined }} {{ 'abc' | first }} {{ 'abc' | last }} {{ words | reverse | list }} {{ 'abc' | reverse }}
{{ [3, 1, 2] | sort }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ [3, 1, 2] | sort(reverse=true) }} {{ people | sort(attribute='age', reverse=true) | map(attribute='name') | list }}
{{ [1, 1, 2] | unique | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ [3, 1] | min }} {{ [3, 1] | max }} {{ [] | min is defined }} {{ ['b', 'A'] | min }}
{{ people | map(attribute='name') | list }} {{ words | map('upper') | list }} {{ words | map('replace', 'o', '0') | join }} {{ people | map(attribute='zz', default='d') | list }} {{ [deep] | map(attribute='a.b.0.c') | list }}
{{ l | select('odd') | list }} {{ l | reject('odd') | list }} {{ [0, 1, ''] | select | list }} {{ people | selectattr('age', 'gt', 3) | map(attribute='name') | list }} {{ people | rejectattr('name', 'equalto', 'Ann') | list }} {{ people | selectattr('age') | list | length }} {{ people | selectattr('name', 'in', ['bob']) | list }}
{% if people | selectattr('age', 'equalto', 99) %}always{% endif %}{% if people | selectattr('age', 'equalto', 99) | list %}never{% endif %}
{% set it = people | map(attribute='name') %}{{ it | list }}{{ it | list }}
{{ [1] | list }} {{ 'abc' | list }} {{ d | list }} {{ range(3) | list }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }} {{ range(0) | list }}
{{ nope | default('x') }} {{ none | default('x') }} {{ '' | default('x', true) }} {{ nope | d }} {{ nope | default }} {{ d.zz | default('q') }} {{ 0 | default(5, boolean=true) }}
{{ '42' | int }} {{ '42.9' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ none | int }} {{ true | int }} {{ 'ff' | int(base=16) }} {{ ' 7 ' | int }} {{ '1_0' | int }}
{{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ 'x' | float(1.25) }}
{{ d | tojson }} {{ l | tojson }} {{ html | tojson }} {{ s | tojson }} {{ s | tojson(ensure_ascii=true) }} {{ none | tojson }} {{ true | tojson }} {{ 1.0 | tojson }} {{ 1e20 | tojson }} {{ big | tojson }}
{{ d | tojson(indent=2) }} {{ deep | tojson(indent=4) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }} {{ [[]] | tojson(indent='--') }} {{ d | tojson(indent=0) }}
{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ (1, 2) | tojson }} {{ '\x7f\x01\u2028\U0001f600/' | tojson }} {{ '\x7f\u00e9\U0001f600' | tojson(ensure_ascii=true) }}
{{ d }} {{ words }} {{ [none, true, 1.5, 'it\'s', "q\"", 'a\'"', '\n\x01\u200b\u00e9'] }} {{ {'a': {'b': [1]}} }} {{ (1, 'a') }} {{ [nope] }} {{ [[], {}, ()] }}
{{ html | safe }} {{ html | string }} {{ ('<' | safe) + '<' }} {{ '<' + ('<' | safe) }} {{ ('<' | safe) ~ '<' }} {{ ('<b>' | safe) + (html | safe) }} {{ [('<' | safe)] }}
{{ ('<i>' | safe) | upper + '<' }} {{ (html | safe) | trim + '&' }} {{ (html | safe)[1:3] + '<' }}
{{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2) }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(2, blank=true) }} {{ 'a\nb' | indent('> ') }} {{ 'a\nb' | indent(first=true, width=1) }} {{ 'a\n' | indent(2) }}|
{{ '{} {}'.format(1, 'a') }} {{ '{0} {1} {0}'.format('a', 'b') }} {{ '{x}'.format(x=3) }} {{ '{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c') }} {{ '{:.2f} {:05d} {:,}'.format(3.14159, 42, 1234567) }} {{ '{{}}'.format() }} {{ '{!r}'.format('a') }} {{ '{:5}|{:5}'.format(1, 'a') }} {{ '{:*^7}'.format('x') }} {{ '{:+}'.format(5) }}
{{ 'x' * 3 }} {{ 3 * 'x' }} {{ [1] * 2 }} {{ 'x' * 0 }} {{ 'x' * -1 }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ true + true }}
{{ n is number }} {{ n is string }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is iterable }} {{ l is iterable }} {{ nope is iterable }} {{ nope is sequence }} {{ nope is mapping }} {{ none is none }}
{{ n is odd }} {{ n is even }} {{ yes is boolean }} {{ yes is true }} {{ yes is false }} {{ 1 is true }} {{ n is integer }} {{ f is float }} {{ f is integer }} {{ yes is number }} {{ yes is integer }}
{{ n is eq 3 }} {{ n is equalto(4) }} {{ n is gt 2 }} {{ n is lt 2 }} {{ n is ge(3) }} {{ n is in [1, 3] }} {{ n is not in [1, 3] }} {{ n is ne 3 }}
{{ n is defined }} {{ nope is defined }} {{ nope is undefined }} {{ d.a is defined }} {{ d.q is not defined }} {{ not n is defined }} {{ n is defined and n > 2 }} {{ n is not none }}
{{ dict(a=1, b=2) }} {{ dict([('a', 1)]) }} {{ dict({'a': 1}, b=2) }} {{ dict() }} {{ namespace(a=1).a }} {{ {'a': 1, 'a': 2} }} {{ {'x': 1}.x }} {{ {} }} {{ [] }}
{{ [1, 2, ] }} {{ (1, 2, ) }} {{ {'a': 1, } }} {{ [[1, 2], [3]][0][1] }} {{ 'abc'[1] }} {{ (1, 2)[0] }}
{{ n }}{{- n -}} {{ n }}   {{- '' }}  x {{ n -}}   y
a   {%- if yes -%}   b   {%- endif -%}   c
{% if yes %} yes {% endif %} {% if none_here %}a{% elif n == 3 %}b{% else %}c{% endif %}{% if nope %}x{% else %}y{% endif %}
{{ s.upper().lower().title() }} {{ (s | upper)[0] }} {{ s | upper | lower | length + 1 }} {{ 'a' ~ 'b' | upper }} {{ ('a' ~ 'b') | upper }} {{ 1 + '2' | int }}
{{ lipsum_is_not }} {{ 'a'.join(['x', 'y']) }} {{ '%c' }} {{ "{{" }} {{ '}}' }} {{ '%}' }}
{{ m(1) if false else 'ok' }} {{ nope and nope.x }} {{ nope is defined and nope.x }} {{ (nope or {}).x is defined }} {{ '' ~ nope }} {{ nope | length }} {{ nope | list }} {{ nope | string }} {{ nope | join }} {{ nope | upper }}
{% set x = {'a': [1, 2]} %}{{ x.a[1] }}{% set y = x %}{{ y.a | last }}{{ x['a'][0] }}{{ x.get('b', {}).get('c') }}
{{ 1 }}{{ 2 }}  {{ 3 }}{# x #}{# y -#}   {{ 4 }}
{{ "\U0001f600" }} {{ "\u00e9" | length }} {{ '\U0001f600x'[1] }} {{ '\U0001f600x'[:1] }} {{ "h\u00e9" < "hz" }}
{{ words[0][0] ~ words[1][:2] }} {{ people[0].name | upper }} {{ people[-1]['age'] + 1 }} {{ people | length > 1 }} {{ deep.a.b[0].c }} {{ deep['a']['b'][0]['c'] }}
{% for p in people %}{{ p.name }}:{{ p['age'] }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for k in schema %}{{ k }} {% endfor %}{% for k, v in schema | dictsort %}{{ k }}{{ v is none }} {% endfor %}{{ schema | dictsort(true) | length }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(false, 'value', true) }}
{% set x %}{% for i in l %}{{ i }}{% endfor %}{% endset %}{{ x | length }}{{ x is string }}
{{ none | string }} {{ 1.50 | string }} {{ l | string | length }}
[{{ n.__class__ }}][{{ s.__len__ is defined }}]
[{{ nope | last }}][{{ d[] }}]
{{ 9007199254740993 }} {{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 9007199254740993 == 9007199254740992.0 }} {{ 1e2 | int }}
{{ ('a', 'b') | join('-') }} {{ {'a': 1}.items() | length }} {{ d.keys() | sort }} {{ 'b' in d.keys() }} {{ d.values() | list | length }} {{ d.items() is iterable }} {{ d.items() is sequence }} {{ (d | items) is sequence }}
{{ 3 is not odd }} {{ 4 is not odd and true }} {{ [1, 2] is not string }} {{ 'x' is string and 'y' is string or false }} {{ not 'x' is string }}
{% for i in range(3) -%} {{ i }} {%- if not loop.last %},{% endif %} {% endfor -%} end
{%+ if yes %}x{%+ endif %} {{ 'keep' }} {%- set x = 1 +%}
{{ "a" if 1 in [1] and not 2 in [1] else "b" }} {{ 1 if 1 is odd else 0 }} {{ ((1)) }} {{ (1 + 2) * 3 }} {{ [1, 2][0] + {'a': 2}['a'] }}
"""

REFUSED = r"""
{{ nope.x }}
{{ nope['x'] }}
{{ nope() }}
{{ nope + 1 }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ [1] + 'a' }}
{{ none + 1 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ nope < 1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 in 5 }}
{{ 1 in 'a' }}
{{ n() }}
{{ s.nothing() }}
{{ l.append(4) }}
{{ d.update({}) }}
{{ d.pop('a') }}
{{ raise_exception('no') }}
{{ l | nofilter }}
{{ l is notest }}
{% nostatement %}
{% if yes %}
{% endif %}
{% for x in l %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{{ 1 + }}
{{ (1 }}
{{ [1 }}
{{ 1 2 }}
{{ a b }}
{{ 'x }}
{{ }}
{{ 1 | }}
{{ x. }}
{# no end
{% raw %} no end
{{ range(10 ** 9) }}
{{ none | length }}
{{ 5 | length }}
{{ n | first }}
{{ n | join }}
{{ 'a' | items | list }}
{{ d[1:] }}
{{ l['a':] }}
{{ d.get('z', default=5) }}
{{ 'a'.replace(old='a', new='b') }}
{{ nope | tojson }}
{{ {'a': nope} | tojson }}
{{ {[]: 1} }}
{{ l | map('nofilter') | list }}
{{ l | select('notest') | list }}
{{ l | sort(attribute='x') | list + 1 }}
{{ [1, 'a'] | sort }}
{% set n.x = 1 %}
{% set 5 = 1 %}
{% set none = 1 %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=1) }}
{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}
{% macro m(a=1, b) %}{% endmacro %}
{% break %}
{% continue %}
{{ 'x'.split('') }}
{{ ', '.join([1]) }}
{{ 'x'.replace('a') }}
{{ s[::0] }}
{{ '{} {}'.format(1) }}
{{ d.get() }}
{{ loop.index }}
{{ 1 is 1 is 1 }}
{{ x is }}
{{ - 'a' }}
{{ nope | int }}
{{ l | last + 'a' }}
{{ 07 }}
{{ 1 ? 2 }}
{{ {'a' 1} }}
{{ [x for x in l] }}
{{ ''.__class__.__mro__ }}
{{ f(**5) }}
{{ dict(5) }}
{{ nope | indent }}
{{ 5 | indent }}
{{ 'a' | replace('a') }}
{{ people | selectattr | list }}
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
"""


def lines(text):
    return [line for line in text.split("\n") if line]


# None of these may become a prompt, crash, or take long.
HOSTILE = {name: source if isinstance(source, bytes) else source.encode() for name, source in {
    "parentheses": "{{ " + "(" * 6000 + "1" + ")" * 6000 + " }}",
    "brackets": "{{ " + "[" * 6000 + "]" * 6000 + " }}",
    "nots": "{{ " + "not " * 100000 + "1 }}",
    "signs": "{{ " + "-" * 100000 + "1 }}",
    "attributes": "{{ x" + ".a" * 50000 + " }}",
    "filters": "{{ x" + "|trim" * 40000 + " }}",
    "ifs": "{% if 1 %}" * 6000 + "{% endif %}" * 6000,
    "loop": "{% for i in range(10**9) %}x{% endfor %}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "doubling": "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "repeat": "{{ 'x' * 10**10 }}",
    "lists": "{{ [1] * 10**10 }}",
    "nesting": "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "compare": "{% set ns = namespace(x=[], y=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}"
               "{% endfor %}{{ ns.x == ns.y }}",
    "width": "{{ '{:999999999}'.format(1) }}",
    "output": "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    "power": "{{ 2 ** 10**9 }}",
    "search": "{% set x = 'a' * 4000000 %}{% for i in range(99999) %}{{ 'b' in x }}{% endfor %}",
    "replace": "{% set x = 'a' * 2000 %}{{ x.replace('a', x).replace('a', x) }}",
    "size": "x" * (1 << 20),
    "bytes": b"\xff\xfe",
}.items()}
