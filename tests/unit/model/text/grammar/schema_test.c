/* JSON schemas: each keyword at its bounds, conjunctions, references, what is refused and where. */
#include "model/text/grammar/schema/keywords.h"
#include "tests/support/grammar_check.h"
#include "tests/support/suite.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "model grammar schema";
const double suite_timeout_s = 240;

/* A schema, texts that are of it, and texts that are not: each list ends with NULL. */
struct row {
    const char *schema;
    const char *takes[10];
    const char *refuses[14];
};

static const struct row rows[] = {
    {"true",
     {"1", "[]", "{\"a\": [null, true]}", "\"x\"", "-0.5e+10"},
     {"", "01", "tru", "[1,]", "{\"a\"}"}},
    {"{\"type\": \"integer\"}",
     {"0", "-7", "12345678901234567890"},
     {"1.5", "1e3", "+1", "00", "\"1\""}},
    {"{\"type\": \"number\"}", {"0.25", "-1e-7", "3E+2"}, {".5", "1.", "1e1000", "NaN"}},
    {"{\"type\": [\"null\", \"boolean\"]}", {"null", "true", "false"}, {"0", "nul", "True"}},
    {"{\"enum\": [\"a\", \"ab\", 3, null, {\"x\": [1, 2]}]}",
     {"\"a\"", "\"ab\"", "3", "null", "{\"x\":[1,2]}", "{\"x\": [1, 2]}"},
     {"\"b\"", "\"abc\"", "33", "{\"x\":[1]}"}},
    {"{\"const\": \"q\\\"\\n\\u0001\\u00e9\"}",
     {"\"q\\\"\\n\\u0001\xc3\xa9\""},
     {"\"q\"\n\"", "\"q\\\"\""}},
    {"{\"type\": \"string\"}",
     {"\"\"", "\"\\ud83d\\ude00 \\/ \\u0041\"", "\"\xf0\x9f\x98\x80\x7f\""},
     {"\"\\ud83d\"", "\"\\x\"", "\"\n\"", "\"\xff\"", "\"\xed\xa0\x80\""}},
    {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
     {"\"ab\"", "\"abc\"", "\"\\n\xc3\xa9\\u0041\"", "\"\\ud83d\\ude00b\""},
     {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\"", "\"\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[a-c]+$\", \"maxLength\": 2}",
     {"\"a\"", "\"cc\""},
     {"\"\"", "\"abc\"", "\"d\""}},
    {"{\"type\": \"string\", \"pattern\": \"a|^b\"}",
     {"\"xay\"", "\"bxx\"", "\"a\""},
     {"\"xb\"", "\"\""}},
    {"{\"type\": \"string\", \"pattern\": \"x$|^$\"}", {"\"\"", "\"\\\"x\""}, {"\"xy\"", "\"y\""}},
    {"{\"type\": \"string\", \"pattern\": \"^\\\\\\\\\\\"$\"}",
     {"\"\\\\\\\"\""},
     {"\"\\\\\"", "\"\\\"\""}},
    {"{\"type\": \"integer\", \"minimum\": 7, \"maximum\": 112}",
     {"7", "9", "10", "99", "100", "112"},
     {"6", "113", "0", "1000", "-8", "119"}},
    {"{\"type\": \"integer\", \"minimum\": -12, \"exclusiveMaximum\": 3}",
     {"-12", "-9", "0", "2"},
     {"-13", "3", "-100", "4", "10"}},
    {"{\"type\": \"integer\", \"exclusiveMinimum\": -5, \"maximum\": -2}",
     {"-4", "-2"},
     {"-5", "-1", "0", "2", "-10"}},
    {"{\"type\": \"integer\", \"minimum\": 99}", {"99", "100", "9999999"}, {"98", "-99", "9"}},
    {"{\"type\": \"number\", \"minimum\": 0.25, \"exclusiveMaximum\": 1.5}",
     {"0.25", "0.250", "0.3", "1", "1.0", "1.49", "1.499999"},
     {"0.2", "0.249", "1.5", "1.50", "2", "-1", "0", "1e0"}},
    {"{\"type\": \"number\", \"maximum\": -1.5}",
     {"-1.5", "-1.50", "-2", "-10.0"},
     {"-1.4", "0", "1.5", "-1", "-0.5"}},
    {"{\"type\": \"number\", \"exclusiveMinimum\": 0}",
     {"0.1", "3", "10.0", "0.001"},
     {"0", "0.0", "-1", "0.00"}},
    {"{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": 10}",
     {"14", "21", "700"},
     {"7", "0", "15", "-14"}},
    {"{\"allOf\": [{\"type\": \"integer\", \"multipleOf\": 4}, {\"multipleOf\": 6}]}",
     {"12", "0", "-24"},
     {"4", "6", "18"}},
    {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 1, \"maxItems\": 3}",
     {"[1]", "[1, 2]", "[ 1,2,3]", "[\n  1,\n  2\n]"},
     {"[]", "[1,2,3,4]", "[\"a\"]", "[1 ,2]", "[1,]"}},
    {"{\"type\": \"array\", \"maxItems\": 0}", {"[]", "[ ]"}, {"[1]"}},
    {"{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"items\": false}",
     {"[]", "[1]", "[1,2]"},
     {"[2]", "[1,2,3]", "[1,1]"}},
    {"{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}], \"items\": {\"const\": 2}, "
     "\"minItems\": 3}",
     {"[1,2,2]", "[1,2,2,2,2]"},
     {"[1,2]", "[1]", "[]", "[2,2,2]"}},
    {"{\"type\": \"array\", \"prefixItems\": [{}, {}, {}], \"maxItems\": 2, \"items\": false}",
     {"[]", "[1,2]"},
     {"[1,2,3]"}},
    {"{\"type\": \"array\", \"items\": [{\"const\": 1}], \"additionalItems\": {\"const\": 2}}",
     {"[]", "[1]", "[1,2,2]"},
     {"[2]", "[1,1]"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}}, "
     "\"required\": [\"b\"], "
     "\"additionalProperties\": false}",
     {"{\"b\":2}", "{\"a\": 1, \"b\": 2}", "{ \"b\": 2 }", "{\n \"a\": 1,\n \"b\": 2\n}"},
     {"{}", "{\"a\":1}", "{\"b\":2,\"a\":1}", "{\"b\":2,\"c\":3}", "{\"b\":1}",
      "{\"b\":2,\"b\":2}"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}}, \"additionalProperties\": "
     "{\"const\": 0}}",
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":0,\"c\":0}", "{\"ab\":0}", "{\"\":0}"},
     {"{\"a\":0}", "{\"b\":0,\"a\":0}", "{\"b\":1}"}},
    {"{\"type\": \"object\", \"patternProperties\": {\"^x\": {\"const\": 1}, \"y$\": {\"type\": "
     "\"integer\"}}, "
     "\"additionalProperties\": false}",
     {"{\"xa\":1}", "{\"ay\":7}", "{\"xy\":1}", "{}"},
     {"{\"xa\":2}", "{\"b\":1}", "{\"xy\":2}"}},
    {"{\"type\": \"object\", \"properties\": {\"x1\": {\"minimum\": 5}}, \"patternProperties\": "
     "{\"^x\": {\"type\": "
     "\"integer\"}}}",
     {"{\"x1\":5}", "{\"x1\":6,\"x2\":0,\"z\":null}"},
     {"{\"x1\":4}", "{\"x1\":\"a\"}", "{\"x2\":\"a\"}"}},
    {"{\"type\": \"object\", \"required\": [\"z\"], \"additionalProperties\": {\"type\": "
     "\"null\"}}",
     {"{\"z\":null}", "{\"z\":null,\"a\":null}"},
     {"{}", "{\"z\":1}", "{\"a\":null}"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": false, \"b\": true}, "
     "\"additionalProperties\": false}",
     {"{}", "{\"b\":[]}"},
     {"{\"a\":1}"}},
    {"{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\", \"maxLength\": 1}]}",
     {"1", "\"a\""},
     {"\"ab\"", "null"}},
    {"{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"null\"}]}", {"1", "null"}, {"\"a\""}},
    {"{\"oneOf\": [{\"type\": \"object\", \"properties\": {\"k\": {\"const\": \"a\"}, \"v\": "
     "{\"type\": \"integer\"}}, "
     "\"required\": [\"k\"], \"additionalProperties\": false}, {\"type\": \"object\", "
     "\"properties\": {\"k\": {\"const\": "
     "\"b\"}}, \"required\": [\"k\"], \"additionalProperties\": false}]}",
     {"{\"k\":\"a\"}", "{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\"}"},
     {"{\"k\":\"b\",\"v\":1}", "{\"k\":\"c\"}"}},
    {"{\"oneOf\": [{\"type\": \"integer\", \"maximum\": 3}, {\"type\": \"number\", \"minimum\": "
     "4}]}",
     {"3", "4", "4.5"},
     {"3.5"}},
    {"{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}, "
     "{\"properties\": {\"a\": "
     "{\"minimum\": 3}, \"b\": {\"type\": \"null\"}}}], \"type\": \"object\"}",
     {"{\"a\":3}", "{\"a\":4,\"b\":null}"},
     {"{}", "{\"a\":2}", "{\"a\":\"x\"}"}},
    {"{\"allOf\": [{\"additionalProperties\": false, \"properties\": {\"a\": {}}}, "
     "{\"properties\": {\"b\": {}}}], \"type\": "
     "\"object\"}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"additionalProperties\": "
     "false, \"anyOf\": "
     "[{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{}"}},
    {"{\"enum\": [1, 2, \"a\", \"bb\", 2.5], \"type\": [\"integer\", \"string\"], \"minimum\": 2, "
     "\"maxLength\": 1}",
     {"2", "\"a\""},
     {"1", "\"bb\"", "2.5"}},
    {"{\"$defs\": {\"n\": {\"type\": \"object\", \"properties\": {\"v\": {\"type\": \"integer\"}, "
     "\"next\": {\"$ref\": "
     "\"#/$defs/n\"}}, \"required\": [\"v\"], \"additionalProperties\": false}}, \"$ref\": "
     "\"#/$defs/n\"}",
     {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"},
     {"{\"next\":{\"v\":1}}", "{\"v\":1,\"next\":{}}"}},
    {"{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}", {"[]", "[[],[[]]]"}, {"[1]"}},
    {"{\"$defs\": {\"a/b~c\": {\"const\": 1}, \"x\": {\"$anchor\": \"here\", \"const\": 2}}, "
     "\"anyOf\": [{\"$ref\": "
     "\"#/$defs/a~1b~0c\"}, {\"$ref\": \"#here\"}]}",
     {"1", "2"},
     {"3"}},
    {"{\"$id\": \"http://h/a/b.json\", \"$defs\": {\"A\": {\"$id\": \"c1\", \"$defs"
     "\": {\"x\": {\"$id\": \"c2\", \"$anchor\": \"m\", \"const\": 1}, \"y\": {\"$an"
     "chor\": \"m\", \"const\": 2}}}}, \"$ref\": \"c1#m\"}",
     {"2"},
     {"1"}},
    {"{\"$defs\": {\"t\": {\"const\": 1}, \"p\": {\"$id\": \"http://h/p\", \"$defs\""
     ": {\"t\": {\"const\": 2}}, \"$ref\": \"#/$defs/t\"}}, \"$ref\": \"#/$defs/p\"}",
     {"2"},
     {"1"}},
    {"{\"$id\": \"http://h/a/b.json\", \"$defs\": {\"d\": {\"$id\": \"n/d.json\", \""
     "$ref\": \"s.json\"}, \"far\": {\"$id\": \"s.json\", \"const\": 1}, \"near\": {"
     "\"$id\": \"n/s.json\", \"const\": 2}}, \"$ref\": \"n/d.json\"}",
     {"2"},
     {"1"}},
    {"{\"$id\": \"http://h/a/b.json\", \"$defs\": {\"d\": {\"$id\": \"n/d.json\", \""
     "$ref\": \"../s.json\"}, \"far\": {\"$id\": \"s.json\", \"const\": 1}, \"near\""
     ": {\"$id\": \"n/s.json\", \"const\": 2}}, \"$ref\": \"/a/n/d.json\"}",
     {"1"},
     {"2"}},
    {"{\"$id\": \"http://h/a/b.json\", \"$defs\": {\"x\": {\"$id\": \"//g/./x/../y\""
     ", \"const\": 1}, \"z\": {\"$id\": \"z?q\", \"const\": 2}}, \"anyOf\": [{\"$ref"
     "\": \"http://g/y\"}, {\"$ref\": \"http://h/a/z?q#\"}]}",
     {"1", "2"},
     {"3"}},
    {"{\"$id\": \"urn:x:1\", \"$defs\": {\"a\": {\"$anchor\": \"n\", \"const\": 1}, "
     "\"b\": {\"$id\": \"urn:x:2\", \"$anchor\": \"n\", \"const\": 2}}, \"anyOf\": ["
     "{\"$ref\": \"urn:x:1#n\"}, {\"$ref\": \"urn:x:2#n\"}]}",
     {"1", "2"},
     {"3"}},
    {"{\"definitions\": {\"a\": {\"$id\": \"#n\", \"const\": 1}, \"b\": {\"const\": "
     "{\"$id\": \"http://h/c\"}}}, \"$ref\": \"#n\"}",
     {"1"},
     {"2"}},
    {"{\"anyOf\": [{\"$ref\": \"#n\"}, {\"$ref\": \"#d\"}], \"$defs\": {\"a\": {\"allOf\": "
     "[{\"$anchor\": "
     "\"n\", \"$dynamicAnchor\": \"d\", \"const\": 1}, {\"$anchor\": \"n\", \"const\": 2}]}}}",
     {"1"},
     {"2"}},
    {"{\"$ref\": \"p/q#/$defs/t\", \"$defs\": {\"x\": {\"enum\": [{\"$id\": \"p/q\"}]}, \"y\": "
     "{\"$id\": \"p/\", "
     "\"$defs\": {\"z\": {\"$id\": \"q\", \"$defs\": {\"t\": {\"$ref\": \"#t\"}, \"u\": "
     "{\"$anchor\": \"t\", "
     "\"const\": 3}}}}}, \"v\": {\"$anchor\": \"t\", \"const\": 4}}}",
     {"3"},
     {"4"}},
    {"{\"$ref\": \"#/const/0\", \"const\": [{\"$ref\": \"#n\"}], \"$defs\": {\"n\": {\"$anchor\": "
     "\"n\"}}}",
     {"[{\"$ref\":\"#n\"}]"},
     {"1"}},
    {"{\"$ref\": \"#/$defs/a\", \"maximum\": 3, \"$defs\": {\"a\": {\"type\": \"integer\"}}}",
     {"3"},
     {"4"}},
    {"{\"type\": \"string\", \"format\": \"date\"}",
     {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"0000-01-01\"", "\"2024-04-31\"", "\"24-01-01\""}},
    {"{\"type\": \"string\", \"format\": \"date-time\"}",
     {"\"2024-05-01T10:00:00Z\"", "\"2024-05-01T10:00:00.5+02:00\""},
     {"\"2024-05-01 10:00:00Z\"", "\"2024-05-01T24:00:00Z\"", "\"2024-05-01T10:00:00\""}},
    {"{\"type\": \"string\", \"format\": \"ipv6\"}",
     {"\"::\"", "\"::1\"", "\"2001:db8::ff00:42:8329\"", "\"::ffff:1.2.3.4\"",
      "\"1:2:3:4:5:6:7:8\""},
     {"\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"12345::\"", "\":1\""}},
    {"{\"type\": \"string\", \"format\": \"uuid\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567\""}},
    {"{\"type\": \"string\", \"format\": \"email\", \"maxLength\": 6}",
     {"\"a@b.cd\""},
     {"\"a@b.cde\"", "\"@b\""}},
};

START_TEST(each_schema_takes_its_values_and_no_others) {
    const struct row *row = &rows[_i];
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, row->schema, NULL);
    for (unsigned i = 0; row->takes[i]; i++)
        ck_assert_msg(grammar_check_takes(grammar, span_of(row->takes[i])), "%s refuses %s",
                      row->schema, row->takes[i]);
    for (unsigned i = 0; row->refuses[i]; i++)
        ck_assert_msg(!grammar_check_takes(grammar, span_of(row->refuses[i])), "%s takes %s",
                      row->schema, row->refuses[i]);
    grammar_unref(grammar);
}
END_TEST

START_TEST(masks_of_schemas_are_what_each_token_alone_says) {
    struct grammar_vocabulary *vocabulary = grammar_check_vocabulary();
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, rows[_i].schema, vocabulary);
    char out[400];
    bool is_whole;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        grammar_check_walk(grammar, vocabulary, seed, 24, out, sizeof out, &is_whole);
        if (is_whole) { /* what it lets be written is JSON */
            json_error_t error;
            json_t *value = json_loads(out, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
            ck_assert_msg(value || strstr(error.text, "out of range") ||
                              strstr(error.text, "overflow") || strstr(error.text, "\\u0000"),
                          "%s: %s", out, error.text);
            json_decref(value);
        }
    }
    grammar_unref(grammar);
    grammar_vocabulary_free(vocabulary);
}
END_TEST

/* Where the parser's memory lies differs from process to process, and in one from time to time. */
START_TEST(equal_schemas_are_written_alike) {
    static const char schema[] =
        "{\"allOf\": [{\"properties\": {\"b\": {\"type\": \"integer\"}}}, {\"$ref\": "
        "\"#/$defs/a\"}, {\"properties\": {\"c\": {\"minimum\": 3}}}], \"type\": \"object\", "
        "\"$defs\": {\"a\": {\"properties\": {\"a\": {\"type\": \"null\"}}}}}";
    uint64_t first[2] = {0, 0};
    void *holes[64];
    for (unsigned round = 0; round < 24; round++) {
        struct grammar_state *state;
        uint64_t key[2];
        size_t n;
        struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_SCHEMA, schema, NULL);
        for (unsigned i = 0; i < 64; i++)
            holes[i] = malloc(16 + (i * (round + 3)) % 120);
        for (unsigned i = 0; i < 64; i++)
            free(holes[(i * 29 + round) % 64]);
        ck_assert_int_eq(grammar_state_new(grammar, 0, &state), STATUS_OK);
        ck_assert_int_eq(grammar_follow(state, SPAN("{\"b\":1,\"c\":4,\"a\":null"), &n), STATUS_OK);
        grammar_state_key(state, key);
        if (round == 0)
            memcpy(first, key, sizeof key);
        ck_assert(memcmp(first, key, sizeof key) == 0);
        grammar_state_free(state);
        grammar_unref(grammar);
    }
}
END_TEST

START_TEST(any_object_is_an_object) {
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_OBJECT, "", NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("{}")));
    ck_assert(grammar_check_takes(grammar, SPAN("{\"a\": {\"b\": [1, {}]}}")));
    ck_assert(!grammar_check_takes(grammar, SPAN("[]")));
    ck_assert(!grammar_check_begins(grammar, SPAN("{\"a\": 1,}")));
    grammar_unref(grammar);
}
END_TEST

START_TEST(white_space_is_bounded) {
    struct grammar *grammar = grammar_check_kind(GRAMMAR_JSON_OBJECT, "", NULL);
    ck_assert(grammar_check_takes(grammar, SPAN("{  }")));
    ck_assert(!grammar_check_begins(grammar, SPAN("{   ")));
    ck_assert(grammar_check_takes(grammar, SPAN("{\r\n                                }")));
    ck_assert(!grammar_check_begins(grammar, SPAN("{\n                                 ")));
    ck_assert(!grammar_check_begins(grammar, SPAN("{\n\n")));
    grammar_unref(grammar);
}
END_TEST

static const struct {
    const char *schema;
    enum status status;
    const char *text;
} mistakes[] = {
    {"{\"type\": \"objekt\"}", STATUS_INVALID,
     "schema /type: must be a name of a type, or a list of such names"},
    {"{\"properties\": {\"a b\": {\"minLength\": -1}}}", STATUS_INVALID,
     "schema /properties/a b/minLength: must be a count"},
    {"{\"properties\": {\"a/b\": 3}}", STATUS_INVALID,
     "schema /properties/a~1b: a schema must be an object or a boolean"},
    {"{\"type\": \"array\", \"uniqueItems\": true}", STATUS_UNSUPPORTED,
     "schema /uniqueItems: uniqueItems cannot be kept: there is no automaton for it"},
    {"{\"items\": {\"not\": {}}}", STATUS_UNSUPPORTED,
     "schema /items/not: not cannot be kept: there is no automaton for it"},
    {"{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", STATUS_UNSUPPORTED,
     "schema /oneOf: oneOf cannot be kept: its branches are not told apart by type, constants or "
     "required properties"},
    {"{\"$ref\": \"#/$defs/x\"}", STATUS_INVALID, "schema /$ref: there is no #/$defs/x"},
    {"{\"$ref\": \"http://x/y\"}", STATUS_UNSUPPORTED,
     "schema /$ref: $ref cannot be kept: it points outside this schema"},
    {"{\"type\": \"string\", \"pattern\": \"a(?=b)\"}", STATUS_UNSUPPORTED,
     "schema /pattern: regular expression, column 4: look-around, conditions and flags in groups"},
    {"{\"type\": \"string\", \"pattern\": \"a(\"}", STATUS_INVALID,
     "schema /pattern: regular expression, column 3: expected ')'"},
    {"{\"type\": \"string\", \"format\": \"iri\"}", STATUS_UNSUPPORTED,
     "schema /format: format cannot be kept: this format is not known"},
    {"{\"multipleOf\": 0.01}", STATUS_UNSUPPORTED,
     "schema /multipleOf: multipleOf cannot be kept: only integers up to 4096 are kept"},
    {"{\"multipleOf\": 4097}", STATUS_UNSUPPORTED,
     "schema /multipleOf: multipleOf cannot be kept: only integers up to 4096 are kept"},
    {"{\"multipleOf\": 0}", STATUS_INVALID, "schema /multipleOf: must be above 0"},
    {"{\"oneOf\": [{\"const\": 1}, {\"enum\": [2, 1.0]}]}", STATUS_UNSUPPORTED,
     "schema /oneOf: oneOf cannot be kept: its branches are not told apart by type, constants or "
     "required properties"},
    {"{\"anyOf\": []}", STATUS_INVALID, "schema /anyOf: must be a list of schemas"},
    {"{", STATUS_INVALID,
     "the schema is not JSON: line 1, column 1: string or '}' expected near end of file"},
    {"[]", STATUS_INVALID, "schema (root): a schema must be an object or a boolean"},
    {"false", STATUS_INVALID,
     "no text matches: every alternative refers to itself or contradicts itself"},
    {"{\"type\": \"object\", \"required\": [\"a\"], \"properties\": {\"a\": {\"$ref\": \"#\"}}}",
     STATUS_INVALID, "no text matches: every alternative refers to itself or contradicts itself"},
    {"{\"allOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", STATUS_INVALID,
     "no text matches: every alternative refers to itself or contradicts itself"},
    {"{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 2}", STATUS_INVALID,
     "no text matches: every alternative refers to itself or contradicts itself"},
};

START_TEST(mistakes_are_told_with_their_path) {
    struct error error;
    enum status status = grammar_check_refused(GRAMMAR_JSON_SCHEMA, mistakes[_i].schema, &error);
    ck_assert_str_eq(error.text, mistakes[_i].text);
    ck_assert_int_eq(status, mistakes[_i].status);
}
END_TEST

START_TEST(lenient_schemas_count_what_they_leave_unenforced) {
    static const char schema[] = "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": "
                                 "\"array\", \"uniqueItems\": true}, \"b\": {\"type\": "
                                 "\"array\", \"uniqueItems\": true, \"items\": {\"type\": "
                                 "\"string\", \"format\": \"iri\"}}}, \"minProperties\": 1}";
    struct grammar_part part = {.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN(schema), .lenient = true};
    struct grammar *grammar = grammar_check_compile(&part, NULL);
    const char *keywords[3] = {"minProperties", "uniqueItems", "format"};
    const char *paths[3] = {"/minProperties", "/properties/a/uniqueItems",
                            "/properties/b/items/format"};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_str_eq(grammar_unenforced(grammar, i)->keyword, keywords[i]);
        ck_assert_str_eq(grammar_unenforced(grammar, i)->path, paths[i]);
        ck_assert_uint_eq(grammar_unenforced(grammar, i)->n, i == 1 ? 2 : 1);
    }
    ck_assert_ptr_null(grammar_unenforced(grammar, 3));
    ck_assert(grammar_check_takes(grammar, SPAN("{\"a\":[1,1],\"b\":[\"x\"]}")));
    ck_assert(!grammar_check_takes(grammar, SPAN("{\"b\":[1]}")));
    grammar_unref(grammar);
}
END_TEST

START_TEST(refused_keywords_are_refused_only_where_they_say_something) {
    static const char *const harmless[] = {
        "{\"type\": \"string\", \"uniqueItems\": true}",
        "{\"type\": \"array\", \"uniqueItems\": false}",
        "{\"type\": \"object\", \"minProperties\": 0}",
        "{\"type\": \"integer\", \"contains\": {}}",
        "{\"type\": \"object\", \"unevaluatedProperties\": true}",
        "{\"type\": \"integer\", \"unknownKeyword\": 3}",
    };
    for (unsigned i = 0; i < sizeof harmless / sizeof *harmless; i++)
        grammar_unref(grammar_check_kind(GRAMMAR_JSON_SCHEMA, harmless[i], NULL));
}
END_TEST

/* docs/structured.md has a row for each keyword, "| `name` | kept ...", in the order of the table. */
START_TEST(the_document_lists_every_keyword) {
    static const char *const kinds[] = {"kept", "says nothing about values", "refused"};
    static char text[65536];
    FILE *file = fopen("docs/structured.md", "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *at = text;
    for (size_t i = 0; keywords_row(i); i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "| `%s` | %s", keywords_row(i)->name,
                 kinds[keywords_row(i)->kind]);
        at = strstr(at, wanted);
        ck_assert_msg(at, "docs/structured.md has no row, in this order, that begins: %s", wanted);
    }
}
END_TEST

START_TEST(depth_is_bounded) {
    char schema[4096] = "";
    struct error error;
    for (unsigned n = 31; n <= 32; n++) { /* two brackets each */
        schema[0] = 0;
        for (unsigned i = 0; i < n; i++)
            strcat(schema, "{\"items\":");
        strcat(schema, "{\"allOf\":[{}]}");
        for (unsigned i = 0; i < n; i++)
            strcat(schema, "}");
        /* n objects, one more, its list, an object. */
        char deeper[4200];
        unsigned depth = n + 3;
        struct grammar_limits limits = grammar_limits;
        struct grammar_part part = {.kind = GRAMMAR_JSON_SCHEMA, .text = span_of(schema)};
        struct grammar *grammar;
        limits.depth = depth;
        ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_OK);
        grammar_unref(grammar);
        snprintf(deeper, sizeof deeper, "{\"items\":%s}", schema);
        part.text = span_of(deeper);
        ck_assert_int_eq(grammar_compile(&part, NULL, &limits, &grammar, &error), STATUS_LIMIT);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, each_schema_takes_its_values_and_no_others, 0,
                        sizeof rows / sizeof *rows);
    tcase_add_loop_test(tests, masks_of_schemas_are_what_each_token_alone_says, 0,
                        sizeof rows / sizeof *rows);
    tcase_add_test(tests, equal_schemas_are_written_alike);
    tcase_add_test(tests, any_object_is_an_object);
    tcase_add_test(tests, white_space_is_bounded);
    tcase_add_loop_test(tests, mistakes_are_told_with_their_path, 0,
                        sizeof mistakes / sizeof *mistakes);
    tcase_add_test(tests, lenient_schemas_count_what_they_leave_unenforced);
    tcase_add_test(tests, refused_keywords_are_refused_only_where_they_say_something);
    tcase_add_test(tests, the_document_lists_every_keyword);
    tcase_add_test(tests, depth_is_bounded);
}
